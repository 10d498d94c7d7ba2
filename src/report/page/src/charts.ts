// Charts: bandwidth, operations and calls in flight over time, drawn by uPlot, with the shared range and cursor.
import uPlot from "uplot";
import type { Timeline } from "./data";
import { h, type Child } from "./dom";
import * as format from "./format";
import type { TimeRange } from "./range";
import { color, onTheme } from "./theme";
import { LEFT, onWheel, RIGHT, ticks } from "./view";

interface Series { label: string; color: string; values: number[] }
interface ChartOptions { title: string; series: Series[]; write: (value: number) => string }

const HEIGHT = 130;
const SYNC = "time";

export function makeCharts(bins: Timeline, range: TimeRange): { element: HTMLElement; redraw: () => void } {
  const seconds = bins.bin_ns / 1e9;
  const rate = (values: number[]): number[] => values.map((value) => format.share(value, seconds));
  const charts: ChartOptions[] = [
    { title: "Bandwidth", write: format.bandwidth, series: [
      { label: "read", color: "read", values: rate(bins.bytes_read) }, { label: "written", color: "write", values: rate(bins.bytes_written) }] },
    { title: "Operations a second", write: (value) => `${format.count(value)}/s`, series: [
      { label: "that move bytes", color: "read", values: rate(difference(bins.operations, bins.metadata)) },
      { label: "metadata", color: "meta", values: rate(bins.metadata) }] },
    { title: "I/O calls in flight", write: (value) => format.count(value), series: [
      { label: "mean in a bin", color: "busy", values: bins.busy_ns.map((busy) => format.share(busy, bins.bin_ns)) }] },
  ];
  const element = h("div", { class: "charts" });
  const made = charts.map((options) => new Chart(options, bins, range, element));
  return { element, redraw: () => made.forEach((chart) => chart.redraw()) };
}

// Operations include metadata.
function difference(all: number[], part: number[]): number[] {
  return all.map((value, index) => Math.max(0, value - (part[index] ?? 0)));
}

class Chart {
  private plot: uPlot | null = null;
  private readonly holder: HTMLElement;
  private readonly data: uPlot.AlignedData;

  constructor(private readonly options: ChartOptions, bins: Timeline, private readonly range: TimeRange, parent: HTMLElement) {
    this.data = steps(options.series, bins.bin_ns);
    this.holder = h("div", { class: "chart", role: "img", "aria-label": describe(options) });
    parent.append(h("div", { class: "chart-title" }, h("h4", {}, options.title), legend(options.series)), this.holder);
    range.subscribe(() => this.plot?.setScale("x", { min: range.begin, max: range.end }));
    onTheme(() => this.redraw());
    new ResizeObserver(() => this.fit()).observe(this.holder);
  }

  // uPlot reads its colours when it is created.
  redraw(): void {
    this.plot?.destroy();
    this.plot = null;
    this.fit();
  }

  private fit(): void {
    const width = this.holder.clientWidth;
    if (width === 0) return;
    if (this.plot) {
      if (this.plot.width !== width) this.plot.setSize({ width, height: HEIGHT });
      return;
    }
    this.plot = new uPlot(this.plotOptions(width), this.data, this.holder);
    const over = this.plot.over;
    over.tabIndex = -1;  // after a click, the wheel zooms
    const plot = this.plot;
    onWheel(over, this.range, (x) => plot.posToVal(x - over.getBoundingClientRect().left, "x"));
  }

  private plotOptions(width: number): uPlot.Options {
    const { range, options } = this;
    const axis = { stroke: color("muted"), grid: { stroke: color("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
      width, height: HEIGHT, padding: [8, RIGHT, 0, 0], legend: { show: false },
      cursor: { sync: { key: SYNC, setSeries: false }, drag: { x: true, y: false, setScale: false }, points: { size: 5 }, focus: { prox: -1 } },
      scales: { x: { time: false, min: range.begin, max: range.end, auto: false, range: (_, min, max) => [min, max] },
                y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] } },
      axes: [
        { ...axis, size: 24, splits: () => ticks(range, width).at, values: (_, at) => at.map((tick) => format.moment(tick, ticks(range, width).step)) },
        { ...axis, size: LEFT, space: 26, values: (_, at) => at.map(options.write) }],
      series: [{}, ...options.series.map((series) => ({
        label: series.label, stroke: color(series.color), fill: `${color(series.color)}33`, width: 1.25,
        paths: uPlot.paths.stepped!({ align: 1 }), points: { show: false },
      }))],
      hooks: {
        setSelect: [(plot) => {
          if (plot.select.width < 3) return;
          range.set(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
        setCursor: [(plot) => this.tell(plot)],
        ready: [(plot) => plot.over.addEventListener("dblclick", () => range.reset())],
      },
    };
  }

  // The values under the cursor are next to the names of the series.
  private tell(plot: uPlot): void {
    const index = plot.cursor.idx;
    const cells = this.holder.previousElementSibling?.querySelectorAll(".chart-value") ?? [];
    cells.forEach((cell, series) => {
      const value = index === null || index === undefined ? null : this.data[series + 1][index];
      cell.textContent = value === null || value === undefined ? "" : this.options.write(value);
    });
  }
}

// A value applies to its whole bin. The last one is repeated, so that its bin is as wide as the others.
function steps(series: Series[], binNs: number): uPlot.AlignedData {
  const count = Math.max(...series.map(({ values }) => values.length));
  if (count === 0) return [[0, 1], ...series.map(() => [0, 0])] as uPlot.AlignedData;
  const x = Array.from({ length: count + 1 }, (_, index) => index * binNs);
  return [x, ...series.map(({ values }) => [...padded(values, count), values[count - 1] ?? 0])];
}

const padded = (values: number[], count: number): number[] => [...values, ...new Array<number>(count - values.length).fill(0)];

function legend(series: Series[]): Child {
  return h("ul", { class: "legend" }, ...series.map(({ label, color: name }) =>
    h("li", {}, h("span", { class: `swatch fill-${name}` }), label, h("span", { class: "chart-value" }))));
}

function describe({ title, series, write }: ChartOptions): string {
  return `${title} over time: ${series.map(({ label, values }) => `${label} at most ${write(values.reduce((most, value) => Math.max(most, value), 0))}`).join(", ")}`;
}
