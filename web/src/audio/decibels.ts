/** Levels are RMS in dBFS: 0 is a full-scale square wave, digital silence is -Infinity. */

/** The level above which a sample counts as audible everywhere in this project, in dBFS. */
export const audibleDbfs = -45;

/** The lowest level a meter shows, in dBFS. */
export const meterFloorDbfs = -60;

/** Root mean square of `sumOfSquares / samples`, as dBFS. */
export function rmsDbfs(sumOfSquares: number, samples: number): number {
  return samples === 0 || sumOfSquares === 0 ? -Infinity : 10 * Math.log10(sumOfSquares / samples);
}

/** Where a meter's bar ends for a level: 0 (at or below the floor) to 1 (full scale). */
export function meterFraction(dbfs: number): number {
  return Math.min(1, Math.max(0, 1 - dbfs / meterFloorDbfs));
}
