import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Where the calls process listens while `npm run dev` serves the page itself. */
const callsProcess = process.env.VOICE_AGENT_URL ?? "http://127.0.0.1:8080";

/** The built page runs under the strictest policy that it can; the development server injects styles and needs none. */
const contentSecurityPolicy: Plugin = {
  name: "content-security-policy",
  apply: "build",
  transformIndexHtml: () => [
    {
      tag: "meta",
      attrs: {
        "http-equiv": "Content-Security-Policy",
        content:
          "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'",
      },
      injectTo: "head-prepend",
    },
  ],
};

export default defineConfig({
  plugins: [contentSecurityPolicy],
  base: "./", // the page may be served below a path
  build: { target: "es2022", sourcemap: true, assetsInlineLimit: 0 },
  worker: { format: "es" },
  server: { proxy: { "/api": callsProcess } },
  preview: { allowedHosts: ["insecure.test"] }, // a test opens the page at an address without TLS
  test: { include: ["tests/unit/**/*.test.ts"], pool: "threads", maxWorkers: 1 },
});
