// Labels for judges: buttons next to a verdict, with which a person says whether it is right. Only a page with a server
// has them; a report provides no `VerdictLabels`.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { JudgeAgreement, VerdictLabel, VerdictPlace } from "../data/labels";
import { Problem } from "../page/tables";
import { LongText } from "../page/text";
import { judgeWords, labelWords } from "./label-words";

export interface VerdictLabels {
  /** Loads the labels of a question, unless they are there. */
  open(question: string): void;
  /** Whether a verdict of this list can become a labelled case. */
  canLabel(place: VerdictPlace): boolean;
  labelsOf(place: VerdictPlace): VerdictLabel[];
  /** The label of the person at this browser. */
  ownLabel(place: VerdictPlace): boolean | null;
  give(place: VerdictPlace, isRight: boolean): void;
  /** How far people agree with each judge; empty before somebody has labelled something. */
  judges(): JudgeAgreement[];
  /** Why the last label is not recorded. */
  problem(): string | null;
  /** The field for the name, if it is needed. */
  Person(): preact.ComponentChild;
}

export const LabelContext = createContext<VerdictLabels | null>(null);

/** Says whether a verdict is right. */
export function LabelButtons({ place }: { place: VerdictPlace }) {
  const labels = useContext(LabelContext);
  if (!labels?.canLabel(place)) return null;
  const own = labels.ownLabel(place);
  const said = labelWords(labels.labelsOf(place));
  const button = (isRight: boolean, words: string) => <button type="button" aria-pressed={own === isRight} onClick={() => labels.give(place, isRight)}>{words}</button>;
  return (
    <span class="labelling" role="group" aria-label={`Label of ${place.metric}, ${place.list} ${place.item + 1}`}>
      {button(true, "right")}{button(false, "wrong")}
      {said ? <span class="where">{said}</span> : null}
    </span>
  );
}

/** What people said of the judges, below the verdicts of a question. */
export function JudgeLabels() {
  const labels = useContext(LabelContext);
  if (!labels) return null;
  const { Person } = labels;
  const judges = labels.judges();
  const problem = labels.problem();
  return (
    <div id="judge-labels">
      {problem ? <div role="alert"><Problem text={`Your label is not recorded: ${problem}`} /></div> : null}
      <Person />
      {judges.length ? <p class="hint">Labels of people. {judges.map((judge, i) => <span key={judge.judge}>{i ? " " : ""}<LongText text={judgeWords(judge)} /></span>)} <code>reverie judge</code> uses them as cases.</p> : null}
    </div>
  );
}
