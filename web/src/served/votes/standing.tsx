// What the votes say so far: how often each trial was preferred, and which differences are real.

import type { VoteStanding } from "../../data/votes";
import { Caption, Head, NumberCell, Problem, Scroll, TextCell } from "../../page/tables";
import { LongText } from "../../page/text";
import { counted, isKnown } from "../../words";
import type { Ballots } from "./ballots";
import { pairWords, peopleAgreementWords, peopleWords, shareWords, sideWords } from "./words";

/** It is loaded when it is opened: computing intervals takes a moment. */
export function StandingSection({ ballots }: { ballots: Ballots }) {
  const standing = ballots.standing.value;
  const problem = ballots.standingProblem.value;
  return (
    <details id="standing" onToggle={(event) => { if (event.currentTarget.open && !ballots.standing.peek()) void ballots.loadStanding(); }}>
      <summary>Standing of the trials</summary>
      {problem ? <Problem text={problem} retry={() => void ballots.loadStanding()} /> : null}
      {standing ? <Standing standing={standing} /> : problem ? null : <p class="hint" role="status" aria-busy="true">Counting the votes…</p>}
    </details>
  );
}

function Standing({ standing }: { standing: VoteStanding }) {
  const { votes, skipped, questions, people, trials, pairs, equal, fewest_questions: fewest } = standing;
  if (!votes) return <p class="hint">Nobody has voted on answers of this run yet.</p>;
  const names = Object.entries(people).sort((a, b) => b[1] - a[1]);
  return (
    <>
      <p>{counted(votes, "vote")} on {counted(questions, "question")} by {peopleWords(names.length)}: {names.map(([name, n], i) => <span key={name}>{i ? ", " : ""}<LongText text={name} /> {n}</span>)}.{skipped ? ` ${skipped} skipped.` : ""}{equal ? ` ${counted(equal, "pair")} of answers with the same text ${equal === 1 ? "is" : "are"} left out.` : ""}</p>
      <h3 id="trial-votes">Trials</h3>
      <Scroll labelledBy="trial-votes">
        <table>
          <Caption text="Votes by trial, the most preferred first" />
          <thead><tr><Head>trial</Head><Head>preferred (95 % interval)</Head><Head number>votes</Head><Head number>won</Head><Head number>lost</Head><Head number>both good</Head><Head number>both bad</Head><Head number>questions</Head><Head number>people</Head></tr></thead>
          <tbody>
            {trials.map(({ trial, preference, won, lost, both_good: good, both_bad: bad, people: n }) => (
              <tr key={trial}>
                <th scope="row">{trial}</th><TextCell text={shareWords(preference)} />
                {[preference.votes, won, lost, good, bad, preference.questions, n].map((value, i) => <NumberCell key={i} value={value} digits={0} />)}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="hint">The share of its votes that a trial won; a vote for both or against both counts half. Questions are resampled for the interval, because votes on one question depend on each other. With votes on fewer than {fewest} questions no share is given.</p>
      <h3 id="pair-votes">Pairs</h3>
      <Scroll labelledBy="pair-votes">
        <table>
          <Caption text="Votes by pair of trials" />
          <thead><tr><Head>pair</Head><Head>first is preferred (95 % interval)</Head><Head>what it says</Head><Head number>p</Head><Head number>votes</Head><Head number>questions</Head><Head number>same text</Head></tr></thead>
          <tbody>
            {pairs.map((pair) => (
              <tr key={`${pair.first} ${pair.second}`}>
                <th scope="row">{pair.first} against {pair.second}</th>
                <TextCell text={shareWords(pair.preference)} /><TextCell text={pairWords(pair)} />
                <td class="number">{isKnown(pair.p_value) ? (pair.p_value < 0.001 ? "< 0.001" : pair.p_value.toFixed(3)) : "–"}</td>
                <NumberCell value={pair.preference.votes} digits={0} /><NumberCell value={pair.preference.questions} digits={0} /><NumberCell value={pair.equal} digits={0} />
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="hint">p is that of a sign-flip test over questions, corrected by Holm for the number of pairs. One is preferred if it is below 0.05.</p>
      <p id="vote-agreement">{peopleAgreementWords(standing.agreement, standing.compared)}</p>
      <p id="side-bias">{sideWords(standing.side)}</p>
      <p class="hint">The votes are in <code>{standing.log}</code>. <code>reverie votes</code> shows the same in a terminal.</p>
    </>
  );
}
