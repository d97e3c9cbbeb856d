import type { SideLevel } from "./level-framer.js";

/** A stretch of speech. Seconds on the audio context's clock. */
export interface Stretch {
  /** Its first audible sample. */
  onset: number;
  /** The end of its last audible sample. */
  end: number;
  /** Sound within it, silences longer than a pitch period not counted. */
  spoken: number;
}

/** Less than this is a click, not speech. Seconds. */
const minimumSpeech = 0.05;

/** A silence up to this is a stop consonant's closure, within the same stretch. Seconds. */
const closure = 0.1;

/** A silence up to this is part of a voice's period (100 Hz). Seconds. */
const pitchPeriod = 0.01;

/** Times are sums of fractions of a second. */
const rounding = 1e-6;

/**
 * Finds one side's speech by the rules that the project measures recordings with (`voice_agent/bench/gaps.py`): audible
 * samples, no silence over 100 ms between them, at least 50 ms of sound.
 */
export class SpeechStretches {
  private stretch: Stretch | null = null;

  /** @returns the stretch that the frame's audible samples belong to, once it is long enough to be speech; else null */
  push({ first, last }: SideLevel): Readonly<Stretch> | null {
    if (first === null || last === null) return null;
    const silent = this.stretch === null ? Infinity : first - this.stretch.end;
    if (this.stretch === null || silent > closure + rounding) {
      this.stretch = { onset: first, end: first, spoken: 0 };
    } else if (silent <= pitchPeriod + rounding) {
      this.stretch.spoken += silent;
    }
    this.stretch.spoken += last - first;
    this.stretch.end = last;
    return this.stretch.spoken >= minimumSpeech - rounding ? this.stretch : null;
  }
}
