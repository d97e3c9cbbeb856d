import type { LevelFrame } from "./level-framer.js";
import { SpeechStretches, type Stretch } from "./speech-stretches.js";

/** The agent became audible. */
export interface AgentAudible {
  /** Seconds on the audio context's clock at the first audible sample of the reply. */
  at: number;
  /**
   * Seconds from the end of the caller's last audible sample to `at`; negative when the agent began before the caller had
   * ended; null when no caller turn came before (the greeting, a prompt after silence).
   */
  gap: number | null;
}

/** Without a caller's turn before it, the agent's speech is a reply of its own only after this long. Seconds. */
const unpromptedPause = 3;

/** The caller is silent for this long before an overlap is over. Seconds. */
const callerPause = 0.2;

/** What the microphone still picks up of the loudspeaker ends within this time after the agent's audio. Seconds. */
const echoTail = 0.25;

/** A microphone that stays audible for this long after the agent began is noise: nothing is measured. Seconds. */
const longestOverlap = 5;

interface Span {
  onset: number;
  end: number;
}

/**
 * Measures the gap of each turn from what was audible at the caller's end, both sides on one clock.
 *
 * The gap runs from the caller's last audible sample to the agent's first one. Nothing in it depends on what the server
 * says, with one exception: speech of the caller over the agent's voice (echo, a backchannel) is no turn unless
 * `callerTookTurn` says so.
 *
 * Pure: fed with level frames in order of time, it answers when a reply has become audible and its gap is known.
 */
export class GapDetector {
  private readonly callerSpeech = new SpeechStretches();
  private readonly agentSpeech = new SpeechStretches();
  /** The caller's speech that awaits a reply. */
  private turn: Span | null = null;
  /** The caller's speech over the agent's voice. */
  private overlaid: Span | null = null;
  /** The end of what the agent has said so far. */
  private agentEnd = -Infinity;
  /** Where a reply began whose caller may still be speaking. */
  private replyOnset: number | null = null;

  /** @returns the reply whose gap became known with this frame, else null */
  push(frame: LevelFrame): AgentAudible | null {
    const agent = this.agentSpeech.push(frame.agent);
    const caller = this.callerSpeech.push(frame.caller);
    let audible: AgentAudible | null = null;
    if (agent !== null) {
      if (agent.onset > this.agentEnd) audible = this.agentBegan(agent.onset);
      this.agentEnd = agent.end;
    }
    if (caller !== null) this.callerSpoke(caller);
    return this.settleReply(frame.start + frame.duration) ?? audible;
  }

  /** The server heard words of the caller in what was said over the agent's voice: it counts as a turn. */
  callerTookTurn(): void {
    if (this.overlaid === null || this.replyOnset !== null) return;
    this.turn = extended(this.turn, this.overlaid);
    this.overlaid = null;
  }

  private agentBegan(onset: number): AgentAudible | null {
    if (this.replyOnset !== null) return null; // a pause within the reply
    this.overlaid = null;
    if (this.turn !== null && this.turn.onset < onset) {
      this.replyOnset = onset;
      return null;
    }
    return onset - this.agentEnd >= unpromptedPause ? { at: onset, gap: null } : null;
  }

  private callerSpoke(speech: Readonly<Stretch>): void {
    const overAgent = this.replyOnset === null && speech.end < this.agentEnd + echoTail;
    if (overAgent) this.overlaid = extended(this.overlaid, speech);
    else this.turn = extended(this.turn, speech);
  }

  /** A reply's gap is known once the caller has been silent for a while. */
  private settleReply(now: number): AgentAudible | null {
    const { replyOnset: at, turn } = this;
    if (at === null || turn === null) return null;
    const silent = now - turn.end >= callerPause;
    if (!silent && now - at < longestOverlap) return null;
    this.replyOnset = null;
    this.turn = null;
    return { at, gap: silent ? at - turn.end : null };
  }
}

function extended(span: Span | null, speech: Span): Span {
  return { onset: span?.onset ?? speech.onset, end: Math.max(span?.end ?? -Infinity, speech.end) };
}
