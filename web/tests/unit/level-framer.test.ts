import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LevelFramer, type LevelFrame } from "../../src/audio/level-framer.js";

/** Feeds a whole signal in blocks, as a worklet does. */
function framesOf(signal: Float32Array, sampleRate: number, block = 128): LevelFrame[] {
  const framer = new LevelFramer(sampleRate);
  const frames: LevelFrame[] = [];
  for (let i = 0; i < signal.length; i += block) {
    const part = signal.subarray(i, i + block);
    frames.push(...framer.push(i / sampleRate, part.length, part, null));
  }
  return frames;
}

describe("LevelFramer", () => {
  it.each([48000, 44100, 16000])("cuts frames of 10 ms at %i Hz that follow one another", (rate) => {
    const frames = framesOf(new Float32Array(rate), rate);
    expect(frames).toHaveLength(100);
    frames.forEach((frame, index) => {
      expect(frame.start).toBeCloseTo(index / 100, 9);
      expect(frame.duration).toBeCloseTo(0.01, 9);
    });
  });

  it("gives a full-scale sine -3.01 dBFS and silence -Infinity", () => {
    const sine = Float32Array.from({ length: 480 }, (_, i) => Math.sin((2 * Math.PI * 1000 * i) / 48000));
    const [frame] = framesOf(sine, 48000);
    expect(frame?.caller.dbfs).toBeCloseTo(-3.01, 2);
    expect(frame?.agent.dbfs).toBe(-Infinity);
  });

  it("tells the first and the last audible sample", () => {
    const signal = new Float32Array(480);
    signal[100] = -0.0057; // -44.9 dBFS
    signal[99] = 0.0056; // -45.04 dBFS
    signal[300] = 0.5;
    const [frame] = framesOf(signal, 48000);
    expect(frame?.caller.first).toBeCloseTo(100 / 48000, 9);
    expect(frame?.caller.last).toBeCloseTo(301 / 48000, 9);
    expect(frame?.agent).toMatchObject({ first: null, last: null });
  });

  it("gives the same frames whatever the size of the blocks", () => {
    const signal = Float32Array.from({ length: 4800 }, (_, i) => Math.sin(i / 7) * (i / 4800));
    const expected = framesOf(signal, 48000, 4800);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1000 }), (block) => {
        const frames = framesOf(signal, 48000, block);
        expect(frames).toHaveLength(expected.length);
        frames.forEach((frame, i) => {
          expect(frame.start).toBeCloseTo(expected[i]?.start ?? NaN, 6);
          expect(frame.caller.dbfs).toBeCloseTo(expected[i]?.caller.dbfs ?? NaN, 6);
          expect(frame.caller.first).toBeCloseTo(expected[i]?.caller.first ?? NaN, 6);
        });
      }),
    );
  });
});
