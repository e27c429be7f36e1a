// The leaderboard of a run that is going on.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { labelsOf, sorted } from "../data/columns";
import type { LiveRun, LiveScore, LiveTrial } from "../data/live";
import { Caption, Head, Scroll, Sortable } from "../page/tables";
import { LongText } from "../page/text";
import { isKnown } from "../words";
import { ScoreBar } from "./beside";
import type { Order } from "../run/address";
import { useSteering } from "./steering";

/** The mean over the metrics of the objective; its interval is known if there is one such metric. */
export function objectiveOf(trial: LiveTrial, objective: string[]): LiveScore | null {
  const scores = objective.flatMap((metric) => trial.scores[metric] ?? []).filter(({ mean }) => isKnown(mean));
  if (!scores.length || scores.length < objective.length) return null;
  if (scores.length === 1) return scores[0];
  const mean = scores.reduce((sum, score) => sum + (score.mean ?? 0), 0) / scores.length;
  return { mean, low: null, high: null, questions: Math.min(...scores.map(({ questions }) => questions)) };
}

const STATE_CLASS: Record<LiveTrial["state"], string> = { waiting: "", running: "accent", finished: "good", stopped: "warn" };

export function LiveBoard({ live: { trials, objective } }: { live: LiveRun }) {
  const [order, setOrder] = useState<Order>({ key: "objective", down: true });
  const metrics = [...new Set([...objective, ...trials.flatMap((trial) => Object.keys(trial.scores))])];
  const several = objective.length > 1;
  const scoreOf = (trial: LiveTrial, key: string) => (key === "objective" ? objectiveOf(trial, objective) : trial.scores[key] ?? null);
  const of = (trial: LiveTrial) => (order.key === "trial" ? trial.trial : scoreOf(trial, order.key)?.mean);
  const columns = several ? ["objective", ...metrics] : metrics;
  const key = order.key === "objective" && !several ? (objective[0] ?? "objective") : order.key;
  const shown = { key, down: order.down };
  const ends = trials.flatMap((trial) => Object.values(trial.scores).flatMap(({ mean, low, high }) => [mean, low, high])).filter(isKnown);
  const [least, most] = [Math.min(0, ...ends), Math.max(1, ...ends)];
  const steering = useSteering();
  return (
    <Scroll labelledBy="trials-heading">
      <table id="live-board">
        <Caption text="Trials by the mean of the objective" />
        <thead>
          <tr>
            <Sortable label="trial" sortKey="trial" order={shown} isNumber={false} choose={setOrder} />
            <Head>state</Head>
            {columns.map((metric) => <Sortable key={metric} label={objective.includes(metric) && several ? `${metric} (objective)` : metric} sortKey={metric} order={shown} isNumber choose={setOrder} />)}
            <Head number>questions</Head>
            <Head>what it is</Head>
            {steering ? <Head><span class="unseen">stop</span></Head> : null}
          </tr>
        </thead>
        <tbody>
          {sorted(trials, of, order.down).map((trial) => (
            <tr key={trial.trial} class={trial.state === "stopped" ? "stopped" : undefined}>
              <th scope="row">{trial.trial}</th>
              <td><span class={`state ${STATE_CLASS[trial.state] ?? ""}`}><span class={trial.state === "running" ? "dot moving" : "dot"} aria-hidden="true" />{trial.state}</span></td>
              {columns.map((metric) => {
                const score = scoreOf(trial, metric);
                return <td key={metric} class="number">{score ? <ScoreBar scores={score} least={least} most={most} /> : <span class="missing">–</span>}</td>;
              })}
              <td class="number">{Math.max(0, ...Object.values(trial.scores).map(({ questions }) => questions))}</td>
              <td class="text"><LongText text={labelsOf(trial)} /></td>
              {steering ? <td>{trial.state === "waiting" || trial.state === "running" ? <StopTrial trial={trial.trial} /> : null}</td> : null}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** Asks before it stops a trial, because a trial that was stopped does not go on. */
function StopTrial({ trial }: { trial: string }) {
  const steering = useSteering();
  const [isAsking, setAsking] = useState(false);
  const [wasAsked, setAsked] = useState(false);
  const confirm = useRef<HTMLButtonElement>(null);
  const first = useRef<HTMLButtonElement>(null);
  // The button that had the focus is gone, so the one in its place gets it.
  useLayoutEffect(() => { if (wasAsked) (confirm.current ?? first.current)?.focus(); }, [isAsking]);
  if (!steering) return null;
  if (!isAsking) return <button type="button" class="danger" ref={first} onClick={() => { setAsked(true); setAsking(true); }}>Stop<span class="unseen"> {trial}</span></button>;
  return (
    <span role="group" aria-label={`Stop ${trial}?`} onKeyDown={(event) => { if (event.key === "Escape") setAsking(false); }}>
      Stop {trial} for good?{" "}
      <button type="button" class="danger" ref={confirm} onClick={() => { setAsking(false); steering.send({ act: "stop_trial", trial }); }}>Stop it</button>{" "}
      <button type="button" onClick={() => setAsking(false)}>Cancel</button>
    </span>
  );
}
