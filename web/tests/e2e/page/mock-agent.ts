import type { BrowserContext, Page, Route } from "@playwright/test";
import type { ClientMessage, ServerInfo, ServerMessage, TurnRecord } from "../../../src/contract.js";

/** What the far end of the call runs, in a second tab: a real peer connection and a tone for a voice. */
interface FarEnd {
  answer(sdp: string): Promise<string>;
  send(message: unknown): void;
  received(): ClientMessage[];
  speak(on: boolean): void;
  /** Level of what the page sends, RMS from 0 to 1. */
  hears(): number;
  /** Resolves when the page has been audible and then silent for `silenceMs`. */
  callerEnded(silenceMs: number): Promise<void>;
  close(): void;
  connectionState(): string;
}

declare global {
  interface Window {
    farEnd: FarEnd;
  }
}

type OfferAnswer = "answer" | "unanswerable" | { status: number; code: string; message: string } | "unreachable";

const info: ServerInfo = {
  model: "smollm2-135m-sdar",
  engine: "diffusion engine",
  agent: "front_desk",
  version: "0.1.0",
};

/**
 * Stands for the calls process: answers `/api` by intercepted requests and the WebRTC offer by a second tab, so that the page
 * runs its own code against a real connection.
 */
export class MockAgent {
  readonly hungUp: string[] = [];
  readonly authorizations: (string | undefined)[] = [];
  offers = 0;
  private tab: Page | null = null;

  constructor(
    private readonly context: BrowserContext,
    private readonly options: {
      offer?: OfferAnswer;
      token?: string;
      info?: Partial<ServerInfo>;
      record?: unknown;
    } = {},
  ) {}

  async install(): Promise<void> {
    await this.context.route("**/far-end", (route) =>
      route.fulfill({ contentType: "text/html", body: "<title>far end</title>" }),
    );
    await this.context.route("**/api/**", (route) => this.serve(route));
  }

  /** Opens the far end; only calls that are answered need one. */
  async ready(origin: string): Promise<void> {
    this.tab = await this.context.newPage();
    await this.tab.goto(new URL("far-end", origin).href);
    await this.tab.evaluate(installFarEnd);
  }

  async send(...messages: ServerMessage[]): Promise<void> {
    await this.far().evaluate((all) => all.forEach((message) => window.farEnd.send(message)), messages);
  }

  /** A caption; final unless said otherwise. */
  caption(role: "caller" | "agent", turn: number, text: string, more: { final?: boolean; heard_text?: string } = {}) {
    return this.send({
      type: "caption",
      role,
      turn,
      text,
      final: more.final ?? true,
      heard_text: more.heard_text ?? null,
    });
  }

  turn(record: TurnRecord): Promise<void> {
    return this.send({ type: "turn", record });
  }

  received(): Promise<ClientMessage[]> {
    return this.far().evaluate(() => window.farEnd.received());
  }

  async speak(on: boolean): Promise<void> {
    await this.far().evaluate((value) => window.farEnd.speak(value), on);
  }

  /** Speaks `waitMs` after the caller was heard to end; what ended is recognised by `silenceMs` of silence. */
  async speakAfterCaller(silenceMs: number): Promise<void> {
    await this.far().evaluate(async (silence) => {
      await window.farEnd.callerEnded(silence);
      window.farEnd.speak(true);
    }, silenceMs);
  }

  hears(): Promise<number> {
    return this.far().evaluate(() => window.farEnd.hears());
  }

  connectionState(): Promise<string> {
    return this.far().evaluate(() => window.farEnd.connectionState());
  }

  async vanish(): Promise<void> {
    await this.far().evaluate(() => window.farEnd.close());
  }

  private far(): Page {
    if (this.tab === null) throw new Error("the far end isn't open");
    return this.tab;
  }

  private async serve(route: Route): Promise<void> {
    const request = route.request();
    const path = new URL(request.url()).pathname;
    const refuse = (status: number, code: string, message: string) =>
      route.fulfill({ status, json: { error: { code, message } } });

    this.authorizations.push(request.headers().authorization);
    if (this.options.token !== undefined && request.headers().authorization !== `Bearer ${this.options.token}`) {
      return refuse(401, "unauthorized", "This server needs an access token.");
    }
    if (path.endsWith("/api/info")) return route.fulfill({ json: { ...info, ...this.options.info } });
    if (path.endsWith("/api/offer")) return this.serveOffer(route, refuse);
    if (request.method() === "DELETE") {
      this.hungUp.push(path.split("/").at(-1) ?? "");
      return route.fulfill({ json: { ok: true } });
    }
    if (this.options.record === undefined) return refuse(404, "not_found", "There is no such call.");
    return route.fulfill({ json: this.options.record });
  }

  private async serveOffer(route: Route, refuse: (s: number, c: string, m: string) => Promise<void>): Promise<void> {
    this.offers++;
    const kind = this.options.offer ?? "answer";
    if (kind === "unreachable") return route.abort("connectionrefused");
    if (typeof kind === "object") return refuse(kind.status, kind.code, kind.message);
    const { sdp } = route.request().postDataJSON() as { sdp: string };
    const answer =
      kind === "unanswerable" ? "v=0\r\nnot sdp\r\n" : await this.far().evaluate((s) => window.farEnd.answer(s), sdp);
    return route.fulfill({ json: { sdp: answer, type: "answer", call_id: "call-1" } });
  }
}

/** Runs in the second tab. Serialised by Playwright: it may use nothing from outside. */
function installFarEnd(): void {
  const audio = new AudioContext();
  const voice = audio.createMediaStreamDestination();
  const volume = audio.createGain();
  volume.gain.value = 0;
  volume.connect(voice);
  for (const frequency of [180, 360, 540, 900]) {
    const tone = audio.createOscillator();
    tone.frequency.value = frequency;
    const level = audio.createGain();
    level.gain.value = 0.12;
    tone.connect(level).connect(volume);
    tone.start();
  }
  const ear = audio.createAnalyser();
  ear.fftSize = 512;
  const samples = new Float32Array(ear.fftSize);
  const received: ClientMessage[] = [];
  let peer: RTCPeerConnection | null = null;
  let channel: RTCDataChannel | null = null;

  const hears = () => {
    ear.getFloatTimeDomainData(samples);
    return Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
  };

  window.farEnd = {
    async answer(sdp) {
      peer?.close();
      const connection = (peer = new RTCPeerConnection({ iceServers: [] }));
      connection.ontrack = ({ track }) => {
        const stream = new MediaStream([track]);
        const element = new Audio(); // a remote track is decoded only while an element has it
        element.muted = true;
        element.srcObject = stream;
        audio.createMediaStreamSource(stream).connect(ear);
      };
      connection.ondatachannel = (event) => {
        channel = event.channel;
        channel.onmessage = ({ data }: MessageEvent<string>) => {
          const message = JSON.parse(data) as ClientMessage;
          received.push(message);
          if (message.type === "ping") {
            window.farEnd.send({ type: "pong", client_ms: message.client_ms, server_ms: performance.now() });
          }
        };
      };
      await connection.setRemoteDescription({ type: "offer", sdp });
      for (const track of voice.stream.getTracks()) connection.addTrack(track, voice.stream);
      await connection.setLocalDescription();
      await new Promise<void>((resolve) => {
        const check = () => connection.iceGatheringState === "complete" && resolve();
        connection.onicegatheringstatechange = check;
        check();
      });
      return connection.localDescription?.sdp ?? "";
    },
    send: (message) => channel?.send(JSON.stringify(message)),
    received: () => received,
    speak: (on) => volume.gain.setTargetAtTime(on ? 1 : 0, audio.currentTime, 0.002),
    hears,
    callerEnded: (silenceMs) =>
      new Promise((resolve) => {
        let lastAudible: number | null = null;
        const timer = setInterval(() => {
          const now = performance.now();
          if (hears() > 0.01) lastAudible = now;
          else if (lastAudible !== null && now - lastAudible >= silenceMs) {
            clearInterval(timer);
            resolve();
          }
        }, 5);
      }),
    close: () => peer?.close(),
    connectionState: () => peer?.connectionState ?? "none",
  };
}
