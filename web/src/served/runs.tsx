// All runs of the store, those that are going on first.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { RunList, RunState, RunSummary } from "../data/live";
import { isNarrow } from "../page/size";
import { Caption, Head, Problem, Scroll } from "../page/tables";
import { LongText } from "../page/text";
import { counted, duration, isKnown, moment } from "../words";
import { hrefOf } from "./route";
import { RequestProblem, getJson } from "./server";
import { StateMark } from "./state";

const REFRESH_MS = 3000;

const list = signal<RunList | null>(null);
const listProblem = signal<string | null>(null);
let users = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
let isLoading = false;

async function refresh(): Promise<void> {
  clearTimeout(timer);
  if (isLoading) return;
  isLoading = true;
  try {
    list.value = await getJson<RunList>("/api/runs");
    listProblem.value = null;
  } catch (error) {
    if (!(error instanceof RequestProblem)) throw error;
    listProblem.value = error.message;
  } finally {
    isLoading = false;
    if (users > 0 && document.visibilityState === "visible") timer = setTimeout(() => void refresh(), REFRESH_MS);
  }
}

document.addEventListener("visibilitychange", () => {
  if (users > 0 && document.visibilityState === "visible") void refresh();
});

/** The list of runs, which is loaded again every 3 s while the page is seen. */
export function useRuns(): { list: RunList | null; problem: string | null; retry(): void } {
  useEffect(() => {
    users += 1;
    void refresh();
    return () => {
      users -= 1;
      if (!users) clearTimeout(timer);
    };
  }, []);
  return { list: list.value, problem: listProblem.value, retry: () => void refresh() };
}

/** Whether a process is at work on the run. */
export const isGoingOn = (state: RunState): boolean => state === "running" || state === "paused";

const selectedRuns = signal<ReadonlySet<string>>(new Set());

function select(run: string, isOn: boolean): void {
  const next = new Set(selectedRuns.peek());
  if (isOn) next.add(run);
  else next.delete(run);
  selectedRuns.value = next;
}

export function RunsPage() {
  const { list: found, problem, retry } = useRuns();
  const [wanted, setWanted] = useState("");
  const [hidesTries, setHidesTries] = useState(false);
  useEffect(() => { document.title = "Reverie: runs"; }, []);
  const runs = found?.runs ?? [];
  const shown = runs.filter((run) => (!hidesTries || !run.overrides.length) && `${run.run} ${run.experiment} ${run.headline ?? ""}`.toLowerCase().includes(wanted.toLowerCase()));
  const active = runs.filter((run) => isGoingOn(run.state)).length;
  const selected = runs.filter((run) => selectedRuns.value.has(run.run)).map((run) => run.run);
  const words = selected.length < 2 ? "Select two or more runs with results to see them side by side." : `${selected.length} runs are selected.`;
  return (
    <main id="main" tabIndex={-1} class="served">
      <h1 id="runs-heading">Runs</h1>
      <p id="facts">{found ? `${counted(runs.length, "run")} in ${found.store}${active ? `; ${active} going on` : ""}.` : ""}</p>
      {problem ? <Problem text={`The list of runs could not be loaded${found ? "; what you see may be old" : ""}: ${problem}`} retry={retry} /> : null}
      {!found && !problem ? <p class="hint" role="status" aria-busy="true">Loading the runs…</p> : null}
      {found && !runs.length ? <p class="hint">There are no runs yet. Start one with <code>reverie run</code>.</p> : null}
      {runs.length ? (
        <>
          <div class="fields">
            <label>Find <input type="search" id="find-run" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} /></label>
            <label><input type="checkbox" checked={hidesTries} onChange={(event) => setHidesTries(event.currentTarget.checked)} /> Hide tries</label>
            <span class="spring" />
            <span class="hint" role="status">{words}</span>
            {selected.length ? <button type="button" onClick={() => { selectedRuns.value = new Set(); }}>Clear selection</button> : null}
            <button type="button" class="primary" id="show-beside" disabled={selected.length < 2} onClick={() => { location.hash = hrefOf({ page: "beside", runs: selected }); }}>Side by side</button>
          </div>
          <Scroll labelledBy="runs-heading" class="tall">
            <table id="runs">
              <Caption text="Runs, those that are going on first" />
              <thead><tr><Head><span class="unseen">select</span></Head><Head>run</Head>{isNarrow.value ? null : <Head>state</Head>}<Head>result</Head><Head number>trials</Head><Head>started</Head><Head number>took</Head></tr></thead>
              <tbody>{shown.map((run) => <RunLine key={run.run} run={run} />)}</tbody>
            </table>
          </Scroll>
        </>
      ) : null}
    </main>
  );
}

function RunLine({ run }: { run: RunSummary }) {
  const goesOn = isGoingOn(run.state);
  const live = hrefOf({ page: "live", run: run.run });
  const results = hrefOf({ page: "run", run: run.run, address: "" });
  const end = run.finished_ms ?? (goesOn ? Date.now() : null);
  // On a narrow screen the state is below the name, where it is seen without scrolling sideways.
  const state = <><StateMark state={run.state} />{goesOn && run.has_results ? <>{" "}<a href={live}>live</a></> : null}</>;
  return (
    <tr class={goesOn ? "going-on" : undefined}>
      <td>{run.has_results ? <input type="checkbox" aria-label={`Select ${run.run}`} checked={selectedRuns.value.has(run.run)} onChange={(event) => select(run.run, event.currentTarget.checked)} /> : null}</td>
      <th scope="row">
        <a href={run.has_results ? results : live}><LongText text={run.experiment} /></a>
        {run.overrides.length ? <>{" "}<span class="badge warn">a try</span></> : null}
        {isNarrow.value ? <div>{state}</div> : null}
        <div class="range">{run.run}</div>
        {run.overrides.length ? <div class="range overrides"><LongText text={run.overrides.join(" ")} /></div> : null}
      </th>
      {isNarrow.value ? null : <td>{state}</td>}
      <td class="text">{run.headline ? <LongText text={run.headline} /> : <span class="missing">–</span>}</td>
      <td class="number">{run.trials ?? "–"}</td>
      <td>{moment(run.started_ms)}</td>
      <td class="number">{isKnown(run.started_ms) && isKnown(end) ? duration((end - run.started_ms) / 1000) : "–"}</td>
    </tr>
  );
}
