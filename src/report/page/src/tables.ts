// DataTable: sorts by a click on a heading and filters by words. Only visible rows are drawn, so that thousands cost no
// more than twenty.
import { append, type Child, h } from "./dom";

export interface Column<Row> {
  key: string;
  title: string;
  value: (row: Row) => number | string;  // sort key
  cell?: (row: Row) => Child;            // what to show, if not the value
  width?: number;                        // in em; columns without a width share the rest
  help?: string;
  optional?: boolean;                    // hidden if all values are 0
  left?: boolean;                        // aligned left although it sorts as a number
}

export interface TableOptions<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  sort?: { key: string; descending: boolean };
  filter?: { placeholder: string; text: (row: Row) => string };
  select?: (row: Row) => void;  // shows details of the selected row
  visit?: (row: Row) => void;   // goes to what the row is about, only at the reader's request
  rowKey?: (row: Row) => string;
  note?: string;  // why there are no more rows
}

const ROW_HEIGHT = 27;
const VIEW_ROWS = 14;
const SPARE_ROWS = 6;
const PRINTED_ROWS = 25;
const WIDTH_FREE = 22;  // minimum width of a column without a width, in em
// One for all comparisons: localeCompare would make one each time. file9 sorts before file10.
const COLLATOR = new Intl.Collator("en", { numeric: true });

export class DataTable<Row> {
  readonly element: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly body: HTMLTableSectionElement;
  private readonly status: HTMLElement;
  private readonly headings = new Map<string, HTMLTableCellElement>();
  private shown: Row[];
  private selected: Row | null = null;
  private sortKey: string;
  private descending: boolean;
  private words: string[] = [];
  private printing = false;
  private drawnFirst = 0;
  private drawn = new Map<Row, HTMLElement>();
  private readonly columns: Column<Row>[];

  constructor(private readonly options: TableOptions<Row>) {
    this.columns = options.columns.filter(({ optional, value }) => !optional || options.rows.some((row) => value(row) !== 0));
    this.sortKey = options.sort?.key ?? "";
    this.descending = options.sort?.descending ?? false;
    this.shown = options.rows;
    this.body = h("tbody");
    this.status = h("span", { class: "table-status", role: "status" });
    this.scroller = h("div", {
      class: "table-scroller", tabindex: 0, role: "region", "aria-label": options.label,
      scroll: () => this.onScroll(), keydown: (event: KeyboardEvent) => this.onKey(event),
    }, this.makeTable());
    this.element = h("div", { class: "table" }, this.makeBar(), this.scroller);
    this.update();
    tables.add(this);
  }

  // Scrolls to the row of a key, drops a filter that hides it, and returns it.
  show(key: string): HTMLElement | null {
    const row = this.options.rows.find((candidate) => this.options.rowKey?.(candidate) === key);
    return row ? this.showRow(row) : null;
  }

  showRow(row: Row): HTMLElement | null {
    if (!this.shown.includes(row)) this.setFilter("");
    const index = this.shown.indexOf(row);
    this.scroller.scrollTop = Math.max(0, (index - VIEW_ROWS / 2) * ROW_HEIGHT);
    this.choose(this.shown[index]);
    return this.body.querySelector<HTMLElement>(`[data-index="${index}"]`);
  }

  choose(row: Row): void {
    this.selected = row;
    this.draw();
    this.options.select?.(row);
  }

  private visit(row: Row): void {
    this.choose(row);
    this.options.visit?.(row);
  }

  private get isSelectable(): boolean {
    return this.options.select !== undefined || this.options.visit !== undefined;
  }

  setFilter(text: string): void {
    const input = this.element.querySelector<HTMLInputElement>("input");
    if (input && input.value !== text) input.value = text;
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.scroller.scrollTop = 0;
    this.update();
  }

  // On paper nothing scrolls.
  setPrinting(printing: boolean): void {
    this.printing = printing;
    this.draw();
  }

  private makeBar(): Child {
    const filter = this.options.filter;
    return h("div", { class: "table-bar" },
      filter ? h("input", {
        type: "search", placeholder: filter.placeholder, "aria-label": `${this.options.label}: ${filter.placeholder}`,
        input: (event: Event) => this.setFilter((event.target as HTMLInputElement).value),
      }) : null,
      this.status);
  }

  private makeTable(): HTMLTableElement {
    const columns = this.columns;
    const head = h("tr", {}, ...columns.map((column) => this.makeHeading(column)));
    // Room for the heading and the sort mark.
    const width = ({ width: wanted, title }: Column<Row>): number => (wanted ? Math.max(wanted, title.length * 0.52 + 2.1) : WIDTH_FREE);
    const total = columns.reduce((sum, column) => sum + width(column), 0);
    return h("table", { "aria-label": this.options.label, style: `min-width:${total}em` },
      h("colgroup", {}, ...columns.map((column) => h("col", column.width ? { style: `width:${width(column)}em` } : {}))),
      h("thead", {}, head), this.body);
  }

  private makeHeading(column: Column<Row>): HTMLElement {
    const heading = h("th", { scope: "col", "data-key": column.key, class: this.isNumeric(column) ? "number" : "" },
      h("button", { type: "button", title: column.help ?? "", click: () => this.sortBy(column) }, column.title));
    this.headings.set(column.key, heading);
    return heading;
  }

  private isNumeric(column: Column<Row>): boolean {
    return !column.left && this.options.rows.length > 0 && typeof column.value(this.options.rows[0]) === "number";
  }

  // Numbers are first sorted in descending order, because readers look for the largest.
  private sortBy(column: Column<Row>): void {
    this.descending = this.sortKey === column.key ? !this.descending : column.left === true || this.isNumeric(column);
    this.sortKey = column.key;
    this.update();
  }

  private update(): void {
    const { rows, filter } = this.options;
    const words = this.words;
    this.shown = filter && words.length > 0
      ? rows.filter((row) => {
        const text = filter.text(row).toLowerCase();
        return words.every((word) => text.includes(word));
      })
      : rows.slice();
    const column = this.columns.find(({ key }) => key === this.sortKey);
    if (column) this.shown.sort(comparison(column.value, this.descending));
    for (const [key, heading] of this.headings) {
      heading.setAttribute("aria-sort",
        key !== this.sortKey ? "none" : this.descending ? "descending" : "ascending");
    }
    this.tellStatus();
    this.draw();
  }

  private tellStatus(): void {
    const all = this.options.rows.length;
    const shown = this.shown.length;
    const text = shown === all ? `${all} ${all === 1 ? "row" : "rows"}` : `${shown} of ${all} rows`;
    this.status.textContent = this.options.note ? `${text}; ${this.options.note}` : text;
  }

  private firstRow(): number {
    return this.printing ? 0 : Math.max(0, Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
  }

  private onScroll(): void {
    if (this.firstRow() !== this.drawnFirst) this.draw();
  }

  private draw(): void {
    const total = this.shown.length;
    const first = this.firstRow();
    this.drawnFirst = first;
    const last = this.printing ? Math.min(total, PRINTED_ROWS)
      : Math.min(total, first + VIEW_ROWS + 2 * SPARE_ROWS + 1);
    const focused = document.activeElement;
    const old = this.drawn;
    this.drawn = new Map();
    const drawn = document.createDocumentFragment();
    append(drawn, this.spacer(first));
    for (let index = first; index < last; ++index) drawn.appendChild(this.rowAt(index, old));
    append(drawn, this.printing ? this.remainder(total - last) : this.spacer(total - last));
    this.body.replaceChildren(drawn);
    if (focused instanceof HTMLElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
  }

  // Rows that stay are reused: one of them may have the focus, or be highlighted as evidence.
  private rowAt(index: number, old: Map<Row, HTMLElement>): HTMLElement {
    const row = this.shown[index];
    const element = old.get(row) ?? this.makeRow(row);
    element.dataset["index"] = String(index);
    element.setAttribute("aria-rowindex", String(index + 2));
    element.classList.toggle("selected", row === this.selected);
    if (this.isSelectable) element.setAttribute("aria-selected", String(row === this.selected));
    this.drawn.set(row, element);
    return element;
  }

  private spacer(rows: number): Child {
    return rows > 0 && h("tr", { class: "spacer", "aria-hidden": "true", style: `height:${rows * ROW_HEIGHT}px` });
  }

  private remainder(rows: number): Child {
    return rows > 0 && h("tr", {}, h("td", { colspan: this.columns.length }, `and ${rows} more`));
  }

  private makeRow(row: Row): HTMLElement {
    const select = this.isSelectable;
    return h("tr", { class: select ? "selectable" : "", click: () => { if (select) this.visit(row); } }, ...this.columns.map((column) => {
      const value = column.value(row);
      const number = typeof value === "number" && !column.left;
      return h("td", { class: number ? "number" : "" }, column.cell ? column.cell(row) : value);
    }));
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === "Enter" && this.selected) this.options.visit?.(this.selected);
    if (!this.isSelectable || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
    event.preventDefault();
    const now = this.selected ? this.shown.indexOf(this.selected) : -1;
    const next = Math.min(this.shown.length - 1, Math.max(0, now + (event.key === "ArrowDown" ? 1 : -1)));
    if (next < 0 || next >= this.shown.length) return;
    const top = next * ROW_HEIGHT;
    const view = this.scroller.clientHeight - 2 * ROW_HEIGHT;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    if (top > this.scroller.scrollTop + view) this.scroller.scrollTop = top - view;
    this.choose(this.shown[next]);
  }
}

function comparison<Row>(value: (row: Row) => number | string, descending: boolean): (a: Row, b: Row) => number {
  const sign = descending ? -1 : 1;
  return (a, b) => {
    const x = value(a);
    const y = value(b);
    if (typeof x === "number" && typeof y === "number") return sign * (x - y);
    return sign * COLLATOR.compare(String(x), String(y));
  };
}

// All tables, for printing.
export const tables = new Set<DataTable<never>>() as Set<{ setPrinting(printing: boolean): void }>;
