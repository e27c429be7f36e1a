// The data of the server's API about golden questions and their reviews.

export type ReviewState = "open" | "accepted" | "edited" | "rejected";

/** Bytes of UTF-8, the end is exclusive. */
export interface ByteSpan {
  start: number;
  end: number;
}

export interface ListedQuestion {
  id: string;
  question: string;
  state: ReviewState;
  kind: string | null;
  tags: string[];
  split: string | null;
  answerable: boolean;
  has_reference: boolean;
  /** How many pieces of evidence it has. */
  evidence: number;
  documents: string[];
  reviewers: string[];
  comments: number;
}

export interface Agreement {
  /** Pairs of decisions about one question by two people. */
  n: number;
  observed: number;
  kappa: number | null;
  interval: { low: number; high: number } | null;
}

export interface ReviewerAgreement {
  questions: number;
  agreement: Agreement | null;
  conflicts: string[];
}

/** By name, the question that a person has open. */
export type Present = Record<string, string>;

export interface GoldenList {
  path: string;
  /** The number of the last decision. */
  last: number;
  /** The same as long as only decisions change the questions. */
  version: string;
  /** Whether these are all questions, and not only those that have changed. */
  is_whole: boolean;
  questions: ListedQuestion[];
  reviewers: Record<string, number>;
  agreement: ReviewerAgreement;
  present: Present;
}

export interface QuestionEvidence {
  document: string;
  quote: string;
  span?: ByteSpan;
}

export interface EditDecision {
  decision: "edit";
  question?: string;
  reference?: string;
  evidence?: QuestionEvidence[];
  tags?: string[];
}

export type Decision = { decision: "accept" } | EditDecision | { decision: "reject" } | { decision: "restore" } | { decision: "reopen" } | { decision: "comment"; text: string } | { decision: "add"; question: WholeQuestion };

export interface ReviewLine {
  number: number;
  time_ms: number;
  by: string;
  question: string;
  decision: Decision;
}

export interface EvidenceExcerpt {
  document: string;
  before: string;
  quote: string;
  after: string;
  span: ByteSpan | null;
  page: number | null;
  problem: string | null;
}

export interface WholeQuestion {
  id: string;
  question: string;
  turns?: { role: string; content: string }[];
  reference?: string;
  draft?: string;
  evidence?: QuestionEvidence[];
  tags?: string[];
  answerable?: boolean;
  origin?: { kind: string; persona?: string; style: string; length: string; model: string };
  split?: string;
  review?: string;
}

/** What became of the lines of an imported file. */
export interface ImportOutcome {
  added: number;
  /** Questions that are there already. */
  skipped: number;
  refused: number;
  /** The first lines that were refused. */
  refusals: { line: number; reason: string }[];
}

export interface GoldenQuestion {
  state: ReviewState;
  question: WholeQuestion;
  decisions: ReviewLine[];
  /** The number of the last decision about it; 0 if there is none. */
  seen: number;
  evidence: EvidenceExcerpt[];
  present: string[];
}
