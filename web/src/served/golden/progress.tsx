// How far the review is, who has decided how much, and how far the reviewers agree.

import { useState } from "preact/hooks";
import type { GoldenList } from "../../data/golden";
import { LongText } from "../../page/text";
import { Problem } from "../../page/tables";
import { counted, percent } from "../../words";
import { Bar } from "../live";
import { personName } from "../person";
import { RequestProblem, getBlob } from "../server";
import { agreementWords } from "./decisions";
import { useDesk } from "./desk";

const EXPORT_MS = 120_000;

export function Progress({ list }: { list: GoldenList }) {
  const desk = useDesk();
  const total = list.questions.length;
  const counts = { open: 0, accepted: 0, edited: 0, rejected: 0 };
  for (const { state } of list.questions) counts[state] += 1;
  const decided = total - counts.open;
  const reviewers = Object.entries(list.reviewers).sort((a, b) => b[1] - a[1]);
  const { conflicts } = list.agreement;
  return (
    <div class="progress">
      <p id="golden-progress"><Bar share={decided / total} /> {decided} of {counted(total, "question")} decided ({percent(decided / total)}): {counts.accepted} accepted, {counts.edited} edited, {counts.rejected} rejected.</p>
      <details id="reviewers">
        <summary>{counted(reviewers.length, "reviewer")}{list.agreement.agreement ? `, agreement ${percent(list.agreement.agreement.observed)}` : ""}{conflicts.length ? `, ${counted(conflicts.length, "conflict")}` : ""}</summary>
        <ul class="reviewers">
          {reviewers.map(([name, count]) => (
            <li key={name}><span class="reviewer-name"><LongText text={name} />{name === personName.value ? " (you)" : ""}</span> <Bar share={count / total} /> {counted(count, "question")}{list.present[name] === undefined ? "" : `, has ${list.present[name]} open`}</li>
          ))}
        </ul>
        {agreementWords(list.agreement).map((words) => <p key={words} class="hint">{words}</p>)}
        {conflicts.length ? <p><button type="button" onClick={() => desk.change({ show: "conflicts" }, "pushState")}>Show the conflicts</button></p> : null}
        <p class="hint">Of each person, the first decision about a question counts, because later ones may have been made after seeing those of others.</p>
      </details>
      <Export path={list.path} />
    </div>
  );
}

/** Downloads the kept questions. A link could not send a key. */
function Export({ path }: { path: string }) {
  const [state, setState] = useState<{ isBusy: boolean; problem: string | null }>({ isBusy: false, problem: null });
  const download = async () => {
    setState({ isBusy: true, problem: null });
    try {
      const address = URL.createObjectURL(await getBlob("/api/golden/export", EXPORT_MS));
      const link = document.createElement("a");
      link.href = address;
      link.download = path.split(/[\\/]/).pop() || "golden.jsonl";
      link.click();
      // The browser has taken the file by then.
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
      setState({ isBusy: false, problem: null });
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      setState({ isBusy: false, problem: error.message });
    }
  };
  return (
    <>
      <button type="button" id="export" disabled={state.isBusy} onClick={() => void download()}>Download the kept questions</button>
      {state.problem ? <Problem text={state.problem} retry={() => void download()} /> : null}
    </>
  );
}
