// Heat map: what each rank did over time, with one row per rank. The darkness is the share of the bin.
import { register } from "./anchors";
import type { HeatMap, RankActivity } from "./data";
import { h, printable } from "./dom";
import * as format from "./format";
import type { TimeRange } from "./range";
import { color, onTheme } from "./theme";
import { drawSelection, fitCanvas, fitText, hideTip, LEFT, onDrag, onWheel, RIGHT, showTip, timeAt, xOf, zoomByKey } from "./view";

type Activity = "io" | "compute" | "wait";
const ACTIVITIES: [Activity, string][] = [["io", "I/O"], ["wait", "waiting for data"], ["compute", "computing"]];

// A click on a rank shows its events.
export function makeHeat(heat: HeatMap, range: TimeRange, showRank: (name: string) => void): { element: HTMLElement; redraw: () => void } | null {
  if (heat.ranks.length === 0 || heat.bin_ns === 0) return null;
  const view = new HeatView(heat, range, showRank);
  register("heat", view.element);
  return { element: view.element, redraw: () => view.draw() };
}

class HeatView {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly place: HTMLElement;
  private readonly rowHeight: number;
  private readonly drag: { selection: () => [number, number] | null };
  private shown: Activity = "io";

  constructor(private readonly heat: HeatMap, private readonly range: TimeRange, showRank: (name: string) => void) {
    const count = heat.ranks.length;
    this.rowHeight = Math.max(2, Math.min(20, Math.floor(480 / count)));
    this.canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": this.describe(),
      keydown: (event: KeyboardEvent) => { if (zoomByKey(event, range)) event.preventDefault(); } });
    this.place = h("div", { class: "view" }, this.canvas);
    this.element = h("div", { class: "heat", id: "heat" },
      h("div", { class: "chart-title" }, h("h4", {}, count === 1 ? "Activity" : "Activity by rank"), this.makeChoice()), this.place);
    this.drag = onDrag(this.canvas, range, { click: (_, y) => this.click(y, showRank), hover: (x, y, event) => this.hover(x, y, event), leave: hideTip });
    onWheel(this.canvas, range, (x) => timeAt(range, x - this.canvas.getBoundingClientRect().left, this.canvas.clientWidth));
    range.subscribe(() => this.draw());
    onTheme(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.place);
  }

  draw(): void {
    const width = this.place.clientWidth;
    const height = this.heat.ranks.length * this.rowHeight;
    if (width === 0) return;
    const context = fitCanvas(this.canvas, width, height);
    context.fillStyle = color("empty");
    context.fillRect(LEFT, 0, width - LEFT - RIGHT, height);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT - RIGHT, height);
    context.clip();
    context.fillStyle = color(this.shown);
    this.heat.ranks.forEach((rank, row) => this.drawRow(context, rank, row, width));
    context.restore();
    context.globalAlpha = 1;
    this.drawNames(context);
    drawSelection(context, this.range, this.drag.selection(), width, height, color("accent"));
  }

  private drawRow(context: CanvasRenderingContext2D, rank: RankActivity, row: number, width: number): void {
    const values = rank[this.shown];
    const bin = this.heat.bin_ns;
    const first = Math.max(0, Math.floor(this.range.begin / bin));
    const last = Math.min(values.length, Math.ceil(this.range.end / bin));
    const gap = this.rowHeight >= 8 ? 1 : 0;
    for (let index = first; index < last; ++index) {
      if (values[index] === 0) continue;
      const x = xOf(this.range, index * bin, width);
      const end = xOf(this.range, (index + 1) * bin, width);
      context.globalAlpha = 0.08 + 0.92 * Math.min(1, values[index] / 1000);
      context.fillRect(x, row * this.rowHeight, end - x + 0.3, this.rowHeight - gap);
    }
  }

  // Draws as many names as fit.
  private drawNames(context: CanvasRenderingContext2D): void {
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = color("muted");
    const every = Math.max(1, Math.ceil(13 / this.rowHeight));
    for (let row = 0; row < this.heat.ranks.length; row += every) {
      const middle = row * this.rowHeight + Math.max(this.rowHeight, 12) / 2;
      if (middle + 5 > this.heat.ranks.length * this.rowHeight && row > 0) break;
      context.fillText(fitText(context, printable(this.heat.ranks[row].name), LEFT - 12), LEFT - 8, middle);
    }
  }

  private makeChoice(): HTMLElement {
    return h("div", { class: "choice", role: "group", "aria-label": "what the heat map shows" }, ...ACTIVITIES.map(([key, title]) =>
      h("button", {
        type: "button", "aria-pressed": String(key === this.shown), "data-activity": key,
        click: (event: MouseEvent) => {
          this.shown = key;
          const chosen = event.currentTarget as HTMLElement;
          for (const button of chosen.parentElement!.children) button.setAttribute("aria-pressed", String(button === chosen));
          this.draw();
        },
      }, h("span", { class: `swatch fill-${key}` }), title)));
  }

  private click(y: number, showRank: (name: string) => void): void {
    this.canvas.focus({ preventScroll: true });
    const rank = this.heat.ranks[Math.floor(y / this.rowHeight)];
    if (rank) showRank(rank.name);
  }

  private hover(x: number, y: number, event: PointerEvent): void {
    if (this.drag.selection()) this.draw();
    const rank = this.heat.ranks[Math.floor(y / this.rowHeight)];
    const bin = Math.floor(timeAt(this.range, x, this.canvas.clientWidth) / this.heat.bin_ns);
    if (!rank || x < LEFT || bin < 0) return hideTip();
    const begin = bin * this.heat.bin_ns;
    showTip(event.clientX, event.clientY, h("strong", {}, printable(rank.name)), h("br"),
      `${format.moment(begin, this.heat.bin_ns)} to ${format.moment(begin + this.heat.bin_ns, this.heat.bin_ns)}`,
      ...ACTIVITIES.flatMap(([key, title]) => [h("br"), `${title} ${format.percent((rank[key][bin] ?? 0) / 1000)}`]));
  }

  private describe(): string {
    const mean = (key: Activity): string => {
      const all = this.heat.ranks.flatMap((rank) => rank[key]);
      return format.percent(format.share(all.reduce((sum, value) => sum + value, 0), 1000 * all.length));
    };
    return `Activity over time of ${this.heat.ranks.length} ranks; in the mean ${ACTIVITIES.map(([key, title]) => `${title} ${mean(key)}`).join(", ")}`;
  }
}
