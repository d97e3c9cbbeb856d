import type { AgentState, CaptionMessage, ServerInfo, ServerMessage, TurnRecord } from "../contract.js";
import type { MicrophonePermission, MicrophoneProblem } from "./microphone.js";

/** Something the user should know, with what to do about it. */
export interface Notice {
  tone: "error" | "warning";
  title: string;
  text: string;
}

export interface Caption {
  text: string;
  final: boolean;
  heardText: string | null;
}

/** What the page shows of one turn: the caller's words, the gap, the agent's words. */
export interface Turn {
  number: number;
  caller: Caption | null;
  agent: Caption | null;
  record: TurnRecord | null;
  /** The gap in ms as this page measured it, until the record confirms it. */
  measuredGapMs: number | null;
}

export type Phase = "idle" | "connecting" | "live" | "ended";

export interface CallModel {
  phase: Phase;
  info: ServerInfo | null;
  permission: MicrophonePermission;
  /** Why the last attempt to open the microphone failed; null when it is open or wasn't asked for. */
  microphoneProblem: MicrophoneProblem | null;
  listenOnly: boolean;
  muted: boolean;
  agentState: AgentState | null;
  callId: string | null;
  /** The model that answers, as the call's own `info` message names it. */
  callModel: string | null;
  turns: readonly Turn[];
  notice: Notice | null;
  steady: boolean;
  roundTripMs: number | null;
  /** ms, `performance.now()` */
  startedAt: number | null;
  endedAt: number | null;
  endReason: string | null;
}

export type CallEvent =
  | { type: "info"; info: ServerInfo }
  | { type: "permission"; permission: MicrophonePermission }
  | { type: "microphone"; problem: MicrophoneProblem | null }
  | { type: "dialling"; listenOnly: boolean }
  | { type: "abandoned" }
  | { type: "accepted"; callId: string }
  | { type: "connected"; now: number }
  | { type: "steady"; steady: boolean }
  | { type: "muted"; muted: boolean }
  | { type: "listen-only"; listenOnly: boolean }
  | { type: "gap"; gapMs: number }
  | { type: "round-trip"; ms: number }
  | { type: "server"; message: ServerMessage }
  | { type: "notice"; notice: Notice | null }
  | { type: "ended"; now: number; reason: string }
  | { type: "failed"; now: number; notice: Notice };

export const initialModel: CallModel = {
  phase: "idle",
  info: null,
  permission: "unknown",
  microphoneProblem: null,
  listenOnly: false,
  muted: false,
  agentState: null,
  callId: null,
  callModel: null,
  turns: [],
  notice: null,
  steady: true,
  roundTripMs: null,
  startedAt: null,
  endedAt: null,
  endReason: null,
};

/** The next state of the page. Pure. */
export function reduce(model: CallModel, event: CallEvent): CallModel {
  switch (event.type) {
    case "info":
      return { ...model, info: event.info };
    case "permission":
      return { ...model, permission: event.permission };
    case "microphone":
      return { ...model, microphoneProblem: event.problem };
    case "dialling": {
      const { info, permission, microphoneProblem } = model;
      return {
        ...initialModel,
        info,
        permission,
        microphoneProblem,
        phase: "connecting",
        listenOnly: event.listenOnly,
      };
    }
    case "abandoned":
      return { ...model, phase: "idle" };
    case "accepted":
      return { ...model, callId: event.callId };
    case "connected":
      return { ...model, phase: "live", startedAt: event.now, agentState: model.agentState ?? "listening" };
    case "steady":
      return { ...model, steady: event.steady };
    case "muted":
      return { ...model, muted: event.muted };
    case "listen-only":
      return { ...model, listenOnly: event.listenOnly };
    case "gap":
      return { ...model, turns: withMeasuredGap(model.turns, event.gapMs) };
    case "round-trip":
      return { ...model, roundTripMs: event.ms };
    case "server":
      return heed(model, event.message);
    case "notice":
      return { ...model, notice: event.notice };
    case "ended":
      return end(model, event.now, { endReason: event.reason, notice: null });
    case "failed":
      return model.startedAt === null
        ? { ...model, phase: "idle", notice: event.notice }
        : end(model, event.now, { notice: event.notice });
  }
}

/** The gap to show for a turn, in ms: the record's figure, or what this page measured until that arrives. */
export function gapOf(turn: Turn): number | null {
  if (turn.record?.again === true) return null;
  return turn.record?.gap_ms ?? turn.measuredGapMs;
}

function end(model: CallModel, now: number, changes: Partial<CallModel>): CallModel {
  if (model.phase === "ended") return model;
  if (model.startedAt === null) return { ...model, phase: "idle" }; // given up before it was answered
  return { ...model, phase: "ended", agentState: "ended", steady: true, endedAt: now, ...changes };
}

function heed(model: CallModel, message: ServerMessage): CallModel {
  switch (message.type) {
    case "info":
      return { ...model, callId: message.call_id || model.callId, callModel: message.model || model.callModel };
    case "state":
      return { ...model, agentState: message.state };
    case "caption":
      return { ...model, turns: withCaption(model.turns, message) };
    case "turn":
      return { ...model, turns: withRecord(model.turns, message.record) };
    case "error":
      return {
        ...model,
        notice: { tone: "error", title: "The agent has trouble", text: message.message || `Error: ${message.code}` },
      };
    case "pong":
    case "bye":
      return model; // the session's business
  }
}

/** Turns in order of their numbers, with one changed or added. */
function changeTurn(turns: readonly Turn[], number: number, change: (turn: Turn) => Turn): readonly Turn[] {
  const at = turns.findIndex((turn) => turn.number >= number);
  const found = turns[at];
  if (found?.number === number) return turns.with(at, change(found));
  const added = change({ number, caller: null, agent: null, record: null, measuredGapMs: null });
  return turns.toSpliced(at === -1 ? turns.length : at, 0, added);
}

function withCaption(turns: readonly Turn[], { role, turn: number, text, final, heard_text }: CaptionMessage) {
  const caption: Caption = { text, final, heardText: heard_text };
  return changeTurn(turns, number, (turn) => ({ ...turn, [role]: caption }));
}

/** A gap is known before its record: it belongs to the newest turn that the agent answers. */
function withMeasuredGap(turns: readonly Turn[], gapMs: number): readonly Turn[] {
  const newest = turns.at(-1);
  if (newest === undefined) return turns;
  return turns.with(-1, { ...newest, measuredGapMs: gapMs });
}

function withRecord(turns: readonly Turn[], record: TurnRecord): readonly Turn[] {
  const gap = record.gap_ms ?? null;
  // The server knows which turn a gap belongs to: a guess that put it elsewhere is taken back.
  const cleared =
    gap === null
      ? turns
      : turns.map((turn) =>
          turn.record?.gap_ms == null && turn.measuredGapMs !== null && Math.abs(turn.measuredGapMs - gap) < 1
            ? { ...turn, measuredGapMs: null }
            : turn,
        );
  return changeTurn(cleared, record.turn, (turn) => ({
    ...turn,
    record,
    caller: turn.caller ?? captionOf(record.caller, null),
    agent: turn.agent ?? captionOf(record.agent, record.interrupted === true ? (record.heard ?? null) : null),
  }));
}

function captionOf(text: string, heardText: string | null): Caption | null {
  return text === "" ? null : { text, final: true, heardText };
}
