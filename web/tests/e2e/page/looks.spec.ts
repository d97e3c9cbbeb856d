import type { Page } from "@playwright/test";
import { callMock, expect, keepsPictures, picture, test, turnRecord } from "./fixtures.js";
import { MockAgent } from "./mock-agent.js";

/** Colours change no layout: the dark scheme is gone through only for its pictures. */
const colorSchemes = keepsPictures ? (["light", "dark"] as const) : (["light"] as const);

const sizes = {
  small: { width: 320, height: 568 },
  phone: { width: 390, height: 844 },
  desktop: { width: 1280, height: 800 },
};

async function converse(mock: MockAgent): Promise<void> {
  const dialogue: [caller: string, agent: string, gapMs: number][] = [
    ["", "Good evening, Trattoria Lucia. How can I help?", 0],
    ["what time do you open on friday", "On Friday we open at five in the evening, until eleven.", 340],
    ["great can i book a table for four", "Of course. For which day and time?", -110],
    [
      "friday at uh half past seven",
      "Friday, December fourth, half past seven, a table for four. What name may I",
      190,
    ],
    ["smith", "Smith, a table for four on Friday, December fourth, at half past seven. Shall I book it?", 960],
    ["yes please", "It is booked. Your booking number is forty one.", 610],
  ];
  for (const [turn, [caller, agent, gap]] of dialogue.entries()) {
    if (caller !== "") await mock.caption("caller", turn, caller);
    await mock.caption(
      "agent",
      turn,
      agent,
      turn === 3 ? { heard_text: "Friday, December fourth, half past seven," } : {},
    );
    if (turn > 0) await mock.turn(turnRecord(turn, gap, { caller, agent, interrupted: turn === 3 }));
  }
  await mock.caption("caller", 6, "and do you have", { final: false });
}

/** Gives a picture voices to show. */
async function talk(page: Page, mock: MockAgent): Promise<void> {
  for (const [on, ms] of [
    [true, 700],
    [false, 1200],
    [true, 600],
  ] as const) {
    await mock.speak(on);
    await page.waitForTimeout(ms);
  }
}

test("the dark scheme is followed", async ({ page, baseURL }) => {
  await new MockAgent(page.context()).install();
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto(baseURL ?? "");
  expect(await ground()).toBe("rgb(247, 246, 243)");
  await page.emulateMedia({ colorScheme: "dark" });
  expect(await ground()).toBe("rgb(18, 20, 22)");
});

for (const [name, viewport] of Object.entries(sizes)) {
  for (const colorScheme of colorSchemes) {
    test.describe(`${name}, ${colorScheme}`, () => {
      test.use({ viewport, colorScheme });

      test("every stage of a call fits and is within reach", async ({ page, baseURL }) => {
        const stage = async (stageName: string) => {
          await picture(page, `${name}-${colorScheme}-${stageName}`);
          const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          expect(overflow, `${stageName} scrolls sideways`).toBeLessThanOrEqual(0);
        };
        const mock = new MockAgent(page.context(), { record: {} });
        await mock.install();
        await page.goto(baseURL ?? "");
        await expect(page.getByRole("heading", { name: "Front desk" })).toBeVisible();
        await stage("idle");

        await callMock(page, baseURL ?? "", mock);
        await mock.send({ type: "state", state: "speaking" });
        await converse(mock);
        if (keepsPictures) await talk(page, mock);
        await expect(page.getByRole("button", { name: "Hang up" })).toBeInViewport({ ratio: 1 });
        await stage("call");

        await page.getByRole("button", { name: "Turn 5: gap 610 ms", exact: true }).click();
        await stage("waterfall");

        await mock.send({ type: "error", code: "engine", message: "The language model is restarting; one moment." });
        await page.keyboard.press("m");
        await expect(page.locator(".notice")).toBeVisible();
        await expect(page.getByRole("button", { name: "Hang up" })).toBeInViewport({ ratio: 1 });
        await stage("trouble");

        await page.keyboard.press("Escape");
        await expect(page.getByRole("button", { name: "Call again" })).toBeInViewport({ ratio: 1 });
        await stage("ended");
      });
    });
  }
}
