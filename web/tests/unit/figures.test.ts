import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { problemOf } from "../../src/call/microphone.js";
import { median } from "../../src/stats.js";
import { formatDuration, formatMs, gradeGap } from "../../src/ui/format.js";
import { waterfall } from "../../src/ui/waterfall-rows.js";

describe("median", () => {
  it("is the middle value, or the mean of the middle two", () => {
    expect(median([])).toBeNull();
    expect(median([900, 100, 300])).toBe(300);
    expect(median([400, -100, 200, 800])).toBe(300);
  });

  it("has as many values above as below", () => {
    fc.assert(
      fc.property(fc.array(fc.integer(), { minLength: 1 }), (values) => {
        const middle = median(values) ?? NaN;
        expect(values.filter((v) => v < middle).length).toBeLessThanOrEqual(values.length / 2);
        expect(values.filter((v) => v > middle).length).toBeLessThanOrEqual(values.length / 2);
      }),
    );
  });
});

describe("gap grades", () => {
  it.each([
    [-1, "overlap"],
    [0, "quick"],
    [200, "quick"],
    [201, "fair"],
    [800, "fair"],
    [801, "slow"],
  ])("%i ms is %s", (ms, grade) => {
    expect(gradeGap(ms)).toBe(grade);
  });
});

describe("formats", () => {
  it("writes a true minus sign, and none for zero", () => {
    expect([formatMs(-120.4), formatMs(-0.2), formatMs(411.6)]).toEqual(["−120 ms", "0 ms", "412 ms"]);
  });

  it("writes minutes and seconds", () => {
    expect([formatDuration(7400), formatDuration(760_000), formatDuration(-5)]).toEqual(["0:07", "12:40", "0:00"]);
  });
});

describe("problemOf", () => {
  it.each([
    ["NotAllowedError", "denied"],
    ["NotFoundError", "no-device"],
    ["NotReadableError", "busy"],
    ["TypeError", "failed"],
  ])("%s means %s", (name, problem) => {
    expect(problemOf(new DOMException("", name))).toBe(problem);
  });
});

describe("waterfall", () => {
  const events = {
    caller_audio_end: 10_000,
    vad_trigger_end: 10_060,
    vad_end: 10_300,
    preflight: 10_180,
    final: 10_320,
    decision: 10_310,
    llm: [{ request: 10_190, first_token: 10_260, done: 10_420, engine: null }],
    tts_first_chunk: 10_350,
    first_packet: 10_360,
    client_audible: 10_450,
  };
  const record = { turn: 1, caller: "", agent: "", events };

  it("counts from the end of the caller's audio", () => {
    const steps = waterfall(record);
    expect(steps).toMatchObject({ origin: "caller", start: 0, end: 450 });
    expect(steps?.rows.find((row) => row.part === "model")).toMatchObject({ from: 190, to: 260, done: 420 });
    expect(steps?.rows.at(-1)).toMatchObject({ label: "Audible at the client", from: 360, to: 450 });
  });

  it("shows what was done ahead of that end as negative", () => {
    const early = { ...record, events: { ...events, llm: [{ request: 9_800, first_token: 9_870, done: 9_990 }] } };
    const steps = waterfall(early);
    expect(steps?.start).toBe(-200);
    expect(steps?.rows.find((row) => row.part === "model")).toMatchObject({ from: -200, to: -130, done: -10 });
  });

  it("leaves out what was not recorded", () => {
    expect(waterfall({ ...record, events: { first_packet: 500, client_audible: null } })?.rows).toHaveLength(1);
    expect(waterfall({ ...record, events: {} })).toBeNull();
  });

  it("counts the greeting from its first event", () => {
    const greeting = waterfall({ ...record, events: { tts_first_chunk: 300, first_packet: 310 } });
    expect(greeting).toMatchObject({ origin: "first", start: 0, end: 10 });
  });
});
