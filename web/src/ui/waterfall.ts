import type { TurnRecord } from "../contract.js";
import { h } from "./dom.js";
import { formatMs } from "./format.js";
import { waterfall, type WaterfallRow } from "./waterfall-rows.js";

/** One turn as its steps, drawn over the time since the caller's last sample. */
export function renderWaterfall(record: TurnRecord): HTMLElement {
  const steps = waterfall(record);
  if (steps === null) return h("p", { class: "waterfall-empty" }, "No times were recorded for this turn.");

  const width = Math.max(1, steps.end - steps.start);
  const place = (ms: number) => `${((ms - steps.start) / width) * 100}%`;
  const rows = steps.rows.map((row) => renderRow(row, place));
  const list = h("ol", { class: "waterfall-rows" }, ...rows);
  list.style.setProperty("--zero", place(0));
  return h("div", { class: "waterfall" }, summary(record, steps.origin), list, engineLine(record));
}

function renderRow(row: WaterfallRow, place: (ms: number) => string): HTMLElement {
  const bar = h("span", { class: "bar" });
  bar.style.setProperty("--from", place(row.from));
  bar.style.setProperty("--to", place(row.to));
  const track = h("span", { class: "track", "aria-hidden": "true" }, bar);
  if (row.done !== null && row.done > row.to) {
    const rest = h("span", { class: "bar rest" });
    rest.style.setProperty("--from", place(row.to));
    rest.style.setProperty("--to", place(row.done));
    track.append(rest);
  }
  return h(
    "li",
    { class: `part-${row.part}` },
    h("span", { class: "label" }, row.label),
    track,
    h("span", { class: "value" }, formatMs(row.to)),
  );
}

function summary(record: TurnRecord, origin: "caller" | "first"): HTMLElement {
  const facts: string[] = [];
  if (record.gap_ms != null) facts.push(`${formatMs(record.gap_ms)} at the client`);
  if (record.internal_gap_ms != null) facts.push(`${formatMs(record.internal_gap_ms)} inside the server`);
  if (record.speculation === "hit") facts.push("speculation hit");
  if (record.speculation === "miss") facts.push("speculation missed");
  if (record.interrupted === true) facts.push("interrupted by the caller");
  if (record.again === true) facts.push("put off while a part of the server was restarted");
  facts.push(origin === "caller" ? "times from the caller’s last sound" : "times from the first event");
  return h("p", { class: "waterfall-facts" }, facts.join(" · "));
}

/** The engine's own phases beside the times that the client saw. */
function engineLine(record: TurnRecord): HTMLElement | null {
  const phases = record.events.llm?.map((request) => request.engine?.phases_ms).findLast((found) => found != null);
  if (typeof phases !== "object") return null;
  const words = Object.entries(phases as Record<string, unknown>)
    .filter((entry): entry is [string, number] => typeof entry[1] === "number")
    .map(([phase, ms]) => `${phase.replaceAll("_", " ")} ${formatMs(ms)}`);
  return words.length === 0 ? null : h("p", { class: "waterfall-facts" }, `Engine: ${words.join(" · ")}`);
}
