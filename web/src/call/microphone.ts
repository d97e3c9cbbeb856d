/** Why there is no microphone. */
export type MicrophoneProblem = "denied" | "no-device" | "busy" | "insecure" | "failed";

/** What is known about the microphone before it is asked for. */
export type MicrophonePermission = "prompt" | "granted" | "denied" | "insecure" | "unknown";

export class MicrophoneError extends Error {
  constructor(
    readonly problem: MicrophoneProblem,
    cause?: unknown,
  ) {
    super(`no microphone: ${problem}`, { cause });
    this.name = "MicrophoneError";
  }
}

/** `mediaDevices` exists on secure origins alone; the DOM types say that it always does. */
function mediaDevices(): MediaDevices | undefined {
  return navigator.mediaDevices;
}

/**
 * Opens the microphone, mono, with echo cancellation, so that the agent doesn't hear itself.
 *
 * @throws {MicrophoneError}
 */
export async function openMicrophone(): Promise<MediaStream> {
  const devices = mediaDevices();
  if (devices === undefined) throw new MicrophoneError("insecure");
  try {
    return await devices.getUserMedia({
      audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 },
    });
  } catch (error) {
    throw new MicrophoneError(problemOf(error), error);
  }
}

/** Names from the Media Capture specification, getUserMedia's "Exceptions". */
export function problemOf(error: unknown): MicrophoneProblem {
  switch (error instanceof Error ? error.name : "") {
    case "NotAllowedError":
    case "SecurityError":
      return "denied";
    case "NotFoundError":
    case "OverconstrainedError":
      return "no-device";
    case "NotReadableError":
    case "AbortError":
      return "busy";
    default:
      return "failed";
  }
}

/** Tells the permission now and whenever it changes. Browsers that can't say count as "unknown". */
export async function watchPermission(tell: (permission: MicrophonePermission) => void): Promise<void> {
  if (mediaDevices() === undefined) {
    tell("insecure");
    return;
  }
  try {
    const status = await navigator.permissions.query({ name: "microphone" });
    tell(status.state);
    status.onchange = () => tell(status.state);
  } catch {
    tell("unknown"); // Firefox before 131 rejects the name; the call button still asks
  }
}

/**
 * A track that carries silence, for a caller who only listens.
 *
 * The connection is negotiated with it as with a microphone, so a microphone that is allowed later takes its place without
 * a new offer.
 */
export function silentTrack(context: AudioContext): MediaStreamTrack {
  const [track] = context.createMediaStreamDestination().stream.getAudioTracks();
  if (track === undefined) throw new Error("the browser made a stream without a track");
  return track;
}
