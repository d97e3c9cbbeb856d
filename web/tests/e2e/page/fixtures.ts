import { test as base, expect, type Page } from "@playwright/test";
import type { TurnRecord } from "../../../src/contract.js";
import { MockAgent } from "./mock-agent.js";

/** Fails a test whose page wrote an error or a warning to the console, save those that the test names. */
export const test = base.extend<{ allowedConsole: RegExp[]; consoleGuard: undefined }>({
  allowedConsole: [[], { option: true }],
  consoleGuard: [
    async ({ page, allowedConsole }, use) => {
      const complaints: string[] = [];
      page.on("console", (message) => {
        const complaint = ["error", "warning"].includes(message.type());
        if (complaint && !allowedConsole.some((allowed) => allowed.test(message.text())))
          complaints.push(message.text());
      });
      page.on("pageerror", (error) => complaints.push(error.message));
      await use(undefined);
      expect(complaints).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect };

/** The line that Chromium itself writes for every answer from 400 upward, and for none at all. */
export const failedRequest = /Failed to load resource/;

/** `SCREENSHOTS=folder npm run e2e` keeps pictures to look at. */
const folder = process.env.SCREENSHOTS;
export const keepsPictures = folder !== undefined;

export async function picture(page: Page, name: string): Promise<void> {
  if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png` });
}

/** Opens the page against a mock and calls. */
export async function callMock(page: Page, baseURL: string, mock = new MockAgent(page.context())): Promise<MockAgent> {
  await mock.install();
  await mock.ready(baseURL);
  await page.goto(baseURL);
  await page.bringToFront();
  await page.getByRole("button", { name: "Call" }).click();
  await expect(page.getByRole("status")).toHaveText("Listening");
  return mock;
}

/** A turn that took `gapMs`, with every step in a likely place. */
export function turnRecord(turn: number, gapMs: number, fields: Partial<TurnRecord> = {}): TurnRecord {
  const end = 10_000 + turn * 8_000;
  const packet = end + gapMs - 80;
  return {
    turn,
    caller: "",
    agent: "",
    heard: null,
    internal_gap_ms: gapMs - 80,
    gap_ms: gapMs,
    speculation: "hit",
    interrupted: false,
    events: {
      caller_audio_end: end,
      vad_trigger_end: end + 62,
      vad_end: end + 205,
      partials: [{ at: end - 600, text: "what time" }],
      preflight: end + 130,
      final: end + 236,
      decision: end + 210,
      llm: [
        {
          request: end + 132,
          first_token: packet - 75,
          done: packet + 60,
          engine: { phases_ms: { queue: 0.2, tokenize: 0.6, prefill: 11, first_token: 48, steps: 71, total: 131 } },
        },
      ],
      tts_first_chunk: packet - 8,
      first_packet: packet,
      client_audible: end + gapMs,
    },
    ...fields,
  };
}
