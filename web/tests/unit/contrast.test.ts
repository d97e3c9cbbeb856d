import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const css = readFileSync(new URL("../../src/styles/tokens.css", import.meta.url), "utf8");
const [light = "", dark = ""] = css.split("@media (prefers-color-scheme: dark)");

function color(theme: string, name: string): string {
  const found = new RegExp(`--${name}: (#[0-9a-f]{6});`).exec(theme)?.[1];
  if (found === undefined) throw new Error(`no color --${name}`);
  return found;
}

/** Relative luminance, WCAG 2.2. */
function luminance(hex: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const channel = parseInt(hex.slice(at, at + 2), 16) / 255;
    return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one: string, other: string): number {
  const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

describe.each([
  ["light", light],
  ["dark", dark],
])("%s colours", (_, theme) => {
  it.each([
    ["ink", "paper"],
    ["ink", "amber-wash"],
    ["ink", "red-wash"],
    ["ink-soft", "paper"],
    ["ink-soft", "surface"],
    ["accent", "paper"],
    ["accent", "surface"],
    ["accent-ink", "accent"],
    ["amber", "paper"],
    ["red", "paper"],
    ["danger-ink", "danger"],
  ])("%s on %s is readable (WCAG AA, 4.5:1)", (text, ground) => {
    expect(contrast(color(theme, text), color(theme, ground))).toBeGreaterThanOrEqual(4.5);
  });
});
