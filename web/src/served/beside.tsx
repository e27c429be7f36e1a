// Several runs side by side: verdicts, best trials, metrics, and settings that differ.

import { useEffect } from "preact/hooks";
import { type RunTable, labelsOf, tableOf } from "../data/columns";
import type { BoardRow, CellScores } from "../data/overview";
import { type Awaitable, together } from "../data/parts";
import { differing } from "../data/settings";
import { useLoaded } from "../page/loaded";
import { Caption, Head, Problem, Scroll, TextCell } from "../page/tables";
import { LongText } from "../page/text";
import { fixed, isKnown, sentence } from "../words";
import { hrefOf } from "./route";
import { loadOverview } from "./run";
import { RequestProblem } from "./server";

/** A run, and the trial that answers for it. */
interface BesideRun {
  run: string;
  table: RunTable;
  trial: BoardRow | undefined;
}

/** A run that cannot be shown, and why. */
interface MissingRun {
  run: string;
  problem: string;
}

async function loadRun(run: string): Promise<BesideRun | MissingRun> {
  try {
    const table = tableOf(await loadOverview(run));
    const answering = table.overview.board.answering?.trial ?? null;
    return { run, table, trial: table.rowOf(answering) ?? table.leading };
  } catch (error) {
    if (!(error instanceof RequestProblem)) throw error;
    return { run, problem: error.message };
  }
}

const isMissing = (run: BesideRun | MissingRun): run is MissingRun => "problem" in run;

export function BesidePage({ runs }: { runs: string[] }) {
  useEffect(() => { document.title = "Reverie: runs side by side"; }, []);
  const { value, busy, problem, retry } = useLoaded((): Awaitable<(BesideRun | MissingRun)[]> => together(runs.map(loadRun)), [runs.join(",")]);
  return (
    <main id="main" tabIndex={-1} class="served" aria-busy={busy ? "true" : undefined}>
      <h1>Runs side by side</h1>
      {busy ? <p class="hint" role="status">Loading {runs.length} runs…</p> : null}
      {problem ? <Problem text={problem} retry={retry} /> : null}
      {value && !problem ? (
        <>
          {value.filter(isMissing).map((one) => <Problem key={one.run} text={`The run ${one.run} cannot be shown: ${one.problem}`} retry={retry} />)}
          <Content runs={value.filter((one): one is BesideRun => !isMissing(one))} />
        </>
      ) : null}
    </main>
  );
}

const scoresOf = (run: BesideRun, kind: string, name: string): CellScores | null => {
  const column = run.table.every.find((one) => one.kind === kind && one.name === name);
  const cell = column && run.trial ? run.trial.cells[column.index] : null;
  return cell !== null && cell !== undefined && typeof cell === "object" ? cell : null;
};

function Content({ runs }: { runs: BesideRun[] }) {
  if (!runs.length) return null;
  return (
    <>
      <section aria-labelledby="verdicts-heading">
        <h2 id="verdicts-heading">Verdicts</h2>
        <div class="columns">{runs.map((run) => <Verdict key={run.run} run={run} />)}</div>
      </section>
      <section aria-labelledby="metrics-heading">
        <h2 id="metrics-heading">Metrics of the answering trials</h2>
        <Metrics runs={runs} />
        <p class="hint">Mean with its 95 % interval. Runs are comparable only as far as they ask the same questions about the same documents.</p>
      </section>
      <section aria-labelledby="settings-heading">
        <h2 id="settings-heading">Settings that differ</h2>
        <Settings runs={runs} />
      </section>
    </>
  );
}

function Verdict({ run }: { run: BesideRun }) {
  const { board } = run.table.overview;
  const objective = run.table.ofKind("objective")[0];
  const scores = objective ? scoresOf(run, "objective", objective.name) : null;
  const words = (board.unscored ? [board.unscored] : board.verdict).map((text) => sentence(text, board.leads ?? board.winner)).join(" ");
  return (
    <div class="card column">
      <h3><a href={hrefOf({ page: "run", run: run.run, address: "" })}><LongText text={board.experiment} /></a></h3>
      <div class="where">{run.run} · {board.finished}</div>
      <p><LongText text={words} /></p>
      {run.trial ? (
        <dl>
          <dt>best trial</dt><dd><strong>{run.trial.id}</strong> <LongText text={labelsOf(run.trial)} /></dd>
          <dt>objective</dt><dd>{scores ? <>{fixed(scores.mean)} {isKnown(scores.low) ? <span class="range">({fixed(scores.low)} to {fixed(scores.high)})</span> : null}</> : "–"}</dd>
          <dt>documents</dt><dd>{board.corpus}</dd>
          {board.partial ? <><dt>partial</dt><dd class="problem">{board.partial}</dd></> : null}
        </dl>
      ) : <p class="hint">This run has no trials.</p>}
    </div>
  );
}

interface MetricLine {
  kind: string;
  name: string;
  title: string;
  higherIsBetter: boolean;
}

function Metrics({ runs }: { runs: BesideRun[] }) {
  const lines = new Map<string, MetricLine>();
  for (const { table } of runs) for (const { kind, name, title, key } of [...table.ofKind("objective"), ...table.metrics]) {
    const metric = kind === "metric" ? table.overview.metrics.find((one) => one.name === name) : undefined;
    if (!lines.has(key)) lines.set(key, { kind, name, title, higherIsBetter: metric?.higher_is_better ?? true });
  }
  return (
    <Scroll labelledBy="metrics-heading">
      <table>
        <Caption text="Metrics of the answering trials" />
        <thead><tr><Head>metric</Head>{runs.map((run) => <Head key={run.run}>{run.run} · {run.trial?.id ?? "no trial"}</Head>)}</tr></thead>
        <tbody>
          {[...lines].map(([key, { kind, name, title, higherIsBetter }]) => {
            const scores = runs.map((run) => scoresOf(run, kind, name));
            const ends = scores.flatMap((one) => (one ? [one.mean, one.low, one.high] : [])).filter(isKnown);
            const [least, most] = [Math.min(0, ...ends), Math.max(...ends)];
            const means = scores.flatMap((one) => (isKnown(one?.mean) ? [one.mean] : []));
            const best = means.length < 2 ? null : higherIsBetter ? Math.max(...means) : Math.min(...means);
            return (
              <tr key={key}>
                <th scope="row">{title}</th>
                {scores.map((one, i) => <td key={runs[i].run}>{one && isKnown(one.mean) ? <ScoreBar scores={one} least={least} most={most} isBest={one.mean === best} /> : <span class="missing">–</span>}</td>)}
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroll>
  );
}

/** A mean with its interval, in words and as a line on the scale of its row. */
export function ScoreBar({ scores, least, most, isBest }: { scores: { mean: number | null; low: number | null; high: number | null }; least: number; most: number; isBest?: boolean }) {
  const x = (value: number) => 4 + ((value - least) / (most - least || 1)) * 112;
  if (!isKnown(scores.mean)) return <span class="missing">–</span>;
  return (
    <span class="score">
      <span class={isBest ? "best" : undefined}>{fixed(scores.mean)}</span>
      <svg viewBox="0 0 120 14" width={120} height={14} aria-hidden="true" class="interval">
        <line x1={4} x2={116} y1={7} y2={7} class="zero" />
        {isKnown(scores.low) && isKnown(scores.high) ? <line x1={x(scores.low)} x2={x(scores.high)} y1={7} y2={7} class="whisker" /> : null}
        <circle cx={x(scores.mean)} cy={7} r={3.5} />
      </svg>
      {isKnown(scores.low) ? <span class="range">{fixed(scores.low, 2)}–{fixed(scores.high, 2)}</span> : null}
    </span>
  );
}

function Settings({ runs }: { runs: BesideRun[] }) {
  const lines = differing(runs.map(({ trial }) => trial?.settings ?? {}));
  if (!lines.length) return <p class="hint">The answering trials have the same settings.</p>;
  return (
    <Scroll labelledBy="settings-heading">
      <table>
        <Caption text="Settings that differ between the answering trials" />
        <thead><tr><Head>setting</Head>{runs.map((run) => <Head key={run.run}>{run.run} · {run.trial?.id ?? "no trial"}</Head>)}</tr></thead>
        <tbody>{lines.map(([path, values]) => <tr key={path}><th scope="row"><LongText text={path} /></th>{values.map((value, i) => <TextCell key={runs[i].run} text={value ?? "–"} />)}</tr>)}</tbody>
      </table>
    </Scroll>
  );
}
