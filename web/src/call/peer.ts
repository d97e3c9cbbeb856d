import type { Answer } from "../api.js";
import { parseServerMessage, type ClientMessage, type ServerMessage } from "../contract.js";

export interface PeerListener {
  onOpen(): void;
  onMessage(message: ServerMessage): void;
  onRemoteStream(stream: MediaStream): void;
  /** Whether media is flowing; it may come back by itself. */
  onSteady(steady: boolean): void;
  /** The connection is gone and won't come back. */
  onLost(): void;
}

/** The offer goes out with the candidates found by then; on a local network they are found within milliseconds. */
const gatheringMs = 1500;
/** The far end closes the connection within this time after a goodbye, else we do. */
const goodbyeMs = 500;

/** One WebRTC connection: an audio track each way and the `events` data channel. */
export class Peer {
  private readonly connection = new RTCPeerConnection({ iceServers: [] });
  private readonly sender: RTCRtpSender;
  private readonly events: RTCDataChannel;
  private closed = false;

  constructor(
    track: MediaStreamTrack,
    private readonly listener: PeerListener,
  ) {
    const { connection } = this;
    const transceiver = connection.addTransceiver(track, { direction: "sendrecv" });
    this.sender = transceiver.sender;
    // The shortest jitter buffer: every millisecond in it is in every gap. Browsers without the attribute ignore it.
    transceiver.receiver.jitterBufferTarget = 0;
    this.events = connection.createDataChannel("events");

    connection.ontrack = ({ track: remote }) => listener.onRemoteStream(new MediaStream([remote]));
    connection.onconnectionstatechange = () => this.followConnection();
    this.events.onopen = () => listener.onOpen();
    this.events.onclose = () => this.lose();
    this.events.onmessage = (event: MessageEvent<unknown>) => this.receive(event.data);
  }

  /** Makes the offer, passes it to `exchange` and takes the answer. */
  async connect(exchange: (offer: RTCSessionDescriptionInit) => Promise<Answer>): Promise<Answer> {
    await this.connection.setLocalDescription();
    await this.gathered();
    const offer = this.connection.localDescription;
    if (offer === null) throw new Error("the connection was closed before its offer was made");
    const answer = await exchange({ type: offer.type, sdp: offer.sdp });
    if (!this.closed) await this.connection.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    return answer;
  }

  send(message: ClientMessage): void {
    if (this.events.readyState === "open") this.events.send(JSON.stringify(message));
  }

  /** Takes another microphone into the call; needs no new offer. */
  async replaceTrack(track: MediaStreamTrack): Promise<void> {
    await this.sender.replaceTrack(track);
  }

  /** Says goodbye and closes once it was heard: closing at once could lose the message. */
  hangUp(): void {
    this.closed = true;
    this.send({ type: "hangup" });
    const close = () => this.connection.close();
    this.events.onclose = close;
    setTimeout(close, goodbyeMs);
  }

  close(): void {
    this.closed = true;
    this.connection.close();
  }

  private gathered(): Promise<void> {
    const { connection } = this;
    return new Promise((resolve) => {
      const done = () => {
        if (connection.iceGatheringState === "complete") resolve();
      };
      connection.addEventListener("icegatheringstatechange", done);
      setTimeout(resolve, gatheringMs);
      done();
    });
  }

  private followConnection(): void {
    const state = this.connection.connectionState;
    if (state === "failed" || state === "closed") this.lose();
    else if (state === "connected" || state === "disconnected") this.listener.onSteady(state === "connected");
  }

  private receive(data: unknown): void {
    if (this.closed) return;
    try {
      const message = parseServerMessage(String(data));
      if (message !== null) this.listener.onMessage(message);
    } catch (error) {
      // A message that breaks the contract is the server's defect: show where to look, keep the call.
      console.error("events channel:", error, data);
    }
  }

  private lose(): void {
    if (this.closed) return;
    this.close();
    this.listener.onLost();
  }
}
