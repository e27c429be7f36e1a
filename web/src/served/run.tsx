// The pages of a run whose data comes from the server.

import type { Overview } from "../data/overview";
import type { ReadPart } from "../data/parts";
import { useLoaded } from "../page/loaded";
import { Problem } from "../page/tables";
import { shortened } from "../words";
import { type AddressPlace, RunModel } from "../run/model";
import { AskContext } from "../run/ask-link";
import { LabelContext } from "../run/labels";
import { RunPage } from "../run/page";
import { askHref } from "./ask/address";
import { ServedLabels } from "./labels";
import { hrefOf, readRoute } from "./route";
import { RequestProblem, getJson, runPath } from "./server";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";

/** The models of runs that are shown, so that a change of the address reaches them. */
export type OpenRuns = Map<string, RunModel>;

function placeOf(run: string): AddressPlace {
  const href = (address: string) => hrefOf({ page: "run", run, address });
  return {
    read: () => {
      const route = readRoute(location.hash);
      return route.page === "run" && route.run === run ? route.address : "";
    },
    write: (step, address) => history[step](null, "", href(address)),
    href,
  };
}

export const loadOverview = (run: string): Promise<Overview> => getJson<Overview>(runPath(run, "overview"));

/** Reads parts of the results that the overview is of. If the run has others by now, `tellOutdated` is called. */
const partsOf = (run: string, overview: Overview, tellOutdated: () => void): ReadPart => async (name) => {
  const stamp = overview.stamp ? `?stamp=${encodeURIComponent(overview.stamp)}` : "";
  try {
    return await getJson<unknown>(runPath(run, `parts/${encodeURIComponent(name)}${stamp}`));
  } catch (error) {
    if (error instanceof RequestProblem && error.status === 409) tellOutdated();
    throw error;
  }
};

export function RunLoader({ run, openRuns }: { run: string; openRuns: OpenRuns }) {
  const [outdated, setOutdated] = useState<Overview | null>(null);
  const { value: model, busy, problem, retry } = useLoaded(
    () => loadOverview(run).then((overview) => new RunModel(overview, partsOf(run, overview, () => setOutdated(overview)), placeOf(run))),
    [run],
  );
  useEffect(() => {
    if (!model) return undefined;
    openRuns.set(run, model);
    document.title = `Reverie: ${shortened(model.overview.board.experiment)}`;
    return () => {
      openRuns.delete(run);
      model.dispose();
    };
  }, [model]);
  const labels = useMemo(() => new ServedLabels(run), [run]);
  const askTrial = useCallback((trial: string, question: string) => askHref({ run, trials: [trial], question }), [run]);
  if (model && !problem) return <AskContext.Provider value={askTrial}><LabelContext.Provider value={labels}>{outdated === model.overview ? <NewResults show={retry} /> : null}<RunPage model={model} /></LabelContext.Provider></AskContext.Provider>;
  return (
    <main id="main" tabIndex={-1}>
      <h1>{run}</h1>
      {busy ? <p class="hint" role="status" aria-busy="true">Loading the results…</p> : null}
      {problem ? (
        <>
          <Problem text={problem} retry={retry} />
          <p><a href={hrefOf({ page: "live", run })}>See this run live</a></p>
        </>
      ) : null}
    </main>
  );
}

/** The run went on after this page was opened. What is shown stays until the user wants the new results. */
const NewResults = ({ show }: { show(): void }) => (
  <div class="wrap"><p class="notice" role="status" id="new-results">This run has new results since this page was opened. <button type="button" onClick={show}>Show the new results</button></p></div>
);
