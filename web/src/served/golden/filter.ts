// Which golden questions are in the queue, and which one is next.

import type { ListedQuestion } from "../../data/golden";
import { hrefOf } from "../route";

export type Show = "" | "second" | "conflicts";

export interface QueueFilter {
  /** All questions, those that others have decided about and I have not, or those about which reviewers differ. */
  show: Show;
  state: string;
  kind: string;
  tag: string;
  split: string;
  document: string;
  find: string;
}

export interface GoldenView extends QueueFilter {
  id: string | null;
}

const NAMES = ["show", "state", "kind", "tag", "split", "document", "find"] as const;
export const NO_FILTER: QueueFilter = { show: "", state: "", kind: "", tag: "", split: "", document: "", find: "" };

export function readGoldenAddress(address: string): GoldenView {
  const said = new URLSearchParams(address);
  const view: GoldenView = { ...NO_FILTER, id: said.get("id") };
  for (const name of NAMES) (view as unknown as Record<string, string>)[name] = said.get(name) ?? "";
  if (view.show !== "second" && view.show !== "conflicts") view.show = "";
  return view;
}

export function goldenAddress(view: GoldenView): string {
  const said = new URLSearchParams();
  if (view.id !== null) said.set("id", view.id);
  for (const name of NAMES) if (view[name]) said.set(name, view[name]);
  return said.toString();
}

/** The address of one golden question. */
export const goldenHref = (id: string): string => hrefOf({ page: "golden", address: goldenAddress({ ...NO_FILTER, id }) });

/** Who looks at the queue, and what the reviewers differ about. */
export interface Viewer {
  me: string;
  conflicts: ReadonlySet<string>;
}

/** Whether others have decided about a question, and I have not. */
export const needsSecondOpinion = (question: ListedQuestion, me: string): boolean => question.reviewers.length > 0 && !question.reviewers.includes(me);

export function passes(question: ListedQuestion, filter: QueueFilter, { me, conflicts }: Viewer): boolean {
  if (filter.show === "second" && !needsSecondOpinion(question, me)) return false;
  if (filter.show === "conflicts" && !conflicts.has(question.id)) return false;
  // A state would give away what the others have decided.
  if (filter.state && filter.show !== "second" && question.state !== filter.state) return false;
  if (filter.kind && (question.kind ?? "none") !== filter.kind) return false;
  if (filter.tag && !question.tags.includes(filter.tag)) return false;
  if (filter.split && (question.split ?? "none") !== filter.split) return false;
  if (filter.document && !question.documents.includes(filter.document)) return false;
  if (!filter.find.trim()) return true;
  const text = `${question.id} ${question.question}`.toLowerCase();
  return filter.find.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** The next question that passes, in one direction; null at the end. */
export function neighbor(all: readonly ListedQuestion[], current: string | null, step: 1 | -1, isIn: (question: ListedQuestion) => boolean): string | null {
  const place = all.findIndex(({ id }) => id === current);
  for (let i = place < 0 ? (step > 0 ? 0 : all.length - 1) : place + step; i >= 0 && i < all.length; i += step) if (isIn(all[i])) return all[i].id;
  return null;
}

/** The next question that has to be decided, after the current one or else from the beginning; null if there is none. */
export function nextQuestion(all: readonly ListedQuestion[], current: string | null, filter: QueueFilter, viewer: Viewer, isTaken: (id: string) => boolean): string | null {
  const wanted = filter.show === "" && !filter.state ? { ...filter, state: "open" } : filter;
  const isNext = (question: ListedQuestion) => question.id !== current && !isTaken(question.id) && passes(question, wanted, viewer);
  const after = neighbor(all, current, 1, isNext);
  // A conflict may stay one after a decision, and an accepted question stays accepted, so these are gone through once.
  const isOnce = filter.show === "conflicts" || (filter.show === "" && wanted.state !== "open");
  return after !== null || isOnce ? after : (all.find(isNext)?.id ?? null);
}

/** The values of a filter with the number of questions that have each, the most frequent first. */
export function countedValues(all: readonly ListedQuestion[], of: (question: ListedQuestion) => readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const question of all) for (const value of new Set(of(question))) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}
