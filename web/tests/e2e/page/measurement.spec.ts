import type { ClientMessage } from "../../../src/contract.js";
import { callMock, expect, test } from "./fixtures.js";

// Chromium's fake microphone beeps once a second. These tests look at what the page measures on real audio.

const audible = (messages: ClientMessage[]) => messages.filter((message) => message.type === "agent_audible");

test("the greeting is audible without a gap", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await page.keyboard.press("m"); // no caller
  await page.waitForTimeout(3500); // longer than any pause that a beep before it could belong to
  const before = audible(await mock.received()).length;
  await mock.speak(true);
  await expect.poll(async () => audible(await mock.received()).length).toBeGreaterThan(before);
  await expect(page.getByRole("meter", { name: "Agent level" })).toHaveAttribute("aria-valuetext", /-\d+ decibels/);
});

test("a reply after the caller gives a gap on the page and to the server", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await mock.caption("caller", 1, "beep");
  await expect.poll(() => mock.hears(), { intervals: [10] }).toBeGreaterThan(0.01);
  await mock.speakAfterCaller(250);
  await expect.poll(async () => audible(await mock.received()).length).toBe(1);
  const [event] = audible(await mock.received());
  // The far end answered 250 ms after it had heard the end, and sound travels: no real gap can be shorter.
  expect(event?.gap_ms).toBeGreaterThanOrEqual(250);
  expect(event?.gap_ms).toBeLessThan(1000); // the next beep would have been later
  const gap = page.getByRole("button", { name: `Turn 1: gap ${event?.gap_ms} ms`, exact: true });
  await expect(gap).toBeVisible();
});

test("pings give the server this page's clock", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  const pings = async () => (await mock.received()).filter((message) => message.type === "ping");
  await expect.poll(async () => (await pings()).length).toBeGreaterThanOrEqual(2);
  const [first, second] = await pings();
  expect((second?.client_ms ?? 0) - (first?.client_ms ?? 0)).toBeGreaterThan(1000);
});
