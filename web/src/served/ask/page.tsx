// Asks trials of a finished run a question, and shows their answers next to each other.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type RunTable, nameOf, tableOf } from "../../data/columns";
import type { RunSummary } from "../../data/live";
import { continueWith } from "../../data/parts";
import { Boundary } from "../../page/boundary";
import { useLoaded } from "../../page/loaded";
import { Chooser, Problem } from "../../page/tables";
import { isKnown, moment } from "../../words";
import { navigate } from "../navigation";
import { loadOverview } from "../run";
import { useRuns } from "../runs";
import { type AskView, LONGEST_QUESTION, MOST_TRIALS, askAddress, readAskAddress } from "./address";
import { Answers } from "./answers";
import { askDesk } from "./desk";
import { GoldenForm } from "./golden-form";
import { chosenTrials } from "./trials";

export function AskPage({ address }: { address: string }) {
  const { list, problem, retry } = useRuns();
  const view = useMemo(() => readAskAddress(address), [address]);
  const runs = list?.runs.filter((run) => run.has_results) ?? [];
  // A run that ends in the meantime must not take the place of the one that is shown.
  const first = useRef<string | null>(null);
  first.current ??= runs[0]?.run ?? null;
  const run = view.run ?? first.current;
  useEffect(() => {
    document.title = "Reverie: ask";
    // Whoever comes back finds the question again that was asked before.
    const sent = askDesk.sent.peek();
    if (!address && sent) navigate({ page: "ask", address: askAddress(sent) }, "replaceState");
  }, []);
  return (
    <main id="main" tabIndex={-1} class="served ask">
      <h1 id="ask-heading">Ask</h1>
      <p class="hint">Trials of a finished run answer your question as they would answer it in a service. Asking uses the models of the trials, so it may cost money.</p>
      {problem ? <Problem text={`The list of runs could not be loaded: ${problem}`} retry={retry} /> : null}
      {!list && !problem ? <p class="hint" role="status" aria-busy="true">Loading the runs…</p> : null}
      {list && run === null ? <p class="hint">No run has results yet. Start one with <code>reverie run</code>.</p> : null}
      {run === null ? null : <Form run={run} runs={runs} view={view} />}
      <p role="status" id="ask-note" class="hint">{askDesk.note.value}</p>
      {askDesk.problem.value ? <div role="alert" id="ask-problem"><Problem text={askDesk.problem.value} /></div> : null}
      <Boundary name="Answers"><Answers /></Boundary>
      <Boundary name="Golden question"><GoldenForm /></Boundary>
    </main>
  );
}

const change = (view: AskView, changes: Partial<AskView>, step: "pushState" | "replaceState" = "replaceState") => navigate({ page: "ask", address: askAddress({ ...view, ...changes }) }, step);

function Form({ run, runs, view }: { run: string; runs: RunSummary[]; view: AskView }) {
  const { value: table, busy, problem, retry } = useLoaded(() => continueWith(loadOverview(run), tableOf), [run]);
  const [question, setQuestion] = useState(view.question);
  const field = useRef<HTMLTextAreaElement>(null);
  // A link or the back button brings another question; a question that is too long for the address stays.
  useEffect(() => { if (view.question) setQuestion(view.question); }, [view.question]);
  useEffect(() => field.current?.focus({ preventScroll: true }), []);
  const isBusy = askDesk.isBusy.value;
  const trials = table && !busy ? chosenTrials(table, view.trials) : [];
  const isTooLong = [...question].length > LONGEST_QUESTION;
  const canAsk = !isBusy && trials.length > 0 && question.trim() !== "" && !isTooLong;
  const ask = () => {
    if (!canAsk) return;
    const sent = { run, trials, question: question.trim() };
    change(view, sent, "pushState");
    void askDesk.ask(sent);
  };
  const options = runs.map((one): [string, string] => [one.run, `${one.experiment} · ${moment(one.started_ms)} · ${one.run}`]);
  if (!runs.some((one) => one.run === run)) options.push([run, run]);
  return (
    <form class="ask-form" aria-labelledby="ask-heading" onSubmit={(event) => { event.preventDefault(); ask(); }}>
      <div class="fields"><Chooser label="Run" options={options} value={run} choose={(other) => change(view, { run: other, trials: [] }, "pushState")} /></div>
      {busy ? <p class="hint" role="status" aria-busy="true">Loading the trials of the run…</p> : null}
      {problem ? <Problem text={problem} retry={retry} /> : null}
      {table && !busy && !problem ? <Trials table={table} trials={trials} choose={(next) => change(view, { run, trials: next })} /> : null}
      <label for="ask-question">Question</label>
      <textarea
        id="ask-question" rows={3} value={question} ref={field} aria-describedby="ask-keys" onInput={(event) => setQuestion(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          ask();
        }}
      />
      <div class="fields">
        <button type="submit" class="primary" id="ask-button" disabled={!canAsk}>{isBusy ? "Asking…" : "Ask"}</button>
        {isBusy ? <button type="button" id="stop-asking" onClick={() => askDesk.stop()}>Stop waiting</button> : null}
        <span class="hint" id="ask-keys">{isTooLong ? `The question has more than ${LONGEST_QUESTION.toLocaleString("en-US")} characters.` : "Enter asks; Shift+Enter begins a new line."}</span>
      </div>
      {isBusy ? <p class="hint">The trials answer one after another. The first question to a trial loads its models and indexes, which may take a while. You may look at other pages in the meantime.</p> : null}
    </form>
  );
}

/** One to four fields, each with a trial. */
function Trials({ table, trials, choose }: { table: RunTable; trials: string[]; choose(trials: string[]): void }) {
  const rows = table.rows;
  if (!rows.length) return <p class="hint">This run has no trials.</p>;
  const free = rows.find(({ id }) => !trials.includes(id));
  return (
    <fieldset class="ask-trials">
      <legend>Trials</legend>
      <ol>
        {trials.map((trial, place) => (
          <li key={trial}>
            <Chooser
              label={`Trial ${place + 1}`} value={trial} choose={(other) => choose(trials.map((one, i) => (i === place ? other : one)))}
              options={rows.filter(({ id }) => id === trial || !trials.includes(id)).map((row): [string, string] => [row.id, nameOf(row)])}
            />{" "}
            {trials.length > 1 ? <button type="button" aria-label={`Do not ask ${trial}`} onClick={() => choose(trials.filter((one) => one !== trial))}>Remove</button> : null}
          </li>
        ))}
      </ol>
      <button type="button" id="add-trial" disabled={!isKnown(free) || trials.length >= MOST_TRIALS} onClick={() => { if (free) choose([...trials, free.id]); }}>Add a trial</button>{" "}
      {trials.length >= MOST_TRIALS ? <span class="hint">At most {MOST_TRIALS} trials are asked at once.</span> : null}
    </fieldset>
  );
}
