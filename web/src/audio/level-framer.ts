import { audibleDbfs, rmsDbfs } from "./decibels.js";

/** One side of the call during a frame. */
export interface SideLevel {
  /** RMS of the frame, dBFS. */
  dbfs: number;
  /** Seconds on the audio context's clock at the first sample at or above -45 dBFS; null when there is none. */
  first: number | null;
  /** Seconds at the end of the last such sample. */
  last: number | null;
}

/** Both sides over the same stretch of time, on the audio context's clock. */
export interface LevelFrame {
  /** Seconds at the frame's first sample. */
  start: number;
  /** Seconds. */
  duration: number;
  /** What the microphone sent. */
  caller: SideLevel;
  /** What was received from the agent. */
  agent: SideLevel;
}

const audibleAmplitude = 10 ** (audibleDbfs / 20);

/** Follows one side within a frame. */
class Side {
  private squares = 0;
  private first: number | null = null;
  private last: number | null = null;

  /** @param at seconds at the sample, @param period seconds between samples */
  push(sample: number, at: number, period: number): void {
    this.squares += sample * sample;
    if (Math.abs(sample) < audibleAmplitude) return;
    this.first ??= at;
    this.last = at + period;
  }

  take(samples: number): SideLevel {
    const level = { dbfs: rmsDbfs(this.squares, samples), first: this.first, last: this.last };
    this.squares = 0;
    this.first = this.last = null;
    return level;
  }
}

/** Cuts two synchronous mono signals into frames of 10 ms; an audio worklet delivers them in blocks of 128 samples. */
export class LevelFramer {
  private readonly period: number;
  private readonly frameLength: number;
  private count = 0;
  private readonly caller = new Side();
  private readonly agent = new Side();

  /** @param sampleRate Hz */
  constructor(sampleRate: number, frameSeconds = 0.01) {
    this.period = 1 / sampleRate;
    this.frameLength = Math.round(sampleRate * frameSeconds);
  }

  /**
   * @param start seconds on the context's clock at the block's first sample
   * @param length samples in the block; a side without a signal passes null and is silent
   * @returns the frames that this block completed
   */
  push(start: number, length: number, caller: Float32Array | null, agent: Float32Array | null): LevelFrame[] {
    const frames: LevelFrame[] = [];
    for (let i = 0; i < length; i++) {
      const at = start + i * this.period;
      this.caller.push(caller?.[i] ?? 0, at, this.period);
      this.agent.push(agent?.[i] ?? 0, at, this.period);
      if (++this.count < this.frameLength) continue;
      const duration = this.count * this.period;
      frames.push({
        start: at + this.period - duration,
        duration,
        caller: this.caller.take(this.count),
        agent: this.agent.take(this.count),
      });
      this.count = 0;
    }
    return frames;
  }
}
