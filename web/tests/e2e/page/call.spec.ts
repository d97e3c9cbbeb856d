import { createServer } from "node:http";
import { backendPort } from "../../../playwright.config.js";
import { callMock, expect, failedRequest, test, turnRecord } from "./fixtures.js";
import { MockAgent } from "./mock-agent.js";

test("a call goes from the button to the summary", async ({ page, baseURL }) => {
  const mock = new MockAgent(page.context(), { record: { id: "call-1", turns: [] } });
  await callMock(page, baseURL ?? "", mock);
  await mock.caption("agent", 0, "Good evening, how can I help?");
  await mock.caption("caller", 1, "what time do you open");
  await mock.turn(turnRecord(1, 420));
  await page.getByRole("button", { name: "Hang up" }).click();

  await expect(page.getByRole("status")).toHaveText("Call ended");
  const summary = page.getByRole("region", { name: "Call summary" });
  await expect(summary).toContainText("You hung up.");
  await expect(summary.getByRole("term").filter({ hasText: "Median gap" })).toBeVisible();
  await expect(summary).toContainText("420 ms");
  await expect(summary.getByRole("link", { name: "Open the record" })).toHaveAttribute("href", "api/calls/call-1");
  await expect(page.getByText("Good evening, how can I help?")).toBeVisible();

  const download = page.waitForEvent("download");
  await summary.getByRole("button", { name: "Download record" }).click();
  expect((await download).suggestedFilename()).toBe("call-call-1.json");
  expect(await mock.received()).toContainEqual({ type: "hangup" });
});

test("hanging up leaves nothing open", async ({ page, baseURL }) => {
  await page.addInitScript(() => {
    const opened: { connections: RTCPeerConnection[]; contexts: AudioContext[]; tracks: MediaStreamTrack[] } = {
      connections: [],
      contexts: [],
      tracks: [],
    };
    window.RTCPeerConnection = class extends RTCPeerConnection {
      constructor(configuration?: RTCConfiguration) {
        super(configuration);
        opened.connections.push(this);
      }
    };
    window.AudioContext = class extends AudioContext {
      constructor(options?: AudioContextOptions) {
        super(options);
        opened.contexts.push(this);
      }
    };
    const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    navigator.mediaDevices.getUserMedia = async (constraints) => {
      const stream = await open(constraints);
      opened.tracks.push(...stream.getTracks());
      return stream;
    };
    Object.assign(window, {
      states: () => [
        ...opened.connections.map((connection) => connection.connectionState),
        ...opened.contexts.map((context) => context.state),
        ...opened.tracks.map((track) => track.readyState),
      ],
    });
  });
  const states = () => page.evaluate(() => (window as unknown as { states(): string[] }).states());
  await callMock(page, baseURL ?? "");
  expect(await states()).toEqual(["connected", "running", "live"]);
  await page.getByRole("button", { name: "Hang up" }).click();
  await expect.poll(states).toEqual(["closed", "closed", "ended"]);
});

test.describe("a record that can't be fetched", () => {
  test.use({ allowedConsole: [failedRequest] });
  test("is replaced by the page's own copy", async ({ page, baseURL }) => {
    const mock = await callMock(page, baseURL ?? "");
    await mock.caption("caller", 1, "hello");
    await mock.send({ type: "bye", reason: "the agent said goodbye" });
    const summary = page.getByRole("region", { name: "Call summary" });
    await expect(summary).toContainText("The call has ended: the agent said goodbye.");
    const downloading = page.waitForEvent("download");
    await summary.getByRole("button", { name: "Download record" }).click();
    const stream = await (await downloading).createReadStream();
    const text = (await stream.toArray()).join("");
    expect(JSON.parse(text)).toMatchObject({ call_id: "call-1", turns: [{ caller: { text: "hello" } }] });
    await expect(summary.getByRole("alert")).toContainText("what this page received");
  });
});

test("captions follow the conversation", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  const conversation = page.getByRole("region", { name: "Conversation" });
  const words = conversation.locator(".words");
  await mock.caption("caller", 1, "what ti", { final: false });
  await expect(words.filter({ hasText: "what ti" })).toBeVisible();
  await expect(conversation.locator(".line.caller")).toHaveClass(/partial/);
  await mock.caption("caller", 1, "what time do you open");
  await expect(conversation.locator(".line.caller")).not.toHaveClass(/partial/);
  await expect(conversation.locator(".line.caller .words")).toHaveText("what time do you open");

  await mock.caption("agent", 1, "We open at five on Friday.");
  await mock.caption("agent", 1, "We open at five on Friday.", { heard_text: "We open at" });
  await expect(conversation.locator("del")).toHaveText("five on Friday.");
  await expect(conversation.locator(".line.agent .words")).toHaveText("We open at five on Friday.");
});

test("the agent's state is announced, captions are not", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  for (const [state, words] of [
    ["thinking", "Thinking"],
    ["speaking", "Speaking"],
    ["listening", "Listening"],
  ] as const) {
    await mock.send({ type: "state", state });
    await expect(page.getByRole("status")).toHaveText(words);
  }
  await expect(page.locator("[aria-live]")).toHaveCount(1);
});

test("without motion the voices are meters alone", async ({ page, baseURL }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await callMock(page, baseURL ?? "");
  await expect(page.locator(".voices canvas")).toBeHidden();
  await expect(page.getByRole("meter", { name: "Microphone level" })).toBeVisible();
});

test("the strip shows every gap, overlaps below zero, and the median", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  for (const [index, gap] of [180, 640, -150, 1900].entries()) await mock.turn(turnRecord(index + 1, gap));
  const strip = page.getByRole("region", { name: "Turn gaps" });
  await expect(strip.getByRole("button")).toHaveCount(4);
  await expect(strip).toContainText("410 ms");
  await expect(strip).toContainText("of 4 turns");
  const grades = await strip
    .getByRole("button")
    .evaluateAll((bars) => bars.map((bar) => (bar as HTMLElement).dataset.grade));
  expect(grades).toEqual(["quick", "fair", "overlap", "slow"]);
  await expect(strip.getByRole("button", { name: "Turn 3: gap −150 ms, an overlap" })).toBeVisible();

  const zero = await strip.locator(".rule.zero").boundingBox();
  const overlap = await strip.locator("[data-grade=overlap] .fill").boundingBox();
  expect(overlap?.y).toBeGreaterThanOrEqual((zero?.y ?? Infinity) - 1);
});

test("a bar opens its turn's waterfall", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await mock.caption("caller", 1, "what time do you open");
  await mock.turn(turnRecord(1, 420));
  await page.getByRole("button", { name: "Turn 1: gap 420 ms", exact: true }).click();
  const steps = page.locator(".waterfall-rows li");
  await expect(steps.first()).toContainText("Caller’s audio ends");
  await expect(steps.last()).toContainText("Audible at the client");
  await expect(steps.last()).toContainText("420 ms");
  await expect(steps.filter({ hasText: "LLM first token" })).toContainText("265 ms");
  await expect(page.locator(".waterfall")).toContainText("prefill 11 ms");

  const toggle = page.getByRole("button", { name: "Turn 1: gap 420 ms, show its steps" });
  await expect(toggle).toHaveAttribute("aria-expanded", "true");
  await toggle.click();
  await expect(steps.first()).toBeHidden();
});

test("only a turn that answers someone has steps to open", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await mock.caption("agent", 0, "Good evening");
  await mock.turn({ ...turnRecord(0, 0), gap_ms: null, events: { decision: 20, first_packet: 60 } });
  await mock.caption("caller", 1, "what time do you open");
  const late = turnRecord(1, 13_000);
  const events = { ...late.events, caller_audio_end: null };
  await mock.turn({ ...late, gap_ms: null, internal_gap_ms: null, again: true, events });
  const toggles = page.getByRole("button", { name: "show its steps" });
  await expect(toggles).toHaveAccessibleName("Turn 1: timing, show its steps");
  await toggles.click();
  await expect(page.locator(".waterfall-rows")).toContainText("LLM first token");
  await expect(page.locator(".waterfall-facts").first()).toContainText("put off");
});

test("an opened turn is completed from the call's record", async ({ page, baseURL }) => {
  const whole = turnRecord(1, 420);
  const mock = await callMock(page, baseURL ?? "", new MockAgent(page.context(), { record: { turns: [whole] } }));
  await mock.turn({ ...whole, brief: true, events: { ...whole.events, llm: [] } });
  await page.getByRole("button", { name: "Turn 1: gap 420 ms", exact: true }).click();
  await expect(page.locator(".waterfall")).toContainText("prefill 11 ms");
});

test("mute silences the microphone, by button and by key", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  const mute = page.locator(".mute");
  await expect(mute).toHaveAttribute("aria-pressed", "false");
  await page.keyboard.press("m");
  await expect(mute).toHaveAttribute("aria-pressed", "true");
  await expect(mute).toHaveText(/Muted/);
  expect(await mock.received()).toContainEqual({ type: "mute", muted: true });
  await mute.click();
  await expect(mute).toHaveAttribute("aria-pressed", "false");
  expect(await mock.received()).toContainEqual({ type: "mute", muted: false });
});

test("Escape hangs up", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("status")).toHaveText("Call ended");
  await expect(page.getByRole("button", { name: "Call again" })).toBeFocused();
  await expect.poll(() => mock.received()).toContainEqual({ type: "hangup" });
});

test("a second call starts clean", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await mock.caption("caller", 1, "from the first call");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Call again" }).click();
  await expect(page.getByRole("status")).toHaveText("Listening");
  await expect(page.getByText("from the first call")).toHaveCount(0);
  expect(mock.offers).toBe(2);
});

test("leaving the page ends the call", async ({ page, baseURL }) => {
  test.setTimeout(60_000);
  // What a page sends as it goes passes by Playwright's interception and reaches the server itself.
  const received: string[] = [];
  const server = createServer((request, response) => {
    received.push(`${request.method} ${request.url}`);
    response.writeHead(200, { "Content-Type": "application/json" }).end("{}");
  }).listen(backendPort, "127.0.0.1");
  try {
    const mock = await callMock(page, baseURL ?? "");
    expect(await mock.connectionState()).toBe("connected");
    await page.reload();
    await expect.poll(() => received).toEqual(["DELETE /api/calls/call-1"]);
    // The far end may learn it only from ICE, which takes its time.
    await expect.poll(() => mock.connectionState(), { timeout: 20_000 }).not.toBe("connected");
    await expect(page.getByRole("button", { name: "Call", exact: true })).toBeVisible();
  } finally {
    server.close();
  }
});

test("the model that answers is named", async ({ page, baseURL }) => {
  const mock = await callMock(page, baseURL ?? "");
  await expect(page.locator("footer")).toContainText("Answered by smollm2-135m-sdar · diffusion engine");
  await mock.send({ type: "info", call_id: "call-1", model: "another-model", llm: "openai" });
  await expect(page.locator("footer")).toContainText("Answered by another-model");
  await expect(page.locator("footer")).toContainText("round trip");
});
