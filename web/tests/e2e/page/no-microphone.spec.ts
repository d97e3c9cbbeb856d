import { chromiumArguments, executablePath } from "../../../playwright.config.js";
import { expect, picture, test } from "./fixtures.js";
import { MockAgent } from "./mock-agent.js";

// A device without the fake prompt: a headless browser denies it, as a caller may.
test.use({
  launchOptions: {
    executablePath,
    args: [
      ...chromiumArguments,
      "--use-fake-device-for-media-stream",
      "--host-resolver-rules=MAP insecure.test 127.0.0.1",
    ],
  },
});

test("a denied microphone is explained, and still hears the agent", async ({ page, baseURL }) => {
  const mock = new MockAgent(page.context());
  await mock.install();
  await mock.ready(baseURL ?? "");
  await page.goto(baseURL ?? "");
  await page.bringToFront();
  await page.getByRole("button", { name: /^(Call|Try again)$/ }).click();
  const help = page.locator(".help");
  await expect(help).toContainText("The microphone is blocked");
  await expect(help).toContainText("set Microphone to Allow");
  await picture(page, "denied");

  await page.getByRole("button", { name: "Call and only listen" }).click();
  await expect(page.getByRole("status")).toHaveText("Listening");
  await expect(page.locator(".mute")).toHaveText(/No mic/);
  await expect(page.locator(".mute")).toBeDisabled();
  await expect(page.getByRole("button", { name: "Hang up" })).toBeInViewport({ ratio: 1 });
  await picture(page, "listening-only");
  await page.setViewportSize({ width: 320, height: 568 });
  await expect(page.getByRole("button", { name: "Hang up" })).toBeInViewport({ ratio: 1 });
  const conversation = await page.getByRole("region", { name: "Conversation" }).boundingBox();
  expect(conversation?.height).toBeGreaterThan(100);
  await picture(page, "listening-only-small");
  await mock.speak(true);
  await expect(page.getByRole("meter", { name: "Agent level" })).toHaveAttribute("aria-valuetext", /-\d+ decibels/);
  expect(await mock.hears()).toBeLessThan(0.001);
  // Audible without a caller before it, as a greeting is: there is no gap.
  const heard = (await mock.received()).filter((message) => message.type === "agent_audible");
  expect(heard).toHaveLength(1);
  expect(heard[0]).toMatchObject({ gap_ms: null });
});

test("an insecure address is explained before the first press", async ({ page, baseURL }) => {
  await new MockAgent(page.context()).install();
  const url = new URL(baseURL ?? "");
  url.hostname = "insecure.test";
  await page.goto(url.href);
  await expect(page.locator(".help")).toContainText("This address can’t use the microphone");
  await expect(page.getByRole("button", { name: "Try again" })).toBeHidden();
  await expect(page.getByRole("button", { name: "Call and only listen" })).toBeVisible();
});
