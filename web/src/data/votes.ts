// The data of the server's API about votes between two answers.

import type { Agreement } from "./golden";
import type { Interval } from "./overview";

export type Verdict = "left" | "right" | "both_good" | "both_bad" | "skip";

/** An answer without the name of its trial. */
export interface BlindAnswer {
  digest: string;
  text: string;
}

export interface Ballot {
  question: { id: string; question: string; reference?: string | null; turns?: { role: string; content: string }[] };
  left: BlindAnswer;
  right: BlindAnswer;
}

export interface VoteProgress {
  /** Trials with answers. */
  trials: number;
  /** Votes of all people that count for this run. */
  votes: number;
  people: number;
  /** Votes of this person. */
  mine: number;
  /** Pairs of texts on which this person has voted, or which this person has skipped. */
  seen: number;
  /** Pairs of different texts that this person has not seen. */
  left: number;
  /** Pairs of answers with the same text, which are not shown. */
  equal: number;
}

export interface NextBallot {
  progress: VoteProgress;
  /** None if there is nothing left to vote on. */
  ballot: Ballot | null;
}

export interface VoteRequest {
  by?: string;
  question: string;
  /** The digests of the two texts. */
  left: string;
  right: string;
  verdict: Verdict;
  seconds: number;
}

export interface RecordedVote {
  number: number;
  by: string;
  /** The trials, which were hidden until now. */
  left: string;
  right: string;
}

export interface VoteShare {
  votes: number;
  questions: number;
  /** None if there are too few votes to tell. */
  share: number | null;
  interval: Interval | null;
}

export interface TrialVotes {
  trial: string;
  people: number;
  won: number;
  lost: number;
  both_good: number;
  both_bad: number;
  preference: VoteShare;
}

export interface PairVotes {
  first: string;
  second: string;
  /** Questions on which both give the same text. */
  equal: number;
  preference: VoteShare;
  /** Corrected for the number of pairs. */
  p_value: number | null;
  /** Whether one of them is preferred; none if there are too few votes to tell. */
  differs: boolean | null;
}

export interface VoteStanding {
  run: string;
  /** The file of the votes. */
  log: string;
  votes: number;
  skipped: number;
  questions: number;
  equal: number;
  /** Votes by person. */
  people: Record<string, number>;
  /** How many questions a share needs. */
  fewest_questions: number;
  trials: TrialVotes[];
  pairs: PairVotes[];
  /** Over pairs of votes by two people on the same two answers; none if there are too few. */
  agreement: Agreement | null;
  compared: number;
  /** How often the left answer won, of the votes that one side won. */
  side: VoteShare & { p_value: number | null };
}
