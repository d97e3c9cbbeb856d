import { describe, expect, it } from "vitest";
import { gapOf, initialModel, reduce, type CallEvent, type CallModel } from "../../src/call/model.js";
import type { ServerMessage, TurnRecord } from "../../src/contract.js";

const server = (message: ServerMessage): CallEvent => ({ type: "server", message });
const caption = (role: "caller" | "agent", turn: number, text: string, final = true): CallEvent =>
  server({ type: "caption", role, turn, text, final, heard_text: null });
const record = (turn: number, fields: Partial<TurnRecord> = {}): CallEvent =>
  server({ type: "turn", record: { turn, caller: "", agent: "", events: {}, ...fields } });

function after(...events: CallEvent[]): CallModel {
  return events.reduce(reduce, initialModel);
}

const live: CallEvent[] = [
  { type: "dialling", listenOnly: false },
  { type: "connected", now: 1000 },
];

describe("captions", () => {
  it("replace the partials of their turn", () => {
    const model = after(...live, caption("caller", 1, "what", false), caption("caller", 1, "what time"));
    expect(model.turns.map((turn) => turn.caller)).toEqual([{ text: "what time", final: true, heardText: null }]);
  });

  it("stand in the order of their turns, whenever they come", () => {
    const model = after(...live, caption("agent", 2, "b"), caption("caller", 1, "a"), caption("agent", 0, "hello"));
    expect(model.turns.map((turn) => turn.number)).toEqual([0, 1, 2]);
  });

  it("come from the record when none arrived", () => {
    const [turn] = after(
      ...live,
      record(1, { caller: "hi", agent: "hello sir", interrupted: true, heard: "hello" }),
    ).turns;
    expect(turn?.caller?.text).toBe("hi");
    expect(turn?.agent).toEqual({ text: "hello sir", final: true, heardText: "hello" });
  });
});

describe("gaps", () => {
  const conversation = [...live, caption("agent", 0, "hello"), caption("caller", 1, "hi")];

  it("show at once at the newest turn", () => {
    expect(after(...conversation, { type: "gap", gapMs: 310 }).turns.map(gapOf)).toEqual([null, 310]);
  });

  it("move to the turn that the record names", () => {
    const model = after(
      ...conversation,
      caption("caller", 2, "and"),
      { type: "gap", gapMs: 310 },
      record(1, { gap_ms: 310 }),
    );
    expect(model.turns.map(gapOf)).toEqual([null, 310, null]);
  });

  it("stay when a record without the client's figure comes first", () => {
    const model = after(
      ...conversation,
      { type: "gap", gapMs: 310 },
      record(1, { gap_ms: null, internal_gap_ms: 200 }),
    );
    expect(model.turns.map(gapOf)).toEqual([null, 310]);
  });

  it("are none where an answer was put off", () => {
    const model = after(...conversation, { type: "gap", gapMs: 13_000 }, record(1, { again: true }));
    expect(model.turns.map(gapOf)).toEqual([null, null]);
  });

  it("keep an overlap negative", () => {
    expect(after(...conversation, record(1, { gap_ms: -80 })).turns.map(gapOf)).toEqual([null, -80]);
  });
});

describe("a call's end", () => {
  const notice = { tone: "error", title: "t", text: "x" } as const;

  it("keeps the conversation", () => {
    const model = after(...live, caption("agent", 0, "hello"), { type: "ended", now: 5000, reason: "You hung up." });
    expect(model).toMatchObject({ phase: "ended", endedAt: 5000, endReason: "You hung up." });
    expect(model.turns).toHaveLength(1);
  });

  it("is told once", () => {
    const model = after(
      ...live,
      { type: "ended", now: 5000, reason: "You hung up." },
      { type: "failed", now: 6000, notice },
    );
    expect(model).toMatchObject({ endedAt: 5000, notice: null });
  });

  it("leads back to the start when the call was never answered", () => {
    expect(after({ type: "dialling", listenOnly: false }, { type: "failed", now: 1, notice })).toMatchObject({
      phase: "idle",
      notice,
    });
  });

  it("leaves nothing of itself in the next call", () => {
    const model = after(
      ...live,
      caption("agent", 0, "hello"),
      { type: "muted", muted: true },
      { type: "ended", now: 5000, reason: "" },
      { type: "dialling", listenOnly: false },
    );
    expect(model).toMatchObject({ phase: "connecting", turns: [], muted: false, startedAt: null, endedAt: null });
  });
});
