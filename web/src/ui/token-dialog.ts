import { h, setText } from "./dom.js";

/** Asks for the access token of a server that isn't on this machine. */
export class TokenDialog {
  private readonly input = h("input", {
    type: "password",
    id: "token",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
  });
  private readonly hint = h("p", {});
  private readonly form = h(
    "form",
    { method: "dialog" },
    h("h2", {}, "Access token"),
    this.hint,
    h("label", { for: "token" }, "Token"),
    this.input,
    h(
      "div",
      { class: "actions" },
      h("button", { type: "button", class: "quiet", click: () => this.element.close() }, "Cancel"),
      h("button", { type: "submit", class: "primary", value: "token" }, "Continue"),
    ),
  );
  readonly element = h("dialog", { class: "token", "aria-label": "Access token" }, this.form);
  private answer: Promise<string | null> | null = null;

  /**
   * @param wrong whether a token was sent and refused
   * @returns the token, or null when the dialog was closed; a dialog that is open already answers both
   */
  ask(wrong: boolean): Promise<string | null> {
    this.answer ??= new Promise((resolve) => {
      setText(
        this.hint,
        wrong
          ? "The server refused this token. Check it and enter it again."
          : "This server is protected. Enter the value of VOICE_AGENT_TOKEN that it was started with. It is kept until you close this tab.",
      );
      this.input.value = "";
      this.element.returnValue = "";
      this.element.addEventListener(
        "close",
        () => {
          this.answer = null;
          const token = this.input.value.trim();
          resolve(this.element.returnValue === "token" && token !== "" ? token : null);
        },
        { once: true },
      );
      this.element.showModal();
    });
    return this.answer;
  }
}
