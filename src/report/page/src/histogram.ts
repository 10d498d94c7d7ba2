// Histogram: counts by power of two as bars, with a text for the range of a bin.
import { type Child, h } from "./dom";
import * as format from "./format";

interface Options { label: string; bins: number[]; value: (value: number) => string; className: string }

// Bin 0 has the value 0, bin b the values of b bits (base/numbers/log_histogram.h).
const least = (bin: number): number => (bin === 0 ? 0 : 2 ** (bin - 1));

export function histogram({ label, bins, value, className }: Options): HTMLElement {
  const first = bins.findIndex((count) => count > 0);
  const total = bins.reduce((sum, count) => sum + count, 0);
  if (first < 0) return h("figure", { class: "histogram" }, h("figcaption", {}, label), h("p", { class: "empty" }, "No values."));
  const shown = bins.slice(first).map((count, index) => ({ bin: first + index, count }));
  while (shown[shown.length - 1].count === 0) shown.pop();
  const most = Math.max(...shown.map(({ count }) => count));
  return h("figure", { class: "histogram" },
    h("figcaption", {}, label),
    h("div", { class: "histogram-bars", role: "img", "aria-label": describe(label, shown, total, value) },
      ...shown.map(({ bin, count }) => column(bin, count, most, total, value, className))));
}

function column(bin: number, count: number, most: number, total: number, value: (value: number) => string,
                className: string): Child {
  const text = `${range(bin, value)}: ${format.exact(count)} (${format.percent(count / total)})`;
  return h("div", { class: "histogram-column", title: text, "data-count": count },
    h("span", { class: "histogram-count" }, count / total >= 0.01 ? `${Math.round((100 * count) / total)}%` : ""),
    h("span", { class: `histogram-bar ${className}`, style: `height:${count ? Math.max(1.5, (110 * count) / most) : 0}px` }),
    h("span", { class: "histogram-name" }, value(least(bin)).replace(" ", "\u202f")));
}

function range(bin: number, value: (value: number) => string): string {
  return bin === 0 ? value(0) : `${value(least(bin))} to under ${value(least(bin + 1))}`;
}

function describe(label: string, shown: { bin: number; count: number }[], total: number,
                  value: (value: number) => string): string {
  const parts = shown.filter(({ count }) => count > 0)
    .map(({ bin, count }) => `${range(bin, value)} ${format.percent(count / total)}`);
  return `${label}: ${parts.join(", ")}`;
}
