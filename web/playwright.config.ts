import { defineConfig } from "@playwright/test";

const port = 4173;
/** Where the served page finds what no test intercepts. */
export const backendPort = 4174;

/** Debian's Chromium: Playwright's own browsers are never downloaded. */
export const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";

export const chromiumArguments = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--autoplay-policy=no-user-gesture-required",
  // Peers on one machine: without a microphone's permission Chromium hides addresses behind mDNS names.
  "--allow-loopback-in-peer-connection",
  "--disable-features=WebRtcHideLocalIpsWithMdns",
];

export const fakeMicrophone = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"];

export default defineConfig({
  testDir: "tests/e2e",
  outputDir: "test-results",
  workers: 1,
  fullyParallel: false,
  forbidOnly: process.env.CI !== undefined,
  reporter: [["list"]],
  expect: { timeout: 8_000 },
  use: { browserName: "chromium", launchOptions: { executablePath, args: [...chromiumArguments, ...fakeMicrophone] } },
  projects: [
    // The page against a mock of the calls process: every state, quickly.
    {
      name: "page",
      testMatch: "page/**/*.spec.ts",
      timeout: 30_000,
      use: { baseURL: `http://127.0.0.1:${port}/` },
    },
    // A real call: `voice-agent serve` with the embedded model, a spoken question, an answer.
    { name: "call", testMatch: "call/**/*.spec.ts", timeout: 240_000 },
  ],
  webServer: {
    command: `npx vite preview --host 127.0.0.1 --port ${port} --strictPort`,
    url: `http://127.0.0.1:${port}/`,
    env: { VOICE_AGENT_URL: `http://127.0.0.1:${backendPort}` },
    reuseExistingServer: false,
  },
});
