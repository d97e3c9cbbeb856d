import { defineConfig } from "vitest/config";

/** Where the calls process listens while `npm run dev` serves the page itself. */
const callsProcess = process.env.VOICE_AGENT_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "./", // the page may be served below a path
  build: { target: "es2022", sourcemap: true, assetsInlineLimit: 0 },
  worker: { format: "es" },
  server: { proxy: { "/api": callsProcess } },
  preview: { allowedHosts: ["insecure.test"] }, // a test opens the page at an address without TLS
  test: { include: ["tests/unit/**/*.test.ts"], pool: "threads", maxWorkers: 1 },
});
