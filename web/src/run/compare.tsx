// Two trials side by side: settings that differ, questions won and lost.

import { useState } from "preact/hooks";
import { sorted } from "../data/columns";
import type { BoardRow, QuestionSummary, TrialPart } from "../data/overview";
import { together } from "../data/parts";
import { differing } from "../data/settings";
import { useLoaded } from "../page/loaded";
import { Caption, Chooser, ChosenRow, Head, NumberCell, Problem, Scroll, TextCell } from "../page/tables";
import { LongText } from "../page/text";
import { counted, fixed, isKnown, signed } from "../words";
import { type RunModel, useRun } from "./model";
import { meanInterval, tally } from "./tally";

const MOST_LINES = 50;

/** Scores by question, and whether more is better. */
function measure(model: RunModel, part: TrialPart, by: string): [(number | null)[], boolean] {
  if (by === "objective") return [part.objective, true];
  const index = model.table.metricNumber(by);
  return [part.scores[index], model.overview.metrics[index].higher_is_better];
}

export function CompareSection() {
  const model = useRun();
  const { table } = model;
  const [trial, other, by] = [model.trial.value, model.other.value, model.by.value];
  const trials = table.rows.map((row): [string, string] => [row.id, row.label ? `${row.id} (${row.label})` : row.id]);
  const [one, two] = [table.rowOf(trial), table.rowOf(other)];
  const isPair = one && two && one !== two;
  const { value: pair, busy, problem, retry } = useLoaded(
    () => (isPair ? together([one, two, model.parts.trial(table.numberOf(one)), model.parts.trial(table.numberOf(two))] as const) : null),
    [model, one, two],
  );
  return (
    <section aria-labelledby="compare-heading">
      <h2 id="compare-heading" tabIndex={-1}>Two trials side by side</h2>
      <div class="fields" id="compare-fields">
        <Chooser label="Trial" options={trials} value={trial ?? ""} choose={(id) => model.change({ trial: id })} />
        <Chooser label="beside" options={[["", "none"], ...trials.filter(([id]) => id !== trial)]} value={other ?? ""} choose={(id) => model.change({ other: id || null })} />
        <Chooser label="Sort questions by" options={[["objective", "the objective"], ...table.metrics.map((metric): [string, string] => [metric.name, metric.name])]} value={by} choose={(name) => model.change({ by: name })} />
      </div>
      <div id="compare" aria-busy={busy ? "true" : undefined}>
        {problem ? <Problem text={problem} retry={retry} /> : null}
        {!problem && pair ? <Pair one={pair[0]} two={pair[1]} a={pair[2]} b={pair[3]} /> : null}
        {!problem && !pair && !isPair ? <p class="hint">Choose a second trial to see which settings differ, and on which questions the two differ most.</p> : null}
      </div>
    </section>
  );
}

interface PairProps {
  one: BoardRow;
  two: BoardRow;
  a: TrialPart;
  b: TrialPart;
}

function Pair(pair: PairProps) {
  return (
    <>
      <Verdict {...pair} />
      <SettingsTable {...pair} />
      <TalliesTable {...pair} />
      <LossesTable {...pair} />
      <DifferencesTable {...pair} />
    </>
  );
}

/** Whether the objective tells the two apart. */
function Verdict({ one, two, a, b }: PairProps) {
  const counts = tally(a.objective, b.objective, true);
  const interval = meanInterval(counts);
  if (!interval) return null;
  const [low, high] = interval;
  const [better, worse] = counts.sum > 0 ? [one, two] : [two, one];
  const mean = Math.abs(counts.sum / counts.n);
  const ends = [Math.min(Math.abs(low), Math.abs(high)), Math.max(Math.abs(low), Math.abs(high))];
  const isApart = low > 0 || high < 0;
  return (
    <p id="pair-verdict">
      {isApart
        ? `${better.id} is better than ${worse.id} by ${fixed(mean)} of the objective (95 % interval ${fixed(ends[0])} to ${fixed(ends[1])}, paired on ${counted(counts.n, "question")}).`
        : `The objective does not tell ${one.id} and ${two.id} apart: the difference is ${signed(counts.sum / counts.n)} (95 % interval ${signed(low)} to ${signed(high)}, paired on ${counted(counts.n, "question")}).`}
      {" "}This interval is for these two alone, by the normal distribution; whether one of all trials is the best is said at the top of the page.
    </p>
  );
}

function SettingsTable({ one, two }: PairProps) {
  const rows = differing([one.settings, two.settings]);
  if (!rows.length) return <p class="hint">The two trials have the same settings.</p>;
  return (
    <Scroll label="Settings that differ">
      <table>
        <Caption text="Settings that differ" />
        <thead><tr><Head>setting that differs</Head><Head>{one.id}</Head><Head>{two.id}</Head></tr></thead>
        <tbody>
          {rows.map(([path, [a, b]]) => <tr key={path}><th scope="row"><LongText text={path} /></th><TextCell text={a ?? "–"} /><TextCell text={b ?? "–"} /></tr>)}
        </tbody>
      </table>
    </Scroll>
  );
}

function TalliesTable({ one, two, a, b }: PairProps) {
  const model = useRun();
  const total = model.overview.questions.length;
  return (
    <Scroll label="Questions won, lost and tied">
      <table>
        <Caption text={`Questions that ${one.id} wins and loses against ${two.id}`} />
        <thead>
          <tr><Head>metric</Head>{[`${one.id} wins`, `${two.id} wins`, "tied", "mean difference", "compared"].map((title) => <Head key={title} number>{title}</Head>)}</tr>
        </thead>
        <tbody>
          {["objective", ...model.table.metrics.map((metric) => metric.name)].map((by) => {
            const [[x, upwards], [y]] = [measure(model, a, by), measure(model, b, by)];
            const { won, lost, tied, sum, n } = tally(x, y, upwards);
            return (
              <tr key={by}>
                <th scope="row">{by === "objective" ? "the objective" : by}</th>
                <td class="number">{won}</td><td class="number">{lost}</td><td class="number">{tied}</td>
                <td class="number">{n ? signed(sum / n) : "–"}</td><td class="number">{n}/{total}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroll>
  );
}

/** At how many questions each of the two loses the evidence, by the step where it is lost first. */
function LossesTable({ one, two }: PairProps) {
  const { table } = useRun();
  const steps = table.lossSteps.filter((step) => step.is_loss && (one.losses?.[step.name] || two.losses?.[step.name]));
  if (!steps.length) return null;
  return (
    <Scroll label="Where the evidence is lost">
      <table id="compared-losses">
        <Caption text={`Where ${one.id} and ${two.id} lose the evidence`} />
        <thead><tr><Head>evidence lost</Head><Head number>{one.id}</Head><Head number>{two.id}</Head><Head>meaning</Head></tr></thead>
        <tbody>
          {steps.map((step) => <tr key={step.name}><th scope="row">{step.title}</th><td class="number">{one.losses?.[step.name] ?? 0}</td><td class="number">{two.losses?.[step.name] ?? 0}</td><td class="text">{step.meaning}</td></tr>)}
        </tbody>
      </table>
    </Scroll>
  );
}

interface DifferingQuestion {
  question: QuestionSummary;
  own: number;
  other: number;
}

function DifferencesTable({ one, two, a, b }: PairProps) {
  const model = useRun();
  const by = model.by.value;
  const [[x], [y]] = [measure(model, a, by), measure(model, b, by)];
  const [isWhole, setWhole] = useState<TrialPart | null>(null);
  const compared: DifferingQuestion[] = model.overview.questions.flatMap((question, i) => {
    const [own, other] = [x[i], y[i]];
    return isKnown(own) && isKnown(other) && own !== other ? [{ question, own, other }] : [];
  });
  if (!compared.length) return <p class="hint">No question has a different score by {by === "objective" ? "the objective" : by}.</p>;
  const lines = sorted(compared, ({ own, other }) => Math.abs(own - other), true);
  const shown = isWhole === a ? lines : lines.slice(0, MOST_LINES);
  return (
    <>
      <Scroll label="Questions that differ">
        <table id="differing">
          <Caption text={`Questions on which ${one.id} and ${two.id} differ, most first`} />
          <thead><tr><Head>question</Head><Head>text</Head><Head number>{one.id}</Head><Head number>{two.id}</Head><Head number>difference</Head></tr></thead>
          <tbody>
            {shown.map(({ question, own, other }) => (
              <ChosenRow key={question.id} id={question.id} isChosen={question.id === model.question.value} choose={() => model.openQuestion(question.id)}>
                <TextCell class="text" text={question.question} /><NumberCell value={own} /><NumberCell value={other} /><td class="number">{signed(own - other)}</td>
              </ChosenRow>
            ))}
          </tbody>
        </table>
      </Scroll>
      {shown.length < lines.length ? <button type="button" onClick={() => setWhole(a)}>Show {lines.length - shown.length} more</button> : null}
    </>
  );
}
