import type { TurnRecord } from "../contract.js";

/** One step of a turn. Offsets in ms from the end of the caller's audio; negative before it. */
export interface WaterfallRow {
  label: string;
  /** Where what it waited for happened; equal to `to` for a mere moment. */
  from: number;
  to: number;
  /** For a model's request: when it was done, after its first token at `to`. */
  done: number | null;
  /** Which part of the system the time went to. */
  part: "hearing" | "deciding" | "model" | "voice" | "network";
}

export interface Waterfall {
  /** What the offsets count from. */
  origin: "caller" | "first";
  rows: WaterfallRow[];
  /** The span to draw, ms; always holds 0. */
  start: number;
  end: number;
}

/** The steps of a turn in order of time, each with the step that it waited for. Steps not recorded are left out. */
export function waterfall({ events }: TurnRecord): Waterfall | null {
  const rows: WaterfallRow[] = [];
  const known = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
  const add = (part: WaterfallRow["part"], label: string, at: unknown, after?: unknown, done?: unknown) => {
    if (!known(at)) return;
    rows.push({ part, label, from: known(after) ? Math.min(after, at) : at, to: at, done: known(done) ? done : null });
  };

  const ended = events.caller_audio_end;
  const llm = events.llm ?? [];
  add("hearing", "Caller’s audio ends", ended);
  add("hearing", "VAD trigger", events.vad_trigger_end, ended);
  add("hearing", "VAD end", events.vad_end, ended);
  add("hearing", "Preflight transcript", events.preflight, ended);
  add("hearing", "Final transcript", events.final, ended);
  add("deciding", "Turn decision", events.decision);
  llm.forEach((request, index) => {
    const which = llm.length > 1 ? ` ${index + 1}` : "";
    add("model", `LLM${which} first token`, request.first_token ?? request.done, request.request, request.done);
  });
  // Speech waits for the model, and a speculation's speech for the decision as well.
  const lastToken = llm.map((request) => request.first_token).findLast(known);
  add("voice", "TTS first chunk", events.tts_first_chunk, lastToken);
  add("network", "First packet sent", events.first_packet, events.tts_first_chunk);
  add("network", "Audible at the client", events.client_audible, events.first_packet);
  if (rows.length === 0) return null;

  const times = rows.flatMap(({ from, to, done }) => [from, to, done ?? to]);
  const zero = known(ended) ? ended : Math.min(...times);
  return {
    origin: known(ended) ? "caller" : "first",
    rows: rows
      .toSorted((a, b) => a.to - b.to)
      .map((row) => ({
        ...row,
        from: row.from - zero,
        to: row.to - zero,
        done: row.done === null ? null : row.done - zero,
      })),
    start: Math.min(0, ...times.map((time) => time - zero)),
    end: Math.max(0, ...times.map((time) => time - zero)),
  };
}
