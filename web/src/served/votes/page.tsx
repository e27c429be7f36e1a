// Votes between the answers of two trials, whose names are hidden and whose sides are drawn at random.

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Ballot, BlindAnswer, Verdict } from "../../data/votes";
import { Chooser, Problem } from "../../page/tables";
import { LongText } from "../../page/text";
import { moment } from "../../words";
import { KeySwitch, isPlainKey } from "../golden/keys";
import { navigate } from "../navigation";
import { PersonField, personName } from "../person";
import { useRuns } from "../runs";
import { hasKey } from "../server";
import { readVotesAddress, votableRuns, votesAddress } from "./address";
import { Ballots } from "./ballots";
import { StandingSection } from "./standing";
import { VERDICT_WORDS, emptyWords, progressWords, verdictOfKey } from "./words";

export function VotesPage({ address }: { address: string }) {
  const { list, problem, retry } = useRuns();
  const asked = readVotesAddress(address).run;
  const runs = votableRuns(list?.runs ?? []);
  const run = asked ?? runs[0]?.run ?? null;
  useEffect(() => { document.title = "Reverie: votes"; }, []);
  // The address names the run from now on, so that a run that finishes meanwhile does not take its place.
  useEffect(() => { if (asked === null && run !== null) navigate({ page: "votes", address: votesAddress(run) }, "replaceState"); }, [asked, run]);
  const options = runs.map((one): [string, string] => [one.run, `${one.experiment} · ${one.run} · ${moment(one.finished_ms)}`]);
  if (run !== null && !runs.some((one) => one.run === run)) options.unshift([run, run]);
  return (
    <main id="main" tabIndex={-1} class="served votes">
      <h1>Votes</h1>
      {problem && !list ? <Problem text={`The runs could not be loaded: ${problem}`} retry={retry} /> : null}
      {!list && !problem ? <p class="hint" role="status" aria-busy="true">Loading the runs…</p> : null}
      {options.length ? <p class="fields"><Chooser label="Answers of" options={options} value={run ?? ""} choose={(chosen) => navigate({ page: "votes", address: votesAddress(chosen) })} /></p> : null}
      {list && run === null ? <p class="hint">No run of this store has finished yet.</p> : null}
      {run === null ? null : <RunVotes key={run} run={run} />}
    </main>
  );
}

function RunVotes({ run }: { run: string }) {
  const ballots = useMemo(() => new Ballots(run), [run]);
  const name = personName.value;
  const isKnown = name !== "" || hasKey();
  useEffect(() => () => ballots.leave(), [ballots]);
  // Each person has a queue of their own.
  const loadedFor = useRef<string | null>(null);
  useEffect(() => {
    if (!isKnown || loadedFor.current === name) return;
    // The name of the key becomes known with the first vote, and changes nothing.
    if (loadedFor.current === null || !hasKey()) void ballots.next();
    loadedFor.current = name;
  }, [isKnown, name]);
  useVoteKeys(ballots);
  const ballot = ballots.ballot.value;
  const progress = ballots.progress.value;
  const problem = ballots.problem.value;
  return (
    <>
      <PersonField words="You vote as" ask={ballots.nameAsked.value} />
      {progress ? <p class="hint" id="vote-progress">{progressWords(progress)}</p> : null}
      {isKnown ? null : <p class="hint">Say who you are to see the first two answers: nobody is asked the same twice.</p>}
      {problem ? <div role="alert"><Problem text={problem} retry={() => void ballots.retry()} /></div> : null}
      {isKnown && !progress && !problem ? <p class="hint" role="status" aria-busy="true">Loading two answers…</p> : null}
      {ballot ? <BallotPane ballots={ballots} ballot={ballot} /> : null}
      {progress && !ballot && !problem ? <p id="nothing-left" class="notice">{emptyWords(progress)}</p> : null}
      <p class="unseen" role="status" aria-live="polite">{ballots.note.value}</p>
      <StandingSection ballots={ballots} />
      <KeyHelp />
    </>
  );
}

function useVoteKeys(ballots: Ballots): void {
  useEffect(() => {
    const act = (event: KeyboardEvent) => {
      // A key that is held must not vote on one pair after the other.
      if (event.repeat || !isPlainKey(event)) return;
      const verdict = verdictOfKey(event.key);
      if (verdict === null && event.key !== "z") return;
      // Arrows scroll tables.
      if (event.key.startsWith("Arrow") && (event.target as Element).closest(".scroll") !== null) return;
      event.preventDefault();
      if (verdict === null) ballots.goBack();
      else void ballots.vote(verdict);
    };
    addEventListener("keydown", act);
    return () => removeEventListener("keydown", act);
  }, [ballots]);
}

const BUTTONS: [Verdict, string, string][] = [["left", "Left is better", "←"], ["right", "Right is better", "→"], ["both_good", "Both are equally good", "="], ["both_bad", "Both are bad", "b"], ["skip", "Skip", "s"]];
const SHORTCUTS: Record<Verdict, string> = { left: "ArrowLeft", right: "ArrowRight", both_good: "=", both_bad: "b", skip: "s" };

function BallotPane({ ballots, ballot }: { ballots: Ballots; ballot: Ballot }) {
  const { question, left, right } = ballot;
  const heading = useRef<HTMLHeadingElement>(null);
  const shown = ballots.shown.value;
  const isBusy = ballots.isBusy.value;
  useEffect(() => {
    // The first ballot must not take the focus from whoever reads the head of the page.
    if (shown < 2) return;
    heading.current?.focus({ preventScroll: true });
    if (heading.current && heading.current.getBoundingClientRect().top < 0) heading.current.scrollIntoView({ block: "start" });
  }, [shown]);
  return (
    <section aria-labelledby="vote-heading">
      <h2 id="vote-heading" tabIndex={-1} ref={heading}>Which answer is better?</h2>
      {question.turns?.length ? <ol class="turns">{question.turns.map(({ role, content }, i) => <li key={i}><span class="where">{role}:</span> <LongText text={content} /></li>)}</ol> : null}
      <p class="body whole question-text" id="vote-question"><LongText text={question.question} /></p>
      {question.reference ? <details key={question.id} class="reference"><summary>Reference answer</summary><p class="body whole"><LongText text={question.reference} /></p></details> : null}
      <div class="sides">
        <Side id="left-answer" title="Left" answer={left} />
        <Side id="right-answer" title="Right" answer={right} />
      </div>
      <div class="fields actions" role="group" aria-label="Vote">
        {BUTTONS.map(([verdict, words, key]) => (
          <button key={verdict} type="button" id={`vote-${verdict}`} aria-keyshortcuts={SHORTCUTS[verdict]} aria-disabled={isBusy} onClick={() => void ballots.vote(verdict)}>{words} <kbd aria-hidden="true">{key}</kbd></button>
        ))}
        <button type="button" id="vote-back" aria-keyshortcuts="z" aria-disabled={isBusy} onClick={() => ballots.goBack()}>Back to the last pair <kbd aria-hidden="true">z</kbd></button>
      </div>
      <p class="hint" id="vote-note" aria-hidden="true">{isBusy ? "Saving…" : ballots.note.value}</p>
      <label><input type="checkbox" id="reveal" checked={ballots.isRevealing.value} onChange={(event) => { ballots.isRevealing.value = event.currentTarget.checked; }} /> Name the trials after each vote</label>
    </section>
  );
}

function Side({ id, title, answer }: { id: string; title: string; answer: BlindAnswer }) {
  return (
    <div class="card" role="group" aria-labelledby={`${id}-title`}>
      <h3 id={`${id}-title`}>{title}</h3>
      <div class="body whole" id={id}><LongText text={answer.text} /></div>
    </div>
  );
}

function KeyHelp() {
  return (
    <div id="vote-keys">
      <p class="hint">Keys: {BUTTONS.map(([verdict, , key], i) => <span key={verdict}>{i ? ", " : ""}<kbd>{key}</kbd> {verdict === "skip" ? "skip" : VERDICT_WORDS[verdict]}</span>)}, <kbd>z</kbd> back to the last pair.</p>
      <KeySwitch />
    </div>
  );
}
