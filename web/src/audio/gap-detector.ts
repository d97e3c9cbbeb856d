import type { LevelFrame } from "./level-framer.js";
import { SpeechBursts, type Burst } from "./speech-bursts.js";

/** The agent became audible. */
export interface AgentAudible {
  /** Seconds on the audio context's clock at the first audible frame of the reply. */
  at: number;
  /**
   * Seconds from the end of the caller's last audible frame to `at`; negative when the agent began before the caller had
   * ended; null when no caller turn came before (the greeting, a prompt after silence).
   */
  gap: number | null;
}

/** The agent was silent for at least this long before a new reply; a shorter silence is a pause inside one. Seconds. */
const replyPause = 0.4;

/** Without a caller's turn before it, a reply is new (a prompt after silence) only after this long. Seconds. */
const unpromptedPause = 3;

/** The caller is silent for this long before an overlap is over: a stop consonant's closure is shorter. Seconds. */
const callerPause = 0.2;

/** What the microphone still picks up of the loudspeaker ends within this time after the agent's audio. Seconds. */
const echoTail = 0.25;

/** A microphone that stays audible for this long after the agent began is noise: nothing is measured. Seconds. */
const longestOverlap = 5;

/**
 * Measures the gap of each turn from what was audible at the caller's end, both sides on one clock.
 *
 * The gap runs from the caller's last audible sample to the agent's first one; audible means above -45 dBFS in speech of at
 * least 50 ms. Nothing in it depends on what the server says, with one exception: speech of the caller over the agent's
 * voice (echo, a backchannel) is no turn unless `callerTookTurn` says so.
 *
 * Pure: fed with level frames in order of time, it answers when the agent has become audible.
 */
export class GapDetector {
  private readonly callerBursts = new SpeechBursts();
  private readonly agentBursts = new SpeechBursts();
  /** The caller's speech since the agent's last reply. */
  private turn: { onset: number; end: number } | null = null;
  /** The caller's speech over the agent's voice. */
  private overlaid: { onset: number; end: number } | null = null;
  private agentEnd = -Infinity;
  /** A reply that began while the caller may still be speaking. */
  private overlapOnset: number | null = null;

  /** @returns the reply whose gap became known with this frame, else null */
  push(frame: LevelFrame): AgentAudible | null {
    const now = frame.start + frame.duration;
    const callerSpeech = this.callerBursts.push(frame.start, frame.duration, frame.caller);
    const agentSpeech = this.agentBursts.push(frame.start, frame.duration, frame.agent);

    let audible: AgentAudible | null = null;
    if (agentSpeech !== null) {
      audible = this.beginReply(agentSpeech.onset, agentSpeech.onset - this.agentEnd);
      this.agentEnd = agentSpeech.end;
    }
    if (callerSpeech !== null) this.extendTurn(callerSpeech);
    return this.settleOverlap(now) ?? audible;
  }

  /** The server heard words of the caller in what was said over the agent's voice: it counts as a turn. */
  callerTookTurn(): void {
    if (this.overlaid === null || this.overlapOnset !== null) return;
    this.turn ??= this.overlaid;
    this.turn.end = Math.max(this.turn.end, this.overlaid.end);
    this.overlaid = null;
  }

  /** @param silence of the agent before `onset`, seconds */
  private beginReply(onset: number, silence: number): AgentAudible | null {
    if (silence < replyPause) return null;
    this.overlaid = null;
    if (this.turn === null || this.turn.onset >= onset) {
      return silence >= unpromptedPause ? { at: onset, gap: null } : null;
    }
    this.overlapOnset = onset; // settled at once when the caller has been silent long enough
    return null;
  }

  private extendTurn(speech: Readonly<Burst>): void {
    const overAgent = speech.end < this.agentEnd + echoTail && this.overlapOnset === null;
    if (overAgent) {
      this.overlaid ??= { onset: speech.onset, end: speech.end };
      this.overlaid.end = speech.end;
    } else {
      this.turn ??= { onset: speech.onset, end: speech.end };
      this.turn.end = Math.max(this.turn.end, speech.end);
    }
  }

  private settleOverlap(now: number): AgentAudible | null {
    const { overlapOnset: onset, turn } = this;
    if (onset === null || turn === null) return null;
    const callerIsSilent = now - turn.end >= callerPause;
    const hopeless = now - onset >= longestOverlap;
    if (!callerIsSilent && !hopeless) return null;
    this.overlapOnset = null;
    this.turn = null;
    return { at: onset, gap: callerIsSilent ? onset - turn.end : null };
  }
}
