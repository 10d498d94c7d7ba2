// Formats numbers for people, with the same words and rounding as base/text/units.h in the terminal.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DECIMAL = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
const COUNT = ["", "k", "M", "G", "T"];

function threeDigits(value: number): string {
  const decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  const text = value.toFixed(decimals);
  return decimals > 0 ? text.replace(/\.?0+$/, "") : text;
}

function inSteps(value: number, step: number, names: string[]): string {
  let index = 0;
  while (index + 1 < names.length && value >= (step === 1000 ? 999.5 : step)) {
    value /= step;
    ++index;
  }
  return names[index] ? `${threeDigits(value)} ${names[index]}` : threeDigits(value);
}

export const bytes = (value: number): string => inSteps(value, 1024, BINARY);
export const bandwidth = (bytesPerSecond: number): string => `${inSteps(bytesPerSecond, 1000, DECIMAL)}/s`;
export const count = (value: number): string => inSteps(value, 1000, COUNT);
export const exact = (value: number): string => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");

export function percent(fraction: number): string {
  if (fraction > 0 && fraction < 0.0005) return "<0.1 %";
  return `${(fraction * 100).toFixed(1)} %`;
}

export function duration(ns: number): string {
  if (ns < 0) return `-${duration(-ns)}`;
  const seconds = Math.floor(ns / 1e9);
  const padded = (value: number): string => String(value).padStart(2, "0");
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${padded(Math.floor(seconds / 60) % 60)} min`;
  if (seconds >= 60) return `${Math.floor(seconds / 60)} min ${padded(seconds % 60)} s`;
  return inSteps(ns, 1000, ["ns", "us", "ms", "s"]);
}

// A moment of the job, with enough digits to distinguish moments that are `resolutionNs` apart.
export function moment(ns: number, resolutionNs: number): string {
  const digits = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(Math.max(1, resolutionNs)))));
  const sign = ns < 0 ? "-" : "";
  const seconds = Number((Math.abs(ns) / 1e9).toFixed(digits));  // rounded first: never "1:60"
  if (seconds < 60) return `${sign}${seconds.toFixed(digits)} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = (seconds - minutes * 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  if (minutes < 60) return `${sign}${minutes}:${rest}`;
  return `${sign}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

// For the command line: --from 12.345678s.
export const seconds = (ns: number): string => `${(ns / 1e9).toFixed(9).replace(/\.?0+$/, "")}s`;

// A missing moment is the largest number.
export const isMoment = (ns: number | null): ns is number => ns !== null && ns < 2 ** 63;

export function date(wallNs: number): string {
  const text = new Date(wallNs / 1e6).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
}

export const share = (part: number, whole: number): number => (whole > 0 ? part / whole : 0);
