// The data of the page: the profile, the findings (src/advise/advise.h) and single events (docs/formats/page-data.md),
// unpacked from the page itself.
import type { Profile } from "./profile";

export type * from "./profile";

export const LAYERS = ["application", "loader", "format", "mpiio", "stdio", "posix"] as const;

export interface Gain { saved_ns: number; share: number; of: string; how: string }
export interface Finding {
  rule: string; severity: string; title: string; evidence: { text: string; where: string }[]; threshold: string;
  changes: { framework: string; text: string }[]; gain: Gain;
  also?: Finding[];  // other ways to save the same seconds
}
// The sentence is the same as in the terminal (src/advise/verdict.cc). The answer is "yes", "no" or "unknown".
export interface Findings { findings: Finding[]; verdict: { answer: string; sentence: string } }

export interface DetailThread { rank: string; process: number; tid: number; title: string }
export interface DetailWindow {
  begin_ns: number; end_ns: number; why: string;
  threads?: number[];  // the threads whose events are included; by default all
  thread: number[]; name: number[]; layer: number[]; begin: number[]; duration: number[]; file: number[];
  offset: number[]; size: number[]; result: number[]; error: number[];
}
export interface DetailLevel { bin_ns: number; rows: { thread: number; layer: number; busy: number[] }[] }
// The origin is the begin of the job, relative to the first event of the trace: above 0 if the page shows a part
// (--from).
export interface Detail { origin_ns: number; names: string[]; threads: DetailThread[]; windows: DetailWindow[]; levels: DetailLevel[] }

export interface PageData { profile: Profile; findings: Findings; detail: Detail }

export async function loadData(): Promise<PageData> {
  const [profile, findings, detail] = await Promise.all([unpack("profile"), unpack("findings"), unpack("detail")]);
  return {
    profile: profile as Profile,
    findings: { findings: [], verdict: { answer: "unknown", sentence: "unknown" }, ...(findings as object) },
    detail: { origin_ns: 0, names: [], threads: [], windows: [], levels: [], ...(detail as object) },
  };
}

// The page has <script id="data-profile" data-encoding="gzip"> with the JSON in base64, compressed or plain.
async function unpack(name: string): Promise<unknown> {
  const holder = document.getElementById(`data-${name}`);
  if (!holder) throw new Error(`the page has no data of the name '${name}'; make it again with millrace report --html`);
  const packed = fromBase64(holder.textContent.trim());
  holder.remove();  // frees megabytes that are not read again
  if (holder.dataset["encoding"] !== "gzip") return JSON.parse(new TextDecoder().decode(packed));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
