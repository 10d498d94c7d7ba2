// Files: the table of files, and the same numbers by directory, extension, kind, host and rank.
import { register } from "./anchors";
import type { FileStats, GroupStats, IoTotals, Profile, RankLoad } from "./data";
import { empty, foreign, h, pathOf, section } from "./dom";
import * as format from "./format";
import { type Column, DataTable } from "./tables";

export function makeFiles(profile: Profile): HTMLElement {
  const element = section("files", "Files", null);
  if (profile.files.length === 0) element.append(empty("No file was touched."));
  else {
    const table = fileTable(profile);
    element.append(table.element);
    register("files", element, (key) => table.show(key));
  }
  const groups: [string, string, GroupStats[]][] = [["directories", "Directories", profile.directories],
    ["extensions", "Extensions", profile.extensions], ["kinds", "Kinds of files", profile.kinds]];
  if (profile.hosts.length > 1) groups.push(["hosts", "Hosts", profile.hosts]);
  for (const [path, title, rows] of groups) if (rows.length) element.append(h("h3", {}, title), groupTable(path, title, rows));
  return element;
}

// The columns of all tables about I/O.
function ioColumns<Row extends { io: IoTotals }>(): Column<Row>[] {
  type Key = Exclude<keyof IoTotals, "first_ns">;
  const column = (key: Key, title: string, width: number, show: (value: number) => string): Column<Row> =>
    ({ key, title, width, optional: true, value: ({ io }) => io[key], cell: ({ io }) => (io[key] ? show(io[key]) : "") });
  const count = (key: Key, title: string): Column<Row> => column(key, title, 5.6, format.exact);
  const size = (key: Key, title: string): Column<Row> => column(key, title, 6, format.bytes);
  const time = (key: Key, title: string): Column<Row> => column(key, title, 6, format.duration);
  return [count("opens", "Opens"), count("reads", "Reads"), size("bytes_read", "Read"), time("read_ns", "Read time"),
    count("writes", "Writes"), size("bytes_written", "Written"), time("write_ns", "Write time"),
    time("metadata_ns", "Meta time")];
}

const when = (ns: number | null, wall: number): string => (format.isMoment(ns) ? format.moment(ns, wall / 1000) : "");

function fileTable(profile: Profile): DataTable<FileStats> {
  const wall = profile.job.wall_ns;
  const cut = profile.files.length < profile.job.files;
  const moment = (key: "first_ns" | "last_ns", title: string): Column<FileStats> =>
    ({ key, title, width: 5.6, value: ({ io }) => (format.isMoment(io[key]) ? io[key] : -1), cell: ({ io }) => when(io[key], wall) });
  return new DataTable<FileStats>({
    label: "Files", rows: profile.files, sort: { key: "read_ns", descending: true },
    rowKey: ({ path }) => path,
    filter: { placeholder: "filter by path or kind", text: ({ path, kind }) => `${path} ${kind}` },
    ...(cut ? { note: `the most of time, bytes and opens of ${format.exact(profile.job.files)} files` } : {}),
    columns: [
      { key: "path", title: "File", value: ({ path }) => path, cell: ({ path }) => pathOf(path) },
      { key: "kind", title: "Kind", width: 6.5, value: ({ kind }) => kind },
      { key: "size_bytes", title: "Size", width: 6.2, value: ({ size_bytes }) => size_bytes, cell: (row) => sizeOf(row), help: "the largest seen; ~ where only the accesses tell it" },
      ...ioColumns<FileStats>(),
      { key: "sequential", title: "Sequential", width: 6, value: sequential, cell: (row) => (row.read.transitions ? format.percent(sequential(row)) : ""), help: "reads that begin where the last one ended, or further on" },
      { key: "readers", title: "Readers", width: 5, value: ({ readers }) => readers, help: "ranks that read it" },
      { key: "epochs", title: "Epochs", width: 5, value: ({ epochs }) => epochs, help: "in which it was read" },
      moment("first_ns", "First"), moment("last_ns", "Last"),
    ],
  });
}

const sequential = ({ read }: FileStats): number => format.share(read.sequential, read.transitions);
const sizeOf = (row: FileStats): string => (row.size_bytes ? `${row.size_known ? "" : "~"}${format.bytes(row.size_bytes)}` : row.size_known ? "0 B" : "");

const SINGULAR: Record<string, string> = { directories: "Directory", extensions: "Extension", kinds: "Kind", hosts: "Host" };

function groupTable(path: string, title: string, rows: GroupStats[]): HTMLElement {
  const table = new DataTable<GroupStats>({
    label: title, rows, rowKey: ({ name }) => name,
    ...(rows.length > 10 ? { filter: { placeholder: "filter", text: ({ name }: GroupStats) => name } } : {}),
    columns: [
      { key: "name", title: SINGULAR[path], value: ({ name }) => name, cell: ({ name }) => pathOf(name || "(none)") },
      { key: "files", title: "Files", width: 5.5, value: ({ files }) => files, cell: ({ files }) => format.exact(files) },
      { key: "size_bytes", title: "Size", width: 6, value: ({ size_bytes }) => size_bytes, cell: ({ size_bytes }) => format.bytes(size_bytes) },
      ...ioColumns<GroupStats>(),
    ],
  });
  register(path, table.element, (key) => table.show(key));
  return table.element;
}

export function makeRanks(profile: Profile): HTMLElement | null {
  if (profile.ranks.length === 0) return null;
  const table = new DataTable<RankLoad>({
    label: "Ranks", rows: profile.ranks, rowKey: ({ name }) => name,
    ...(profile.ranks.length > 20 ? { filter: { placeholder: "filter by rank or host", text: ({ name, host }: RankLoad) => `${name} ${host}` } } : {}),
    columns: [
      { key: "name", title: "Rank", width: 8, value: ({ name }) => name, cell: ({ name }) => foreign(name) },
      { key: "host", title: "Host", value: ({ host }) => host, cell: ({ host }) => foreign(host) },
      { key: "data_files", title: "Data files", width: 6.5, value: ({ data_files }) => data_files, cell: ({ data_files }) => format.exact(data_files) },
      { key: "data_bytes_read", title: "Data read", width: 6.5, value: ({ data_bytes_read }) => data_bytes_read, cell: ({ data_bytes_read }) => format.bytes(data_bytes_read) },
      { key: "threads_reading", title: "Reading threads", width: 8, value: ({ threads_reading }) => threads_reading },
      { key: "calls_in_flight", title: "In flight", width: 6, value: ({ calls_in_flight }) => calls_in_flight, cell: ({ calls_in_flight }) => calls_in_flight.toFixed(1), help: "mean number of I/O calls in flight, while there was any" },
      ...ioColumns<RankLoad>(),
    ],
  });
  const element = section("ranks", "Ranks", "Who had more to read, and how many reads were in flight.", table.element);
  register("ranks", element, (key) => table.show(key));
  return element;
}
