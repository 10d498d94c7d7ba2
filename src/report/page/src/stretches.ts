// Stretches: the lanes of epochs, evaluations, checkpoints and restores below the charts.
import type { Profile, Stretch } from "./data";
import { h, printable } from "./dom";
import * as format from "./format";
import type { TimeRange } from "./range";
import { color, onTheme } from "./theme";
import { drawSelection, fitCanvas, fitText, hideTip, LEFT, onDrag, onWheel, RIGHT, showTip, timeAt, xOf } from "./view";

const LANE = 20;
const ROLES = ["epoch", "evaluate", "checkpoint", "restore"];
const TITLES: Record<string, string> = { epoch: "epochs", evaluate: "evaluation", checkpoint: "checkpoints", restore: "restore" };

export function makeStretches(profile: Profile, range: TimeRange): { element: HTMLElement; redraw: () => void } | null {
  if (profile.stretches.length === 0) return null;
  const view = new StretchView(profile, range);
  return { element: view.element, redraw: () => view.draw() };
}

class StretchView {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly lanes: { role: string; stretches: Drawn[] }[];
  private readonly drag: { selection: () => [number, number] | null };

  constructor(private readonly profile: Profile, private readonly range: TimeRange) {
    this.lanes = ROLES.map((role) => ({ role, stretches: ofOneRank(profile.stretches.filter((stretch) => stretch.role === role)) }))
      .filter(({ stretches }) => stretches.length > 0);
    const label = this.lanes.map(({ role, stretches }) => `${stretches.length} ${TITLES[role]}`).join(", ");
    this.canvas = h("canvas", { role: "img", "aria-label": `Stretches over time: ${label}`, tabindex: -1 });
    this.element = h("div", { class: "view stretches" }, this.canvas);
    this.drag = onDrag(this.canvas, range, {
      click: (x, y) => { const hit = this.at(x, y); if (hit) range.set(hit.begin_ns, hit.end_ns); },
      hover: (x, y, event) => this.hover(x, y, event), leave: hideTip,
    });
    onWheel(this.canvas, range, (x) => timeAt(range, x - this.canvas.getBoundingClientRect().left, this.canvas.clientWidth));
    range.subscribe(() => this.draw());
    onTheme(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  draw(): void {
    const width = this.element.clientWidth;
    const height = this.lanes.length * LANE;
    if (width === 0) return;
    const context = fitCanvas(this.canvas, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.lanes.forEach(({ role, stretches }, lane) => {
      context.fillStyle = color("muted");
      context.textAlign = "right";
      context.fillText(TITLES[role], LEFT - 8, lane * LANE + LANE / 2);
      context.textAlign = "left";
      for (const stretch of stretches) this.drawStretch(context, stretch, lane, width);
    });
    drawSelection(context, this.range, this.drag.selection(), width, height, color("accent"));
  }

  private drawStretch(context: CanvasRenderingContext2D, stretch: Stretch, lane: number, width: number): void {
    const begin = Math.max(LEFT, xOf(this.range, stretch.begin_ns, width));
    const end = Math.min(width - RIGHT, xOf(this.range, stretch.end_ns, width));
    if (end < LEFT || begin > width - RIGHT) return;
    context.fillStyle = color(`stretch-${stretch.role}`);
    context.globalAlpha = 0.75;
    context.fillRect(begin, lane * LANE + 2, Math.max(1.5, end - begin - 1), LANE - 4);
    context.globalAlpha = 1;
    if (end - begin < 24) return;
    context.fillStyle = color("on-fill");
    context.fillText(fitText(context, label(stretch), end - begin - 8), begin + 4, lane * LANE + LANE / 2 + 0.5);
  }

  private at(x: number, y: number): Drawn | undefined {
    const lane = this.lanes[Math.floor(y / LANE)];
    const time = timeAt(this.range, x, this.canvas.clientWidth);
    const slack = (2 / this.canvas.clientWidth) * this.range.span;
    return lane?.stretches.findLast(({ begin_ns, end_ns }) => time >= begin_ns - slack && time <= end_ns + slack);
  }

  private hover(x: number, y: number, event: PointerEvent): void {
    if (this.drag.selection()) this.draw();
    const hit = this.at(x, y);
    if (!hit) return hideTip();
    const rank = this.profile.time.ranks[hit.rank]?.name;
    showTip(event.clientX, event.clientY, h("strong", {}, label(hit)), h("br"),
      `${format.moment(hit.begin_ns, this.range.full / 1000)}, ${format.duration(hit.end_ns - hit.begin_ns)}${rank ? `, ${printable(rank)}` : ""}`,
      ...(hit.ranks > 1 ? [h("br"), `${hit.ranks} ranks: ${format.moment(hit.first_ns, this.range.full / 1000)} to ${format.moment(hit.last_ns, this.range.full / 1000)}`] : []));
  }
}

// Ranks do nearly the same at nearly the same time. So only the interval of the first rank is drawn, with the number of
// the others.
interface Drawn extends Stretch { ranks: number; first_ns: number; last_ns: number }

function ofOneRank(stretches: Stretch[]): Drawn[] {
  const groups = new Map<string, Drawn>();
  for (const stretch of stretches.slice().sort((a, b) => a.rank - b.rank || a.begin_ns - b.begin_ns)) {
    const key = stretch.epoch >= 0 ? `${stretch.epoch} ${stretch.name}` : `at ${stretch.begin_ns} ${stretch.rank}`;
    const group = groups.get(key);
    if (!group || group.rank === stretch.rank) {
      groups.set(group ? `${key} ${stretch.begin_ns}` : key, { ...stretch, ranks: 1, first_ns: stretch.begin_ns, last_ns: stretch.end_ns });
      continue;
    }
    group.ranks += 1;
    group.first_ns = Math.min(group.first_ns, stretch.begin_ns);
    group.last_ns = Math.max(group.last_ns, stretch.end_ns);
  }
  return [...groups.values()].sort((a, b) => a.begin_ns - b.begin_ns);
}

function label(stretch: Stretch): string {
  const name = printable(stretch.name || stretch.role);
  return stretch.epoch >= 0 ? `${name} ${stretch.epoch}` : name;
}
