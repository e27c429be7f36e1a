// The data of the server's API: the list of runs, and a run that is going on.

export type RunState = "running" | "paused" | "finished" | "interrupted" | "failed" | "stalled";

export interface RunSummary {
  run: string;
  experiment: string;
  state: RunState;
  started_ms: number | null;
  finished_ms: number | null;
  overrides: string[];
  trials: number | null;
  headline: string | null;
  has_results: boolean;
}

export interface RunList {
  store: string;
  can_steer: boolean;
  runs: RunSummary[];
}

export interface LiveOperator {
  operator: string;
  title?: string;
  status: "pending" | "running" | "finished" | "failed";
  rows_done: number;
  /** Rows among these that have no result. */
  rows_failed: number;
  rows_estimated: number | null;
  queued: number;
  active: number;
  finished: number;
  reused: number;
  failed: number;
  /** Another run that does a task for which this run waits. */
  held_by: string | null;
  rate_now: number | null;
  rate_average: number | null;
  seconds_left: number | null;
  waits_for: string | null;
}

export interface LiveModel {
  name: string;
  in_flight: number;
  target: number;
  waiting: number;
  answered: number;
  goodput: number | null;
  tokens_per_second: number | null;
  refused_share: number | null;
}

/** A cap that is not set is absent. */
export interface Caps {
  usd?: number | null;
  tokens?: number | null;
  calls?: number | null;
  minutes?: number | null;
}

export interface LiveScore {
  mean: number | null;
  low: number | null;
  high: number | null;
  questions: number;
}

export interface LiveTrial {
  trial: string;
  labels: Record<string, string>;
  state: "waiting" | "running" | "finished" | "stopped";
  scores: Record<string, LiveScore>;
}

export type Act =
  | { act: "pause" }
  | { act: "continue" }
  | { act: "stop_trial"; trial: string }
  | { act: "set_budget"; usd?: number; tokens?: number; calls?: number; minutes?: number }
  | { act: "set_limit"; model: string; concurrency: number }
  | { act: "add_trial"; like: string; set: Record<string, unknown> }
  | { act: "ask_questions"; questions: number };

/** The settings of a planned trial, by their dotted keys, as short texts. */
export interface PlannedTrial {
  trial: string;
  choices: Record<string, string>;
}

export interface RecordedAct {
  number: number;
  time_ms: number;
  by: string;
  act: Act;
  outcome: string | null;
  refused: boolean;
}

export interface LiveHistory {
  time_ms: number[];
  in_flight: (number | null)[];
  target: (number | null)[];
  tokens_per_second: (number | null)[];
  cost_usd: (number | null)[];
  refused_share: (number | null)[];
}

export interface LiveRun {
  run: string;
  experiment: string;
  state: RunState;
  started_ms: number;
  written_ms: number;
  now_ms: number;
  note: string | null;
  /** The run as which it went on, if a person has changed its plan. */
  continued_as?: string;
  operators: LiveOperator[];
  flow: [string, string][];
  models: LiveModel[];
  spending: { calls: number; tokens: number; cost_usd: number; caps: Caps; reached: string | null };
  problems: { name: string; reason: string }[];
  warnings: string[];
  failures: { operator: string; reason: string; count: number; example: string }[];
  objective: string[];
  trials: LiveTrial[];
  acts: RecordedAct[];
  history: LiveHistory;
}
