// Trials and the columns of their table.

import type { BoardRow, Column, ColumnKind, EvidenceLoss, LossStep, Overview, QuestionLoss } from "./overview";
import { isKnown } from "../words";

export interface RunColumn extends Column {
  index: number;
  /** Kind and name, because a metric may have the name of another column. */
  key: string;
  isNumber: boolean;
  /** In a sentence; none for an axis and for a metric that a user wrote. */
  meaning?: string;
  /** A word, a number or the mean of scores. */
  of(row: BoardRow): string | number | null;
}

/** What the pages of one run need again and again. */
export interface RunTable {
  overview: Overview;
  rows: BoardRow[];
  /** All columns, and those that the table shows. */
  every: RunColumn[];
  shown: RunColumn[];
  metrics: RunColumn[];
  lossSteps: LossStep[];
  indexOfQuestion: Map<string, number>;
  leading: BoardRow | undefined;
  rowOf(id: string | null): BoardRow | undefined;
  numberOf(row: BoardRow): number;
  columnOf(key: string): RunColumn | undefined;
  ofKind(kind: ColumnKind): RunColumn[];
  metricNumber(name: string): number;
  objective(row: BoardRow): number | null;
  colour(row: BoardRow): string;
}

function valueOf(index: number): RunColumn["of"] {
  return (row) => {
    const cell = row.cells[index] ?? null;
    return cell !== null && typeof cell === "object" ? cell.mean : cell;
  };
}

export function tableOf(overview: Overview): RunTable {
  const { board, questions, metrics, meanings } = overview;
  const { rows } = board;
  const every = board.columns.map((column, index): RunColumn => ({
    ...column,
    index,
    key: `${column.kind}.${column.name}`,
    title: column.judged ? `${column.title}*` : column.title,
    isNumber: column.kind !== "axis",
    meaning: meanings?.[`${column.kind}.${column.name}`],
    of: valueOf(index),
  }));
  const shown = every.filter((column) => column.shown);
  const ofKind = (kind: ColumnKind) => shown.filter((column) => column.kind === kind);
  const objectiveColumn = ofKind("objective")[0];
  const objective = (row: BoardRow): number | null => {
    const value = objectiveColumn?.of(row);
    return typeof value === "number" ? value : null;
  };
  const byId = new Map(rows.map((row) => [row.id, row]));
  const numbers = new Map(rows.map((row, index) => [row, index]));
  const byKey = new Map(every.map((column) => [column.key, column]));
  const objectives = rows.map(objective).filter(isKnown);
  const [lowest, highest] = [Math.min(...objectives), Math.max(...objectives)];
  return {
    overview,
    rows,
    every,
    shown,
    metrics: ofKind("metric"),
    lossSteps: overview.loss_steps ?? [],
    indexOfQuestion: new Map(questions.map((question, index) => [question.id, index])),
    leading: rows.find(isFirst) ?? rows[0],
    rowOf: (id) => (id === null ? undefined : byId.get(id)),
    numberOf: (row) => numbers.get(row) ?? -1,
    columnOf: (key) => byKey.get(key),
    ofKind,
    metricNumber: (name) => metrics.findIndex((metric) => metric.name === name),
    objective,
    // Blue is low and orange is high: told apart with any colour vision.
    colour: (row) => {
      const value = objective(row);
      if (value === null) return "var(--soft)";
      const share = highest > lowest ? (value - lowest) / (highest - lowest) : 1;
      return `hsl(${share > 0.5 ? 28 : 215} ${30 + Math.abs(share - 0.5) * 120}% 52%)`;
    },
  };
}

export const isFirst = (row: BoardRow): boolean => row.standing === "winner" || row.standing === "leads";

/** The labels of a trial, without axes that do nothing. */
export function labelsOf(row: { labels: Record<string, string> }): string {
  return Object.values(row.labels).filter((label) => label !== "none").join(", ");
}

export const nameOf = (row: BoardRow): string => `${row.id}: ${labelsOf(row)}`;

export function lossWords(table: RunTable, { step, component }: QuestionLoss | EvidenceLoss): string {
  const title = table.lossSteps.find((one) => one.name === step)?.title ?? step ?? "";
  return `${title}${component ? ` (${component})` : ""}`;
}

/** Sorts rows; rows without a value come last in both directions. */
export function sorted<Row, Value extends string | number>(rows: Row[], of: (row: Row) => Value | null | undefined, down: boolean): Row[] {
  const keyed = rows.map((row) => ({ value: of(row), row }));
  keyed.sort(({ value: x }, { value: y }) => {
    if (!isKnown(x)) return isKnown(y) ? 1 : 0;
    if (!isKnown(y)) return -1;
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
  });
  return keyed.map(({ row }) => row);
}
