// The served page: the list of runs, a run's pages, a run that is going on, questions to trials, golden questions, and
// documents.

import { signal } from "@preact/signals";
import { render } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Boundary } from "../page/boundary";
import { Problem } from "../page/tables";
import { SkipLink } from "../run/page";
import { askHref } from "./ask/address";
import { AskPage } from "./ask/page";
import { BesidePage } from "./beside";
import { DocumentsPage } from "./documents/page";
import { GoldenPage } from "./golden/page";
import { LivePage } from "./live";
import { followAddress, route } from "./navigation";
import { type Route, hrefOf, pageOf } from "./route";
import { type OpenRuns, RunLoader } from "./run";
import { RunsPage } from "./runs";
import { giveKey, keyForm } from "./server";
import { votesAddress } from "./votes/address";
import { VotesPage } from "./votes/page";

const failure = signal<string | null>(null);

export function startServed(page: HTMLElement): void {
  const openRuns: OpenRuns = new Map();
  const follow = () => {
    const before = route.peek();
    followAddress();
    const next = route.peek();
    const isSamePage = pageOf(next) === pageOf(before);
    if (next.page === "run" && isSamePage) {
      const model = openRuns.get(next.run);
      if (model?.isStale()) model.followAddress();
    }
    if (!isSamePage) scrollTo(0, 0);
  };
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
  const fail = (error: unknown) => { failure.value = error instanceof Error ? error.message : String(error); };
  addEventListener("error", (event) => { if (event.error) fail(event.error); });
  addEventListener("unhandledrejection", (event) => fail(event.reason));
  render(<Served openRuns={openRuns} />, page);
}

function Served({ openRuns }: { openRuns: OpenRuns }) {
  const now = route.value;
  return (
    <>
      <SkipLink words="Skip to the content" />
      <TopNavigation now={now} />
      {failure.value ? <div class="wrap"><Problem text={`The page's script failed, so what you see may be incomplete: ${failure.value}`} /></div> : null}
      <KeyForm />
      <Boundary key={pageOf(now)} name="This page">
        {now.page === "runs" ? <RunsPage /> : null}
        {now.page === "beside" ? <BesidePage runs={now.runs} /> : null}
        {now.page === "run" ? <RunLoader run={now.run} openRuns={openRuns} /> : null}
        {now.page === "live" ? <LivePage run={now.run} /> : null}
        {now.page === "ask" ? <AskPage address={now.address} /> : null}
        {now.page === "golden" ? <GoldenPage /> : null}
        {now.page === "documents" ? <DocumentsPage address={now.address} /> : null}
        {now.page === "votes" ? <VotesPage address={now.address} /> : null}
      </Boundary>
    </>
  );
}

function TopNavigation({ now }: { now: Route }) {
  const run = now.page === "run" || now.page === "live" ? now.run : null;
  const link = (to: Route, words: string) => <a href={hrefOf(to)} aria-current={to.page === now.page ? "page" : undefined}>{words}</a>;
  return (
    <nav class="top" aria-label="Reverie">
      <div class="wrap">
        <span class="brand">Reverie</span>
        {link({ page: "runs" }, "Runs")}
        {link({ page: "ask", address: "" }, "Ask")}
        {link({ page: "golden", address: "" }, "Golden")}
        {link({ page: "documents", address: "" }, "Documents")}
        {link({ page: "votes", address: run ? votesAddress(run) : "" }, "Votes")}
        {now.page === "beside" ? link(now, "Side by side") : null}
        {run ? <>{link({ page: "run", run, address: "" }, "Run")}{link({ page: "live", run }, "Live")}<a href={askHref({ run })}>Ask this run</a><span class="current-run">{run}</span></> : null}
      </div>
    </nav>
  );
}

/** Asks for the key that the server wants. The requests that were refused go on when it is given. */
function KeyForm() {
  const asked = keyForm.value;
  const [given, setGiven] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => { if (asked) field.current?.focus(); }, [asked]);
  if (!asked) return null;
  return (
    <form
      class="wrap key" aria-labelledby="key-words"
      onSubmit={(event) => {
        event.preventDefault();
        if (given.trim()) giveKey(given.trim());
        setGiven("");
      }}
    >
      <p id="key-words" role="alert">{asked.isRefused ? "The server did not accept this key. " : ""}This server asks for a key. It is kept in this tab until you close it.</p>
      <label>Key <input type="password" autocomplete="off" value={given} ref={field} onInput={(event) => setGiven(event.currentTarget.value)} /></label>{" "}
      <button type="submit" class="primary">Use this key</button>
    </form>
  );
}
