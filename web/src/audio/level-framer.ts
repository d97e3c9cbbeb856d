import { rmsDbfs } from "./decibels.js";

/** The levels of both sides over the same stretch of time, on the audio context's clock. */
export interface LevelFrame {
  /** Seconds on the audio context's clock at the frame's first sample. */
  start: number;
  /** Seconds. */
  duration: number;
  /** What the microphone sent, dBFS. */
  caller: number;
  /** What was received from the agent, dBFS. */
  agent: number;
}

/**
 * Cuts two synchronous mono signals into level frames.
 *
 * An audio worklet delivers blocks of 128 samples; a frame is 10 ms, whatever the sample rate, so that a measured time is
 * exact to 10 ms.
 */
export class LevelFramer {
  private readonly frameLength: number;
  private count = 0;
  private callerSquares = 0;
  private agentSquares = 0;

  /** @param sampleRate Hz */
  constructor(
    private readonly sampleRate: number,
    frameSeconds = 0.01,
  ) {
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
      const callerSample = caller?.[i] ?? 0;
      const agentSample = agent?.[i] ?? 0;
      this.callerSquares += callerSample * callerSample;
      this.agentSquares += agentSample * agentSample;
      this.count++;
      if (this.count < this.frameLength) continue;
      const end = start + (i + 1) / this.sampleRate;
      const duration = this.frameLength / this.sampleRate;
      frames.push({
        start: end - duration,
        duration,
        caller: rmsDbfs(this.callerSquares, this.frameLength),
        agent: rmsDbfs(this.agentSquares, this.frameLength),
      });
      this.count = this.callerSquares = this.agentSquares = 0;
    }
    return frames;
  }
}
