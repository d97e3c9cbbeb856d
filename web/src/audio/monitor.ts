import { GapDetector, type AgentAudible } from "./gap-detector.js";
import type { LevelFrame } from "./level-framer.js";
import workletUrl from "./level-worklet.ts?worker&url";

export interface MonitorListener {
  /** Levels of both sides, at least 25 times a second. */
  onLevels(frames: readonly LevelFrame[]): void;
  onAgentAudible(event: AgentAudible): void;
}

/**
 * Listens to both sides of a call on one clock: the audio context's.
 *
 * The microphone and the agent's track enter one worklet as two inputs, so that a frame holds both levels over the same
 * samples. Both are dated as they pass through the context: the microphone's capture delay and the loudspeaker's output
 * delay are not in a gap.
 */
export class AudioMonitor {
  readonly detector = new GapDetector();
  private readonly sources = new Map<"caller" | "agent", MediaStreamAudioSourceNode>();

  private constructor(
    private readonly context: AudioContext,
    private readonly levels: AudioWorkletNode,
    private readonly listener: MonitorListener,
  ) {
    levels.port.onmessage = (message: MessageEvent<LevelFrame[]>) => this.take(message.data);
  }

  /**
   * @returns null where the browser has no audio worklets (an insecure origin): the call works, nothing is measured
   */
  static async open(context: AudioContext, listener: MonitorListener): Promise<AudioMonitor | null> {
    // The DOM types promise a worklet; browsers leave it out on insecure origins.
    const worklet = context.audioWorklet as AudioWorklet | undefined;
    if (worklet === undefined) return null;
    await worklet.addModule(workletUrl);
    const levels = new AudioWorkletNode(context, "levels", {
      numberOfInputs: 2,
      numberOfOutputs: 1,
      channelCount: 1,
      channelCountMode: "explicit",
    });
    // A node that leads nowhere is not run; this one's output is silence.
    levels.connect(context.destination);
    return new AudioMonitor(context, levels, listener);
  }

  /** Replaces what is listened to on one side. */
  attach(side: "caller" | "agent", stream: MediaStream | null): void {
    this.sources.get(side)?.disconnect();
    this.sources.delete(side);
    if (stream === null || stream.getAudioTracks().length === 0) return;
    const source = this.context.createMediaStreamSource(stream);
    source.connect(this.levels, 0, side === "caller" ? 0 : 1);
    this.sources.set(side, source);
  }

  close(): void {
    this.levels.port.onmessage = null;
    this.attach("caller", null);
    this.attach("agent", null);
    this.levels.disconnect();
  }

  private take(frames: readonly LevelFrame[]): void {
    for (const frame of frames) {
      const audible = this.detector.push(frame);
      if (audible !== null) this.listener.onAgentAudible(audible);
    }
    this.listener.onLevels(frames);
  }
}
