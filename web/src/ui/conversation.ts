import { splitAtHeard } from "../call/captions.js";
import { gapOf, type Caption, type Turn } from "../call/model.js";
import type { Role, TurnRecord } from "../contract.js";
import { h, icon, setText } from "./dom.js";
import { formatMs, gradeGap } from "./format.js";
import { renderWaterfall } from "./waterfall.js";

interface TurnView {
  element: HTMLElement;
  update(turn: Turn): void;
  open(): void;
}

/** The call as a conversation: the caller's words, the gap, the agent's words; a turn opens to its waterfall. */
export class Conversation {
  private readonly list = h("ol", { class: "turns" });
  private readonly empty = h("p", { class: "empty" }, "What you both say appears here.");
  private readonly views = new Map<number, TurnView>();
  readonly element = h(
    "section",
    { class: "conversation", "aria-label": "Conversation", tabindex: "0" },
    this.empty,
    this.list,
  );
  private shown: readonly Turn[] = [];

  /** @param onBrief is told that a turn is shown of which only a part is known */
  constructor(private readonly onBrief: () => void) {}

  update(turns: readonly Turn[]): void {
    if (turns === this.shown) return;
    const atEnd = this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < 80;
    const before = new Map(this.shown.map((turn) => [turn.number, turn]));
    this.shown = turns;
    this.empty.hidden = turns.length > 0;
    const numbers = new Set(turns.map((turn) => turn.number));
    for (const [number, view] of this.views) {
      if (numbers.has(number)) continue;
      view.element.remove();
      this.views.delete(number);
    }
    turns.forEach((turn, index) => {
      let view = this.views.get(turn.number);
      if (view === undefined) {
        view = turnView(turn.number, this.onBrief);
        this.views.set(turn.number, view);
        this.list.insertBefore(view.element, this.list.children[index] ?? null);
      }
      if (before.get(turn.number) !== turn) view.update(turn);
    });
    // Follow the call, unless the reader has scrolled back.
    if (atEnd) this.element.scrollTop = this.element.scrollHeight;
  }

  /** Brings a turn into view with its waterfall open. */
  reveal(number: number): void {
    const view = this.views.get(number);
    view?.open();
    view?.element.scrollIntoView({ block: "nearest" });
  }
}

function turnView(number: number, onBrief: () => void): TurnView {
  let record: TurnRecord | null = null;
  const caller = line("caller", "You");
  const agent = line("agent", "Agent");
  const value = h("span", { class: "gap-value" });
  const detail = h("div", { class: "detail", id: `turn-${number}`, hidden: true });
  const button = h(
    "button",
    { class: "gap", type: "button", "aria-expanded": "false", "aria-controls": detail.id, click: toggle },
    value,
    icon("chevron"),
  );
  const gapRow = h("div", { class: "gap-row", hidden: true }, button);
  const element = h("li", { class: "turn" }, caller.element, gapRow, detail, agent.element);

  function toggle(): void {
    detail.hidden = !detail.hidden;
    button.setAttribute("aria-expanded", String(!detail.hidden));
    showRecord();
  }

  function showRecord(): void {
    if (detail.hidden || record === null) return;
    detail.replaceChildren(renderWaterfall(record));
    if (record.brief === true) onBrief();
  }

  return {
    element,
    open() {
      if (detail.hidden && !button.disabled) toggle();
    },
    update(turn) {
      caller.update(turn.caller);
      agent.update(turn.agent);
      const gap = gapOf(turn);
      // A greeting answers nobody: there is no waiting to explain.
      gapRow.hidden = gap === null && (turn.record === null || turn.caller === null);
      button.disabled = turn.record === null;
      button.dataset.grade = gap === null ? "none" : gradeGap(gap);
      const words = gap === null ? "timing" : gap < 0 ? `${formatMs(gap)} overlap` : formatMs(gap);
      setText(value, words);
      button.setAttribute("aria-label", `Turn ${number}: ${gap === null ? "" : "gap "}${words}, show its steps`);
      if (turn.record === record) return;
      record = turn.record;
      showRecord();
    },
  };
}

function line(role: Role, speaker: string) {
  const words = h("p", { class: "words", dir: "auto" });
  const element = h("div", { class: `line ${role}`, hidden: true }, h("span", { class: "speaker" }, speaker), words);
  return {
    element,
    update(caption: Caption | null): void {
      element.hidden = caption === null || caption.text === "";
      if (caption === null) return;
      element.classList.toggle("partial", !caption.final);
      if (caption.heardText === null) {
        setText(words, caption.text);
        return;
      }
      const [heard, unheard] = splitAtHeard(caption.text, caption.heardText);
      const struck = unheard.trimStart();
      words.replaceChildren(heard, unheard.slice(0, unheard.length - struck.length));
      if (struck !== "") words.append(h("del", { title: "Not heard: you spoke over it" }, struck));
    },
  };
}
