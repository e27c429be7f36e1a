// The state of the Ask page. It stays when the page is left: an answer may have cost money and minutes.

import { signal } from "@preact/signals";
import type { AskedTrial, NewQuestion, TrialAnswer } from "../../data/ask";
import type { ReviewLine } from "../../data/golden";
import { counted } from "../../words";
import { adoptRecordedName, personName } from "../person";
import { RequestProblem, hasKey, postJson, postJsonSlowly, runPath } from "../server";
import { type GoldenDraft, draftOfAnswer, newQuestion } from "./golden-draft";

// The first question to a trial loads its models and indexes.
const ANSWER_MS = 900_000;

export interface SentQuestion {
  run: string;
  trials: string[];
  question: string;
}

export class AskDesk {
  /** What was asked last. */
  readonly sent = signal<SentQuestion | null>(null);
  readonly answers = signal<AskedTrial[] | null>(null);
  readonly isBusy = signal(false);
  readonly problem = signal<string | null>(null);
  /** For the line that screen readers read. */
  readonly note = signal("");
  /** The trial whose answer becomes a golden question; null if no form is open. */
  readonly formOf = signal<string | null>(null);
  readonly drafts = signal<Record<string, GoldenDraft>>({});
  /** By trial: the id of the golden question that was made of its answer. */
  readonly added = signal<Record<string, string>>({});
  readonly isAdding = signal(false);
  readonly addProblem = signal<string | null>(null);
  /** Counts requests for the name. */
  readonly nameAsked = signal(0);

  private turn = 0;
  private controller: AbortController | null = null;

  async ask(sent: SentQuestion): Promise<void> {
    if (this.isBusy.peek()) return;
    const turn = (this.turn += 1);
    this.controller = new AbortController();
    this.sent.value = sent;
    this.answers.value = null;
    this.problem.value = null;
    this.closeForm();
    this.drafts.value = {};
    this.added.value = {};
    this.isBusy.value = true;
    this.note.value = `Asking ${sent.trials.join(", ")}…`;
    try {
      const { question, trials } = sent;
      const answers = await postJsonSlowly<AskedTrial[]>(runPath(sent.run, "ask"), { question, trials }, ANSWER_MS, this.controller.signal);
      if (turn !== this.turn) return;
      this.answers.value = answers;
      this.note.value = answersWords(answers);
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      if (turn !== this.turn) return;
      this.problem.value = refusalWords(error);
      this.note.value = "";
    }
    this.isBusy.value = false;
  }

  /** Stops waiting for the answers. */
  stop(): void {
    this.turn += 1;
    this.controller?.abort();
    this.isBusy.value = false;
    this.note.value = "You have stopped waiting. What the models have been asked already may cost money.";
  }

  // ---- golden questions

  openForm(answer: TrialAnswer): void {
    const { id } = answer.trial;
    if (!Object.hasOwn(this.drafts.peek(), id)) this.drafts.value = { ...this.drafts.peek(), [id]: draftOfAnswer(answer) };
    this.addProblem.value = null;
    this.formOf.value = id;
  }

  closeForm(): void {
    this.formOf.value = null;
    this.addProblem.value = null;
  }

  changeDraft(trial: string, changes: Partial<GoldenDraft>): void {
    const drafts = this.drafts.peek();
    this.drafts.value = { ...drafts, [trial]: { ...drafts[trial], ...changes } };
  }

  async add(trial: string): Promise<void> {
    if (this.isAdding.peek()) return;
    if (!personName.peek() && !hasKey()) {
      this.nameAsked.value += 1;
      this.addProblem.value = "Give your name first: it is recorded with the question.";
      return;
    }
    const question = newQuestion(this.drafts.peek()[trial]);
    if (typeof question === "string") {
      this.addProblem.value = question;
      return;
    }
    await this.sendQuestion(trial, question);
  }

  private async sendQuestion(trial: string, question: NewQuestion): Promise<void> {
    const turn = this.turn;
    this.isAdding.value = true;
    this.addProblem.value = null;
    try {
      const line = await postJson<ReviewLine>("/api/golden/questions", { ...question, by: personName.peek() || undefined });
      adoptRecordedName(line.by);
      if (turn !== this.turn) return;
      this.added.value = { ...this.added.peek(), [trial]: line.question };
      this.note.value = `Added as the golden question ${line.question}.`;
      this.closeForm();
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      const needs = error.status === 403 ? " Golden questions are added with a key that has the scope “review”." : "";
      if (turn === this.turn) this.addProblem.value = `The question was not added: ${error.message}${needs}`;
    } finally {
      this.isAdding.value = false;
    }
  }
}

/** How many trials answered, and how many failed. */
export function answersWords(answers: readonly AskedTrial[]): string {
  const failed = answers.filter(({ answer }) => answer === null).length;
  const words = counted(answers.length - failed, "answer");
  return failed ? `${words}; ${counted(failed, "trial")} failed.` : `${words}.`;
}

/** Why a question was not asked. */
export function refusalWords({ status, message }: { status: number; message: string }): string {
  if (status !== 401 && status !== 403) return message;
  return `You may look at runs, but not ask trials: their models may cost money, so it needs a key with the scope “admin”, as steering does. To use another key, open this page in a new tab. The server's words: ${message}`;
}

export const askDesk = new AskDesk();
