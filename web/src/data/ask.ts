// The data of the server's API about questions that are put to trials of a finished run.

import type { ByteSpan, QuestionEvidence } from "./golden";

export interface AskedPassage {
  document: string;
  span: ByteSpan;
  text: string;
  score: number;
  page: number | null;
  book: string | null;
  heading: string | null;
  /** The spans that the text holds, if there are gaps between them. */
  parts?: ByteSpan[];
}

export interface AskedAnswer {
  text: string;
  /** The numbers of the cited passages, from 1. */
  citations: number[];
  dropped_passages: number;
  calls: number;
  usage: { prompt_tokens: number; cached_tokens: number; completion_tokens: number };
  seconds: number;
  /** Absent if the answer is complete. */
  finish?: "length" | "content_filter";
}

export interface TrialAnswer {
  run: string;
  trial: { id: string; labels: Record<string, string> };
  question: string;
  query_fallback?: string;
  remarks?: string[];
  passages: AskedPassage[];
  /** Null if the trial only searches. */
  answer: AskedAnswer | null;
}

/** What one trial answered, or why it did not. */
export interface AskedTrial {
  trial: string;
  answer: TrialAnswer | null;
  error: string | null;
  seconds: number;
}

/** A golden question that is added, as `/api/golden/questions` takes it. */
export interface NewQuestion {
  id?: string;
  question: string;
  reference?: string;
  evidence?: QuestionEvidence[];
  answerable: boolean;
}
