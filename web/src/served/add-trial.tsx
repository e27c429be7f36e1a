// Adds a trial to a run that goes on: a copy of another one with another value.

import { useState } from "preact/hooks";
import type { LiveRun, PlannedTrial } from "../data/live";
import { settingOf } from "./setting-value";
import { RequestProblem, getJson, runPath } from "./server";
import { useSteering } from "./steering";

export function AddTrial({ live }: { live: LiveRun }) {
  const steering = useSteering();
  const [planned, setPlanned] = useState<PlannedTrial[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [like, setLike] = useState("");
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  if (!steering) return null;
  // The settings are asked for when somebody is about to need them.
  const load = () => {
    if (planned) return;
    getJson<{ trials: PlannedTrial[] }>(runPath(live.run, "trials")).then(
      ({ trials }) => { setPlanned(trials); setProblem(null); },
      (error: unknown) => {
        if (!(error instanceof RequestProblem)) throw error;
        setProblem(error.message);
      },
    );
  };
  const copied = live.trials.some(({ trial }) => trial === like) ? like : (live.trials[0]?.trial ?? "");
  const choices = planned?.find(({ trial }) => trial === copied)?.choices ?? {};
  return (
    <form
      id="add-trial" onFocusIn={load}
      onSubmit={(event) => {
        event.preventDefault();
        steering.send({ act: "add_trial", like: copied, set: { [key.trim()]: settingOf(value) } });
        setValue("");
      }}
    >
      <label>Add a copy of <select id="copied-trial" value={copied} onChange={(event) => setLike(event.currentTarget.value)}>{live.trials.map(({ trial }) => <option key={trial} value={trial}>{trial}</option>)}</select></label>{" "}
      <label>with <input id="copied-setting" list="trial-settings" required placeholder="retriever.bm25.top_k" value={key} onInput={(event) => setKey(event.currentTarget.value)} /></label>{" "}
      <datalist id="trial-settings">{Object.entries(choices).map(([name, now]) => <option key={name} value={name}>{now}</option>)}</datalist>
      <label>= <input id="copied-value" required placeholder={choices[key.trim()] ?? "8"} value={value} onInput={(event) => setValue(event.currentTarget.value)} /></label>{" "}
      <button type="submit">Add trial</button>
      {choices[key.trim()] === undefined ? null : <span class="hint"> {copied} has {choices[key.trim()]}.</span>}
      {problem ? <span class="hint"> Its settings could not be listed: {problem}</span> : null}
    </form>
  );
}
