type Attributes = Record<string, string | boolean | ((event: Event) => void)>;
type Child = Node | string | null;

/** Makes an element: a function becomes an event listener, `true` an attribute without a value, `false` none. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Sets text only when it changed, so that a screen reader isn't told the same twice. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Outlines on a 24 x 24 grid. */
const icons = {
  call: "M6.6 3.5 9.4 4l1.3 4-2 1.6a12 12 0 0 0 5.7 5.7l1.6-2 4 1.3.5 2.8c0 1.4-1.2 2.6-2.6 2.5C10.6 19.3 4.7 13.4 4.1 6.1 4 4.7 5.2 3.5 6.6 3.5Z",
  hangUp: "M3.5 14.5c4.9-4.3 12.1-4.3 17 0l-1.7 2.6-3.9-1.3v-2.4a12.4 12.4 0 0 0-5.8 0v2.4l-3.9 1.3Z",
  microphone: "M12 3.5a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0v-5a3 3 0 0 1 3-3ZM5.5 11.5a6.5 6.5 0 0 0 13 0M12 18v3",
  microphoneOff:
    "M9 9.5v2a3 3 0 0 0 4.5 2.6M15 11v-4.5a3 3 0 0 0-5.7-1.3M5.5 11.5a6.5 6.5 0 0 0 9.9 5.5M18 14a6.5 6.5 0 0 0 .5-2.5M12 18v3M4 4l16 16",
  download: "M12 4v11M7.5 11 12 15.5 16.5 11M5 19.5h14",
  close: "M6 6l12 12M18 6 6 18",
  chevron: "M8 10l4 4 4-4",
} as const;

export type IconName = keyof typeof icons;

export function icon(name: IconName): SVGSVGElement {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("icon");
  const path = document.createElementNS(namespace, "path");
  path.setAttribute("d", icons[name]);
  svg.append(path);
  return svg;
}
