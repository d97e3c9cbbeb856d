import { describe, expect, it } from "vitest";
import { parseServerMessage } from "../../src/contract.js";

describe("parseServerMessage", () => {
  it("reads a caption that a barge-in cut", () => {
    const data = JSON.stringify({ type: "caption", role: "agent", turn: 3, text: "a b", final: true, heard_text: "a" });
    expect(parseServerMessage(data)).toEqual(JSON.parse(data));
  });

  it("gives a caption without heard_text a null", () => {
    const data = JSON.stringify({ type: "caption", role: "caller", turn: 1, text: "hi", final: false });
    expect(parseServerMessage(data)).toMatchObject({ heard_text: null });
  });

  it("keeps fields of a record that it doesn't know", () => {
    const data = JSON.stringify({ type: "turn", record: { turn: 1, caller: "a", agent: "b", events: {}, later: 1 } });
    expect(parseServerMessage(data)).toMatchObject({ record: { turn: 1, later: 1 } });
  });

  it("skips types of a newer server", () => {
    expect(parseServerMessage('{"type":"weather"}')).toBeNull();
  });

  it.each([
    ["not JSON", "hello"],
    ["no object", "[1]"],
    ["an unknown state", '{"type":"state","state":"asleep"}'],
    ["a caption of nobody", '{"type":"caption","turn":1}'],
    ["a caption of no turn", '{"type":"caption","role":"agent","text":"x"}'],
    ["a record of no turn", '{"type":"turn","record":{"caller":"x"}}'],
  ])("refuses %s", (_, data) => {
    expect(() => parseServerMessage(data)).toThrow(TypeError);
  });
});
