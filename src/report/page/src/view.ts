// What the views over time share: margins, a canvas that fits its place, the gestures and keys that zoom, and the
// tooltip.
import { type Child, h } from "./dom";
import type { TimeRange } from "./range";

// The same for all views, so that a moment has the same position in all of them.
export const LEFT = 110;
export const RIGHT = 14;

export const plotWidth = (width: number): number => Math.max(1, width - LEFT - RIGHT);

export function timeAt(range: TimeRange, x: number, width: number): number {
  return range.begin + ((x - LEFT) / plotWidth(width)) * range.span;
}

export function xOf(range: TimeRange, ns: number, width: number): number {
  return LEFT + ((ns - range.begin) / range.span) * plotWidth(width);
}

// The size is in device pixels; drawing is in CSS pixels.
export function fitCanvas(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Long names keep their end, which distinguishes files.
export function fitText(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? `${text.slice(0, low)}…` : "";
}

// The wheel scrolls the page, unless the view was clicked or has the focus: a page that captures the wheel is a
// nuisance.
export function onWheel(element: HTMLElement, range: TimeRange, xToTime: (clientX: number) => number): void {
  element.addEventListener("wheel", (event) => {
    const wanted = event.ctrlKey || event.metaKey || document.activeElement === element;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      range.pan(Math.sign(event.deltaX || event.deltaY) * 0.1);
    } else if (wanted) {
      event.preventDefault();
      range.zoom(Math.exp(Math.sign(event.deltaY) * Math.min(0.4, Math.abs(event.deltaY) / 300)), xToTime(event.clientX));
    }
  }, { passive: false });
}

// Returns whether it handled the key.
export function zoomByKey(event: KeyboardEvent, range: TimeRange): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  switch (event.key) {
    case "ArrowLeft": range.pan(event.shiftKey ? -0.9 : -0.2); return true;
    case "ArrowRight": range.pan(event.shiftKey ? 0.9 : 0.2); return true;
    case "+": case "=": range.zoom(0.5); return true;
    case "-": range.zoom(2); return true;
    case "0": range.reset(); return true;
    case "Home": range.set(0, range.span); return true;
    case "End": range.set(range.full - range.span, range.full); return true;
    default: return false;
  }
}

export interface Drag { click: (x: number, y: number) => void; hover: (x: number, y: number, event: PointerEvent) => void; leave: () => void }

// A drag selects the interval to zoom to; with the shift key, it moves the visible range.
export function onDrag(canvas: HTMLCanvasElement, range: TimeRange, does: Drag): { selection: () => [number, number] | null } {
  let from: { x: number; time: number; panning: boolean } | null = null;
  let selection: [number, number] | null = null;
  const place = (event: PointerEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const time = (x: number): number => timeAt(range, x, canvas.clientWidth);
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x] = place(event);
    canvas.setPointerCapture(event.pointerId);
    from = { x, time: time(x), panning: event.shiftKey };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!from) return does.hover(x, y, event);
    if (from.panning) {
      const distance = from.time - time(x);
      range.set(range.begin + distance, range.end + distance);
    } else if (selection || Math.abs(x - from.x) > 4) {
      selection = [Math.min(from.time, time(x)), Math.max(from.time, time(x))];
      does.hover(x, y, event);
    }
  });
  canvas.addEventListener("pointerup", (event) => {
    const [x, y] = place(event);
    const chosen = selection;
    const moved = from?.panning && Math.abs(x - from.x) > 4;
    from = null;
    selection = null;
    if (chosen) range.set(chosen[0], chosen[1]);
    else if (!moved) does.click(x, y);
  });
  canvas.addEventListener("pointercancel", () => { from = null; selection = null; });
  canvas.addEventListener("pointerleave", () => { if (!from) does.leave(); });
  canvas.addEventListener("dblclick", () => range.reset());
  return { selection: () => selection };
}

export function drawSelection(context: CanvasRenderingContext2D, range: TimeRange, selection: [number, number] | null,
                              width: number, height: number, fill: string): void {
  if (!selection) return;
  const begin = Math.max(LEFT, xOf(range, selection[0], width));
  const end = Math.min(width - RIGHT, xOf(range, selection[1], width));
  context.fillStyle = fill;
  context.globalAlpha = 0.25;
  context.fillRect(begin, 0, end - begin, height);
  context.globalAlpha = 1;
}

const tip = h("div", { class: "tip", role: "tooltip", hidden: true });

export function showTip(x: number, y: number, ...children: Child[]): void {
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(...children.filter((child): child is Node | string => child instanceof Node || typeof child === "string"));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - width - 8))}px`;
  tip.style.top = `${y + 18 + height > window.innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
}

export function hideTip(): void {
  tip.hidden = true;
}

// Above ten seconds, use multiples of 60.
const LONG_STEPS_S = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

// Labels of an axis: whole steps of 1, 2 or 5, or of a clock, about one per hundred pixels.
export function ticks(range: TimeRange, width: number): { at: number[]; step: number } {
  const wanted = range.span / Math.max(2, Math.floor(plotWidth(width) / 100));
  const power = 10 ** Math.floor(Math.log10(Math.max(1, wanted)));
  const round = wanted > 5e9 ? LONG_STEPS_S.map((seconds) => seconds * 1e9) : [1, 2, 5, 10].map((factor) => factor * power);
  const step = round.find((candidate) => candidate >= wanted) ?? Math.ceil(wanted / 86400e9) * 86400e9;
  const at: number[] = [];
  for (let tick = Math.ceil(range.begin / step) * step; tick <= range.end; tick += step) at.push(tick);
  return { at, step };
}
