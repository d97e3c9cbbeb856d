/** How high each bar of the drawn voices is, 0 to 1. */
const callerBars = [0.25, 0.6, 0.95, 0.7, 0.4, 0.15, 0.5, 0.85, 1, 0.65, 0.8, 0.45, 0.2];
const agentBars = [0.35, 0.75, 1, 0.6, 0.3, 0.55, 0.9, 0.7, 0.95, 0.5, 0.65, 0.35, 0.15];

const pitch = 9;
const barWidth = 4;
const gapWidth = 46;
const middle = 40;
const longest = 32;

/** A caller's words above the line, the gap, the agent's words below: what the page measures. A picture, hidden from readers. */
export function gapFigure(): SVGSVGElement {
  const spoken = callerBars.length * pitch - (pitch - barWidth);
  const width = spoken + gapWidth + agentBars.length * pitch - (pitch - barWidth);
  const svg = element("svg", { viewBox: `0 0 ${width} ${middle * 2}`, "aria-hidden": "true", class: "gap-figure" });
  svg.append(element("path", { class: "baseline", d: `M0 ${middle}H${width}` }));
  callerBars.forEach((share, index) => {
    const height = share * longest;
    svg.append(bar("caller-bar", index * pitch, middle - 3 - height, height));
  });
  agentBars.forEach((share, index) => {
    svg.append(bar("agent-bar", spoken + gapWidth + index * pitch, middle + 3, share * longest));
  });
  const [from, to] = [spoken + 4, spoken + gapWidth - 4];
  svg.append(
    element("path", {
      class: "bracket",
      d: `M${from} ${middle - 7}V${middle + 7}M${from} ${middle}H${to}M${to} ${middle - 7}V${middle + 7}`,
    }),
  );
  const label = element("text", { x: String((from + to) / 2), y: String(middle - 12), "text-anchor": "middle" });
  label.textContent = "gap";
  svg.append(label);
  return svg;
}

function bar(name: string, x: number, y: number, height: number): SVGElement {
  return element("rect", {
    class: name,
    x: String(x),
    y: y.toFixed(1),
    width: String(barWidth),
    height: Math.max(barWidth, height).toFixed(1),
    rx: String(barWidth / 2),
  });
}

function element<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string>,
): SVGElementTagNameMap[K] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
