// The leaderboard: one line for each trial, best first.

import { useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { type RunColumn, type RunTable, isFirst, sorted } from "../data/columns";
import type { BoardRow, CellScores, Difference } from "../data/overview";
import { isNarrow } from "../page/size";
import { Caption, ChosenRow, Head, NumberCell, Scroll, Sortable, TextCell } from "../page/tables";
import { WithCode } from "../page/text";
import { counted, fixed, isKnown, percent, sentence, shortened, signed } from "../words";
import type { Order } from "./address";
import { useRun } from "./model";

/** A column as it is drawn; without a key it cannot be sorted by. */
interface DrawnColumn {
  kind: string;
  title: string;
  isNumber: boolean;
  key?: string;
  meaning?: string;
  cell(row: BoardRow): ComponentChildren;
}

function ScoresCell({ scores, column }: { scores: CellScores; column: RunColumn }) {
  const reason = scores.missing ? shortened(scores.missing) : undefined;
  if (scores.mean === null) return <td class="number missing" title={reason}>– (0/{scores.n_total})</td>;
  const worstToBest = scores.n_scored < scores.n_total ? `, ${fixed(scores.worst, 2)} to ${fixed(scores.best, 2)}` : "";
  return (
    <td class="number" title={reason}>
      {fixed(scores.mean, column.digits)}
      {isKnown(scores.low) ? <div class="range">{fixed(scores.low, 2)}–{fixed(scores.high, 2)}</div> : null}
      {column.kind === "metric" ? <div class="range">{scores.n_scored}/{scores.n_total}{worstToBest}</div> : null}
    </td>
  );
}

function DataCell({ row, column }: { row: BoardRow; column: RunColumn }) {
  const cell = row.cells[column.index] ?? null;
  if (!column.isNumber) return <TextCell class="axis" text={String(cell ?? "")} />;
  if (cell === null || typeof cell === "string") return <td class="number missing">–</td>;
  return typeof cell === "number" ? <NumberCell value={cell} digits={column.digits} /> : <ScoresCell scores={cell} column={column} />;
}

/** What a share of resamples on the front means, in words. */
export const frontWords = (share: number): string => `in ${percent(share)} of the resamples of the questions, no trial beats it on quality, cost and latency together`;

function Badges({ row, isOnFront }: { row: BoardRow; isOnFront: boolean }) {
  const kind = isFirst(row) ? "winner" : row.standing === "behind" ? "" : "tied";
  const share = row.front_share;
  const words = isKnown(share) ? frontWords(share) : "no trial beats it on quality, cost and latency together";
  return (
    <td>
      {row.label ? <span class={`badge ${kind}`} title={row.place}>{row.label}</span> : null}
      {isOnFront ? <>{" "}<span class="badge tied" title={words}>{isKnown(share) ? `front ${percent(share)}` : "front"}</span></> : null}
    </td>
  );
}

/** How far trials are from the leading one, on one scale. */
interface DifferenceScale {
  of: Map<string, Difference>;
  x(value: number): number;
}

function differenceScale(table: RunTable): DifferenceScale {
  const of = new Map<string, Difference>();
  table.rows.forEach((row, index) => {
    const difference = table.overview.differences[index];
    if (difference) of.set(row.id, difference);
  });
  const ends = [...of.values()].flatMap(({ mean, interval }) => [mean, interval?.low ?? mean, interval?.high ?? mean]);
  const [leftmost, rightmost] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  return { of, x: (value) => 4 + ((value - leftmost) / (rightmost - leftmost || 1)) * 112 };
}

function DifferenceCell({ difference, leads, x }: { difference: Difference | undefined; leads: boolean; x(value: number): number }) {
  if (!difference) return <td class="missing">{leads ? "leads" : "–"}</td>;
  const { mean, interval, n_questions: n } = difference;
  return (
    <td class="number" title={`paired on ${counted(n, "question")}`}>
      {signed(mean)}
      <div class="range">{interval ? `${signed(interval.low)} to ${signed(interval.high)}` : "no interval"}</div>
      <svg viewBox="0 0 120 14" width={120} height={14} aria-hidden="true" class="interval">
        <line x1={x(0)} x2={x(0)} y1={0} y2={14} class="zero" />
        {interval ? <line x1={x(interval.low)} x2={x(interval.high)} y1={7} y2={7} class="whisker" /> : null}
        <circle cx={x(mean)} cy={7} r={3} />
      </svg>
    </td>
  );
}

/** Counts, for each step, the questions whose evidence was lost there. */
function LossesCell({ row, table }: { row: BoardRow; table: RunTable }) {
  const losses = row.losses ?? {};
  const lost = table.lossSteps.filter((step) => step.is_loss && losses[step.name]);
  if (!lost.length) return <td class="missing">{Object.keys(losses).length ? "none" : "–"}</td>;
  return <td>{lost.map((step) => <div key={step.name} class="range" title={step.meaning}>{losses[step.name]} {step.title}</div>)}</td>;
}

function drawnColumns(table: RunTable, scale: DifferenceScale, narrow: boolean): DrawnColumn[] {
  const { board } = table.overview;
  const columns: DrawnColumn[] = table.shown.map((column) => ({ kind: column.kind, title: column.title, isNumber: column.isNumber, key: column.key, meaning: column.meaning, cell: (row) => <DataCell row={row} column={column} /> }));
  // Behind the objective: how far a trial is behind, and why.
  const behind: DrawnColumn[] = [];
  if (scale.of.size) {
    behind.push({
      kind: "difference", title: `difference to ${table.leading?.id ?? ""}`, isNumber: true,
      cell: (row) => <DifferenceCell difference={scale.of.get(row.id)} leads={row === table.leading} x={scale.x} />,
    });
  }
  const hasLosses = table.rows.some((row) => Object.keys(row.losses ?? {}).length > 0);
  if (hasLosses && table.lossSteps.length) behind.push({ kind: "lost", title: "lost", isNumber: false, cell: (row) => <LossesCell row={row} table={table} /> });
  columns.splice(columns.findIndex((column) => column.kind === "objective") + 1, 0, ...behind);
  const front = new Set(board.front);
  columns.unshift({ kind: "standing", title: "standing", isNumber: false, cell: (row) => <Badges row={row} isOnFront={front.has(row.id)} /> });
  // On a narrow screen the objective stands right after the trial, where it is seen without scrolling.
  if (narrow) columns.sort((one, other) => Number(other.kind === "objective") - Number(one.kind === "objective"));
  return columns;
}

function Line({ row, columns }: { row: BoardRow; columns: DrawnColumn[] }) {
  const model = useRun();
  const isChosen = useComputed(() => model.trial.value === row.id).value;
  const isOut = useComputed(() => model.settledOut.value.has(row.id)).value;
  const cells = useMemo(() => columns.map((column) => column.cell(row)), [row, columns]);
  return <ChosenRow id={row.id} isChosen={isChosen} isOut={isOut} choose={() => model.change({ trial: row.id })}>{cells}</ChosenRow>;
}

/** The trials below the titles of their groups; one list if there are no groups, or if the user sorts them. */
function grouped(table: RunTable, sort: Order | null): [string | null, BoardRow[]][] {
  const { rows, overview } = table;
  if (sort) {
    const of = sort.key === "trial" ? (row: BoardRow) => row.id : (row: BoardRow) => table.columnOf(sort.key)?.of(row);
    return [[null, sorted(rows, of, sort.down)]];
  }
  if (!overview.group_titles.length) return [[null, rows]];
  const groups = overview.group_titles.map((title, index): [string, BoardRow[]] => [sentence(title), rows.filter((row) => row.group === index + 1)]);
  const others = rows.filter((row) => !isKnown(row.group));
  return [...groups, ["Without a group", others] as [string, BoardRow[]]].filter(([, own]) => own.length);
}

export function Leaderboard() {
  const model = useRun();
  const { table } = model;
  const narrow = isNarrow.value;
  const sort = model.sort.value;
  const scale = useMemo(() => differenceScale(table), [table]);
  const columns = useMemo(() => drawnColumns(table, scale, narrow), [table, scale, narrow]);
  const choose = (order: Order) => model.change({ sort: order });
  return (
    <section aria-labelledby="board-heading">
      <h2 id="board-heading" tabIndex={-1}>Leaderboard</h2>
      <Scroll labelledBy="board-heading">
        <table id="board">
          <Caption text="Trials, best first" />
          <thead>
            <tr>
              <Sortable label="trial" sortKey="trial" order={sort} isNumber={false} choose={choose} />
              {columns.map((column) => column.key === undefined
                ? <Head key={column.kind} number={column.isNumber}>{column.title}</Head>
                : <Sortable key={column.key} label={column.title} sortKey={column.key} order={sort} isNumber={column.isNumber} meaning={column.meaning} choose={choose} />)}
            </tr>
          </thead>
          {grouped(table, sort).map(([title, rows]) => (
            <tbody key={title ?? ""}>
              {title ? <tr class="group"><th scope="rowgroup" colSpan={columns.length + 1}><span>{title}</span></th></tr> : null}
              {rows.map((row) => <Line key={row.id} row={row} columns={columns} />)}
            </tbody>
          ))}
        </table>
      </Scroll>
      <Remarks hasDifferences={scale.of.size > 0} />
    </section>
  );
}

/** Explains the steps that are in the column of losses. */
function lossLegend(table: RunTable): string {
  const shown = table.lossSteps.filter((step) => step.is_loss && table.rows.some((row) => row.losses?.[step.name]));
  if (!shown.length) return "";
  return `Lost: at how many questions the evidence was lost first at this step. ${shown.map((step) => `${sentence(step.title).slice(0, -1)}: ${step.meaning}`).join(" ")}`;
}

function Meanings({ columns }: { columns: RunColumn[] }) {
  const explained = columns.filter((column) => column.meaning);
  if (!explained.length) return null;
  return (
    <details id="meanings">
      <summary>What the columns mean</summary>
      <dl>{explained.map((column) => [<dt key={`${column.key} title`}>{column.title}</dt>, <dd key={column.key}><WithCode text={column.meaning ?? ""} /></dd>])}</dl>
    </details>
  );
}

function Remarks({ hasDifferences }: { hasDifferences: boolean }) {
  const { table, overview: { board } } = useRun();
  const isAboutJudges = (about: string) => about === "judge" || about === "untried_judge";
  const leads = table.leading?.id ?? "";
  const legend = [
    "Mean; below it the 95 % bootstrap interval and n scored of n total, with worst and best case where scores are missing.",
    hasDifferences ? `The difference to ${leads} is the objective's, paired question by question; the line is its 95 % interval, which does not take into account that ${leads} was chosen as the best.` : "",
    lossLegend(table),
    board.front.length && table.rows.some((row) => isKnown(row.front_share)) ? "Front: the share of resamples of the questions in which no trial beats this one on quality, cost and latency together." : "",
    ...board.notes.filter((note) => isAboutJudges(note.about)).map((note) => `* ${sentence(note.text)} Only a qualified judge's metric may choose the winner.`),
  ];
  return (
    <>
      <p class="hint" id="legend">{legend.filter(Boolean).join(" ")}</p>
      <Meanings columns={table.shown} />
      <ul id="notes">{board.notes.filter((note) => !isAboutJudges(note.about)).map((note, i) => <li key={i}><WithCode text={sentence(note.text, note.subject)} /></li>)}</ul>
    </>
  );
}
