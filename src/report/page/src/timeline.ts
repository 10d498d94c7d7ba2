// Event timeline: every thread of the trace over time, from the whole job down to single events.
//
// It draws single events if the page has them, and otherwise shares of bins. If the reader zooms past the bins, it
// shows the command that makes a page with these events.
import { register } from "./anchors";
import { type Detail, LAYERS } from "./data";
import { empty, foreign, h, printable } from "./dom";
import { type EventAt, firstAfter, layerName, makeTracks, type Piece, type Track } from "./events";
import * as format from "./format";
import type { TimeRange } from "./range";
import { color, onTheme } from "./theme";
import { drawSelection, fitCanvas, fitText, hideTip, LEFT, onDrag, onWheel, RIGHT, showTip, ticks, timeAt, xOf, zoomByKey } from "./view";

const LANE = 15;
const PADDING = 6;
const AXIS = 22;
const HEIGHT_MAX = 460;
// Bins wider than this many pixels show less than events would.
const BIN_PIXELS_MAX = 60;

export interface Timeline { element: HTMLElement; redraw: () => void; showRank: (name: string) => void }

export function makeTimeline(detail: Detail, range: TimeRange, traces: string[]): Timeline {
  const tracks = makeTracks(detail);
  if (tracks.length === 0) {
    const element = h("div", { id: "events" }, h("h4", {}, "Events"), empty("The page holds no events."));
    register("events", element);
    return { element, redraw: () => undefined, showRank: () => undefined };
  }
  const view = new EventView(detail, tracks, range, traces);
  register("events", view.element);
  return { element: view.element, redraw: () => view.draw(), showRank: (name) => view.showRank(name) };
}

class EventView {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly scroller: HTMLElement;
  private readonly notice: HTMLElement;
  private readonly chosenBox: HTMLElement;
  private readonly tops: number[] = [];
  private readonly total: number;
  private readonly drag: { selection: () => [number, number] | null };
  private readonly names: string[];
  private chosen: EventAt | null = null;
  private matches: Set<number> | null = null;

  constructor(private readonly detail: Detail, private readonly tracks: Track[], private readonly range: TimeRange,
              private readonly traces: string[]) {
    this.names = detail.names.map(printable);
    let top = AXIS;
    for (const track of tracks) {
      this.tops.push(top);
      top += track.laneCount * LANE + PADDING;
    }
    this.total = top;
    this.canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": `Events of ${tracks.length} threads over time. Arrows move, plus and minus zoom, n and p go from event to event, question mark for help`,
      keydown: (event: KeyboardEvent) => this.onKey(event) });
    this.scroller = h("div", { class: "events-scroller", scroll: () => this.draw(), style: `height:${Math.min(this.total, HEIGHT_MAX)}px` },
      h("div", { style: `height:${this.total}px` }, this.canvas));
    this.notice = h("div", { class: "notice", id: "events-notice", hidden: true });
    this.chosenBox = h("div", { class: "chosen-event", id: "chosen-event", "aria-live": "polite" });
    this.element = h("div", { class: "events", id: "events" },
      h("div", { class: "chart-title" }, h("h4", {}, "Events by thread"), this.makeLegend(), this.makeSearch()),
      this.scroller, this.notice, this.chosenBox);
    this.drag = onDrag(this.canvas, range, { click: (x, y) => this.choose(this.at(x, y)), hover: (x, y, event) => this.hover(x, y, event), leave: hideTip });
    onWheel(this.canvas, range, (x) => timeAt(range, x - this.canvas.getBoundingClientRect().left, this.canvas.clientWidth));
    range.subscribe(() => this.draw());
    onTheme(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  draw(): void {
    const width = this.scroller.clientWidth;
    const height = this.scroller.clientHeight;
    if (width === 0) return;
    const context = fitCanvas(this.canvas, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const scroll = this.scroller.scrollTop;
    this.tracks.forEach((track, index) => {
      const top = this.tops[index] - scroll;
      const bottom = top + track.laneCount * LANE + PADDING;
      if (bottom > 0 && top < height) this.drawTrack(context, track, top, width);
    });
    this.drawAxis(context, width, height);
    drawSelection(context, this.range, this.drag.selection(), width, height, color("accent"));
    this.tellWhatIsMissing(width);
  }

  private drawTrack(context: CanvasRenderingContext2D, track: Track, top: number, width: number): void {
    const height = track.laneCount * LANE;
    context.fillStyle = color("grid");
    context.fillRect(0, top + height + PADDING / 2 - 0.5, width, 1);
    context.save();
    context.beginPath();
    context.rect(LEFT, top, width - LEFT - RIGHT, height);
    context.clip();
    this.drawBins(context, track, top, height, width);
    for (const piece of track.pieces) {
      if (piece.end > this.range.begin && piece.begin < this.range.end) this.drawPiece(context, track, piece, top, width);
    }
    context.restore();
    context.globalAlpha = 1;
    context.textAlign = "right";
    context.fillStyle = color("text");
    const name = printable(track.thread.title || `thread ${track.thread.tid}`);
    context.fillText(fitText(context, printable(track.thread.rank), LEFT - 12), LEFT - 8, top + LANE / 2);
    context.fillStyle = color("muted");
    context.fillText(fitText(context, name, LEFT - 12), LEFT - 8, top + LANE * 1.4);
  }

  // The finest bins that are at least two pixels wide or, if there are none, the coarsest.
  private binsFor(track: Track, width: number): Track["bins"][number] | undefined {
    const pixel = this.range.span / Math.max(1, width - LEFT - RIGHT);
    return track.bins.find(({ binNs }) => binNs >= 2 * pixel) ?? track.bins[track.bins.length - 1];
  }

  private drawBins(context: CanvasRenderingContext2D, track: Track, top: number, height: number, width: number): void {
    const bins = this.binsFor(track, width);
    if (!bins) {
      // Unknown, which is not the same as idle.
      context.fillStyle = color("unknown");
      context.fillRect(LEFT, top, width - LEFT - RIGHT, height);
      return;
    }
    const strip = height / bins.rows.length;
    const first = Math.max(0, Math.floor(this.range.begin / bins.binNs));
    const last = Math.ceil(this.range.end / bins.binNs);
    bins.rows.forEach(({ layer, busy }, row) => {
      context.fillStyle = color(`layer-${layerName(layer)}`);
      for (let bin = first; bin < Math.min(last, busy.length); ++bin) {
        if (busy[bin] === 0) continue;
        const x = xOf(this.range, bin * bins.binNs, width);
        context.globalAlpha = 0.1 + 0.75 * Math.min(1, busy[bin] / 1000);
        context.fillRect(x, top + row * strip, xOf(this.range, (bin + 1) * bins.binNs, width) - x + 0.3, Math.max(1, strip - 1));
      }
    });
    context.globalAlpha = 1;
  }

  private drawPiece(context: CanvasRenderingContext2D, track: Track, piece: Piece, top: number, width: number): void {
    const from = Math.max(LEFT, xOf(this.range, piece.begin, width));
    const to = Math.min(width - RIGHT, xOf(this.range, piece.end, width));
    context.save();
    context.beginPath();
    context.rect(from, top, Math.max(1, to - from), track.laneCount * LANE);
    context.clip();
    context.fillStyle = color("paper");
    context.fillRect(from, top, Math.max(1, to - from), track.laneCount * LANE);
    piece.lanes.forEach((_, lane) => this.drawLane(context, track, piece, lane, top + lane * LANE, width));
    context.restore();
  }

  // Events narrower than a pixel are merged if they would overlap.
  private drawLane(context: CanvasRenderingContext2D, track: Track, piece: Piece, laneIndex: number, top: number, width: number): void {
    const lane = piece.lanes[laneIndex];
    const { window } = piece;
    const begin = Math.max(this.range.begin, piece.begin);
    const end = Math.min(this.range.end, piece.end);
    const scale = (width - LEFT - RIGHT) / this.range.span;
    const fills = LAYERS.map((layer) => color(`layer-${layer}`));
    let drawnTo = -1;
    for (let position = firstAfter(lane, begin); position < lane.begin.length && lane.begin[position] < end; ++position) {
      const x = LEFT + (lane.begin[position] - this.range.begin) * scale;
      const right = LEFT + (lane.end[position] - this.range.begin) * scale;
      if (right < drawnTo) continue;
      const event = lane.index[position];
      context.globalAlpha = this.matches && !this.isMatch(window.name[event], window.file[event]) ? 0.15 : 0.85;
      context.fillStyle = window.error[event] ? color("bad") : fills[window.layer[event]] ?? fills[5];
      context.fillRect(x, top, Math.max(1, right - x - (right - x > 3 ? 0.5 : 0)), LANE - 2);
      drawnTo = Math.max(x + 1, right);
      if (right - x > 30) this.drawName(context, window.name[event], x, right, top, width);
      if (this.chosen?.event === event && this.chosen.piece.window === window && this.chosen.track === track) this.outline(context, x, right, top);
    }
  }

  private drawName(context: CanvasRenderingContext2D, name: number, x: number, right: number, top: number, width: number): void {
    const left = Math.max(LEFT, x) + 4;
    const room = Math.min(width - RIGHT, right) - left - 4;
    if (room < 20) return;
    context.globalAlpha = 1;
    context.fillStyle = color("on-fill");
    context.textAlign = "left";
    context.fillText(fitText(context, this.names[name] ?? "", room), left, top + LANE / 2 - 0.5);
  }

  private outline(context: CanvasRenderingContext2D, x: number, right: number, top: number): void {
    context.globalAlpha = 1;
    context.strokeStyle = color("text");
    context.lineWidth = 2;
    context.strokeRect(x, top + 1, Math.max(2, right - x), LANE - 4);
  }

  private drawAxis(context: CanvasRenderingContext2D, width: number, height: number): void {
    context.globalAlpha = 1;
    context.fillStyle = color("paper");
    context.fillRect(0, 0, width, AXIS - 2);
    context.textAlign = "center";
    const { at, step } = ticks(this.range, width);
    for (const tick of at) {
      const x = xOf(this.range, tick, width);
      context.fillStyle = color("muted");
      context.fillText(format.moment(tick, step), Math.min(x, width - RIGHT - 20), AXIS / 2 - 1);
      context.globalAlpha = 0.35;
      context.fillRect(x, AXIS - 3, 1, height);
      context.globalAlpha = 1;
    }
  }

  private isMatch(name: number, file: number): boolean {
    return this.matches === null || this.matches.has(name) || this.matches.has(file);
  }

  private makeLegend(): HTMLElement {
    const used = new Set<number>();
    for (const { layer } of this.detail.windows) for (const value of layer) used.add(value);
    for (const { rows } of this.detail.levels) for (const { layer } of rows) used.add(layer);
    return h("ul", { class: "legend" }, ...LAYERS.map((name, layer) => used.has(layer) && h("li", {}, h("span", { class: `swatch fill-layer-${name}` }), name)),
      this.tracks.some(({ bins }) => bins.length === 0) && h("li", {}, h("span", { class: "swatch fill-unknown" }), "not in this page"));
  }

  private makeSearch(): HTMLElement {
    return h("input", {
      type: "search", placeholder: "find a function, file or rank", "aria-label": "find events by function or file, or go to a rank",
      input: (event: Event) => {
        const text = (event.target as HTMLInputElement).value.toLowerCase();
        if (this.showRank(text)) return;
        this.matches = text ? new Set(this.names.flatMap((name, index) => (name.toLowerCase().includes(text) ? [index] : []))) : null;
        this.draw();
      },
    });
  }

  // Scrolls to the first thread of a rank; false if there is no such rank.
  showRank(name: string): boolean {
    const index = this.tracks.findIndex(({ thread }) => thread.rank.toLowerCase() === name.toLowerCase());
    if (index < 0) return false;
    this.matches = null;
    this.scroller.scrollTop = this.tops[index] - AXIS;
    this.draw();
    return true;
  }

  private at(x: number, y: number): EventAt | null {
    const scrolled = y + this.scroller.scrollTop;
    const index = this.tops.findLastIndex((top) => scrolled >= top);
    if (index < 0 || x < LEFT || y < AXIS) return null;
    const track = this.tracks[index];
    const lane = Math.floor((scrolled - this.tops[index]) / LANE);
    const time = timeAt(this.range, x, this.canvas.clientWidth);
    const slack = (2 * this.range.span) / this.canvas.clientWidth;
    const piece = track.pieces.find(({ begin, end }) => time >= begin && time <= end);
    const events = piece?.lanes[lane];
    if (!piece || !events) return null;
    const position = firstAfter(events, time - slack);
    if (position >= events.begin.length || events.begin[position] > time + slack) return null;
    return { track, piece, lane, position, event: events.index[position] };
  }

  private hover(x: number, y: number, event: PointerEvent): void {
    if (this.drag.selection()) this.draw();
    const hit = this.at(x, y);
    this.canvas.style.cursor = hit ? "pointer" : "crosshair";
    if (!hit) return hideTip();
    const fields = this.fieldsOf(hit);
    showTip(event.clientX, event.clientY, h("strong", {}, this.names[hit.piece.window.name[hit.event]] ?? ""),
      h("dl", {}, ...fields.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  }

  private fieldsOf({ track, piece: { window }, event }: EventAt): [string, string][] {
    const fields: [string, string][] = [
      ["layer", layerName(window.layer[event])],
      ["thread", printable(`${track.thread.rank}, process ${track.thread.process}, thread ${track.thread.tid}`)],
      ["begin", format.moment(window.begin_ns + window.begin[event], 1)],
      ["duration", format.duration(window.duration[event])],
    ];
    if (window.file[event] >= 0) fields.push(["file", this.names[window.file[event]] ?? ""]);
    if (window.offset[event] >= 0) fields.push(["offset", format.exact(window.offset[event])]);
    if (window.size[event] >= 0) fields.push(["size", `${format.exact(window.size[event])} bytes`]);
    fields.push(["result", String(window.result[event])]);
    if (window.error[event]) fields.push(["errno", String(window.error[event])]);
    return fields;
  }

  private choose(hit: EventAt | null): void {
    this.chosen = hit;
    this.canvas.focus({ preventScroll: true });
    this.chosenBox.replaceChildren();
    if (hit) {
      this.chosenBox.append(h("strong", {}, foreign(this.detail.names[hit.piece.window.name[hit.event]] ?? "")),
        h("dl", {}, ...this.fieldsOf(hit).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
    }
    this.draw();
  }

  private onKey(event: KeyboardEvent): void {
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (zoomByKey(event, this.range)) event.preventDefault();
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      event.preventDefault();
      this.move(event.key === "ArrowDown" ? 1 : -1);
    } else if (plain && (event.key === "n" || event.key === "p")) this.step(event.key === "n" ? 1 : -1);
    else if (event.key === "Enter" && this.chosen) this.zoomToChosen(this.chosen);
    else if (event.key === "Escape") this.choose(null);
  }

  // The next event of the same lane; at first the one nearest to the centre of the visible range.
  private step(by: number): void {
    const hit = this.chosen ? { ...this.chosen, position: this.chosen.position + by } : this.firstSeen();
    const lane = hit?.piece.lanes[hit.lane];
    if (!hit || !lane || hit.position < 0 || hit.position >= lane.index.length) return;
    hit.event = lane.index[hit.position];
    const begin = lane.begin[hit.position];
    if (begin < this.range.begin || begin > this.range.end) this.range.set(begin - this.range.span / 2, begin + this.range.span / 2);
    this.choose(hit);
  }

  // Moves from the selected event to the one below or above it; without one, scrolls the threads.
  private move(by: number): void {
    if (!this.chosen) {
      this.scroller.scrollTop += by * 2 * LANE;
      return;
    }
    const { track, piece, lane, position } = this.chosen;
    const time = piece.lanes[lane].begin[position];
    let row = this.tracks.indexOf(track);
    for (let next = lane + by; row >= 0 && row < this.tracks.length; next += by) {
      const below = this.tracks[row].pieces.find(({ begin, end }) => time >= begin && time <= end);
      if (below?.lanes[next]) return this.chooseNear(this.tracks[row], below, next, time);
      if (next >= 0 && next < this.tracks[row].laneCount) continue;
      row += by;
      next = by > 0 ? -1 : this.tracks[row]?.laneCount ?? 0;
    }
  }

  private chooseNear(track: Track, piece: Piece, lane: number, time: number): void {
    const position = Math.min(firstAfter(piece.lanes[lane], time), piece.lanes[lane].index.length - 1);
    const top = this.tops[this.tracks.indexOf(track)] + lane * LANE;
    const { scrollTop, clientHeight } = this.scroller;
    if (top - AXIS < scrollTop) this.scroller.scrollTop = top - AXIS;
    if (top + LANE > scrollTop + clientHeight) this.scroller.scrollTop = top + LANE - clientHeight;
    this.choose({ track, piece, lane, position, event: piece.lanes[lane].index[position] });
  }

  private firstSeen(): EventAt | null {
    for (const track of this.tracks) {
      for (const piece of track.pieces) {
        const lane = piece.lanes[0];
        if (!lane || piece.end < this.range.begin || piece.begin > this.range.end) continue;
        const position = Math.min(firstAfter(lane, this.range.begin), lane.index.length - 1);
        return { track, piece, lane: 0, position, event: lane.index[position] };
      }
    }
    return null;
  }

  private zoomToChosen({ piece, lane, position }: EventAt): void {
    const { begin, end } = piece.lanes[lane];
    const room = Math.max(25, (end[position] - begin[position]) / 2);
    this.range.set(begin[position] - room, end[position] + room);
  }

  // Shows a notice if the visible range is finer than the bins and the page does not have the events.
  private tellWhatIsMissing(width: number): void {
    const scroll = this.scroller.scrollTop;
    const seen = this.tracks.filter((_, index) => this.tops[index] - scroll < this.scroller.clientHeight && this.tops[index + 1] - scroll > 0 || index === this.tracks.length - 1);
    const missing = seen.filter((track) => this.lacksEvents(track, width));
    const ranks = [...new Set(missing.map(({ thread }) => thread.rank))];
    this.notice.hidden = missing.length === 0;
    const key = `${this.range.begin} ${this.range.end} ${ranks.join()}`;
    if (missing.length === 0 || this.notice.dataset["key"] === key) return;
    this.notice.dataset["key"] = key;
    const command = this.commandFor(ranks);
    this.notice.replaceChildren(`The single events of ${ranks.length === 1 ? printable(ranks[0]) : `${ranks.length} ranks seen here`} from ${format.moment(this.range.begin, this.range.span / 100)} to ${format.moment(this.range.end, this.range.span / 100)} are not in this page. A page that has them: `,
      h("code", {}, command),
      h("button", { type: "button", click: () => void navigator.clipboard?.writeText(command) }, "copy"));
  }

  private lacksEvents(track: Track, width: number): boolean {
    const free = track.pieces.some(({ begin, end }) => begin <= this.range.begin && end >= this.range.end);
    const finest = track.bins[0];
    if (free) return false;
    return !finest ? !this.range.isFull : finest.binNs * ((width - LEFT - RIGHT) / this.range.span) > BIN_PIXELS_MAX;
  }

  private commandFor(ranks: string[]): string {
    const numbers = ranks.map((rank) => /^rank (\d+)$/.exec(rank)?.[1]).filter((number) => number !== undefined);
    const trace = this.traces.length ? this.traces.map(shellWord).join(" ") : "TRACE";
    const wanted = numbers.length === ranks.length && numbers.length <= 16 ? ` --ranks ${numbers.join(",")}` : "";
    const origin = this.detail.origin_ns;
    const from = format.seconds(origin + Math.floor(this.range.begin));
    const until = format.seconds(origin + Math.ceil(this.range.end));
    return `millrace report ${trace} --html part.html --from ${from} --until ${until}${wanted}`;
  }
}

// Quotes a name for the shell, so that the command can be pasted whatever the name of the trace is.
function shellWord(name: string): string {
  return /^[\w@%+=:,./-]+$/.test(name) ? name : `'${printable(name).replaceAll("'", "'\\''")}'`;
}
