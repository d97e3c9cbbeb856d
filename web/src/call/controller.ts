import { Api, ApiError } from "../api.js";
import { parseTurnRecord } from "../contract.js";
import type { LevelFrame } from "../audio/level-framer.js";
import { MicrophoneError, openMicrophone, watchPermission } from "./microphone.js";
import { initialModel, reduce, type CallEvent, type CallModel } from "./model.js";
import { CallSession } from "./session.js";

export interface View {
  update(model: CallModel): void;
  onLevels(frames: readonly LevelFrame[]): void;
  /** Asks for the access token; null when the user gives up. */
  askToken(wrong: boolean): Promise<string | null>;
}

/** Turns what the user does into calls, and what happens in a call into the page's model. */
export class Controller {
  private model: CallModel = initialModel;
  private session: CallSession | null = null;
  /** Counts attempts to call: one that was given up while the browser asked for the microphone must not go on. */
  private attempt = 0;
  private view: View | null = null;

  constructor(readonly api: Api) {}

  async open(view: View): Promise<void> {
    this.view = view;
    view.update(this.model);
    // A page that is left, reloaded or closed leaves no call behind.
    addEventListener("pagehide", () => this.session?.leave());
    await Promise.all([
      watchPermission((permission) => this.emit({ type: "permission", permission })),
      this.loadInfo(),
    ]);
  }

  /** Asks for the microphone and calls; without one it tells why and waits for the user's choice. */
  async call(): Promise<void> {
    if (this.inCall()) return;
    const attempt = ++this.attempt;
    this.emit({ type: "dialling", listenOnly: false });
    try {
      const microphone = await openMicrophone();
      if (attempt !== this.attempt) {
        for (const track of microphone.getTracks()) track.stop();
        return;
      }
      this.emit({ type: "microphone", problem: null });
      await this.dial(microphone);
    } catch (error) {
      if (!(error instanceof MicrophoneError)) throw error;
      if (attempt !== this.attempt) return;
      this.emit({ type: "abandoned" });
      this.emit({ type: "microphone", problem: error.problem });
    }
  }

  /** Calls without a microphone: the agent is heard, the caller is not. */
  async listenOnly(): Promise<void> {
    if (this.inCall()) return;
    this.emit({ type: "dialling", listenOnly: true });
    await this.dial(null);
  }

  /** Tries the microphone again in a call that only listens. */
  async addMicrophone(): Promise<void> {
    try {
      await this.session?.addMicrophone();
      this.emit({ type: "microphone", problem: null });
    } catch (error) {
      if (!(error instanceof MicrophoneError)) throw error;
      this.emit({ type: "microphone", problem: error.problem });
    }
  }

  toggleMute(): void {
    if (this.inCall() && !this.model.listenOnly) this.session?.setMuted(!this.model.muted);
  }

  hangUp(): void {
    this.attempt++;
    this.session?.hangUp();
    if (this.model.phase === "connecting") this.emit({ type: "abandoned" });
  }

  dismissNotice(): void {
    this.emit({ type: "notice", notice: null });
  }

  /** Fetches what messages leave out of the turn records. Without it the page shows what it has. */
  async loadRecord(): Promise<void> {
    const { callId } = this.model;
    if (callId === null) return;
    try {
      const record = (await this.api.record(callId)) as { turns?: unknown[] };
      if (this.model.callId !== callId) return;
      for (const turn of record.turns ?? []) {
        this.emit({ type: "server", message: { type: "turn", record: parseTurnRecord(turn) } });
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      console.info("the whole record isn't to be had:", error.message);
    }
  }

  private inCall(): boolean {
    return this.model.phase === "connecting" || this.model.phase === "live";
  }

  private async dial(microphone: MediaStream | null): Promise<void> {
    const session = new CallSession(this.api, {
      onEvent: (event) => this.emit(event),
      onLevels: (frames) => this.view?.onLevels(frames),
    });
    this.session = session;
    try {
      await session.start(microphone);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // The session has closed the microphone; with a token the call starts anew.
      const { listenOnly } = this.model;
      this.emit({ type: "abandoned" });
      if (!(await this.authorize())) return;
      await Promise.all([this.loadInfo(), listenOnly ? this.listenOnly() : this.call()]);
    }
  }

  private async loadInfo(): Promise<void> {
    try {
      this.emit({ type: "info", info: await this.api.info() });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.kind === "unauthorized") {
        if (await this.authorize()) await this.loadInfo();
        return;
      }
      if (this.inCall()) return; // the call itself will tell
      this.emit({
        type: "notice",
        notice: {
          tone: error.kind === "busy" ? "warning" : "error",
          title: error.kind === "unreachable" ? "The server can’t be reached" : "The server isn’t ready",
          text: `${error.message} You can still try to call.`,
        },
      });
    }
  }

  private async authorize(): Promise<boolean> {
    const token = (await this.view?.askToken(this.api.hasToken)) ?? null;
    if (token === null) {
      const text = "This server asks for an access token. Press call to enter it.";
      this.emit({ type: "notice", notice: { tone: "warning", title: "Access token needed", text } });
      return false;
    }
    this.api.setToken(token);
    return true;
  }

  private emit(event: CallEvent): void {
    this.model = reduce(this.model, event);
    this.view?.update(this.model);
  }
}
