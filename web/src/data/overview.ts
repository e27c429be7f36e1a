// The data of a finished run, as `crates/app/src/render/report/content.rs` and
// `crates/lab/src/board.rs` write it. Fields marked `?` are absent in older reports.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export type ColumnKind = "axis" | "objective" | "metric" | "seconds" | "tokens" | "money";

export interface Column {
  kind: ColumnKind;
  name: string;
  title: string;
  judged: boolean;
  digits: number;
  shown: boolean;
}

export interface CellScores {
  mean: number | null;
  low: number | null;
  high: number | null;
  n_scored: number;
  n_failed: number;
  n_total: number;
  worst: number | null;
  best: number | null;
  missing: string | null;
}

export type Cell = null | string | number | CellScores;

export interface BoardRow {
  id: string;
  labels: Record<string, string>;
  settings: Record<string, Json>;
  standing: string;
  label: string;
  place: string;
  group: number | null;
  tied: boolean;
  front: boolean;
  front_share?: number | null;
  stopped: string | null;
  losses?: Record<string, number>;
  lost?: LostQuestions;
  cells: Cell[];
}

export interface Interval {
  low: number;
  high: number;
}

export interface Effect {
  axis: string;
  value: string;
  baseline: string;
  pairs: number;
  difference: number | null;
  interval: Interval | null;
}

/** Where the evidence of the questions that a trial lost can be found. */
export interface LostQuestions {
  questions: number;
  in_search: number;
  /** Of those lost in the search: by which rank a deeper one has all of the evidence, the lowest first. */
  ranks: number[];
  elsewhere?: { trial: string; questions: number; loses_instead: number };
}

export interface Warning {
  code: string;
  trials: string[];
  text: string;
  action: string;
}

export interface Note {
  about: string;
  subject: string | null;
  text: string;
}

export interface Board {
  experiment: string;
  run: string;
  finished: string;
  corpus: string;
  work: string;
  partial: string | null;
  unscored: string | null;
  winner: string | null;
  leads: string | null;
  answering: { trial: string; note: string | null } | null;
  verdict: string[];
  groups: string[][];
  front: string[];
  effects: Effect[];
  warnings: Warning[];
  notes: Note[];
  rejected: { path: string; reason: string }[];
  objective: string[];
  columns: Column[];
  rows: BoardRow[];
}

export interface Metric {
  name: string;
  judged: boolean;
  objective: boolean;
  range: [number, number];
  higher_is_better: boolean;
}

export interface LossStep {
  name: string;
  title: string;
  meaning: string;
  is_loss: boolean;
}

export interface QuestionSummary {
  id: string;
  question: string;
  answerable: boolean;
}

export interface Difference {
  mean: number;
  interval: Interval | null;
  n_questions: number;
}

export interface EvidencePage {
  document: string;
  quote: string;
  page: number;
  is_marked: boolean;
}

export interface Overview {
  board: Board;
  group_titles: string[];
  /** What columns mean, by kind and name. */
  meanings?: Record<string, string>;
  metrics: Metric[];
  loss_steps?: LossStep[];
  questions: QuestionSummary[];
  differences: (Difference | null)[];
  question_parts: number[];
  passage_parts: number[];
  pages?: EvidencePage[];
  folder: string | null;
  stamp: string | null;
  /** The name of the part with the objective of each trial and question. */
  matrix?: string | null;
}

// ---- parts

export interface TrialPart {
  /** By question: its contribution to the objective, from 0 to 1. */
  objective: (number | null)[];
  /** By metric and question. */
  scores: (number | null)[][];
  /** By metric: the questions without a score, by the reason. */
  missing: Record<string, number[]>[];
  /** By question: 0 not asked, 1 answered, 2 failed. */
  answers: number[];
  /** By question: an index into `loss_steps`. */
  losses?: (number | null)[];
}

export interface EvidenceLoss {
  step?: string;
  component?: string;
  chunk?: { number: number; share: number; shared_terms: string[] };
  rank?: number;
  searched?: number;
  depth?: number;
}

export interface QuestionLoss {
  step: string;
  component?: string;
  evidence?: EvidenceLoss[];
}

export interface Evidence {
  document: string;
  quote: string;
  span?: { start: number; end: number } | null;
}

export interface GoldenQuestion {
  id: string;
  question: string;
  reference?: string | null;
  evidence?: Evidence[];
  answerable?: boolean;
  tags?: string[];
  split?: string | null;
}

export interface SearchRecord {
  queries: { text: string; words: string; passages: string[] }[];
  fallback?: string;
  remarks?: string[];
}

export interface Answer {
  text: string;
  citations: number[];
  seconds: number;
  usage: { prompt_tokens: number; completion_tokens: number };
  dropped_passages?: number;
  finish?: string | null;
}

export interface TrialOutcome {
  list: number;
  search?: number;
  answer?: Answer | null;
  error?: string | null;
  details?: (number | null)[];
  objective?: number | null;
  loss?: QuestionLoss;
}

export interface QuestionPart {
  golden: GoldenQuestion;
  /** The distinct lists of passages: the index of each passage, and its score. */
  lists: [number, number][][];
  details: Json[];
  searches?: SearchRecord[];
  /** In the order of the leaderboard. */
  trials: TrialOutcome[];
}

export interface PassageText {
  document: string;
  start: number;
  end: number;
  text: string;
  page: number | null;
  book: string | null;
  heading: string | null;
}

export interface MatrixPart {
  trial_order: number[];
  question_order: number[];
  /** Base64 of a byte for each trial and question. */
  values: string;
}
