import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { splitAtHeard } from "../../src/call/captions.js";

describe("splitAtHeard", () => {
  it("cuts after the last word heard", () => {
    expect(splitAtHeard("We open at five on Friday.", "We open at")).toEqual(["We open at", " five on Friday."]);
  });

  it("ignores case, punctuation and spaces of what was heard", () => {
    expect(splitAtHeard("A table, for four?  Yes.", "a table for FOUR")).toEqual(["A table, for four?", "  Yes."]);
  });

  it("never cuts inside a word", () => {
    expect(splitAtHeard("Friday evening", "Fri")).toEqual(["", "Friday evening"]);
  });

  it("strikes everything when nothing was heard", () => {
    expect(splitAtHeard("Hello there", "")).toEqual(["", "Hello there"]);
  });

  it("keeps everything that was heard in full", () => {
    expect(splitAtHeard("Hello there", "Hello there")).toEqual(["Hello there", ""]);
  });

  it("loses no letter, whatever was heard", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (text, heard) => {
        expect(splitAtHeard(text, heard).join("")).toBe(text);
      }),
    );
  });
});
