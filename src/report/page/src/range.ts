// TimeRange: the interval of the job that all views over time show. Zooming one zooms all.

const SPAN_MIN_NS = 50;

export class TimeRange {
  begin: number;
  end: number;
  private readonly listeners: (() => void)[] = [];
  private pending = false;

  constructor(readonly full: number) {
    this.begin = 0;
    this.end = full;
  }

  get span(): number {
    return this.end - this.begin;
  }

  get isFull(): boolean {
    return this.begin === 0 && this.end === this.full;
  }

  // Keeps the interval within the job, and long enough to show something.
  set(begin: number, end: number): void {
    const span = Math.min(this.full, Math.max(Math.min(SPAN_MIN_NS, this.full), end - begin));
    const middle = (begin + end) / 2;
    const first = end - begin === span ? begin : middle - span / 2;
    this.begin = Math.min(Math.max(0, first), this.full - span);
    this.end = this.begin + span;
    this.notify();
  }

  // A factor below 1 zooms in. `at` keeps its place on the screen.
  zoom(factor: number, at: number = (this.begin + this.end) / 2): void {
    this.set(at - (at - this.begin) * factor, at + (this.end - at) * factor);
  }

  // Moves by a share of the visible interval; positive is later.
  pan(part: number): void {
    const distance = this.span * part;
    this.set(this.begin + distance, this.end + distance);
  }

  reset(): void {
    this.set(0, this.full);
  }

  subscribe(listener: () => void): void {
    this.listeners.push(listener);
  }

  // Views are drawn once per frame, however often the wheel turns.
  private notify(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      for (const listener of this.listeners) listener();
    });
  }
}
