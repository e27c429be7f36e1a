// Steering of a run: pause, budget, limits of models; and the record of who did what.

import { createContext } from "preact";
import { useContext, useState } from "preact/hooks";
import type { Act, LiveRun, RecordedAct } from "../data/live";
import { Caption, Head, Scroll } from "../page/tables";
import { LongText } from "../page/text";
import { clock } from "../words";
import { AddTrial } from "./add-trial";
import { personName } from "./person";
import { RequestProblem, postJson, runPath } from "./server";

/** An act that was sent and is not in the run's record yet. */
export interface SentAct {
  id: number;
  act: Act;
  /** Null until the server has accepted it. */
  number: number | null;
  problem: string | null;
}

export interface Steering {
  sent: SentAct[];
  send(act: Act): void;
  dismiss(one: SentAct): void;
}

export const SteeringContext = createContext<Steering | null>(null);
/** Null where runs cannot be steered. */
export const useSteering = (): Steering | null => useContext(SteeringContext);

let lastId = 0;

export function useSteeringOf(run: string, recorded: RecordedAct[]): Steering {
  const [sent, setSent] = useState<SentAct[]>([]);
  const send = (act: Act) => {
    const id = (lastId += 1);
    const update = (changes: Partial<SentAct>) => setSent((before) => before.map((one) => (one.id === id ? { ...one, ...changes } : one)));
    setSent((before) => [...before, { id, act, number: null, problem: null }]);
    postJson<{ number: number }>(runPath(run, "acts"), personName.peek() ? { ...act, by: personName.peek() } : act).then(
      ({ number }) => update({ number }),
      (error: unknown) => {
        if (!(error instanceof RequestProblem)) throw error;
        update({ problem: error.message });
      },
    );
  };
  const known = new Set(recorded.map(({ number }) => number));
  return {
    sent: sent.filter(({ number }) => number === null || !known.has(number)),
    send,
    dismiss: ({ id }) => setSent((before) => before.filter((one) => one.id !== id)),
  };
}

export function actWords(act: Act): string {
  switch (act.act) {
    case "pause":
      return "pause";
    case "continue":
      return "continue";
    case "stop_trial":
      return `stop trial ${act.trial}`;
    case "set_budget": {
      const caps = [["usd", "dollars"], ["tokens", "tokens"], ["calls", "calls"], ["minutes", "minutes"]] as const;
      return `set the budget to ${caps.flatMap(([name, unit]) => (act[name] === undefined ? [] : [`${act[name]?.toLocaleString("en-US")} ${unit}`])).join(", ")}`;
    }
    case "set_limit":
      return `limit ${act.model} to ${act.concurrency} requests at once`;
    case "add_trial":
      return `add a copy of trial ${act.like} with ${Object.entries(act.set).map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join(", ")}`;
    case "ask_questions":
      return `ask ${act.questions.toLocaleString("en-US")} questions`;
    default:
      return JSON.stringify(act);
  }
}

export function PauseButton({ live }: { live: LiveRun }) {
  const steering = useSteering();
  if (!steering || (live.state !== "running" && live.state !== "paused")) return null;
  const act: Act = { act: live.state === "paused" ? "continue" : "pause" };
  const isSent = steering.sent.some((one) => one.act.act === act.act && one.problem === null);
  return <button type="button" class="primary" id="pause" disabled={isSent} onClick={() => steering.send(act)}>{act.act === "pause" ? "Pause" : "Continue"}</button>;
}

const UNITS = { usd: "dollars", tokens: "tokens", calls: "calls", minutes: "minutes" };
type Unit = keyof typeof UNITS;

export function Controls({ live }: { live: LiveRun }) {
  const steering = useSteering();
  const [unit, setUnit] = useState<Unit>("usd");
  const [budget, setBudget] = useState("");
  const [model, setModel] = useState("");
  const [limit, setLimit] = useState("");
  const [questions, setQuestions] = useState("");
  if (!steering) return <p class="hint">This server only shows runs; it does not accept changes to them.</p>;
  const chosen = live.models.some(({ name }) => name === model) ? model : (live.models[0]?.name ?? "");
  return (
    <div class="fields controls">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          steering.send({ act: "set_budget", [unit]: Number(budget) });
          setBudget("");
        }}
      >
        <label>Budget <input type="number" id="budget" min="0" step={unit === "tokens" || unit === "calls" ? 1 : "any"} required value={budget} onInput={(event) => setBudget(event.currentTarget.value)} /></label>{" "}
        <label><span class="unseen">unit of the budget</span><select value={unit} onChange={(event) => setUnit(event.currentTarget.value as Unit)}>{Object.entries(UNITS).map(([key, words]) => <option key={key} value={key}>{words}</option>)}</select></label>{" "}
        <button type="submit">Set budget</button>
      </form>
      {live.models.length ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            steering.send({ act: "set_limit", model: chosen, concurrency: Number(limit) });
            setLimit("");
          }}
        >
          <label>Requests at once to <select value={chosen} onChange={(event) => setModel(event.currentTarget.value)}>{live.models.map(({ name }) => <option key={name} value={name}>{name}</option>)}</select></label>{" "}
          <label><span class="unseen">most requests at once</span><input type="number" id="limit" min="1" step="1" required value={limit} onInput={(event) => setLimit(event.currentTarget.value)} /></label>{" "}
          <button type="submit">Set limit</button>
        </form>
      ) : null}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          steering.send({ act: "ask_questions", questions: Number(questions) });
          setQuestions("");
        }}
      >
        <label>Questions to ask <input type="number" id="ask-questions" min="1" step="1" required value={questions} onInput={(event) => setQuestions(event.currentTarget.value)} /></label>{" "}
        <button type="submit">Ask more</button>
      </form>
      <AddTrial live={live} />
    </div>
  );
}

/** Acts that the run has not answered yet, and those that could not be sent. They stay when the run has ended before it read them. */
export function SentActs({ steering, isGoingOn }: { steering: Steering; isGoingOn: boolean }) {
  const dismiss = (one: SentAct) => <button type="button" onClick={() => steering.dismiss(one)}>Dismiss</button>;
  return (
    <div role="status" id="sent-acts">
      {steering.sent.map((one) => (
        <p key={one.id} class={one.problem || !isGoingOn ? "problem" : "hint"}>
          {one.problem ? <>“{actWords(one.act)}” was not accepted: <LongText text={one.problem} /> {isGoingOn ? <><button type="button" onClick={() => { steering.dismiss(one); steering.send(one.act); }}>Try again</button>{" "}</> : null}{dismiss(one)}</>
            : one.number !== null && !isGoingOn ? <>“{actWords(one.act)}” did nothing: the run ended before it read that. {dismiss(one)}</>
            : one.number === null ? `Sending “${actWords(one.act)}”…` : `“${actWords(one.act)}” was sent as number ${one.number}; the run has not answered yet.`}
        </p>
      ))}
    </div>
  );
}

export function ActsTable({ acts }: { acts: RecordedAct[] }) {
  if (!acts.length) return <p class="hint">Nobody has changed this run.</p>;
  return (
    <Scroll labelledBy="acts-heading">
      <table id="acts">
        <Caption text="Changes to this run, the newest first" />
        <thead><tr><Head number>number</Head><Head>time</Head><Head>by</Head><Head>change</Head><Head>outcome</Head></tr></thead>
        <tbody>
          {[...acts].sort((a, b) => b.number - a.number).map((one) => (
            <tr key={one.number}>
              <td class="number">{one.number}</td><td>{clock(one.time_ms)}</td><td><LongText text={one.by} /></td><th scope="row">{actWords(one.act)}</th>
              <td class="text">{one.refused ? <><span class="badge bad">refused</span>{" "}</> : null}{one.outcome === null ? <span class="missing">not yet answered</span> : <LongText text={one.outcome} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
