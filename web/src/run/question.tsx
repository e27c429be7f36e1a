// One question, through all stages.

import { useContext, useEffect, useState } from "preact/hooks";
import { lossWords, nameOf, sorted } from "../data/columns";
import type { BoardRow, EvidenceLoss, PassageText, QuestionPart, SearchRecord, TrialOutcome, TrialPart } from "../data/overview";
import { type Awaitable, continueWith, together } from "../data/parts";
import { useLoaded } from "../page/loaded";
import { Caption, ChosenRow, Head, NumberCell, Problem, Scroll, TextCell } from "../page/tables";
import { LongText } from "../page/text";
import { counted, fixed, isKnown, sentence } from "../words";
import { AskLink } from "./ask-link";
import { JudgeLabels, LabelContext } from "./labels";
import { type RunModel, focusHeading, useRun } from "./model";
import { Retrieved } from "./passages";
import { reasonOf } from "./questions";
import { Account, Folded } from "./verdicts";

interface TrialColumn {
  row: BoardRow;
  own: TrialOutcome;
  list: [number, number][];
  scores: TrialPart;
  passages: PassageText[];
}

interface LoadedQuestion {
  index: number;
  held: QuestionPart;
  columns: TrialColumn[];
}

function loadQuestion(model: RunModel, index: number, rows: BoardRow[]): Awaitable<LoadedQuestion> {
  const { parts, table } = model;
  return continueWith(parts.question(index), (held) => {
    const columns = rows.map((row): Awaitable<TrialColumn> => {
      const own = held.trials[table.numberOf(row)];
      const list = held.lists[own.list];
      const loaded = together([parts.trial(table.numberOf(row)), together(list.map(([place]) => parts.passage(place)))] as const);
      return continueWith(loaded, ([scores, passages]) => ({ row, own, list, scores, passages }));
    });
    return continueWith(together(columns), (all) => ({ index, held, columns: all }));
  });
}

export function QuestionSection() {
  const model = useRun();
  const { table, overview: { questions } } = model;
  const [trial, other] = [table.rowOf(model.trial.value), table.rowOf(model.other.value)];
  const index = table.indexOfQuestion.get(model.question.value ?? "");
  const isChosen = index !== undefined && trial !== undefined;
  const { value, busy, problem, retry } = useLoaded(
    () => (isChosen ? loadQuestion(model, index, [trial, other].filter(isKnown)) : null),
    [model, index, trial, other],
  );
  const labels = useContext(LabelContext);
  const opened = isChosen ? questions[index].id : null;
  useEffect(() => { if (opened !== null) labels?.open(opened); }, [labels, opened]);
  // Before the content was there, the page may have been too short to bring the heading to its top.
  useEffect(() => { if (value && document.activeElement?.id === "question-heading") focusHeading("question-heading"); }, [value]);
  const heading = isChosen ? `${[trial.id, other?.id].filter(Boolean).join(" and ")} · ${questions[index].id}` : "One question";
  return (
    <section aria-labelledby="question-heading">
      <h2 id="question-heading" tabIndex={-1}>{heading}</h2>
      <div id="question" aria-busy={busy ? "true" : undefined}>
        {problem ? <Problem text={problem} retry={retry} /> : null}
        {!isChosen && !problem ? <p class="hint">{questions.length ? "Choose a question above to see its evidence, what was retrieved, the answer and every verdict." : "There are no golden questions in this run."}</p> : null}
        {isChosen && value && !problem ? (
          <>
            <Golden held={value.held} />
            <div class="columns">{value.columns.map((column) => <Column key={column.row.id} column={column} index={value.index} held={value.held} />)}</div>
            <JudgeLabels />
            <EveryTrial held={value.held} />
          </>
        ) : null}
      </div>
    </section>
  );
}

function Golden({ held: { golden } }: { held: QuestionPart }) {
  const { overview } = useRun();
  const { question, reference, evidence, answerable, tags, split } = golden;
  return (
    <dl>
      <dt>question</dt><dd><LongText text={question} /></dd>
      {reference ? <><dt>reference</dt><dd><LongText text={reference} /></dd></> : null}
      {(evidence ?? []).map((item, i) => {
        const number = (overview.pages ?? []).findIndex((page) => page.document === item.document && page.quote === item.quote);
        return [<dt key={`${i} name`}>evidence</dt>, <dd key={i}><LongText text={`${item.document}: ${item.quote}`} />{number >= 0 ? <PagePicture key={number} number={number} /> : null}</dd>];
      })}
      {answerable === false ? <><dt>answer</dt><dd>The documents hold no answer; a system should say so.</dd></> : null}
      {tags?.length ? <><dt>tags</dt><dd><LongText text={tags.join(", ")} /></dd></> : null}
      {split ? <><dt>split</dt><dd>{split}</dd></> : null}
    </dl>
  );
}

/** A page of a document, which is loaded when it is opened. */
function PagePicture({ number }: { number: number }) {
  const model = useRun();
  const [isOpen, setOpen] = useState(false);
  const { document: name, page, is_marked: isMarked } = (model.overview.pages ?? [])[number];
  const { value, busy, problem, retry } = useLoaded(() => (isOpen ? model.parts.page(number) : null), [model, number, isOpen]);
  const words = `Page ${page} of ${name}. ${isMarked ? "The evidence is marked." : "The evidence was not found on it."}`;
  return (
    <details class="page" onToggle={(event) => { if (event.currentTarget.open) setOpen(true); }} aria-busy={busy ? "true" : undefined}>
      <summary>page {page}</summary>
      {problem ? <Problem text={problem} retry={retry} /> : null}
      {value ? <><img src={`data:image/png;base64,${value}`} alt={words} /><p class="hint">{words}</p></> : null}
    </details>
  );
}

function Column({ column, index, held }: { column: TrialColumn; index: number; held: QuestionPart }) {
  const { row, own, list, scores, passages } = column;
  return (
    <div class="column">
      <h3><LongText text={nameOf(row)} /></h3>
      <AskLink trial={row.id} question={held.golden.question} />
      <Loss own={own} held={held} />
      {own.search === undefined ? null : <Searched search={held.searches?.[own.search]} />}
      <h4>Retrieved</h4>
      <Retrieved row={row} list={list} passages={passages} held={held} />
      <h4>Answer</h4>
      <AnswerCard own={own} />
      <h4>Verdicts</h4>
      <Verdicts trial={row.id} own={own} scores={scores} index={index} held={held} />
    </div>
  );
}

/** Where this trial lost the question's evidence; nothing if that is not known. */
function Loss({ own: { loss }, held }: { own: TrialOutcome; held: QuestionPart }) {
  const { table } = useRun();
  if (!loss) return null;
  const step = table.lossSteps.find((one) => one.name === loss.step);
  const evidence = held.golden.evidence ?? [];
  const words = (item: EvidenceLoss, i: number): string => {
    const { chunk, rank, searched, depth } = item;
    const said = [`evidence ${i + 1}${evidence[i] ? ` in ${evidence[i].document}` : ""}: ${lossWords(table, item)}`];
    if (chunk) said.push(`chunk ${chunk.number} holds ${Math.round(100 * chunk.share)} % of it`);
    if (isKnown(rank)) said.push(`rank ${rank} of the search, which gave ${counted(searched ?? 0, "passage")}`);
    else if (depth) said.push(`not among the first ${counted(depth, "chunk")} of the search`);
    if (chunk) said.push(`shares with the question: ${chunk.shared_terms.join(", ") || "no word"}`);
    return said.join("; ");
  };
  const lines = (loss.evidence ?? []).flatMap((item, i) => (item.step ? [<li key={i}>{words(item, i)}</li>] : []));
  return (
    <>
      <h4>{step?.is_loss ? "Where it was lost" : "How it ended"}</h4>
      <p class="hint">{`${sentence(lossWords(table, loss))} ${step?.meaning ?? ""}`}</p>
      {lines.length ? <ul>{lines}</ul> : null}
    </>
  );
}

/** The searches that a component wrote; nothing if the question was searched as it was asked. */
function Searched({ search }: { search: SearchRecord | undefined }) {
  if (!search) return null;
  const remarks = search.remarks ?? [];
  return (
    <>
      {search.queries.length || search.fallback ? (
        <>
          <h4>Searched</h4>
          <ol>
            {search.queries.map(({ words, text, passages }, i) => (
              <li key={i}>
                <LongText text={text} />
                {words === text ? null : <div class="where">by words: <LongText text={words} /></div>}
                {passages.map((passage, n) => <div key={n} class="where">with the vector of: <LongText text={passage} /></div>)}
              </li>
            ))}
          </ol>
          {search.fallback ? <p class="problem">Fell back, because: <LongText text={search.fallback} /></p> : null}
        </>
      ) : null}
      {remarks.length ? <><h4>After retrieval</h4><ul>{remarks.map((remark, i) => <li key={i}><LongText text={remark} /></li>)}</ul></> : null}
    </>
  );
}

function AnswerCard({ own }: { own: TrialOutcome }) {
  if (!own.answer) return own.error ? <p class="problem">It failed: <LongText text={own.error} /></p> : <p class="hint">This question was not answered in this run.</p>;
  const { text, citations, seconds, usage, dropped_passages: dropped, finish } = own.answer;
  const said = [
    `cites ${citations.map((n) => `[${n}]`).join(" ") || "nothing"}`,
    `${fixed(seconds, 2)} s`,
    `${usage.prompt_tokens} tokens read, ${usage.completion_tokens} written`,
  ];
  if (finish === "length") said.push("cut off at max_tokens");
  if (dropped) said.push(`${counted(dropped, "passage")} left out because the context was full`);
  return <div class="card"><div class="body"><LongText text={text} /></div><div class="where">{said.join(" · ")}</div></div>;
}

function Verdicts({ trial, own, scores, index, held }: { trial: string; own: TrialOutcome; scores: TrialPart; index: number; held: QuestionPart }) {
  const model = useRun();
  return (
    <dl class="verdicts">
      {model.table.metrics.map((metric) => {
        const number = model.table.metricNumber(metric.name);
        const score = scores.scores[number][index];
        const detail = own.details?.[number];
        return [
          <dt key={`${metric.name} name`}>{metric.title}</dt>,
          <dd key={metric.name}>
            {isKnown(score) ? fixed(score) : <LongText text={reasonOf(model, scores, metric.name, index)} />}
            {isKnown(detail) ? <Folded summary="how it came about">{() => <Account detail={held.details[detail]} of={{ question: held.golden.id, trial, metric: metric.name }} />}</Folded> : null}
          </dd>,
        ];
      })}
    </dl>
  );
}

/** How all trials did on this question. It stays open while one trial after the other is chosen. */
function EveryTrial({ held }: { held: QuestionPart }) {
  const model = useRun();
  const [isOpen, setOpen] = useState(false);
  const [wasOpened, setOpened] = useState(false);
  const scored = held.trials.flatMap((own, i) => (isKnown(own.objective) ? [{ row: model.table.rows[i], own, objective: own.objective }] : []));
  if (scored.length < 2) return null;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary onClick={() => setOpened(true)}>All {scored.length} trials on this question</summary>
      {isOpen || wasOpened ? (
        <Scroll label="All trials on this question">
          <table>
            <Caption text="All trials on this question, best first" />
            <thead><tr><Head>trial</Head><Head>what it is</Head><Head number>objective</Head><Head>answer</Head></tr></thead>
            <tbody>
              {sorted(scored, ({ objective }) => objective, true).map(({ row, own, objective }) => (
                <ChosenRow key={row.id} id={row.id} isChosen={row.id === model.trial.value} choose={() => model.change({ trial: row.id })} marked={false}>
                  <TextCell class="text" text={nameOf(row).slice(row.id.length + 2)} /><NumberCell value={objective} /><TextCell class="text answer" text={own.answer?.text ?? own.error ?? "–"} />
                </ChosenRow>
              ))}
            </tbody>
          </table>
        </Scroll>
      ) : null}
    </details>
  );
}
