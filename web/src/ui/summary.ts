import { ApiError, type Api } from "../api.js";
import { gapOf, type CallModel } from "../call/model.js";
import { median } from "../stats.js";
import { h, icon, setText } from "./dom.js";
import { formatDuration, formatMs, slowGapMs } from "./format.js";

/** What remains of a call: its figures and its record. */
export class Summary {
  private readonly reason = h("p", { class: "reason" });
  private readonly figures = h("dl", { class: "figures" });
  private readonly problem = h("p", { class: "problem", role: "alert", hidden: true });
  private readonly link = h("a", { target: "_blank", rel: "noopener" }, "Open the record");
  private readonly download = h(
    "button",
    { type: "button", class: "quiet", click: () => void this.save() },
    icon("download"),
    "Download record",
  );
  readonly element = h(
    "section",
    { class: "summary", "aria-label": "Call summary", hidden: true },
    this.reason,
    this.figures,
    h("div", { class: "actions" }, this.download, this.link),
    this.problem,
  );
  private model: CallModel | null = null;

  constructor(private readonly api: Api) {}

  update(model: CallModel): void {
    this.element.hidden = model.phase !== "ended";
    if (model.phase !== "ended") {
      this.problem.hidden = true;
      return;
    }
    this.model = model;
    setText(this.reason, model.endReason ?? "");
    this.reason.hidden = model.endReason === null;
    this.figures.replaceChildren(...figures(model).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
    this.download.disabled = model.callId === null;
    // A link carries no token: behind one, only the download can fetch the record.
    this.link.hidden = model.callId === null || this.api.hasToken;
    if (model.callId !== null) this.link.href = this.api.recordUrl(model.callId);
  }

  private async save(): Promise<void> {
    const { model } = this;
    if (model?.callId == null) return;
    this.problem.hidden = true;
    let record: unknown;
    try {
      record = await this.api.record(model.callId);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      record = { call_id: model.callId, source: "the page's own copy", turns: model.turns };
      setText(this.problem, `${error.message} The file holds what this page received instead.`);
      this.problem.hidden = false;
    }
    const url = URL.createObjectURL(new Blob([JSON.stringify(record, null, 2)], { type: "application/json" }));
    h("a", { href: url, download: `call-${model.callId}.json` }).click();
    URL.revokeObjectURL(url);
  }
}

function figures(model: CallModel): [string, string][] {
  const gaps = model.turns.map(gapOf).filter((gap) => gap !== null);
  const middle = median(gaps);
  const list: [string, string][] = [];
  if (model.startedAt !== null && model.endedAt !== null) {
    list.push(["Length", formatDuration(model.endedAt - model.startedAt)]);
  }
  list.push(["Turns", String(model.turns.filter((turn) => turn.caller !== null).length)]);
  if (middle !== null) {
    list.push(["Median gap", formatMs(middle)]);
    list.push(["Slowest", formatMs(Math.max(...gaps))]);
    const within = gaps.filter((gap) => gap <= slowGapMs).length;
    list.push([`Within ${formatMs(slowGapMs)}`, `${within} of ${gaps.length}`]);
  }
  return list;
}
