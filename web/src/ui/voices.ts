import { audibleDbfs, meterFloorDbfs, meterFraction } from "../audio/decibels.js";
import type { LevelFrame } from "../audio/level-framer.js";
import { h } from "./dom.js";

type Side = "caller" | "agent";

/** The stretch of the call in view, seconds. */
const spanSeconds = 6;
/** A meter falls by this much a second, as a needle would, dB. */
const meterFallDb = 60;
/** Assistive technology reads a meter's value; it needs no more than this many a second. */
const valuesASecond = 2;

/**
 * Who speaks, as it is heard: the caller above the line, the agent below, so that a gap can be seen as well as read. Beside
 * it a level meter for each side.
 */
export class Voices {
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly meters = { caller: meter("Microphone level"), agent: meter("Agent level") };
  readonly element = h(
    "div",
    { class: "voices" },
    h("div", { class: "lane" }, h("span", {}, "You"), this.meters.caller),
    this.canvas,
    h("div", { class: "lane" }, h("span", {}, "Agent"), this.meters.agent),
  );
  private frames: LevelFrame[] = [];
  private readonly peaks = { caller: -Infinity, agent: -Infinity };
  private lastValueAt = 0;
  private animation = 0;
  private readonly stillness = matchMedia("(prefers-reduced-motion: reduce)");

  push(frames: readonly LevelFrame[]): void {
    const last = frames.at(-1);
    if (last === undefined) return;
    this.frames.push(...frames);
    const from = last.start - spanSeconds;
    const first = this.frames.findIndex((frame) => frame.start >= from);
    if (first > 50) this.frames.splice(0, first);
    for (const side of ["caller", "agent"] as const) {
      const loudest = Math.max(...frames.map((frame) => frame[side].dbfs));
      const fallen = this.peaks[side] - meterFallDb * last.duration * frames.length;
      this.peaks[side] = Math.max(loudest, fallen);
    }
    if (this.animation === 0) this.animation = requestAnimationFrame(() => this.draw());
  }

  clear(): void {
    this.frames = [];
    this.peaks.caller = this.peaks.agent = -Infinity;
    this.lastValueAt = 0;
    if (this.animation === 0) this.animation = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.animation = 0;
    const now = performance.now();
    const tellValue = now - this.lastValueAt >= 1000 / valuesASecond;
    if (tellValue) this.lastValueAt = now;
    for (const side of ["caller", "agent"] as const) this.setMeter(side, tellValue);
    if (!this.stillness.matches) this.drawHistory();
  }

  private setMeter(side: Side, tellValue: boolean): void {
    const element = this.meters[side];
    const level = this.peaks[side];
    element.style.setProperty("--level", meterFraction(level).toFixed(3));
    if (!tellValue) return;
    const dbfs = Math.round(Math.max(meterFloorDbfs, level));
    element.setAttribute("aria-valuenow", String(dbfs));
    element.setAttribute("aria-valuetext", level < audibleDbfs ? "silent" : `${dbfs} decibels`);
  }

  private drawHistory(): void {
    const { canvas } = this;
    const context = canvas.getContext("2d");
    const { width, height } = canvas.getBoundingClientRect();
    if (context === null || width === 0) return;
    const scale = devicePixelRatio;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);

    const style = getComputedStyle(canvas);
    const middle = height / 2;
    context.fillStyle = style.getPropertyValue("--line");
    context.fillRect(0, middle - 0.5, width, 1);

    // One bar for each 40 ms, on a fixed grid of time so that bars travel and don't flicker.
    const step = 0.04;
    const end = this.frames.at(-1)?.start ?? 0;
    const barWidth = Math.max(1.5, (width / spanSeconds) * step * 0.62);
    const levels = { caller: new Map<number, number>(), agent: new Map<number, number>() };
    for (const frame of this.frames) {
      const slot = Math.floor(frame.start / step);
      for (const side of ["caller", "agent"] as const) {
        levels[side].set(slot, Math.max(levels[side].get(slot) ?? -Infinity, frame[side].dbfs));
      }
    }
    for (const side of ["caller", "agent"] as const) {
      context.fillStyle = style.getPropertyValue(side === "caller" ? "--ink" : "--accent");
      for (const [slot, dbfs] of levels[side]) {
        if (dbfs <= audibleDbfs) continue; // what isn't audible isn't drawn: a gap stays a gap
        const x = width - (end - slot * step) * (width / spanSeconds);
        const length = Math.max(2, meterFraction(dbfs) * (middle - 3));
        context.beginPath();
        context.roundRect(x, side === "caller" ? middle - 2 - length : middle + 2, barWidth, length, barWidth / 2);
        context.fill();
      }
    }
  }
}

function meter(label: string): HTMLElement {
  return h("span", {
    class: "meter",
    role: "meter",
    "aria-label": label,
    "aria-valuemin": String(meterFloorDbfs),
    "aria-valuemax": "0",
    "aria-valuenow": String(meterFloorDbfs),
    "aria-valuetext": "silent",
  });
}
