import { audibleDbfs } from "./decibels.js";

/** A stretch of audible sound. Seconds on the audio context's clock. */
export interface Burst {
  /** Start of its first audible frame. */
  onset: number;
  /** End of its last audible frame. */
  end: number;
  /** Audible time within it. */
  audible: number;
}

/** Less audible sound than this is a click, not speech. Seconds. */
export const minimumSpeech = 0.05;

/** Frames below the threshold that don't end a burst: a glottal pulse, a fricative's dip. Seconds. */
const longestDip = 0.03;

/** Frame times are sums of fractions of a second. */
const rounding = 1e-6;

/** Finds one side's bursts of speech in its level frames. */
export class SpeechBursts {
  private burst: Burst | null = null;

  /**
   * @param start of the frame, seconds
   * @param duration of the frame, seconds
   * @returns the burst in progress once it is long enough to be speech, else null
   */
  push(start: number, duration: number, dbfs: number): Readonly<Burst> | null {
    const end = start + duration;
    if (this.burst !== null && end - this.burst.end > longestDip + duration + rounding) this.burst = null;
    if (dbfs > audibleDbfs) {
      this.burst ??= { onset: start, end, audible: 0 };
      this.burst.end = end;
      this.burst.audible += duration;
    }
    return this.burst !== null && this.burst.audible >= minimumSpeech - rounding ? this.burst : null;
  }
}
