// Tracks: the events of each thread, placed in lanes so that they do not cover each other, and the bins for times
// without events in the page.
import { type Detail, type DetailLevel, type DetailThread, type DetailWindow, LAYERS } from "./data";

// One lane: events that do not overlap, in order. Parallel columns of indices into one window.
export interface Lane { index: Uint32Array; begin: Float64Array; end: Float64Array }

// An interval of a thread whose events are in the page, and in no other piece.
export interface Piece { window: DetailWindow; begin: number; end: number; lanes: Lane[] }

export interface Track {
  thread: DetailThread;
  index: number;
  pieces: Piece[];
  bins: { binNs: number; rows: { layer: number; busy: number[] }[] }[];  // finest first
  laneCount: number;
}

export interface EventAt { track: Track; piece: Piece; lane: number; position: number; event: number }

const LANES_MAX = 16;
const LANES_MIN = 2;  // room for the names of rank and thread

export function makeTracks(detail: Detail): Track[] {
  const tracks: Track[] = detail.threads.map((thread, index) => ({ thread, index, pieces: [], bins: [], laneCount: LANES_MIN }));
  for (const window of detail.windows) addWindow(tracks, window);
  for (const level of detail.levels.slice().sort((a, b) => a.bin_ns - b.bin_ns)) addLevel(tracks, level);
  for (const track of tracks) {
    track.laneCount = Math.max(LANES_MIN, ...track.pieces.map(({ lanes }) => lanes.length), ...track.bins.map(({ rows }) => Math.ceil(rows.length / 2)));
  }
  return tracks.filter(({ pieces, bins }) => bins.length > 0 || pieces.some(({ lanes }) => lanes.length > 0));
}

function addWindow(tracks: Track[], window: DetailWindow): void {
  const byThread = new Map<number, number[]>();
  for (let event = 0; event < window.thread.length; ++event) {
    const list = byThread.get(window.thread[event]);
    if (list) list.push(event);
    else byThread.set(window.thread[event], [event]);
  }
  const covered = window.threads ?? tracks.map(({ index }) => index);
  for (const index of covered) {
    const track = tracks[index];
    if (!track) continue;
    const free = uncovered(track.pieces, window.begin_ns, window.end_ns);
    if (free.length === 0) continue;
    const lanes = layOut(window, byThread.get(index) ?? []);
    for (const [begin, end] of free) track.pieces.push({ window, begin, end, lanes });
  }
}

// Windows may overlap (the slowest step is inside the whole job); each moment is drawn from the first window that has
// it.
function uncovered(pieces: Piece[], begin: number, end: number): [number, number][] {
  let free: [number, number][] = [[begin, end]];
  for (const piece of pieces) {
    free = free.flatMap(([from, to]): [number, number][] => {
      if (piece.end <= from || piece.begin >= to) return [[from, to]];
      const parts: [number, number][] = [[from, piece.begin], [piece.end, to]];
      return parts.filter(([first, last]) => last > first);
    });
  }
  return free;
}

// The first free lane: an event inside another is placed below it.
function layOut(window: DetailWindow, events: number[]): Lane[] {
  const { begin, duration } = window;
  events.sort((a, b) => begin[a] - begin[b] || duration[b] - duration[a] || window.layer[a] - window.layer[b]);
  const lanes: number[][] = [];
  const ends: number[] = [];
  for (const event of events) {
    let lane = 0;
    while (lane < lanes.length && ends[lane] > begin[event]) ++lane;
    if (lane >= LANES_MAX) continue;
    if (lane === lanes.length) lanes.push([]);
    lanes[lane].push(event);
    ends[lane] = begin[event] + duration[event];
  }
  return lanes.map((list) => ({
    index: Uint32Array.from(list),
    begin: Float64Array.from(list, (event) => window.begin_ns + begin[event]),
    end: Float64Array.from(list, (event) => window.begin_ns + begin[event] + duration[event]),
  }));
}

function addLevel(tracks: Track[], level: DetailLevel): void {
  const byThread = new Map<number, { layer: number; busy: number[] }[]>();
  for (const { thread, layer, busy } of level.rows) {
    const rows = byThread.get(thread) ?? [];
    rows.push({ layer, busy });
    byThread.set(thread, rows);
  }
  for (const [index, rows] of byThread) {
    rows.sort((a, b) => a.layer - b.layer);
    tracks[index]?.bins.push({ binNs: level.bin_ns, rows });
  }
}

// The first event of a lane that ends after `ns`.
export function firstAfter(lane: Lane, ns: number): number {
  let low = 0;
  let high = lane.end.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.end[middle] <= ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

export const layerName = (layer: number): string => LAYERS[layer] ?? "posix";
