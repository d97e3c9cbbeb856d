/** A turn gap's class against what people do (200 ms) and what still feels like a conversation (800 ms). */
export type GapGrade = "overlap" | "quick" | "fair" | "slow";

/** The mode of the gap between human speakers in ten languages, ms (Stivers et al. 2009). */
export const targetGapMs = 200;
/** Above this a caller notices the wait, ms. */
export const slowGapMs = 800;

export function gradeGap(gapMs: number): GapGrade {
  if (gapMs < 0) return "overlap";
  if (gapMs <= targetGapMs) return "quick";
  return gapMs <= slowGapMs ? "fair" : "slow";
}

/** "412 ms", "−120 ms" with a true minus sign. */
export function formatMs(ms: number): string {
  const rounded = Math.round(ms);
  return `${rounded < 0 ? "−" : ""}${Math.abs(rounded)} ms`;
}

/** "0:07", "12:40" */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
