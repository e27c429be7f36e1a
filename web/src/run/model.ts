// What the pages of one run show: its data, the present view, and problems.

import { type ReadonlySignal, type Signal, computed, effect, signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { type RunTable, tableOf } from "../data/columns";
import type { Overview } from "../data/overview";
import { Parts, type ReadPart } from "../data/parts";
import { type Brush, type View, addressOf, initialView, isKept, readAddress } from "./address";

/** Where the view's address is kept: behind the `#`, alone or after the name of the run. */
export interface AddressPlace {
  read(): string;
  write(step: "pushState" | "replaceState", address: string): void;
  /** What a link to this address needs. */
  href(address: string): string;
}

export type ProblemKind = "script" | "address" | "parts";

// Browsers limit how often the address changes, so a gesture sets it only at its end.
const GESTURE_PAUSE_MS = 150;
// Tables and other plots follow a brush with this delay.
const FOLLOWING_PAUSE_MS = 60;

export class RunModel {
  readonly table: RunTable;
  readonly parts: Parts;
  readonly view: Signal<View>;
  readonly problems = signal<ReadonlyMap<ProblemKind, string>>(new Map());
  readonly trial: ReadonlySignal<string | null>;
  readonly question: ReadonlySignal<string | null>;
  readonly other: ReadonlySignal<string | null>;
  readonly sort: ReadonlySignal<View["sort"]>;
  readonly order: ReadonlySignal<View["order"]>;
  readonly by: ReadonlySignal<string>;
  readonly against: ReadonlySignal<string | null>;
  readonly filter: ReadonlySignal<View["filter"]>;
  readonly brushes: ReadonlySignal<View["brushes"]>;
  /** The trials that the brushes do not keep; for each picture of a drag. */
  readonly out: ReadonlySignal<ReadonlySet<string>>;
  /** The same, a moment after the last change. */
  readonly settledOut: Signal<ReadonlySet<string>>;
  private remembered = "";
  private lastGesture: string | null = null;
  private later: ReturnType<typeof setTimeout> | undefined;
  private following: ReturnType<typeof setTimeout> | undefined;
  private readonly disposeFollowing: () => void;

  constructor(
    readonly overview: Overview,
    read: ReadPart,
    private readonly place: AddressPlace,
  ) {
    const table = tableOf(overview);
    this.table = table;
    this.parts = new Parts(overview, read, (problem) => this.showProblem("parts", problem));
    this.view = signal(initialView(table));
    const part = <K extends keyof View>(name: K) => computed(() => this.view.value[name]);
    this.trial = part("trial");
    this.question = part("question");
    this.other = part("other");
    this.sort = part("sort");
    this.order = part("order");
    this.by = part("by");
    this.against = part("against");
    this.filter = part("filter");
    this.brushes = part("brushes");
    this.out = computed(() => {
      const brushes = this.brushes.value;
      return new Set(brushes.size ? table.rows.filter((row) => !isKept(row, brushes, table)).map((row) => row.id) : []);
    });
    this.followAddress();
    this.settledOut = signal(this.out.peek());
    this.disposeFollowing = effect(() => {
      const out = this.out.value;
      clearTimeout(this.following);
      this.following = setTimeout(() => { this.settledOut.value = out; }, FOLLOWING_PAUSE_MS);
    });
  }

  dispose(): void {
    this.endGesture();
    clearTimeout(this.following);
    this.disposeFollowing();
  }

  showProblem(kind: ProblemKind, text: string | null): void {
    if ((this.problems.peek().get(kind) ?? null) === text) return;
    const problems = new Map(this.problems.peek());
    if (text) problems.set(kind, text);
    else problems.delete(kind);
    this.problems.value = problems;
  }

  /** Each change is a step for the back button. All changes of one `gesture`, such as a drag or typing, are one step. */
  change(changes: Partial<View>, gesture: string | null = null): void {
    const goesOn = gesture !== null && gesture === this.lastGesture;
    if (!goesOn) this.endGesture();
    this.view.value = { ...this.view.peek(), ...changes };
    this.lastGesture = gesture;
    if (!goesOn) this.write("pushState");
    else this.later ??= setTimeout(() => this.endGesture(), GESTURE_PAUSE_MS);
  }

  brush(key: string, brush: Brush | null, gesture: string | null = null): void {
    const brushes = new Map(this.brushes.peek());
    if (brush && !("names" in brush && !brush.names.size)) brushes.set(key, brush);
    else brushes.delete(key);
    this.change({ brushes }, gesture);
  }

  openQuestion(id: string, trial?: string): void {
    this.change(trial === undefined ? { question: id } : { question: id, trial });
    // The heading is focused once it names the question.
    queueMicrotask(() => focusHeading("question-heading"));
  }

  /** A link to the present view. */
  href(): string {
    return this.place.href(addressOf(this.view.value, this.table));
  }

  /** Whether the address in the browser is another than the one that this page wrote. */
  isStale(): boolean {
    return this.place.read() !== this.remembered;
  }

  followAddress(): void {
    clearTimeout(this.later);
    this.later = undefined;
    const address = this.place.read();
    const { view, unknown } = readAddress(address, this.table);
    this.view.value = view;
    [this.remembered, this.lastGesture] = [address, null];
    this.showProblem("address", unknown.length ? `The address of this page names what this report does not have: ${unknown.join(", ")}. The rest of it is shown.` : null);
  }

  private endGesture(): void {
    if (this.later === undefined) return;
    clearTimeout(this.later);
    this.later = undefined;
    this.write("replaceState");
  }

  private write(step: "pushState" | "replaceState"): void {
    const said = addressOf(this.view.peek(), this.table);
    if (said === this.remembered) return;
    this.remembered = said;
    this.showProblem("address", null);
    try {
      this.place.write(step, said);
    } catch (error) {
      // In a notebook's frame the page cannot change its address.
      if (!(error instanceof DOMException && error.name === "SecurityError")) throw error;
    }
  }
}

export function focusHeading(id: string): void {
  const heading = document.getElementById(id);
  heading?.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
  heading?.focus({ preventScroll: true });
}

export const RunContext = createContext<RunModel | null>(null);

export function useRun(): RunModel {
  const model = useContext(RunContext);
  if (!model) throw new Error("This part of the page needs a run.");
  return model;
}
