import type { LevelFrame } from "../audio/level-framer.js";
import type { Controller, View } from "../call/controller.js";
import type { CallModel } from "../call/model.js";
import { Conversation } from "./conversation.js";
import { Dock } from "./dock.js";
import { h, icon, setText } from "./dom.js";
import { formatDuration } from "./format.js";
import { GapStrip } from "./gap-strip.js";
import { Summary } from "./summary.js";
import { TokenDialog } from "./token-dialog.js";
import { Voices } from "./voices.js";

/** The call page. Puts the parts together and passes on what changes. */
export class App implements View {
  private readonly conversation = new Conversation(() => void this.controller.loadRecord());
  private readonly strip = new GapStrip((turn) => this.conversation.reveal(turn));
  private readonly voices = new Voices();
  private readonly token = new TokenDialog();
  private readonly summary: Summary;
  private readonly dock: Dock;

  private readonly agentName = h("h1", {}, "Voice agent");
  private readonly state = h("p", { class: "state", role: "status", "aria-live": "polite" });
  private readonly clock = h("span", { class: "clock" });
  private readonly answering = h("p", { class: "answering" });
  private readonly noticeTitle = h("strong", {});
  private readonly noticeText = h("span", {});
  private readonly notice: HTMLElement;
  private readonly root: HTMLElement;
  private model: CallModel | null = null;

  constructor(
    mount: HTMLElement,
    private readonly controller: Controller,
  ) {
    this.dock = new Dock(controller);
    this.summary = new Summary(controller.api);
    this.notice = h(
      "div",
      { class: "notice", role: "alert", hidden: true },
      h("div", {}, this.noticeTitle, this.noticeText),
      h(
        "button",
        { type: "button", class: "round small", "aria-label": "Dismiss", click: () => controller.dismissNotice() },
        icon("close"),
      ),
    );
    const head = h("header", { class: "head" }, this.agentName, h("div", { class: "now" }, this.state, this.clock));
    const side = h("div", { class: "side" }, head, this.voices.element, this.summary.element, this.dock.element);
    const main = h("div", { class: "main" }, this.strip.element, this.conversation.element);
    this.root = h("main", { class: "app" }, this.notice, side, main, h("footer", {}, this.answering));
    mount.replaceChildren(this.root, this.token.element);
    document.addEventListener("keydown", (event) => this.onKey(event));
    setInterval(() => this.showClock(), 500);
  }

  update(model: CallModel): void {
    const before = this.model;
    this.model = model;
    this.root.dataset.phase = model.phase;
    this.root.dataset.agent = model.agentState ?? "";
    if (model.info !== null) setText(this.agentName, title(model.info.agent));
    setText(this.state, stateWords(model));
    setText(this.answering, answeringWords(model));
    this.notice.hidden = model.notice === null;
    this.notice.dataset.tone = model.notice?.tone ?? "";
    setText(this.noticeTitle, model.notice?.title ?? "");
    setText(this.noticeText, model.notice?.text ?? "");
    if (before?.phase !== model.phase) this.changePhase(model);
    this.strip.update(model.turns);
    this.conversation.update(model.turns);
    this.summary.update(model);
    this.dock.update(model);
    this.showClock();
  }

  onLevels(frames: readonly LevelFrame[]): void {
    this.voices.push(frames);
  }

  askToken(wrong: boolean): Promise<string | null> {
    return this.token.ask(wrong);
  }

  private changePhase({ phase, info }: CallModel): void {
    const agent = info === null ? "Voice agent" : title(info.agent);
    document.title = phase === "live" ? `On a call · ${agent}` : agent;
    if (phase !== "live") this.voices.clear();
  }

  private showClock(): void {
    const { startedAt = null, endedAt = null } = this.model ?? {};
    setText(this.clock, startedAt === null ? "" : formatDuration((endedAt ?? performance.now()) - startedAt));
  }

  private onKey(event: KeyboardEvent): void {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || this.token.element.open) return;
    if (event.target instanceof HTMLInputElement) return;
    if (event.key === "Escape") this.controller.hangUp();
    else if (event.key === "m" || event.key === "M") this.controller.toggleMute();
  }
}

/** "front_desk" as the server names it becomes "Front desk". */
function title(name: string): string {
  const words = name.replaceAll("_", " ").trim();
  return words === "" ? "Voice agent" : words.charAt(0).toUpperCase() + words.slice(1);
}

function stateWords(model: CallModel): string {
  switch (model.phase) {
    case "idle":
      return "";
    case "connecting":
      return "Calling";
    case "ended":
      return "Call ended";
    case "live":
      if (!model.steady) return "Reconnecting";
      return { listening: "Listening", thinking: "Thinking", speaking: "Speaking", ended: "Call ended" }[
        model.agentState ?? "listening"
      ];
  }
}

function answeringWords({ info, callModel, roundTripMs, phase }: CallModel): string {
  const model = callModel ?? info?.model;
  if (model === undefined) return "";
  const parts = [`Answered by ${model}`];
  if (info !== null && info.engine !== "") parts.push(info.engine);
  if (phase === "live" && roundTripMs !== null) parts.push(`round trip ${Math.round(roundTripMs)} ms`);
  return parts.join(" · ");
}
