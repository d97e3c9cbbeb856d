import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test as base, expect } from "@playwright/test";
import type { TurnRecord } from "../../../src/contract.js";
import { chromiumArguments, executablePath, fakeMicrophone } from "../../../playwright.config.js";
import { spokenHours, VoiceAgent } from "./server.js";
import { withLeadingSilence } from "./wav.js";

const question = resolve(import.meta.dirname, "../../data/question.wav");
const microphone = resolve(import.meta.dirname, "../../../test-results/microphone.wav");

/** The greeting has ended by then, also on a busy machine. Seconds. */
const questionAfter = 9;

const test = base.extend<object, { agent: VoiceAgent }>({
  agent: [
    // eslint-disable-next-line no-empty-pattern -- Playwright wants the pattern
    async ({}, use) => {
      withLeadingSilence(question, microphone, questionAfter);
      const folder = mkdtempSync(join(tmpdir(), "voice-agent-call-"));
      const agent = await VoiceAgent.start(folder);
      await use(agent);
      await agent.stop();
      rmSync(folder, { recursive: true, force: true });
    },
    { scope: "worker", timeout: 180_000 },
  ],
});

test.use({
  launchOptions: {
    executablePath,
    args: [...chromiumArguments, ...fakeMicrophone, `--use-file-for-fake-audio-capture=${microphone}%noloop`],
  },
});

test("a spoken question is heard, answered aloud and answered right", async ({ page, agent }) => {
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));

  await page.goto(agent.url);
  await page.getByRole("button", { name: "Call", exact: true }).click();
  const status = page.getByRole("status");
  await expect(status, agent.tail()).toHaveText(/Listening|Thinking|Speaking/, { timeout: 15_000 });

  // The greeting comes as audio, above -45 dBFS where it is heard.
  const agentLevel = page.getByRole("meter", { name: "Agent level" });
  await expect(agentLevel).toHaveAttribute("aria-valuetext", /-\d+ decibels/, { timeout: 15_000 });

  // The caption has the question's words.
  const conversation = page.getByRole("region", { name: "Conversation" });
  const turn = conversation
    .locator(".turn")
    .filter({ has: page.locator(".line.caller:not(.partial):visible") })
    .first();
  const asked = turn.locator(".line.caller .words");
  await expect(asked).toContainText(/open/i, { timeout: 40_000 });
  await expect(asked).toContainText(/friday/i);

  // The reply comes as audio and has an opening time of that day in it.
  await expect(agentLevel).toHaveAttribute("aria-valuetext", /-\d+ decibels/, { timeout: 20_000 });
  const times = spokenHours("friday").map((time) => time.replace(/ o'clock$/, ""));
  await expect(turn.locator(".line.agent .words")).toContainText(new RegExp(times.join("|"), "i"), { timeout: 20_000 });

  // The gap is shown, and it is the one in the record.
  const bar = page.getByRole("region", { name: "Turn gaps" }).getByRole("button");
  await expect(bar.first()).toBeVisible({ timeout: 10_000 });
  const shown = Number(
    /gap ([−\d]+) ms/.exec((await bar.first().getAttribute("aria-label")) ?? "")?.[1]?.replace("−", "-"),
  );
  if (process.env.SCREENSHOTS !== undefined)
    await page.screenshot({ path: `${process.env.SCREENSHOTS}/real-call.png` });

  await page.getByRole("button", { name: "Hang up" }).click();
  const link = page.getByRole("link", { name: "Open the record" });
  const response = await page.request.get(new URL((await link.getAttribute("href")) ?? "", agent.url).href);
  const { turns } = (await response.json()) as { turns: TurnRecord[] };
  const recorded = turns.find((record) => /friday/i.test(record.caller));
  expect(recorded?.gap_ms).not.toBeNull();
  expect(Math.abs((recorded?.gap_ms ?? NaN) - shown)).toBeLessThanOrEqual(1);

  expect(complaints).toEqual([]);
});

test("reloading during a call leaves no call behind", async ({ page, agent }) => {
  for (let i = 0; i < 3; i++) {
    await page.goto(agent.url);
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await expect(page.getByRole("status")).toHaveText(/Listening|Thinking|Speaking/, { timeout: 15_000 });
    expect(await agent.liveCalls(), "calls while one is open").toBeGreaterThanOrEqual(1);
  }
  await expect.poll(() => agent.liveCalls()).toBe(1);
  await page.goto("about:blank");
  await expect.poll(() => agent.liveCalls()).toBe(0);
});
