import { Api, ApiError } from "../api.js";
import type { AgentAudible } from "../audio/gap-detector.js";
import type { LevelFrame } from "../audio/level-framer.js";
import { AudioMonitor } from "../audio/monitor.js";
import type { ServerMessage } from "../contract.js";
import { openMicrophone, silentTrack } from "./microphone.js";
import type { CallEvent, Notice } from "./model.js";
import { failureNotice, lostNotice, noMediaNotice, reasonText, silentPageNotice } from "./notices.js";
import { Peer } from "./peer.js";

/** Media must flow this long after the answer, ms; the server gives up after 15 s. */
const connectMs = 12_000;
/** The server learns the offset of this page's clock from pings, ms apart. */
const pingMs = 2_000;

export interface SessionListener {
  onEvent(event: CallEvent): void;
  onLevels(frames: readonly LevelFrame[]): void;
}

/**
 * One call, from the press of the button to the last packet. Owns everything that a call opens and closes all of it, once.
 */
export class CallSession {
  private readonly context = new AudioContext({ latencyHint: "interactive" });
  private readonly loudspeaker = new Audio();
  private readonly silence = silentTrack(this.context);
  private microphone: MediaStream | null = null;
  private monitor: AudioMonitor | null = null;
  private peer: Peer | null = null;
  private callId: string | null = null;
  private connectTimer: ReturnType<typeof setTimeout> | undefined;
  private pingTimer: ReturnType<typeof setInterval> | undefined;
  private readonly pings = new Map<number, number>();
  private muted = false;
  private connected = false;
  private closed = false;

  constructor(
    private readonly api: Api,
    private readonly listener: SessionListener,
  ) {}

  /**
   * Dials. What goes wrong is told as a `failed` event.
   *
   * @param microphone null to listen only; the session closes it
   * @throws {ApiError} of kind `unauthorized`, for the caller to ask for a token
   */
  async start(microphone: MediaStream | null): Promise<void> {
    this.microphone = microphone;
    const track = microphone?.getAudioTracks()[0] ?? this.silence;
    this.followMicrophone(microphone);
    try {
      await this.context.resume();
      this.monitor = await AudioMonitor.open(this.context, {
        onLevels: (frames) => this.listener.onLevels(frames),
        onAgentAudible: (event) => this.reportAudible(event),
      });
      if (this.ended()) return;
      this.monitor?.attach("caller", microphone);
      this.peer = new Peer(track, {
        onOpen: () => this.onOpen(),
        onMessage: (message) => this.onMessage(message),
        onRemoteStream: (stream) => this.onRemoteStream(stream),
        onSteady: (steady) => this.listener.onEvent({ type: "steady", steady }),
        onLost: () => this.fail(lostNotice(this.connected)),
      });
      const answer = await this.peer.connect((offer) => this.api.offer(offer));
      this.callId = answer.call_id;
      if (this.ended()) {
        this.api.hangUp(answer.call_id); // hung up while the server was answering
        return;
      }
      this.listener.onEvent({ type: "accepted", callId: answer.call_id });
      if (!this.connected) this.connectTimer = setTimeout(() => this.fail(noMediaNotice), connectMs);
    } catch (error) {
      if (error instanceof ApiError && error.kind === "unauthorized") {
        this.peer?.close();
        this.close();
        throw error;
      }
      this.fail(failureNotice(error));
    }
  }

  setMuted(muted: boolean): void {
    this.muted = muted;
    for (const track of this.microphone?.getAudioTracks() ?? []) track.enabled = !muted;
    this.peer?.send({ type: "mute", muted });
    this.listener.onEvent({ type: "muted", muted });
  }

  /**
   * Takes a microphone into a call that only listened so far.
   *
   * @throws {MicrophoneError}
   */
  async addMicrophone(): Promise<void> {
    const microphone = await openMicrophone();
    const [track] = microphone.getAudioTracks();
    if (track === undefined || this.ended() || this.peer === null) {
      stop(microphone);
      return;
    }
    this.microphone = microphone;
    track.enabled = !this.muted;
    await this.peer.replaceTrack(track);
    this.monitor?.attach("caller", microphone);
    this.followMicrophone(microphone);
    this.listener.onEvent({ type: "listen-only", listenOnly: false });
  }

  /** Ends the call. Safe at any moment, also twice. */
  hangUp(): void {
    if (this.ended()) return;
    if (this.connected) this.peer?.hangUp();
    else this.withdraw();
    this.close();
    this.listener.onEvent({ type: "ended", now: performance.now(), reason: "You hung up." });
  }

  /** Ends the call while the page is being left: what is sent now must outlive it. */
  leave(): void {
    if (this.ended()) return;
    this.withdraw();
    this.peer?.close();
    this.close();
  }

  private fail(notice: Notice): void {
    if (this.ended()) return;
    if (!this.connected) this.withdraw();
    this.peer?.close();
    this.close();
    this.listener.onEvent({ type: "failed", now: performance.now(), notice });
  }

  /** Ends the call over HTTP, where the data channel can't say it. */
  private withdraw(): void {
    if (this.callId !== null) this.api.hangUp(this.callId);
  }

  private ended(): boolean {
    return this.closed;
  }

  /** Everything but the connection, which may still have a goodbye to send. */
  private close(): void {
    this.closed = true;
    clearTimeout(this.connectTimer);
    clearInterval(this.pingTimer);
    this.monitor?.close();
    stop(this.microphone);
    this.silence.stop();
    this.loudspeaker.srcObject = null;
    void this.context.close();
  }

  private onOpen(): void {
    this.connected = true;
    clearTimeout(this.connectTimer);
    this.listener.onEvent({ type: "connected", now: performance.now() });
    if (this.muted) this.peer?.send({ type: "mute", muted: true });
    this.ping();
    this.pingTimer = setInterval(() => this.ping(), pingMs);
  }

  private onRemoteStream(stream: MediaStream): void {
    // The element plays; the monitor listens. Chromium feeds a remote track to Web Audio only while an element has it.
    this.loudspeaker.srcObject = stream;
    this.loudspeaker.play().catch((error: unknown) => {
      if (this.ended()) return; // closing takes the stream away, which also rejects
      console.warn("playback:", error);
      this.listener.onEvent({ type: "notice", notice: silentPageNotice });
    });
    this.monitor?.attach("agent", stream);
  }

  private onMessage(message: ServerMessage): void {
    this.listener.onEvent({ type: "server", message });
    switch (message.type) {
      case "caption":
        // Words that the recogniser heard in speech over the agent's voice make it a turn.
        if (message.role === "caller" ? message.final && message.text !== "" : message.heard_text !== null) {
          this.monitor?.detector.callerTookTurn();
        }
        break;
      case "pong": {
        const sentAt = this.pings.get(message.client_ms);
        this.pings.delete(message.client_ms);
        if (sentAt !== undefined) this.listener.onEvent({ type: "round-trip", ms: performance.now() - sentAt });
        break;
      }
      case "bye":
        this.peer?.close();
        this.close();
        this.listener.onEvent({ type: "ended", now: performance.now(), reason: reasonText(message.reason) });
        break;
      default:
        break;
    }
  }

  /** Every `client_ms` is on the audio context's clock, so that the server can place it by the pings. */
  private ping(): void {
    const clientMs = this.context.currentTime * 1000;
    if (this.pings.size > 10) this.pings.clear(); // a server that doesn't answer
    this.pings.set(clientMs, performance.now());
    this.peer?.send({ type: "ping", client_ms: clientMs });
  }

  private reportAudible({ at, gap }: AgentAudible): void {
    const gapMs = gap === null ? null : Math.round(gap * 1000);
    this.peer?.send({ type: "agent_audible", client_ms: at * 1000, gap_ms: gapMs });
    if (gapMs !== null) this.listener.onEvent({ type: "gap", gapMs });
  }

  /** A microphone that is unplugged in a call leaves the caller listening. */
  private followMicrophone(microphone: MediaStream | null): void {
    const track = microphone?.getAudioTracks()[0];
    if (track === undefined) return;
    track.onended = () => {
      if (this.ended()) return;
      this.microphone = null;
      this.monitor?.attach("caller", null);
      void this.peer?.replaceTrack(this.silence);
      this.listener.onEvent({ type: "listen-only", listenOnly: true });
      this.listener.onEvent({ type: "microphone", problem: "no-device" });
    };
  }
}

function stop(stream: MediaStream | null): void {
  for (const track of stream?.getTracks() ?? []) track.stop();
}
