/**
 * The contract between the page and the calls process, as docs/architecture.md states it.
 *
 * Times in a turn record are milliseconds on the calls process's monotonic clock since the call began. Messages from the
 * server are checked here once, so that the rest of the page can rely on their shape.
 */

export interface ServerInfo {
  model: string;
  engine: string;
  agent: string;
  version: string;
}

export type AgentState = "listening" | "thinking" | "speaking" | "ended";
export type Role = "caller" | "agent";

/** One request to the language model within a turn. */
export interface LlmEvent {
  request?: number | null;
  first_token?: number | null;
  done?: number | null;
  engine?: Record<string, unknown> | null;
  tool_calls?: unknown;
}

export interface TurnEvents {
  caller_audio_end?: number | null;
  vad_trigger_end?: number | null;
  vad_end?: number | null;
  partials?: { at: number; text: string }[];
  preflight?: number | null;
  final?: number | null;
  decision?: number | null;
  llm?: LlmEvent[];
  tts_first_chunk?: number | null;
  first_packet?: number | null;
  client_audible?: number | null;
}

export interface TurnRecord {
  turn: number;
  caller: string;
  agent: string;
  heard?: string | null;
  events: TurnEvents;
  internal_gap_ms?: number | null;
  gap_ms?: number | null;
  speculation?: "hit" | "miss" | "none" | null;
  interrupted?: boolean;
  /** The turn before, answered late and by itself because the server was restarting a part: nobody measures that gap. */
  again?: boolean;
  /** Cut to fit a message: the whole record is at `GET /api/calls/{id}`. */
  brief?: boolean;
}

export interface CaptionMessage {
  type: "caption";
  role: Role;
  turn: number;
  /** The whole caption so far, not an addition to it. */
  text: string;
  final: boolean;
  /** What the caller had heard of an agent's caption that a barge-in cut. */
  heard_text: string | null;
}

export type ServerMessage =
  | { type: "info"; call_id: string; model: string; llm: unknown }
  | { type: "state"; state: AgentState }
  | CaptionMessage
  | { type: "turn"; record: TurnRecord }
  | { type: "pong"; client_ms: number; server_ms: number }
  | { type: "error"; code: string; message: string }
  | { type: "bye"; reason: string };

export type ClientMessage =
  | { type: "ping"; client_ms: number }
  | { type: "agent_audible"; client_ms: number; gap_ms: number | null }
  | { type: "mute"; muted: boolean }
  | { type: "hangup" };

const agentStates: readonly string[] = ["listening", "thinking", "speaking", "ended"];

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");

/**
 * Reads one message of the `events` data channel.
 *
 * Returns null for a type that this page doesn't know, so that a newer server can add types.
 * @throws {TypeError} when the data is no JSON object or lacks what its type requires.
 */
export function parseServerMessage(data: string): ServerMessage | null {
  let message: unknown;
  try {
    message = JSON.parse(data);
  } catch {
    throw new TypeError("not JSON");
  }
  if (!isFields(message)) throw new TypeError("not a JSON object");
  switch (message.type) {
    case "info":
      return { type: "info", call_id: text(message.call_id), model: text(message.model), llm: message.llm };
    case "state": {
      const state = text(message.state);
      if (!agentStates.includes(state)) throw new TypeError(`unknown state "${state}"`);
      return { type: "state", state: state as AgentState };
    }
    case "caption": {
      const { role, turn } = message;
      if (role !== "caller" && role !== "agent") throw new TypeError("a caption's role is caller or agent");
      if (typeof turn !== "number") throw new TypeError("a caption needs the number of its turn");
      const heard = message.heard_text;
      return {
        type: "caption",
        role,
        turn,
        text: text(message.text),
        final: message.final === true,
        heard_text: typeof heard === "string" ? heard : null,
      };
    }
    case "turn":
      return { type: "turn", record: parseTurnRecord(message.record) };
    case "pong":
      return { type: "pong", client_ms: Number(message.client_ms), server_ms: Number(message.server_ms) };
    case "error":
      return { type: "error", code: text(message.code), message: text(message.message) };
    case "bye":
      return { type: "bye", reason: text(message.reason) };
    default:
      return null;
  }
}

/** @throws {TypeError} when the record has no turn number. */
export function parseTurnRecord(value: unknown): TurnRecord {
  if (!isFields(value) || typeof value.turn !== "number") {
    throw new TypeError("a turn record needs the number of its turn");
  }
  return {
    ...value,
    turn: value.turn,
    caller: text(value.caller),
    agent: text(value.agent),
    events: isFields(value.events) ? value.events : {},
  };
}
