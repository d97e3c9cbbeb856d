import type { Page } from "@playwright/test";
import { callMock, expect, failedRequest, picture, test } from "./fixtures.js";
import { MockAgent } from "./mock-agent.js";

async function openWith(page: Page, baseURL: string, mock: MockAgent): Promise<void> {
  await mock.install();
  await mock.ready(baseURL);
  await page.goto(baseURL);
  await page.bringToFront();
}

const call = (page: Page) => page.getByRole("button", { name: "Call", exact: true }).click();

/** Makes getUserMedia fail as the specification says, for states that a headless browser can't be brought into. */
const failMicrophone = (page: Page, name: string) =>
  page.addInitScript((errorName) => {
    navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("made to fail", errorName));
  }, name);

test.describe("the server", () => {
  test.use({ allowedConsole: [failedRequest] });

  test("can't be reached", async ({ page, baseURL }) => {
    await openWith(page, baseURL ?? "", new MockAgent(page.context(), { offer: "unreachable" }));
    await call(page);
    await expect(page.locator(".notice")).toContainText("The server can’t be reached");
    await expect(page.getByRole("button", { name: "Call", exact: true })).toBeEnabled();
  });

  test("can't be reached when the page opens", async ({ page, baseURL }) => {
    await page.route("**/api/info", (route) => route.abort("connectionrefused"));
    await page.goto(baseURL ?? "");
    await expect(page.locator(".notice")).toContainText("You can still try to call.");
  });

  test("is busy", async ({ page, baseURL }) => {
    const offer = { status: 503, code: "busy", message: "Both lines are taken." };
    await openWith(page, baseURL ?? "", new MockAgent(page.context(), { offer }));
    await call(page);
    await expect(page.locator(".notice")).toContainText("All lines are busy");
    await picture(page, "busy");
    await expect(page.locator(".notice")).toContainText("Both lines are taken. Try again in a moment.");
    await page.getByRole("button", { name: "Dismiss" }).click();
    await expect(page.locator(".notice")).toBeHidden();
  });

  test("refuses with a reason", async ({ page, baseURL }) => {
    const offer = { status: 400, code: "bad_sdp", message: "The offer has no audio." };
    await openWith(page, baseURL ?? "", new MockAgent(page.context(), { offer }));
    await call(page);
    await expect(page.locator(".notice")).toContainText("The offer has no audio.");
  });

  test("asks for a token, refuses a wrong one and takes the right one", async ({ page, baseURL }) => {
    const mock = new MockAgent(page.context(), { token: "right" });
    await openWith(page, baseURL ?? "", mock);
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Token", { exact: true }).fill("wrong");
    await dialog.getByRole("button", { name: "Continue" }).click();
    await expect(dialog).toContainText("refused this token");
    await picture(page, "token");
    await dialog.getByLabel("Token", { exact: true }).fill("right");
    await page.keyboard.press("Enter");
    await expect(dialog).toBeHidden();
    await expect(page.getByRole("heading", { name: "Front desk" })).toBeVisible();
    await call(page);
    await expect(page.getByRole("status")).toHaveText("Listening");
    await page.keyboard.press("Escape");
    // A reload keeps the token, another tab wouldn't.
    await page.reload();
    await expect(page.getByRole("heading", { name: "Front desk" })).toBeVisible();
    await expect(dialog).toBeHidden();
  });

  test("a token dialog that was closed comes back with the call", async ({ page, baseURL }) => {
    await openWith(page, baseURL ?? "", new MockAgent(page.context(), { token: "right" }));
    await page.getByRole("button", { name: "Cancel" }).click();
    await expect(page.locator(".notice")).toContainText("Access token needed");
    await call(page);
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Token", { exact: true }).fill("right");
    await page.keyboard.press("Enter");
    await expect(page.getByRole("status")).toHaveText("Listening");
  });
});

test("a broken answer is told", async ({ page, baseURL }) => {
  await openWith(page, baseURL ?? "", new MockAgent(page.context(), { offer: "unanswerable" }));
  await call(page);
  await expect(page.locator(".notice")).toContainText("The call couldn’t be set up");
});

test("a call that breaks off keeps what was said", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await mock.caption("caller", 1, "are you still there");
  await mock.vanish();
  await expect(page.locator(".notice")).toContainText("The call broke off");
  await expect(page.getByText("are you still there")).toBeVisible();
  await expect(page.getByRole("button", { name: "Call again" })).toBeVisible();
});

test("trouble of the engine is told, the call goes on", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await mock.send({ type: "error", code: "engine_down", message: "The language model is restarting." });
  await expect(page.locator(".notice")).toContainText("The language model is restarting.");
  await expect(page.getByRole("status")).toHaveText("Listening");
});

test.describe("the microphone", () => {
  for (const [name, title] of [
    ["NotFoundError", "No microphone was found"],
    ["NotReadableError", "The microphone is in use"],
  ] as const) {
    test(`${name}: ${title}`, async ({ page, baseURL }) => {
      await failMicrophone(page, name);
      await openWith(page, baseURL ?? "", new MockAgent(page.context()));
      await call(page);
      await expect(page.locator(".help")).toContainText(title);
      await expect(page.getByRole("button", { name: "Try again" })).toBeVisible();
    });
  }

  test("that is unplugged in a call leaves the caller listening", async ({ page, baseURL }) => {
    await page.addInitScript(() => {
      const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
      navigator.mediaDevices.getUserMedia = async (constraints) => {
        const stream = await open(constraints);
        (window as unknown as { microphone: MediaStream }).microphone = stream;
        return stream;
      };
    });
    const mock = await callMock(page, baseURL ?? "");
    await page.evaluate(() => {
      // The browser ends the track itself and says so; stop() alone is silent.
      const [track] = (window as unknown as { microphone: MediaStream }).microphone.getAudioTracks();
      track?.stop();
      track?.dispatchEvent(new Event("ended"));
    });
    await expect(page.locator(".help")).toContainText("No microphone was found");
    await expect(page.locator(".mute")).toBeDisabled();
    await page.getByRole("button", { name: "Try again" }).click();
    await expect(page.locator(".help")).toBeHidden();
    await expect.poll(() => mock.hears(), { intervals: [20] }).toBeGreaterThan(0.01);
  });
});
