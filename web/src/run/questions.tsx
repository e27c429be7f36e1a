// The chosen trial, and its questions.

import { useState } from "preact/hooks";
import { nameOf, sorted } from "../data/columns";
import type { BoardRow, CellScores, TrialPart } from "../data/overview";
import { together } from "../data/parts";
import { flat } from "../data/settings";
import { useLoaded } from "../page/loaded";
import { Caption, ChosenRow, Head, NumberCell, Problem, Scroll, Sortable } from "../page/tables";
import { LongText } from "../page/text";
import { counted, isKnown, shortened } from "../words";
import { type Filter, LOST, NOTHING_FILTERED, type Order } from "./address";
import { type RunModel, useRun } from "./model";

const PAGE_LINES = 100;

export function QuestionsSection() {
  const model = useRun();
  const { table, overview: { questions } } = model;
  const row = table.rowOf(model.trial.value);
  const [filter, order] = [model.filter.value, model.order.value];
  const { value, busy, problem, retry } = useLoaded(() => (row ? together([row, model.parts.trial(table.numberOf(row))] as const) : null), [model, row]);
  const has = row && questions.length;
  const scores = has && !problem ? value : null;
  const found = scores ? findQuestions(model, scores[1], filter, order) : [];
  const words = () => {
    if (!has) return questions.length ? "There is no trial whose questions could be shown." : "There are no golden questions.";
    return scores && found.length < questions.length ? `${found.length} of ${counted(questions.length, "question")}.` : "";
  };
  return (
    <section aria-labelledby="questions-heading">
      <h2 id="questions-heading" tabIndex={-1}>{row ? `Questions of ${row.id}` : "Questions"}</h2>
      <div id="trial">{row ? <ChosenTrial row={row} /> : null}</div>
      <FilterFields filter={filter} hidden={!has} />
      <p id="filtered" role="status">{words()}</p>
      <Scroll labelledBy="questions-heading">
        <table id="questions" aria-busy={busy ? "true" : undefined}>
          {problem && has ? <caption><Problem text={problem} retry={retry} /></caption> : null}
          {scores ? <QuestionLines row={scores[0]} scores={scores[1]} found={found} /> : null}
        </table>
      </Scroll>
    </section>
  );
}

/** Where the chosen trial stands, what it lacks, and its settings. */
function ChosenTrial({ row }: { row: BoardRow }) {
  const { table } = useRun();
  const [isOpen, setOpen] = useState(false);
  const lacking = table.shown.flatMap((column) => {
    const cell = row.cells[column.index];
    const missing = cell !== null && typeof cell === "object" ? (cell as CellScores).missing : null;
    return missing ? [`${column.title}: ${missing}`] : [];
  });
  return (
    <>
      <p class="hint"><LongText text={`${[`${nameOf(row)}. Its place: ${row.place}`, ...lacking].join(". ")}.`} /></p>
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Settings of {row.id}</summary>
        <dl>{[...flat(row.settings)].map(([path, value]) => [<dt key={`${path} name`}>{path}</dt>, <dd key={path}><LongText text={value} /></dd>])}</dl>
      </details>
    </>
  );
}

function FilterFields({ filter, hidden }: { filter: Filter; hidden: boolean }) {
  const model = useRun();
  const set = (changes: Partial<Filter>, gesture: string | null = null) => model.change({ filter: { ...model.filter.peek(), ...changes } }, gesture);
  return (
    <form class="fields" id="filter" hidden={hidden} onSubmit={(event) => event.preventDefault()}>
      <label>Find in questions <input type="search" id="find" value={filter.text} onInput={(event) => set({ text: event.currentTarget.value }, "find")} /></label>
      <label>Answers{" "}
        <select id="answers" value={filter.answers} onChange={(event) => set({ answers: event.currentTarget.value as Filter["answers"] })}>
          <option value="">all</option><option value="yes">answered</option><option value="no">not answered</option><option value="failed">failed</option>
        </select>
      </label>
      <label>Score of{" "}
        <select id="score-metric" value={filter.metric} onChange={(event) => set({ metric: event.currentTarget.value })}>
          <option value="">any metric</option>
          {model.table.metrics.map((metric) => <option key={metric.name} value={metric.name}>{metric.name}</option>)}
        </select>
      </label>
      <label>is{" "}
        <select id="score-side" value={filter.side} onChange={(event) => set({ side: event.currentTarget.value as Filter["side"] })}>
          <option value="below">below</option><option value="above">above</option>
        </select>
      </label>
      <label>this value <input type="number" step="any" id="score-value" value={filter.value} onInput={(event) => set({ value: event.currentTarget.value }, "score")} /></label>
      <button type="button" onClick={() => set(NOTHING_FILTERED)}>Show all</button>
    </form>
  );
}

/** The indexes of the questions that pass the filter, in order. */
function findQuestions(model: RunModel, scores: TrialPart, filter: Filter, order: Order | null): number[] {
  const { table, overview: { questions } } = model;
  const wanted = filter.text.toLowerCase();
  const metric = filter.metric && filter.value !== "" ? table.metricNumber(filter.metric) : -1;
  const passes = (index: number) => {
    const { id, question } = questions[index];
    if (wanted && !`${id} ${question}`.toLowerCase().includes(wanted)) return false;
    const answered = scores.answers[index];
    if ((filter.answers === "yes" && answered !== 1) || (filter.answers === "no" && answered === 1) || (filter.answers === "failed" && answered !== 2)) return false;
    if (metric < 0) return true;
    const score = scores.scores[metric][index];
    return isKnown(score) && (filter.side === "below" ? score < Number(filter.value) : score > Number(filter.value));
  };
  const found = questions.map((_, index) => index).filter(passes);
  if (!order) return found;
  const of = (index: number) => {
    if (order.key === "question") return questions[index].id;
    return order.key === LOST ? scores.losses?.[index] : scores.scores[table.metricNumber(order.key)][index];
  };
  return sorted<number, string | number>(found, of, order.down);
}

/** Why a question has no score by a metric. */
export function reasonOf(model: RunModel, scores: TrialPart, metric: string, index: number): string {
  const found = Object.entries(scores.missing[model.table.metricNumber(metric)]).find(([, places]) => places.includes(index));
  return found?.[0] ?? "not scored";
}

function QuestionLines({ row, scores, found }: { row: BoardRow; scores: TrialPart; found: number[] }) {
  const model = useRun();
  const { table } = model;
  const order = model.order.value;
  const [whole, setWhole] = useState<TrialPart | null>(null);
  const shown = whole === scores ? found : found.slice(0, PAGE_LINES);
  const choose = (next: Order) => model.change({ order: next });
  const rest = found.length - shown.length;
  return (
    <>
      <Caption text={`Questions of ${row.id} with their scores`} />
      <thead>
        <tr>
          <Sortable label="question" sortKey="question" order={order} isNumber={false} choose={choose} />
          <Head>text</Head>
          {table.metrics.map((metric) => <Sortable key={metric.name} label={metric.name} sortKey={metric.name} order={order} isNumber choose={choose} />)}
          {scores.losses ? <Sortable label="lost" sortKey={LOST} order={order} isNumber={false} choose={choose} /> : null}
        </tr>
      </thead>
      <tbody>{shown.map((index) => <QuestionLine key={index} index={index} scores={scores} />)}</tbody>
      {rest > 0 ? <tfoot id="more-questions"><tr><td colSpan={table.metrics.length + 3}><button type="button" onClick={() => setWhole(scores)}>Show {rest} more</button></td></tr></tfoot> : null}
    </>
  );
}

function QuestionLine({ index, scores }: { index: number; scores: TrialPart }) {
  const model = useRun();
  const { table, overview } = model;
  const { id, question, answerable } = overview.questions[index];
  const step = scores.losses ? table.lossSteps[scores.losses[index] ?? -1] : undefined;
  return (
    <ChosenRow id={id} isChosen={model.question.value === id} choose={() => model.openQuestion(id)}>
      <td class="text">
        <LongText text={question} />
        {answerable ? null : <>{" "}<span class="badge tied">not in the documents</span></>}
        {scores.answers[index] === 2 ? <>{" "}<span class="badge bad">failed</span></> : null}
      </td>
      {table.metrics.map((metric) => {
        const score = scores.scores[table.metricNumber(metric.name)][index];
        return isKnown(score) ? <NumberCell key={metric.name} value={score} /> : <td key={metric.name} class="number missing" title={shortened(reasonOf(model, scores, metric.name, index))}>–</td>;
      })}
      {scores.losses ? <td class={step?.is_loss ? undefined : "missing"} title={step?.meaning}>{step?.title ?? "–"}</td> : null}
    </ChosenRow>
  );
}
