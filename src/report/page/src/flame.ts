// Flame graph: the call tree over the layers. The width is the time; a click or Enter zooms into a call.
import { register } from "./anchors";
import type { TreeNode } from "./data";
import { empty, h, printable, section } from "./dom";
import * as format from "./format";
import { hideTip, showTip } from "./view";

const ROW = 21;
const WIDTH_MIN = 0.0008;  // of the graph; narrower calls are not drawn
const DEPTH_MAX = 40;

interface Placed { node: number; left: number; width: number; depth: number }

export function makeFlame(tree: TreeNode[]): HTMLElement {
  const element = section("tree", "Call tree", null);
  if (tree.length <= 1) element.append(empty("No calls were seen."));
  else {
    const flame = new Flame(tree);
    element.append(h("p", { class: "lead" }, "What was called within what, over the layers: regions of the program, format libraries, stdio, POSIX. The width is the time, summed over all threads. A click zooms; the top row leads back. With the keyboard: arrows, Enter, Escape."), flame.element);
  }
  register("tree", element);
  return element;
}

class Flame {
  readonly element = h("div", { class: "flame-holder" });
  private readonly graph = h("div", { class: "flame", role: "tree", "aria-label": "Call tree", keydown: (event: KeyboardEvent) => this.onKey(event) });
  private readonly told = h("p", { class: "flame-told", "aria-live": "polite" });
  private readonly children: number[][];
  private readonly totals: number[];
  private root = 0;

  constructor(private readonly tree: TreeNode[]) {
    this.children = tree.map(() => []);
    for (let node = 1; node < tree.length; ++node) if (tree[node].parent < node) this.children[tree[node].parent].push(node);
    this.totals = this.makeTotals();
    for (const list of this.children) list.sort((a, b) => this.totals[b] - this.totals[a]);
    this.element.append(this.graph, this.told);
    this.draw();
  }

  // A parent is at least as long as its children, whatever the clocks say. Children come after their parents.
  private makeTotals(): number[] {
    const totals = this.tree.map(({ total_ns }) => total_ns);
    for (let node = this.tree.length - 1; node >= 0; --node) {
      totals[node] = Math.max(totals[node], this.children[node].reduce((sum, child) => sum + totals[child], 0));
    }
    return totals;
  }

  private draw(focus?: number): void {
    const placed = this.place();
    const depth = placed.reduce((most, box) => Math.max(most, box.depth), 0);
    this.graph.style.height = `${(depth + 1) * ROW}px`;
    this.graph.replaceChildren(...placed.map((box) => this.box(box)));
    this.tell(this.root);
    if (focus !== undefined) this.graph.querySelector<HTMLElement>(`[data-node="${focus}"]`)?.focus();
  }

  // The path to the chosen call at full width, and its callees below it.
  private place(): Placed[] {
    const path: number[] = [];
    for (let node = this.root; node !== 0; node = this.tree[node].parent) path.unshift(node);
    const placed: Placed[] = [0, ...path].map((node, depth) => ({ node, left: 0, width: 1, depth }));
    const below = (node: number, left: number, width: number, depth: number): void => {
      if (depth > DEPTH_MAX) return;
      const total = Math.max(1, this.totals[node]);
      for (const child of this.children[node]) {
        const part = (width * this.totals[child]) / total;
        if (part < WIDTH_MIN) continue;
        placed.push({ node: child, left, width: part, depth });
        below(child, left, part, depth + 1);
        left += part;
      }
    };
    below(this.root, 0, 1, path.length + 1);
    return placed;
  }

  private nameOf(node: number): string {
    return node === 0 ? "all" : printable(this.tree[node].name);
  }

  private box({ node, left, width, depth }: Placed): HTMLElement {
    const { layer, total_ns } = this.tree[node];
    const name = this.nameOf(node);
    return h("button", {
      type: "button", role: "treeitem", "data-node": node, tabindex: node === this.root ? 0 : -1,
      "aria-level": depth + 1, "aria-label": `${name}, ${node === 0 ? "" : `${printable(layer)}, `}${format.duration(total_ns || this.totals[node])}`,
      class: `flame-box fill-layer-${node === 0 ? "root" : /^[a-z]+$/.test(layer) ? layer : "root"}${depth < this.depthOf(this.root) ? " flame-above" : ""}`,
      style: `left:${100 * left}%;width:calc(${100 * width}% - 1px);top:${depth * ROW}px`,
      click: () => this.zoom(node),
      focus: () => this.tell(node),
      pointermove: (event: PointerEvent) => showTip(event.clientX, event.clientY, h("strong", {}, name), h("br"), this.describe(node)),
      pointerleave: hideTip,
    }, width > 0.02 ? name : "");
  }

  private depthOf(node: number): number {
    let depth = 0;
    for (; node !== 0; node = this.tree[node].parent) ++depth;
    return depth;
  }

  private describe(node: number): string {
    const { layer, count, self_ns, bytes } = this.tree[node];
    const total = this.totals[node];
    if (node === 0) return `${format.duration(total)} in all calls of the top`;
    return `${printable(layer)}; ${format.exact(count)} times; ${format.duration(total)} (${format.percent(format.share(total, this.totals[0]))}), ${format.duration(self_ns)} of it its own${bytes ? `; ${format.bytes(bytes)}` : ""}`;
  }

  private tell(node: number): void {
    this.told.textContent = `${this.nameOf(node)}: ${this.describe(node)}`;
  }

  private zoom(node: number): void {
    this.root = node === this.root && node !== 0 ? this.tree[node].parent : node;
    hideTip();
    this.draw(this.root);
  }

  private onKey(event: KeyboardEvent): void {
    const node = Number((event.target as HTMLElement).dataset["node"] ?? -1);
    if (node < 0) return;
    const parent = this.tree[node].parent;
    const siblings = node === 0 ? [0] : this.children[parent];
    const at = siblings.indexOf(node);
    const next: Record<string, number | undefined> = {
      ArrowDown: this.children[node][0], ArrowUp: node === 0 ? undefined : parent,
      ArrowRight: siblings[at + 1], ArrowLeft: siblings[at - 1],
    };
    if (event.key === "Escape") this.zoom(this.tree[this.root].parent);
    else if (event.key in next) this.focusBox(next[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private focusBox(node: number | undefined): void {
    if (node !== undefined) this.graph.querySelector<HTMLElement>(`[data-node="${node}"]`)?.focus();
  }
}
