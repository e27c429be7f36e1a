// The labels of the served pages: they are loaded for each question, and sent to the server one by one.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { JudgeAgreement, LabelRequest, QuestionLabels, VerdictLabel, VerdictPlace } from "../data/labels";
import { isSamePlace } from "../run/label-words";
import type { VerdictLabels } from "../run/labels";
import { PersonField, adoptRecordedName, personName } from "./person";
import { RequestProblem, getJson, hasKey, postJson } from "./server";

export class ServedLabels implements VerdictLabels {
  private readonly found = signal<QuestionLabels | null>(null);
  private readonly failure = signal<string | null>(null);
  private readonly nameAsked = signal(0);
  private question: string | null = null;
  private turn = 0;
  /** The label that waits for a name. */
  private waiting: { place: VerdictPlace; isRight: boolean } | null = null;

  constructor(private readonly run: string) {}

  open(question: string): void {
    if (this.question === question) return;
    this.question = question;
    this.failure.value = null;
    void this.load();
  }

  private async load(): Promise<void> {
    const turn = (this.turn += 1);
    const { question } = this;
    if (question === null) return;
    try {
      const found = await getJson<QuestionLabels>(`/api/labels?run=${encodeURIComponent(this.run)}&question=${encodeURIComponent(question)}`);
      if (turn === this.turn) this.found.value = found;
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      // Whoever may not review sees the verdicts without buttons.
      if (turn === this.turn) this.found.value = null;
    }
  }

  canLabel({ question, metric, list }: VerdictPlace): boolean {
    return this.question === question && (this.found.value?.lists[metric]?.includes(list) ?? false);
  }

  labelsOf(place: VerdictPlace): VerdictLabel[] {
    return this.found.value?.labels.filter((label) => isSamePlace(label, place)) ?? [];
  }

  ownLabel(place: VerdictPlace): boolean | null {
    return this.labelsOf(place).find((label) => label.by === personName.value)?.is_right ?? null;
  }

  judges(): JudgeAgreement[] {
    return this.found.value?.judges ?? [];
  }

  problem(): string | null {
    return this.failure.value;
  }

  give(place: VerdictPlace, isRight: boolean): void {
    if (!personName.peek() && !hasKey()) {
      this.waiting = { place, isRight };
      this.nameAsked.value += 1;
      return;
    }
    void this.send(place, isRight);
  }

  private async send(place: VerdictPlace, isRight: boolean): Promise<void> {
    this.failure.value = null;
    const body: LabelRequest = { run: this.run, by: personName.peek() || undefined, ...place, is_right: isRight };
    try {
      const { by } = await postJson<{ by: string }>("/api/labels", body);
      adoptRecordedName(by);
      await this.load();
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      this.failure.value = error.message;
    }
  }

  /** Shown where somebody may label. A label that waited for the name is sent when it is known. */
  readonly Person = () => {
    const name = personName.value;
    const asked = this.nameAsked.value;
    useEffect(() => {
      const { waiting } = this;
      if (!name || !waiting) return;
      this.waiting = null;
      void this.send(waiting.place, waiting.isRight);
    }, [name]);
    const hasLists = Object.values(this.found.value?.lists ?? {}).some((lists) => lists.length > 0);
    return hasLists && asked ? <PersonField words="You label as" ask={asked} /> : null;
  };
}
