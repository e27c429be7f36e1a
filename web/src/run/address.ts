// The address names what is shown (#trial=t08&question=urgency), so that it can be sent
// to somebody, and so that the browser's back button works.

import type { RunColumn, RunTable } from "../data/columns";

/** An order by a column: its key, and whether it is descending. */
export interface Order {
  key: string;
  down: boolean;
}

/** What an axis of the plot keeps: names of values, or a range of numbers. */
export type Brush = { names: ReadonlySet<string> } | { from: number; to: number };

export interface Filter {
  text: string;
  answers: "" | "yes" | "no" | "failed";
  metric: string;
  side: "below" | "above";
  value: string;
}

export interface View {
  trial: string | null;
  question: string | null;
  /** The trial beside it. */
  other: string | null;
  /** Of the leaderboard. */
  sort: Order | null;
  /** Of the list of questions. */
  order: Order | null;
  /** The score that two trials are compared by. */
  by: string;
  /** The column of time or cost beside the objective. */
  against: string | null;
  brushes: ReadonlyMap<string, Brush>;
  filter: Filter;
}

export const NOTHING_FILTERED: Filter = { text: "", answers: "", metric: "", side: "below", value: "" };
/** The key of the column with the step at which evidence was lost. */
export const LOST = "lost evidence";

export const initialView = (table: RunTable): View => ({
  trial: table.overview.board.answering?.trial ?? null,
  question: null,
  other: null,
  sort: null,
  order: null,
  by: "objective",
  against: null,
  brushes: new Map(),
  filter: NOTHING_FILTERED,
});

// The commas of names are encoded.
const joined = (names: Iterable<string>): string => [...names].map(encodeURIComponent).join(",");
const split = (text: string): string[] => text.split(",").filter(Boolean).map(decodeURIComponent);
const ordered = (order: Order): string => `${order.down ? "-" : ""}${order.key}`;

export function addressOf(view: View, table: RunTable): string {
  const said = new URLSearchParams();
  if ((view.trial && view.trial !== initialView(table).trial) || view.question || view.other) said.set("trial", view.trial ?? "");
  if (view.question) said.set("question", view.question);
  if (view.other) said.set("with", view.other);
  if (view.sort) said.set("sort", ordered(view.sort));
  if (view.order) said.set("order", ordered(view.order));
  if (view.by !== "objective") said.set("by", view.by);
  if (view.against) said.set("against", view.against);
  for (const [key, brush] of view.brushes) said.set(`keep.${key}`, "names" in brush ? joined(brush.names) : `${brush.from}~${brush.to}`);
  const { text, answers, metric, side, value } = view.filter;
  if (text) said.set("find", text);
  if (answers) said.set("answers", answers);
  if (metric && value !== "") said.set("scores", `${side} ${value} ${metric}`);
  return said.toString();
}

/** Reads an address. Names that this run does not have are left out, and listed in words. */
export function readAddress(text: string, table: RunTable): { view: View; unknown: string[] } {
  const view = initialView(table);
  const unknown: string[] = [];
  const trial = (id: string, part: "trial" | "other") => {
    if (table.rowOf(id)) view[part] = id;
    else unknown.push(`the trial “${id}”`);
  };
  const question = (id: string) => {
    if (table.indexOfQuestion.has(id)) view.question = id;
    else unknown.push(`the question “${id}”`);
  };
  if (text && !text.includes("=")) {
    // The form of earlier reports: #t08/urgency.
    let words: string[];
    try {
      words = text.split("/").map(decodeURIComponent);
    } catch {
      return { view, unknown: [`“${text}”`] };
    }
    if (words[0]) trial(words[0], "trial");
    if (words[1]) question(words[1]);
    return { view, unknown };
  }
  const order = (value: string, keys: string[]): Order | null => {
    const key = value.replace(/^-/, "");
    if (keys.includes(key)) return { key, down: value.startsWith("-") };
    unknown.push(`the column “${key}”`);
    return null;
  };
  const brushes = new Map<string, Brush>();
  for (const [name, value] of new URLSearchParams(text)) {
    const kept = name.startsWith("keep.") ? table.columnOf(name.slice(5)) : undefined;
    if (name === "trial") {
      if (value) trial(value, "trial");
    } else if (name === "question") question(value);
    else if (name === "with") trial(value, "other");
    else if (name === "sort") view.sort = order(value, ["trial", ...table.shown.map((column) => column.key)]);
    else if (name === "order") view.order = order(value, ["question", ...(table.lossSteps.length ? [LOST] : []), ...table.metrics.map((metric) => metric.name)]);
    else if (name === "by" && (value === "objective" || table.metricNumber(value) >= 0)) view.by = value;
    else if (name === "against" && table.columnOf(value)?.isNumber) view.against = value;
    else if (kept) {
      const brush = readBrush(kept, value, table);
      if (brush) brushes.set(kept.key, brush);
      else unknown.push(`“${value}” of ${kept.title}`);
    } else if (name === "find") view.filter = { ...view.filter, text: value };
    else if (name === "answers" && (value === "yes" || value === "no" || value === "failed")) view.filter = { ...view.filter, answers: value };
    else if (name === "scores") {
      const [, side, number, metric] = value.match(/^(below|above) (\S+) (.*)$/) ?? [];
      if (table.metricNumber(metric) >= 0 && Number.isFinite(Number(number))) {
        view.filter = { ...view.filter, side: side === "above" ? "above" : "below", value: number, metric };
      } else unknown.push(`the filter “${value}”`);
    } else unknown.push(`“${name}=${value}”`);
  }
  view.brushes = brushes;
  return { view, unknown };
}

function readBrush(column: RunColumn, text: string, table: RunTable): Brush | null {
  if (!column.isNumber) {
    let names: string[];
    try {
      names = split(text);
    } catch {
      return null;
    }
    return names.length && names.every((name) => table.rows.some((row) => column.of(row) === name)) ? { names: new Set(names) } : null;
  }
  const [from, to, ...more] = text.split("~").map(Number);
  return Number.isFinite(from) && Number.isFinite(to) && from <= to && !more.length ? { from, to } : null;
}

/** Whether the brushes keep a trial. */
export function isKept(row: RunTable["rows"][number], brushes: View["brushes"], table: RunTable): boolean {
  for (const [key, brush] of brushes) {
    const value = table.columnOf(key)?.of(row) ?? null;
    if (value === null) return false;
    if ("names" in brush ? !brush.names.has(String(value)) : Number(value) < brush.from || Number(value) > brush.to) return false;
  }
  return true;
}
