// The pages of a run whose data comes from the server.

import type { Overview } from "../data/overview";
import { useLoaded } from "../page/loaded";
import { Problem } from "../page/tables";
import { shortened } from "../words";
import { type AddressPlace, RunModel } from "../run/model";
import { RunPage } from "../run/page";
import { hrefOf, readRoute } from "./route";
import { getJson, runPath } from "./server";
import { useEffect } from "preact/hooks";

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

export function RunLoader({ run, openRuns }: { run: string; openRuns: OpenRuns }) {
  const { value: model, busy, problem, retry } = useLoaded(
    () => loadOverview(run).then((overview) => new RunModel(overview, (name) => getJson(runPath(run, `parts/${encodeURIComponent(name)}`)), placeOf(run))),
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
  if (model && !problem) return <RunPage model={model} />;
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
