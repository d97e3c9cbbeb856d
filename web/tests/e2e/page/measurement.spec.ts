import type { ClientMessage } from "../../../src/contract.js";
import { formatMs } from "../../../src/ui/format.js";
import { callMock, expect, test } from "./fixtures.js";

// Chromium's fake microphone beeps once a second. These tests look at what the page measures on real audio.

const audible = (messages: ClientMessage[]) => messages.filter((message) => message.type === "agent_audible");

test("a reply after the caller gives a gap on the page and to the server", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await mock.caption("caller", 1, "beep");
  await expect.poll(() => mock.hears(), { intervals: [10] }).toBeGreaterThan(0.01);
  await mock.speakAfterCaller(250);
  await expect.poll(async () => audible(await mock.received()).length).toBe(1);
  const [event] = audible(await mock.received());
  // How exact it is, the detector's own tests say: here the machine's load is in the figure.
  expect(event?.gap_ms).toEqual(expect.any(Number));
  const strip = page.getByRole("region", { name: "Turn gaps" });
  const gap = strip.getByRole("button", { name: `Turn 1: gap ${formatMs(event?.gap_ms ?? NaN)}` });
  await expect(gap).toBeVisible();
});

test("pings give the server this page's clock", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  const pings = async () => (await mock.received()).filter((message) => message.type === "ping");
  await expect.poll(async () => (await pings()).length).toBeGreaterThanOrEqual(2);
  const [first, second] = await pings();
  expect((second?.client_ms ?? 0) - (first?.client_ms ?? 0)).toBeGreaterThan(1000);
});
