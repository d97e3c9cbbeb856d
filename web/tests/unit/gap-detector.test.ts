import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GapDetector, type AgentAudible } from "../../src/audio/gap-detector.js";

/** Stretches of audible sound, in ms: `[from, to]`. */
type Sounds = readonly (readonly [from: number, to: number])[];

/** Plays both sides for `lengthMs` in frames of 10 ms; `at` runs before the frame that begins at that ms. */
function play(caller: Sounds, agent: Sounds, lengthMs: number, at: Record<number, (d: GapDetector) => void> = {}) {
  const detector = new GapDetector();
  const heard: AgentAudible[] = [];
  const side = (sounds: Sounds, ms: number) =>
    sounds.some(([from, to]) => ms >= from && ms < to)
      ? { dbfs: -20, first: ms / 1000, last: (ms + 10) / 1000 }
      : { dbfs: -70, first: null, last: null };
  for (let ms = 0; ms < lengthMs; ms += 10) {
    at[ms]?.(detector);
    const event = detector.push({
      start: ms / 1000,
      duration: 0.01,
      caller: side(caller, ms),
      agent: side(agent, ms),
    });
    if (event !== null) heard.push(event);
  }
  return heard.map(({ at: seconds, gap }) => ({
    atMs: Math.round(seconds * 1000),
    gapMs: gap === null ? null : Math.round(gap * 1000),
  }));
}

describe("GapDetector", () => {
  it("measures from the caller's last audible frame to the agent's first", () => {
    expect(play([[1000, 2000]], [[2410, 4000]], 5000)).toEqual([{ atMs: 2410, gapMs: 410 }]);
  });

  it("gives a gap for each turn", () => {
    const caller: Sounds = [
      [500, 1500],
      [5000, 6000],
    ];
    const agent: Sounds = [
      [1800, 4000],
      [6900, 8000],
    ];
    expect(play(caller, agent, 9000).map(({ gapMs }) => gapMs)).toEqual([300, 900]);
  });

  it("reports the greeting without a gap", () => {
    expect(play([], [[700, 2500]], 4000)).toEqual([{ atMs: 700, gapMs: null }]);
  });

  it("doesn't take the caller's answer to the greeting as a turn before it", () => {
    const events = play(
      [[3000, 4000]],
      [
        [500, 2500],
        [4250, 6000],
      ],
      7000,
    );
    expect(events).toEqual([
      { atMs: 500, gapMs: null },
      { atMs: 4250, gapMs: 250 },
    ]);
  });

  it("is negative when the agent began before the caller had ended, and waits for that end", () => {
    expect(play([[1000, 2400]], [[2280, 4000]], 5000)).toEqual([{ atMs: 2280, gapMs: -120 }]);
  });

  it("is negative when the agent began in a closure within the caller's last word", () => {
    expect(
      play(
        [
          [1000, 2000],
          [2150, 2300],
        ],
        [[2100, 4000]],
        5000,
      ),
    ).toEqual([{ atMs: 2100, gapMs: -200 }]);
  });

  it("counts a short gap once the caller has stayed silent", () => {
    expect(play([[1000, 2000]], [[2050, 4000]], 5000)).toEqual([{ atMs: 2050, gapMs: 50 }]);
  });

  it("spans a pause inside the caller's turn", () => {
    expect(
      play(
        [
          [1000, 1800],
          [2900, 3500],
        ],
        [[3900, 5000]],
        6000,
      ),
    ).toEqual([{ atMs: 3900, gapMs: 400 }]);
  });

  it("ignores clicks shorter than 50 ms on either side", () => {
    const caller: Sounds = [
      [1000, 2000],
      [2200, 2240],
    ];
    const agent: Sounds = [
      [2300, 2340],
      [2500, 4000],
    ];
    expect(play(caller, agent, 5000)).toEqual([{ atMs: 2500, gapMs: 500 }]);
  });

  it("counts 50 ms exactly as speech", () => {
    expect(play([[1000, 1050]], [[1500, 1550]], 3000)).toEqual([{ atMs: 1500, gapMs: 450 }]);
  });

  it("answers a turn soon after its own last words", () => {
    const events = play(
      [[2000, 2700]],
      [
        [1000, 2100],
        [2900, 4000],
      ],
      5000,
    );
    expect(events.at(-1)).toEqual({ atMs: 2900, gapMs: 200 });
  });

  it("doesn't measure against a turn that was answered already when its words come late", () => {
    const events = play(
      [[1000, 2000]],
      [
        [2300, 3000],
        [3400, 4000],
      ],
      5000,
      {
        2600: (detector) => detector.callerTookTurn(),
      },
    );
    expect(events).toEqual([{ atMs: 2300, gapMs: 300 }]);
  });

  it("bridges dips within a word", () => {
    const stuttering: Sounds = [
      [1000, 1030],
      [1050, 1080],
      [1110, 1200],
    ];
    expect(play(stuttering, [[1500, 2000]], 3000)).toEqual([{ atMs: 1500, gapMs: 300 }]);
  });

  it("takes the agent's pauses between sentences as one reply", () => {
    expect(
      play(
        [[1000, 2000]],
        [
          [2300, 3000],
          [3350, 4000],
          [5000, 6000],
        ],
        7000,
      ),
    ).toHaveLength(1);
  });

  it("reports a prompt after a long silence without a gap", () => {
    expect(
      play(
        [],
        [
          [500, 1500],
          [8500, 9500],
        ],
        10000,
      ),
    ).toEqual([
      { atMs: 500, gapMs: null },
      { atMs: 8500, gapMs: null },
    ]);
  });

  it("doesn't count what the microphone hears of the loudspeaker", () => {
    const agent: Sounds = [
      [1000, 3000],
      [3900, 5000],
    ];
    const echo: Sounds = [[1080, 3120]];
    expect(play(echo, agent, 6000)).toEqual([{ atMs: 1000, gapMs: null }]);
  });

  it("doesn't count a backchannel over the agent's voice", () => {
    expect(
      play(
        [[1500, 1800]],
        [
          [1000, 3000],
          [3500, 5000],
        ],
        6000,
      ),
    ).toEqual([{ atMs: 1000, gapMs: null }]);
  });

  it("counts a barge-in that goes on after the agent has stopped", () => {
    expect(
      play(
        [[2000, 3500]],
        [
          [1000, 2300],
          [4000, 5000],
        ],
        6000,
      ).at(-1),
    ).toEqual({ atMs: 4000, gapMs: 500 });
  });

  it("counts a short barge-in when the server heard words in it", () => {
    const events = play(
      [[2000, 2350]],
      [
        [1000, 2300],
        [3000, 4000],
      ],
      5000,
      {
        2600: (detector) => detector.callerTookTurn(),
      },
    );
    expect(events.at(-1)).toEqual({ atMs: 3000, gapMs: 650 });
  });

  it("has no turn for a muted microphone", () => {
    expect(
      play(
        [],
        [
          [1000, 2000],
          [2500, 3500],
        ],
        5000,
      ),
    ).toEqual([{ atMs: 1000, gapMs: null }]);
  });

  it("measures nothing against a microphone that is never quiet", () => {
    const events = play([[0, 20000]], [[5000, 7000]], 20000);
    expect(events).toEqual([{ atMs: 5000, gapMs: null }]);
  });

  it("finds any gap of a plain exchange, to the frame", () => {
    const tens = (min: number, max: number) => fc.integer({ min: min / 10, max: max / 10 }).map((n) => n * 10);
    fc.assert(
      fc.property(tens(50, 3000), tens(-600, 4000), tens(50, 3000), (speech, gap, reply) => {
        // An overlap is one only if the agent began after the caller, and some of the caller's speech is left.
        fc.pre(gap >= 0 || -gap <= speech - 50);
        const end = 1000 + speech;
        // A reply that ends within the caller's turn would leave that turn to the next reply.
        fc.pre(gap + reply > 300);
        const events = play([[1000, end]], [[end + gap, end + gap + reply]], end + gap + reply + 1000);
        expect(events).toEqual([{ atMs: end + gap, gapMs: gap }]);
      }),
    );
  });
});
