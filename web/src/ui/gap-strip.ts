import { gapOf, type Turn } from "../call/model.js";
import { median } from "../stats.js";
import { h, setText } from "./dom.js";
import { formatMs, gradeGap, slowGapMs, targetGapMs } from "./format.js";

/** The strip's scale, ms. What lies beyond is drawn at its edge with a mark. */
const lowestMs = -400;
const highestMs = 1200;

/** Height within the strip: 0 at its lower edge, 1 at its upper. */
function height(ms: number): number {
  return (Math.min(highestMs, Math.max(lowestMs, ms)) - lowestMs) / (highestMs - lowestMs);
}

/** Every turn's gap as a bar from zero, overlaps downward, with the target, the limit and the median. */
export class GapStrip {
  private readonly value = h("span", { class: "median-value" }, "–");
  private readonly count = h("span", { class: "median-count" }, "no turns yet");
  private readonly bars = h("ol", { class: "bars" });
  private readonly medianLine = h("span", { class: "rule median-rule", hidden: true });
  private readonly plot = h(
    "div",
    { class: "plot" },
    rule(slowGapMs, formatMs(slowGapMs)),
    rule(targetGapMs, `${targetGapMs}`),
    rule(0, "0"),
    this.medianLine,
    this.bars,
  );
  readonly element = h(
    "section",
    { class: "strip", "aria-label": "Turn gaps" },
    h("div", { class: "median" }, h("span", { class: "median-label" }, "Median gap"), this.value, this.count),
    this.plot,
  );
  private shown: readonly Turn[] | null = null;

  /** @param onOpen is told the number of the turn whose bar was pressed */
  constructor(private readonly onOpen: (turn: number) => void) {}

  update(turns: readonly Turn[]): void {
    if (turns === this.shown) return;
    this.shown = turns;
    const gaps = turns.flatMap((turn) => {
      const gap = gapOf(turn);
      return gap === null ? [] : [{ turn: turn.number, gap }];
    });
    this.bars.replaceChildren(...gaps.map(({ turn, gap }) => this.bar(turn, gap)));
    this.bars.scrollLeft = this.bars.scrollWidth;

    const middle = median(gaps.map(({ gap }) => gap));
    this.medianLine.hidden = middle === null || gaps.length < 2;
    setText(this.value, middle === null ? "–" : formatMs(middle));
    setText(this.count, gaps.length === 0 ? "no turns yet" : `of ${gaps.length} turn${gaps.length === 1 ? "" : "s"}`);
    if (middle === null) return;
    this.value.dataset.grade = gradeGap(middle);
    this.medianLine.style.setProperty("--at", String(height(middle)));
  }

  private bar(turn: number, gap: number): HTMLElement {
    const words = gap < 0 ? `${formatMs(gap)}, an overlap` : formatMs(gap);
    const fill = h("span", { class: "fill" });
    fill.style.setProperty("--low", String(Math.min(height(0), height(gap))));
    fill.style.setProperty("--high", String(Math.max(height(0), height(gap))));
    const button = h(
      "button",
      {
        type: "button",
        title: `Turn ${turn}: ${words}`,
        "aria-label": `Turn ${turn}: gap ${words}`,
        click: () => this.onOpen(turn),
      },
      fill,
    );
    button.dataset.grade = gradeGap(gap);
    button.classList.toggle("beyond", gap > highestMs || gap < lowestMs);
    return h("li", {}, button);
  }
}

function rule(ms: number, label: string): HTMLElement {
  const element = h("span", { class: ms === 0 ? "rule zero" : "rule", "aria-hidden": "true" }, h("span", {}, label));
  element.style.setProperty("--at", String(height(ms)));
  return element;
}
