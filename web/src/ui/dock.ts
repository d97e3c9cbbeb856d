import type { Controller } from "../call/controller.js";
import type { CallModel } from "../call/model.js";
import { h, icon, setText } from "./dom.js";
import { gapFigure } from "./gap-figure.js";
import { microphoneHelp, permissionHint } from "./microphone-help.js";

/** What the caller can do: call, listen only, mute, hang up; and what is wrong with the microphone. */
export class Dock {
  private readonly lead = h(
    "p",
    { class: "lead" },
    "Speak as you would on the phone: ask for opening hours, book a table, change a booking.",
  );
  private readonly aside = h(
    "div",
    { class: "aside" },
    gapFigure(),
    h("p", {}, "People leave about 200 ms between turns. This page measures every gap of your call as you hear it."),
  );
  private readonly callLabel = h("span", {}, "Call");
  private readonly call: HTMLButtonElement;
  private readonly hint = h("p", { class: "hint" });

  private readonly helpTitle = h("strong", {});
  private readonly helpText = h("p", {});
  private readonly retry: HTMLButtonElement;
  private readonly listen: HTMLButtonElement;
  private readonly help: HTMLElement;

  private readonly muteIcon = h("span", { class: "glyph" }, icon("microphone"));
  private readonly muteLabel = h("span", {}, "Mute");
  private readonly mute: HTMLButtonElement;
  private readonly hangUp: HTMLButtonElement;
  private readonly controls: HTMLElement;
  readonly element: HTMLElement;
  private phase: CallModel["phase"] | null = null;

  constructor(controller: Controller) {
    const press = (action: () => unknown) => () => void action();
    this.call = h(
      "button",
      { type: "button", class: "call", click: press(() => controller.call()) },
      icon("call"),
      this.callLabel,
    );
    this.retry = h(
      "button",
      {
        type: "button",
        class: "primary",
        click: press(() => (this.phase === "live" ? controller.addMicrophone() : controller.call())),
      },
      "Try again",
    );
    this.listen = h(
      "button",
      { type: "button", class: "quiet", click: press(() => controller.listenOnly()) },
      "Call and only listen",
    );
    this.help = h(
      "div",
      { class: "help", role: "alert", hidden: true },
      this.helpTitle,
      this.helpText,
      h("div", { class: "actions" }, this.retry, this.listen),
    );
    this.mute = h(
      "button",
      {
        type: "button",
        class: "control mute",
        "aria-pressed": "false",
        "aria-keyshortcuts": "M",
        click: press(() => controller.toggleMute()),
      },
      this.muteIcon,
      this.muteLabel,
      h("kbd", { "aria-hidden": "true" }, "M"),
    );
    this.hangUp = h(
      "button",
      {
        type: "button",
        class: "control hang-up",
        "aria-keyshortcuts": "Escape",
        click: press(() => controller.hangUp()),
      },
      icon("hangUp"),
      h("span", {}, "Hang up"),
      h("kbd", { "aria-hidden": "true" }, "Esc"),
    );
    this.controls = h("div", { class: "controls" }, this.mute, this.hangUp);
    this.element = h("div", { class: "dock" }, this.lead, this.help, this.call, this.hint, this.aside, this.controls);
  }

  update(model: CallModel): void {
    const inCall = model.phase === "connecting" || model.phase === "live";
    const before = this.phase;
    this.phase = model.phase;

    this.lead.hidden = this.aside.hidden = model.phase !== "idle";
    this.call.hidden = inCall;
    setText(this.callLabel, model.phase === "ended" ? "Call again" : "Call");
    this.hint.hidden = model.phase !== "idle" || model.microphoneProblem !== null;
    setText(this.hint, permissionHint(model.permission));
    this.controls.hidden = !inCall;

    this.updateMute(model);
    this.updateHelp(model, inCall);
    // Keep the keyboard where the caller's attention is.
    if (before !== null && before !== model.phase) {
      if (model.phase === "connecting") this.hangUp.focus();
      else if (!inCall && (before === "connecting" || before === "live")) this.call.focus();
    }
  }

  private updateMute({ muted, listenOnly }: CallModel): void {
    const silent = muted || listenOnly;
    this.mute.disabled = listenOnly;
    this.mute.setAttribute("aria-pressed", String(muted));
    if (this.muteIcon.dataset.silent !== String(silent)) {
      this.muteIcon.dataset.silent = String(silent);
      this.muteIcon.replaceChildren(icon(silent ? "microphoneOff" : "microphone"));
    }
    setText(this.muteLabel, listenOnly ? "No mic" : muted ? "Muted" : "Mute");
  }

  private updateHelp(model: CallModel, inCall: boolean): void {
    // A permission known to be denied is explained before the first press.
    const known = model.permission === "denied" ? "denied" : model.permission === "insecure" ? "insecure" : null;
    const problem = model.microphoneProblem ?? (model.phase === "idle" || model.listenOnly ? known : null);
    this.help.hidden = problem === null || model.phase === "connecting" || (inCall && !model.listenOnly);
    if (problem === null) return;
    const help = microphoneHelp(problem);
    setText(this.helpTitle, help.title);
    setText(this.helpText, help.text);
    this.retry.hidden = !help.canRetry;
    this.listen.hidden = inCall;
    // One way to call at a time.
    this.call.hidden = inCall || !this.help.hidden;
  }
}
