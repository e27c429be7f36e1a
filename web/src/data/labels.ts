// The data of the server's API about labels: whether a judge's verdict is right, as people see it.

import type { Agreement } from "./golden";

/** Which verdict of a run: an item of a list in the detail of a score. */
export interface VerdictPlace {
  question: string;
  trial: string;
  metric: string;
  list: string;
  /** From 0. */
  item: number;
}

export interface VerdictLabel extends VerdictPlace {
  by: string;
  is_right: boolean;
}

export interface JudgeAgreement {
  judge: string;
  /** Labels of people on verdicts of this judge. */
  labels: number;
  agreement: Agreement | null;
}

export interface QuestionLabels {
  /** The file of the labels. */
  log: string;
  /** By metric: the lists of verdicts that can become labelled cases. */
  lists: Record<string, string[]>;
  labels: VerdictLabel[];
  judges: JudgeAgreement[];
}

export interface LabelRequest extends VerdictPlace {
  run: string;
  by?: string;
  is_right: boolean;
}
