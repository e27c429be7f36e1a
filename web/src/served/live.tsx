// A run that is going on: everything about it in one snapshot, which the server sends again and again.

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { LiveRun } from "../data/live";
import { Boundary } from "../page/boundary";
import { Caption, Head, Problem, Scroll } from "../page/tables";
import { LongText } from "../page/text";
import { clock, compact, counted, dollars, duration, isKnown, percent, roughly, shortened } from "../words";
import { Charts } from "./charts";
import { LiveBoard } from "./live-board";
import { type LiveState, isOver, useLive, useNow } from "./live-stream";
import { Failures, FlowGraph, OperatorTable } from "./operators";
import { PersonField, personName } from "./person";
import { hrefOf } from "./route";
import { isGoingOn, useRuns } from "./runs";
import { hasKey } from "./server";
import { StateMark } from "./state";
import { ActsTable, Controls, PauseButton, SentActs, type Steering, SteeringContext, useSteering, useSteeringOf } from "./steering";

// A snapshot is written about once a second; later than this, something is wrong.
const LATE_MS = 10_000;

export function LivePage({ run }: { run: string }) {
  const { live, retry } = useLive(run);
  const { list } = useRuns();
  const { snapshot } = live;
  const steering = useSteeringOf(run, snapshot?.acts ?? []);
  const canSteer = (list?.can_steer ?? false) && snapshot !== null && isGoingOn(snapshot.state);
  useEffect(() => { document.title = `Reverie: ${shortened(snapshot?.experiment ?? run)}${snapshot ? ` (${snapshot.state})` : ""}`; }, [run, snapshot?.experiment, snapshot?.state]);
  return (
    <SteeringContext.Provider value={canSteer ? steering : null}>
      <main id="main" tabIndex={-1} class="served">
        {snapshot ? <Snapshot live={snapshot} state={live} retry={retry} steering={steering} /> : (
          <>
            <h1>{run}</h1>
            {live.problem ? <><Problem text={live.problem} retry={retry} /><Reconnecting state={live} /></> : <p class="hint" role="status" aria-busy="true">Waiting for the first news of this run…</p>}
            <p><a href={hrefOf({ page: "run", run, address: "" })}>See its results</a></p>
          </>
        )}
      </main>
    </SteeringContext.Provider>
  );
}

function Reconnecting({ state }: { state: LiveState }) {
  const now = useNow();
  if (state.next_ms === null) return null;
  const left = Math.max(0, Math.ceil((state.next_ms - now) / 1000));
  return <p class="hint">{left ? `Connecting again in ${left} s.` : "Connecting again…"}</p>;
}

/** How old the news is: the age of the snapshot when it was sent, and the time since. */
function News({ live, state, retry }: { live: LiveRun; state: LiveState; retry(): void }) {
  const now = useNow();
  const age = Math.max(0, live.now_ms - live.written_ms) + Math.max(0, now - state.received_ms);
  if (!isGoingOn(live.state)) return <p class="hint" id="news">Last news at {clock(live.written_ms)}.</p>;
  const isLate = age > LATE_MS || state.problem !== null;
  const words = isLate ? `No news since ${clock(now - age)} (${duration(age / 1000)}).` : `News of ${clock(now - age)}.`;
  return (
    <div id="news" class={isLate ? "late" : "hint"}>
      {words} {state.problem ? <><LongText text={state.problem} /> <button type="button" onClick={retry}>Connect now</button><Reconnecting state={state} /></> : null}
    </div>
  );
}

function LiveSection({ id, title, children }: { id: string; title: string; children: ComponentChildren }) {
  return (
    <section aria-labelledby={id}>
      <h2 id={id} tabIndex={-1}>{title}</h2>
      <Boundary name={title}>{children}</Boundary>
    </section>
  );
}

function Snapshot({ live, state, retry, steering }: { live: LiveRun; state: LiveState; retry(): void; steering: Steering }) {
  return (
    <>
      <div class="live-head">
        <h1><LongText text={live.experiment} /></h1>
        <StateMark state={live.state} />
        <PauseButton live={live} />
        {isOver(live.state) ? <a href={hrefOf({ page: "run", run: live.run, address: "" })}>See its results</a> : null}
      </div>
      <News live={live} state={state} retry={retry} />
      {live.continued_as ? <p class="notice" id="continued" role="status">Its plan was changed: it goes on as <a href={hrefOf({ page: "live", run: live.continued_as })}>{live.continued_as}</a>.</p> : null}
      {live.note ? <p id="note" class={live.state === "failed" ? "problem" : undefined}><LongText text={live.note} /></p> : null}
      <SentActs steering={steering} isGoingOn={isGoingOn(live.state)} />
      {live.problems.length ? <ul class="problem" id="live-problems" role="alert">{live.problems.map(({ name, reason }, i) => <li key={i}>{name}: <LongText text={reason} /></li>)}</ul> : null}
      {live.warnings.length ? <ul id="warnings" aria-label="Warnings">{live.warnings.map((warning, i) => <li key={i}><LongText text={warning} /></li>)}</ul> : null}
      <KeyNumbers live={live} />
      <LiveSection id="operators-heading" title="Operators">
        <OperatorTable operators={live.operators} />
        {live.flow.length ? <FlowGraph operators={live.operators} flow={live.flow} /> : null}
      </LiveSection>
      <LiveSection id="trials-heading" title="Trials so far">
        {live.trials.length ? <LiveBoard live={live} /> : <p class="hint">No trial has begun yet.</p>}
        <p class="hint">Means over the questions that are scored so far, with 95 % intervals. Trials with few questions may still change places.</p>
      </LiveSection>
      <LiveSection id="models-heading" title="Models">
        {live.models.length ? <Models live={live} /> : <p class="hint">This run has called no model yet.</p>}
      </LiveSection>
      <LiveSection id="spending-heading" title="Spending">
        <Spending live={live} />
      </LiveSection>
      <LiveSection id="history-heading" title="Over time">
        {live.history.time_ms.length ? <Charts history={live.history} /> : <p class="hint">No values yet.</p>}
      </LiveSection>
      {live.failures.length ? <LiveSection id="failures-heading" title="Failures"><Failures failures={live.failures} operators={live.operators} /></LiveSection> : null}
      <LiveSection id="acts-heading" title="Changes to this run">
        {isGoingOn(live.state) ? <><Controls live={live} /><SteeringName /></> : null}
        <ActsTable acts={live.acts} />
      </LiveSection>
    </>
  );
}

/** Under which name changes are recorded. A key says it without a question. */
const SteeringName = () => (useSteering() && (personName.value || !hasKey()) ? <PersonField words="Changes are recorded under your name:" /> : null);

/** How long the run has been at work, or was. */
function secondsOf(live: LiveRun): number {
  return ((isGoingOn(live.state) ? live.now_ms : live.written_ms) - live.started_ms) / 1000;
}

function KeyNumbers({ live }: { live: LiveRun }) {
  const left = live.operators.map(({ seconds_left: seconds }) => seconds).filter(isKnown);
  const failed = live.operators.reduce((sum, { failed: count }) => sum + count, 0);
  const ended = live.trials.filter((trial) => trial.state === "finished" || trial.state === "stopped").length;
  const numbers: [string, string, string?][] = [
    [isGoingOn(live.state) ? "Running for" : "Ran for", duration(secondsOf(live)), `${isGoingOn(live.state) ? "since" : "from"} ${clock(live.started_ms)}`],
    ["Time left", !isGoingOn(live.state) ? "–" : left.length ? `about ${roughly(Math.max(...left))}` : "not known"],
    ["Trials ended", `${ended} of ${live.trials.length}`],
    ["Spent", dollars(live.spending.cost_usd), isKnown(live.spending.caps.usd) ? `of ${dollars(live.spending.caps.usd)}` : "no cap"],
    ["Calls", compact(live.spending.calls), `${compact(live.spending.tokens)} tokens`],
    ["Failed tasks", compact(failed)],
  ];
  return (
    <dl class="tiles">
      {numbers.map(([name, value, more]) => <div key={name} class={name === "Failed tasks" && failed ? "tile problem" : "tile"}><dt>{name}</dt><dd>{value}{more ? <span class="range">{more}</span> : null}</dd></div>)}
    </dl>
  );
}

function Models({ live }: { live: LiveRun }) {
  return (
    <Scroll labelledBy="models-heading">
      <table id="models">
        <Caption text="Models with their load" />
        <thead><tr><Head>model</Head><Head>in flight, of the learned limit</Head><Head number>waiting</Head><Head number>answered</Head><Head number title="answers per second that were not refused">answers/s</Head><Head number>tokens/s</Head><Head number>refused</Head></tr></thead>
        <tbody>
          {live.models.map((model) => {
            const refused = model.refused_share ?? 0;
            return (
              <tr key={model.name}>
                <th scope="row"><LongText text={model.name} /></th>
                <td><Bar share={model.in_flight / Math.max(1, model.target)} /><div class="range">{model.in_flight} of {compact(model.target)}</div></td>
                <td class="number">{compact(model.waiting)}</td><td class="number">{compact(model.answered)}</td><td class="number">{compact(model.goodput)}</td><td class="number">{compact(model.tokens_per_second)}</td>
                <td class={refused > 0.05 ? "number problem" : "number"}>{isKnown(model.refused_share) ? `${(refused * 100).toFixed(refused && refused < 0.1 ? 1 : 0)} %` : "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroll>
  );
}

export function Bar({ share, isOver: over }: { share: number; isOver?: boolean }) {
  return (
    <svg class={`bar ${over ? "over" : "running"}`} width={120} height={8} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="ground" x={0} y={0} width={100} height={8} />
      <rect class="done" x={0} y={0} width={Math.max(0, Math.min(1, share)) * 100} height={8} />
    </svg>
  );
}

function Spending({ live }: { live: LiveRun }) {
  const { calls, tokens, cost_usd: cost, caps, reached } = live.spending;
  const minutes = secondsOf(live) / 60;
  const lines: [string, number, number | null | undefined, (value: number) => string][] = [
    ["dollars", cost, caps.usd, dollars],
    ["tokens", tokens, caps.tokens, compact],
    ["calls", calls, caps.calls, compact],
    ["minutes", minutes, caps.minutes, (value) => value.toFixed(1)],
  ];
  return (
    <>
      {reached ? <p class="problem" role="alert">The budget is reached: <LongText text={reached} /></p> : null}
      <Scroll labelledBy="spending-heading">
        <table id="spending">
          <Caption text="Spending and its caps" />
          <thead><tr><Head>budget</Head><Head number>spent</Head><Head number>cap</Head><Head>share of the cap</Head></tr></thead>
          <tbody>
            {lines.map(([name, spent, cap, show]) => (
              <tr key={name}>
                <th scope="row">{name}</th><td class="number">{show(spent)}</td><td class="number">{isKnown(cap) ? show(cap) : "none"}</td>
                <td>{isKnown(cap) ? <><Bar share={cap ? spent / cap : 1} isOver={spent >= cap} /><div class="range">{cap ? percent(spent / cap) : "nothing may be spent"}</div></> : <span class="missing">–</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="hint">{counted(live.models.length, "model")} in use. A budget applies to one run, not to the total.</p>
    </>
  );
}
