// The state of the Golden page: the list, the open question, and decisions on their way to the server.

import { computed, signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Decision, GoldenList, GoldenQuestion, ListedQuestion, Present, ReviewLine } from "../../data/golden";
import { navigate, route } from "../navigation";
import { adoptRecordedName, isNameOfKey, personName } from "../person";
import { RequestProblem, getJson, hasKey, postJson } from "../server";
import { type OwnDecision, canReopen, decidedSince, decisionWords, draftOf, isVerdict, stateAfter, undoing } from "./decisions";
import { keepDraft, keepRemark } from "./drafts";
import { withChanges } from "./changes";
import { type GoldenView, type Viewer, goldenAddress, needsSecondOpinion, neighbor, nextQuestion, passes, readGoldenAddress } from "./filter";

// A key that is pressed sooner after somebody else's decision has come up was not meant for it.
const READING_MS = 1000;
// The list is asked for at most once in this time, or more rarely if it takes long.
const LIST_PAUSE_MS = 1000;

/** A decision that is being sent, or could not be made. */
export interface PendingDecision {
  id: string;
  decision: Decision;
  /** Null while it is being sent. */
  problem: string | null;
  /** What somebody else has decided in the meantime. */
  overtaken: ReviewLine | null;
  /** When the problem was shown, by `performance.now()`. */
  shown_ms: number;
}

export class GoldenDesk {
  readonly list = signal<GoldenList | null>(null);
  readonly listProblem = signal<string | null>(null);
  readonly newsProblem = signal<string | null>(null);
  readonly question = signal<GoldenQuestion | null>(null);
  readonly questionProblem = signal<string | null>(null);
  readonly pending = signal<PendingDecision | null>(null);
  readonly isEditing = signal(false);
  /** What was done, for the line that screen readers read. */
  readonly note = signal("");
  /** Counts requests for the name, and requests to focus the question. */
  readonly nameAsked = signal(0);
  readonly focusAsked = signal(0);
  readonly view = computed<GoldenView>(() => readGoldenAddress(route.value.page === "golden" ? route.value.address : ""));
  readonly viewer = computed<Viewer>(() => ({ me: personName.value, conflicts: new Set(this.list.value?.agreement.conflicts) }));
  readonly shown = computed<ListedQuestion[]>(() => this.list.value?.questions.filter((question) => passes(question, this.view.value, this.viewer.value)) ?? []);
  /** Whether what others have decided about the open question is hidden. */
  readonly isBlind = computed(() => {
    const listed = this.listed.value;
    return this.view.value.show === "second" && listed !== undefined && needsSecondOpinion(listed, personName.value);
  });
  readonly listed = computed(() => this.list.value?.questions.find(({ id }) => id === this.view.value.id));

  private listTimer: ReturnType<typeof setTimeout> | undefined;
  private listLoad: Promise<void> | null = null;
  private listAllowed = 0;
  /** What the server's last list had. Decisions of this page are in `list` before. */
  private listKnown: { last: number; version: string } | null = null;
  private turn = 0;
  /** The question that `advance` has opened, until the server has said whether somebody else was there first. */
  private advancedTo: string | null = null;
  /** The number of the list's last decision when the question was loaded. */
  private questionLast = 0;
  private readonly own: OwnDecision[] = [];
  private isLeft = false;

  change(changes: Partial<GoldenView>, step: "pushState" | "replaceState" = "replaceState"): void {
    navigate({ page: "golden", address: goldenAddress({ ...this.view.peek(), ...changes }) }, step);
  }

  leave(): void {
    this.isLeft = true;
    clearTimeout(this.listTimer);
  }

  // ---- loading

  async loadList(): Promise<void> {
    this.listLoad ??= this.requestList().finally(() => { this.listLoad = null; });
    await this.listLoad;
  }

  private async requestList(): Promise<void> {
    const began = performance.now();
    try {
      const known = this.listKnown;
      const query = known === null ? "" : `?since=${known.last}&version=${encodeURIComponent(known.version)}`;
      const answer = await getJson<GoldenList>(`/api/golden${query}`);
      this.listKnown = { last: answer.last, version: answer.version };
      this.list.value = withChanges(this.list.peek(), answer);
      this.listProblem.value = null;
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      this.listProblem.value = error.message;
    } finally {
      this.listAllowed = performance.now() + Math.max(LIST_PAUSE_MS, 3 * (performance.now() - began));
    }
  }

  /** Something has changed on the server: loads the list again soon, and the question if nobody is typing. */
  followNews(isTyping: () => boolean): void {
    if (this.isLeft || this.listTimer !== undefined) return;
    this.listTimer = setTimeout(async () => {
      this.listTimer = undefined;
      await this.loadList();
      const last = this.list.peek()?.last ?? 0;
      if (!this.isLeft && last !== this.questionLast && !isTyping() && !this.isEditing.peek()) await this.loadQuestion(false);
    }, Math.max(0, this.listAllowed - performance.now()));
  }

  /** Loads the question of the address. The old one goes away if it is another one. */
  async loadQuestion(isNew = true): Promise<void> {
    const { id } = this.view.peek();
    const turn = (this.turn += 1);
    if (isNew) {
      this.question.value = null;
      this.isEditing.value = false;
      if (this.pending.peek()?.problem !== null) this.pending.value = null;
    }
    this.questionProblem.value = null;
    if (id === null) return;
    const last = this.list.peek()?.last ?? 0;
    try {
      const found = await getJson<GoldenQuestion>(`/api/golden/question?id=${encodeURIComponent(id)}`);
      if (turn !== this.turn) return;
      this.question.value = found;
      this.questionLast = Math.max(last, found.seen);
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      if (turn === this.turn) this.questionProblem.value = error.message;
    }
  }

  // ---- moving

  open(id: string | null, step: "pushState" | "replaceState" = "replaceState"): void {
    if (id === null || id === this.view.peek().id) return;
    this.change({ id }, step);
  }

  move(step: 1 | -1): void {
    const view = this.view.peek();
    const id = neighbor(this.list.peek()?.questions ?? [], view.id, step, (question) => passes(question, view, this.viewer.peek()));
    if (id === null) this.note.value = step > 0 ? "This is the last question of the list." : "This is the first question of the list.";
    else {
      this.note.value = "";
      this.open(id);
    }
  }

  /** Who else has a question open. */
  othersAt(id: string | null): string[] {
    return Object.entries(this.list.value?.present ?? {}).filter(([name, open]) => open === id && name !== personName.value).map(([name]) => name);
  }

  /** Opens the next question that has to be decided and that nobody else has open. */
  advance(done: string, isFresh = false): void {
    const list = this.list.peek();
    const view = this.view.peek();
    const isTaken = (id: string) => this.othersAt(id).length > 0;
    const next = nextQuestion(list?.questions ?? [], view.id, view, this.viewer.peek(), isTaken);
    if (next !== null) {
      this.note.value = `${done} Now ${next}.`.trim();
      this.advancedTo = next;
      this.open(next);
      this.focusAsked.value += 1;
      return;
    }
    const taken = nextQuestion(list?.questions ?? [], view.id, view, this.viewer.peek(), () => false);
    if (taken !== null && !isFresh) {
      // Somebody may have gone since the list was loaded.
      void this.loadList().then(() => { if (!this.isLeft && this.view.peek().id === view.id) this.advance(done, true); });
      return;
    }
    this.note.value = taken === null ? `${done} No other question of this list is waiting for a decision.` : `${done} Other people have the rest of the questions open that wait for a decision in this list.`;
    void this.loadQuestion(false);
  }

  /** Whether the question of the address is shown, so that somebody can decide about it. */
  isShown(): boolean {
    return this.question.peek()?.question.id === this.view.peek().id;
  }

  /** Whether somebody else's decision has just come up, so that it cannot have been read yet. */
  isSurprised(): boolean {
    const pending = this.pending.peek();
    return pending !== null && pending.overtaken !== null && performance.now() - pending.shown_ms < READING_MS;
  }

  edit(): void {
    if (!this.isShown()) return;
    this.note.value = "";
    this.isEditing.value = true;
  }

  // ---- deciding

  /** Whether a decision can be sent now; asks for the name if it is not known. */
  private isReady(): boolean {
    if (this.pending.peek()?.problem === null) return false;
    if (personName.peek() || hasKey()) return true;
    this.nameAsked.value += 1;
    this.note.value = "Give your name first: it is recorded with your decision.";
    return false;
  }

  /** Decides about the open question. `isAnyway` overrides what others have decided in the meantime. */
  async decide(decision: Decision, isAnyway = false): Promise<boolean> {
    const open = this.question.peek();
    if (!open || !this.isShown() || !this.isReady()) return false;
    const before = { stateBefore: open.state, before: draftOf(open.question) };
    const line = await this.send(open.question.id, decision, isAnyway ? null : open.seen);
    if (!line) return false;
    this.own.push({ line, ...before });
    return this.settle(line);
  }

  /** The end of a decision that was made. */
  private settle(line: ReviewLine): boolean {
    const { id } = this.view.peek();
    const { decision, question } = line;
    if (decision.decision === "edit") {
      keepDraft(question, null);
      if (id === question) this.isEditing.value = false;
    }
    if (decision.decision === "comment") keepRemark(question, "");
    const done = `You have ${decision.decision === "comment" ? `made a remark about ${question}` : decisionWords(decision).replace(/\bit$/, question)}${decision.decision === "edit" && !/ it$/.test(decisionWords(decision)) ? ` of ${question}` : ""}.`;
    if (id !== question) this.note.value = done;
    else if (decision.decision === "comment" || decision.decision === "restore" || decision.decision === "reopen") {
      this.note.value = done;
      // The button that was pressed is gone.
      if (decision.decision === "reopen") this.focusAsked.value += 1;
      void this.loadQuestion(false);
    } else this.advance(done);
    return true;
  }

  private async send(id: string, decision: Decision, seen: number | null): Promise<ReviewLine | null> {
    this.pending.value = { id, decision, problem: null, overtaken: null, shown_ms: 0 };
    try {
      const by = personName.peek() || undefined;
      const line = await postJson<ReviewLine>("/api/golden/decisions", { id, by, decision, ...(seen === null ? {} : { seen }) });
      adoptRecordedName(line.by);
      this.pending.value = null;
      this.applyToList(line);
      return line;
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      let overtaken: ReviewLine | null = null;
      if (error.status === 409 && this.view.peek().id === id) {
        // The question with the other decision: whoever decides again has seen it.
        await this.loadQuestion(false);
        const found = this.question.peek();
        if (found?.question.id === id) overtaken = decidedSince(found.decisions, seen ?? 0, personName.peek());
      }
      this.pending.value = { id, decision, problem: error.message, overtaken, shown_ms: performance.now() };
      return null;
    }
  }

  /** Shows a decision in the list before the server's next list is there. */
  private applyToList(line: ReviewLine): void {
    const list = this.list.peek();
    if (!list) return;
    const change = (question: ListedQuestion): ListedQuestion => {
      if (question.id !== line.question) return question;
      if (!isVerdict(line)) return { ...question, comments: question.comments + 1 };
      const reviewers = question.reviewers.includes(line.by) ? question.reviewers : [...question.reviewers, line.by];
      return { ...question, state: stateAfter(line.decision, question.state), reviewers };
    };
    this.list.value = { ...list, last: Math.max(list.last, line.number), questions: list.questions.map(change) };
  }

  /** Restores the open question if it is rejected, or else undoes the last decision that was made on this page. */
  async undo(): Promise<void> {
    const open = this.question.peek();
    if (open?.state === "rejected" && !this.isBlind.peek()) {
      await this.decide({ decision: "restore" });
      return;
    }
    const last = this.own.findLast(({ line }) => isVerdict(line));
    if (!last) {
      this.note.value = "There is nothing to undo: you have decided nothing since you opened this page.";
      return;
    }
    if (!this.isReady()) return;
    const { line } = last;
    const decisions = undoing(last);
    if (this.view.peek().id !== line.question) {
      this.open(line.question);
      this.focusAsked.value += 1;
    }
    if (typeof decisions === "string") {
      this.own.splice(this.own.indexOf(last), 1);
      this.note.value = decisions;
      return;
    }
    let seen = line.number;
    for (const decision of decisions) {
      const done = await this.send(line.question, decision, seen);
      if (!done) return;
      seen = done.number;
    }
    this.own.splice(this.own.indexOf(last), 1);
    this.note.value = `Undone: you ${decisionWords(line.decision).replace(/\bit$/, line.question)}.`;
    await this.loadQuestion(false);
  }

  /** Opens an accepted or edited question again for a decision. */
  async reopen(): Promise<void> {
    const open = this.question.peek();
    if (!open) return;
    if (this.isBlind.peek()) this.note.value = "What others have decided is hidden until you have decided.";
    else if (!canReopen(open.state)) this.note.value = open.state === "open" ? "This question is open already." : "A rejected question is restored with z.";
    else await this.decide({ decision: "reopen" });
  }

  dismissPending(): void {
    this.pending.value = null;
  }

  // ---- presence

  async tellPresence(id: string | null, isLeaving = false): Promise<void> {
    const by = personName.peek() || undefined;
    if (!by && !hasKey()) return;
    try {
      const before = by && isNameOfKey.peek() ? {} : (this.list.peek()?.present ?? {});
      const present = await postJson<Present>("/api/golden/present", { by, id }, isLeaving);
      if (isLeaving || this.isLeft) return;
      this.findOwnName(before, present, id);
      const list = this.list.peek();
      if (list) this.list.value = { ...list, present };
      const isFirst = this.advancedTo === id;
      this.advancedTo = null;
      // Two people have gone on at the same moment: the second one goes on again.
      if (isFirst && id !== null && this.view.peek().id === id && !this.isEditing.peek() && this.othersAt(id).length) this.advance(this.note.peek().replace(/ ?Now .*$/, ""));
    } catch (error) {
      // Presence is a courtesy: reviewing goes on without it.
      if (!(error instanceof RequestProblem)) throw error;
    }
  }

  /** With a key, the server knows the name, and the answer shows it: the one name that has come to this question. */
  private findOwnName(before: Present, present: Present, id: string | null): void {
    const name = personName.peek();
    if (id === null || !hasKey() || isNameOfKey.peek() || present[name] === id) return;
    const come = Object.keys(present).filter((other) => present[other] === id && before[other] !== id);
    if (come.length === 1) adoptRecordedName(come[0]);
  }
}

export const DeskContext = createContext<GoldenDesk | null>(null);

export function useDesk(): GoldenDesk {
  const desk = useContext(DeskContext);
  if (!desk) throw new Error("There is no desk.");
  return desk;
}
