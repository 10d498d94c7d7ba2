// TimeRange: the stretch of the job that all views over time show together. Zooming one zooms all.

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

  // The stretch is kept within the job, and at least as long as one can still see something in.
  set(begin: number, end: number): void {
    const span = Math.min(this.full, Math.max(Math.min(SPAN_MIN_NS, this.full), end - begin));
    const middle = (begin + end) / 2;
    const first = end - begin === span ? begin : middle - span / 2;
    this.begin = Math.min(Math.max(0, first), this.full - span);
    this.end = this.begin + span;
    this.notify();
  }

  // A factor below 1 shows less. `at` stays where it is on the screen.
  zoom(factor: number, at: number = (this.begin + this.end) / 2): void {
    this.set(at - (at - this.begin) * factor, at + (this.end - at) * factor);
  }

  // By a part of what is seen; positive is later.
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

  // Views are drawn once a frame, however often the wheel turns.
  private notify(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      for (const listener of this.listeners) listener();
    });
  }
}
