// Numbers and sentences as the page shows them.

export const isKnown = <T,>(value: T | null | undefined): value is T => value !== null && value !== undefined;

/** A number with `digits` decimals. Adding 0 removes the minus before a zero. */
export function fixed(value: number | null | undefined, digits = 3): string {
  return isKnown(value) ? (Number(value.toFixed(digits)) + 0).toFixed(digits) : "–";
}

export function signed(value: number | null | undefined, digits = 3): string {
  return (isKnown(value) && Number(value.toFixed(digits)) > 0 ? "+" : "") + fixed(value, digits);
}

export const counted = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`;

export const percent = (share: number): string => `${Math.round(share * 100)} %`;

/** Capitalizes a sentence, unless it begins with the name `subject`, and adds the full stop. */
export function sentence(text: string, subject?: string | null): string {
  if (!text) return "";
  return `${subject && text.startsWith(subject) ? text[0] : text[0].toUpperCase()}${text.slice(1)}.`;
}

export const spaced = (name: string): string => name.replaceAll("_", " ");

/** The beginning of a text, for a tooltip, a label or a title. */
export const shortened = (text: string, most = 300): string => (text.length > most ? `${text.slice(0, most)}…` : text);

/** 12, 3.4 k, 1.2 M: a count in three or four characters. */
export function compact(value: number | null | undefined): string {
  if (!isKnown(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(size >= 1e5 ? 0 : 1)} k`;
  return size >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en-US") : value.toFixed(1);
}

export const dollars = (value: number): string => (value === 0 ? "$0" : `$${value >= 100 ? value.toFixed(0) : value.toFixed(value >= 1 ? 2 : 4)}`);

/** 8 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(seconds: number | null | undefined): string {
  if (!isKnown(seconds) || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  const units: [number, string][] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([size]) => whole >= size);
  if (first < 0) return "0 s";
  let rest = whole;
  const words: string[] = [];
  for (const [size, unit] of units.slice(first, first + 2)) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0) words.push(`${n} ${unit}`);
  }
  return words.join(" ");
}

/** An estimated duration: 12 min instead of 12 min 11 s. */
export const roughly = (seconds: number | null | undefined): string => duration(seconds).replace(/ min \d+ s$/, " min");

const two = (n: number): string => String(n).padStart(2, "0");

/** Local date and time, such as 2026-11-30 15:48. */
export function moment(ms: number | null | undefined): string {
  if (!isKnown(ms)) return "–";
  const date = new Date(ms);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function clock(ms: number): string {
  const date = new Date(ms);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
