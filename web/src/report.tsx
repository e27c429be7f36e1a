// The report of one run. Its data is in the HTML file, or in a folder next to it.

import { render } from "preact";
import type { Overview } from "./data/overview";
import { reportParts } from "./data/parts";
import { shortened } from "./words";
import { type AddressPlace, RunModel } from "./run/model";
import { PlotPage, RunPage, SkipLink } from "./run/page";

const place: AddressPlace = {
  read: () => location.hash.slice(1),
  write: (step, address) => history[step](null, "", `#${address}`),
  href: (address) => `#${address}`,
};

export function startReport(page: HTMLElement, data: string): void {
  const overview = JSON.parse(data) as Overview;
  const model = new RunModel(overview, reportParts(overview), place);
  const showFailure = (error: unknown) => model.showProblem("script", `The page's script failed, so what you see may be incomplete: ${error instanceof Error ? error.message : String(error)}`);
  addEventListener("error", (event) => { if (event.error) showFailure(event.error); });
  addEventListener("unhandledrejection", (event) => showFailure(event.reason));
  document.title = `Reverie: ${shortened(overview.board.experiment)}`;
  const isPlotAlone = document.body.dataset.only === "plot";
  render(isPlotAlone ? <PlotPage model={model} /> : <><SkipLink words="Skip to the leaderboard" heading="board-heading" /><RunPage model={model} /></>, page);
  // A change of the address by hand fires both events, the back button only the first.
  addEventListener("popstate", () => model.followAddress());
  addEventListener("hashchange", () => { if (model.isStale()) model.followAddress(); });
}
