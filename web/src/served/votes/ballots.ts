// Voting on one run: the two answers that are shown, the votes, and where the trials stand.

import { signal } from "@preact/signals";
import type { Ballot, NextBallot, RecordedVote, Verdict, VoteProgress, VoteRequest, VoteStanding } from "../../data/votes";
import { adoptRecordedName, personName } from "../person";
import { RequestProblem, getJson, hasKey, postJson, runPath } from "../server";
import { recordedWords } from "./words";

export class Ballots {
  readonly ballot = signal<Ballot | null>(null);
  readonly progress = signal<VoteProgress | null>(null);
  readonly standing = signal<VoteStanding | null>(null);
  /** The last thing that happened, in words. */
  readonly note = signal("");
  readonly isBusy = signal(false);
  readonly problem = signal<string | null>(null);
  readonly standingProblem = signal<string | null>(null);
  /** Counts the ballots, so that each one is focused. */
  readonly shown = signal(0);
  /** Counts requests for a name. */
  readonly nameAsked = signal(0);
  /** Whether the trials are named after each vote. */
  readonly isRevealing = signal(false);
  private last: Ballot | null = null;
  private shownAt = 0;
  private isLeft = false;
  private failed: (() => Promise<void>) | null = null;

  constructor(readonly run: string) {}

  leave(): void {
    this.isLeft = true;
  }

  private show(ballot: Ballot | null): void {
    this.ballot.value = ballot;
    this.shownAt = performance.now();
    this.shown.value += 1;
  }

  /** Sends a request. What failed can be tried again with `retry`. */
  private async attempt<T>(act: () => Promise<T>, again: () => Promise<void>): Promise<T | null> {
    this.isBusy.value = true;
    this.problem.value = null;
    this.failed = null;
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      this.problem.value = error.message;
      this.failed = again;
      return null;
    } finally {
      this.isBusy.value = false;
    }
  }

  async retry(): Promise<void> {
    await this.failed?.();
  }

  /** Loads two answers on which this person has not voted. */
  async next(): Promise<void> {
    const by = personName.peek();
    if (!by && !hasKey()) return;
    const query = by ? `?by=${encodeURIComponent(by)}` : "";
    const found = await this.attempt(() => getJson<NextBallot>(runPath(this.run, `votes/next${query}`)), () => this.next());
    if (!found || this.isLeft) return;
    this.progress.value = found.progress;
    this.show(found.ballot);
  }

  async vote(verdict: Verdict): Promise<void> {
    const ballot = this.ballot.peek();
    if (!ballot || this.isBusy.peek()) return;
    const by = personName.peek() || undefined;
    if (!by && !hasKey()) {
      this.nameAsked.value += 1;
      this.note.value = "Give your name first: it is recorded with your vote.";
      return;
    }
    const seconds = Math.round((performance.now() - this.shownAt) / 100) / 10;
    const body: VoteRequest = { by, question: ballot.question.id, left: ballot.left.digest, right: ballot.right.digest, verdict, seconds };
    const recorded = await this.attempt(() => postJson<RecordedVote>(runPath(this.run, "votes"), body), () => this.vote(verdict));
    if (!recorded) return;
    adoptRecordedName(recorded.by);
    this.last = ballot;
    this.note.value = recordedWords(verdict, recorded, this.isRevealing.peek());
    if (this.standing.peek()) void this.loadStanding();
    await this.next();
  }

  /** Shows the last pair of answers again. Of several votes on it, the last one counts. */
  goBack(): void {
    if (this.isBusy.peek()) return;
    if (!this.last) {
      this.note.value = "There is no earlier vote: you have voted on nothing since you opened this page.";
      return;
    }
    const ballot = this.last;
    this.last = null;
    // What failed was about another pair.
    this.failed = null;
    this.problem.value = null;
    this.note.value = "This is the last pair again. Your new vote replaces the earlier one.";
    this.show(ballot);
  }

  async loadStanding(): Promise<void> {
    this.standingProblem.value = null;
    try {
      const standing = await getJson<VoteStanding>(runPath(this.run, "votes"));
      if (!this.isLeft) this.standing.value = standing;
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      this.standingProblem.value = error.message;
    }
  }
}
