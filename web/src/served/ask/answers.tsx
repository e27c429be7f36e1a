// The answers of trials to one question, next to each other.

import type { AskedAnswer, AskedPassage, AskedTrial, TrialAnswer } from "../../data/ask";
import { labelsOf } from "../../data/columns";
import { LongText } from "../../page/text";
import { counted, fixed, isKnown } from "../../words";
import { documentsHref } from "../documents/address";
import { goldenHref } from "../golden/filter";
import { hrefOf } from "../route";
import { askDesk } from "./desk";

export function Answers() {
  const sent = askDesk.sent.value;
  const answers = askDesk.answers.value;
  const isBusy = askDesk.isBusy.value;
  if (!sent || (!answers && !isBusy)) return null;
  return (
    <section aria-labelledby="answers-heading" aria-busy={isBusy ? "true" : undefined}>
      <h2 id="answers-heading">Answers</h2>
      <p class="body whole question-text"><LongText text={sent.question} /></p>
      <p class="where">asked of <a href={hrefOf({ page: "run", run: sent.run, address: "" })}>{sent.run}</a></p>
      <div class="ask-answers">
        {answers ? answers.map((asked, place) => <AnswerColumn key={asked.trial} asked={asked} place={place + 1} />) : sent.trials.map((trial) => <div key={trial} class="column"><h3>{trial}</h3><p class="hint">No answer yet.</p></div>)}
      </div>
    </section>
  );
}

function AnswerColumn({ asked: { trial, answer, error, seconds }, place }: { asked: AskedTrial; place: number }) {
  const id = `answer-${place}`;
  return (
    <section class="column answer" aria-labelledby={id} data-trial={trial}>
      <h3 id={id}>{trial}</h3>
      {answer ? <Whole answer={answer} seconds={seconds} place={place} /> : <p class="problem">This trial gave no answer: <LongText text={error ?? "the server does not say why"} /></p>}
    </section>
  );
}

/** What is known about how an answer came about. */
export function answerFacts(answer: AskedAnswer | null, seconds: number): string {
  const facts = [`${fixed(seconds, 2)} s`];
  if (answer) {
    const { usage, calls, finish, dropped_passages: dropped } = answer;
    facts.push(`${usage.prompt_tokens} tokens read${usage.cached_tokens ? ` (${usage.cached_tokens} of them cached)` : ""}, ${usage.completion_tokens} written`);
    if (calls !== 1) facts.push(counted(calls, "call"));
    if (finish === "length") facts.push("cut off at max_tokens");
    if (finish === "content_filter") facts.push("the provider withheld the rest");
    if (dropped) facts.push(`${counted(dropped, "passage")} left out because the context was full`);
  }
  return facts.join(" · ");
}

function Whole({ answer: whole, seconds, place }: { answer: TrialAnswer; seconds: number; place: number }) {
  const { trial, answer, passages, query_fallback: fallback, remarks } = whole;
  const made = askDesk.added.value[trial.id];
  return (
    <>
      <p class="where"><LongText text={labelsOf(trial)} /></p>
      <h4>Answer</h4>
      {answer ? (
        <>
          <div class="card body" tabIndex={0} role="group" aria-label={`Answer of ${trial.id}`}><LongText text={answer.text} /></div>
          <Citations citations={answer.citations} place={place} count={passages.length} />
        </>
      ) : <p class="hint">This trial only searches; it has no generator.</p>}
      <p class="where">{answerFacts(answer, seconds)}</p>
      {fallback ? <p class="problem">The question was searched as it is, because: <LongText text={fallback} /></p> : null}
      {remarks?.length ? <ul>{remarks.map((remark, i) => <li key={i}><LongText text={remark} /></li>)}</ul> : null}
      {made === undefined ? <button type="button" class="make-golden" onClick={() => askDesk.openForm(whole)}>Make this a golden question</button>
        : <p>Added as <a href={goldenHref(made)}>{made}</a>.</p>}
      <h4>Passages</h4>
      {passages.length ? <ol class="cards">{passages.map((passage, i) => <PassageCard key={i} passage={passage} rank={i + 1} trial={trial.id} id={passageId(place, i + 1)} />)}</ol> : <p class="hint">No passage was found.</p>}
    </>
  );
}

const passageId = (place: number, rank: number): string => `answer-${place}-passage-${rank}`;

/** The cited passages. A link would change the address of the page, so buttons go there. */
function Citations({ citations, place, count }: { citations: number[]; place: number; count: number }) {
  if (!citations.length) return <p class="where">cites nothing</p>;
  return (
    <p class="where citations">
      cites{" "}
      {citations.map((rank) => (
        <button key={rank} type="button" disabled={rank > count} aria-label={`Go to passage ${rank}`} onClick={() => document.getElementById(passageId(place, rank))?.focus()}>[{rank}]</button>
      ))}
    </p>
  );
}

function PassageCard({ passage, rank, trial, id }: { passage: AskedPassage; rank: number; trial: string; id: string }) {
  const { document: path, page, book, heading, score, text } = passage;
  const more = [isKnown(page) ? `page ${page}` : null, book, heading, `score ${fixed(score)}`].filter(Boolean).join(" · ");
  return (
    <li class="card" id={id} tabIndex={-1}>
      <div class="where">[{rank}] {path ? <a href={documentsHref({ path, page })}>{path}</a> : "no document"} · {more}</div>
      <div class="body" tabIndex={0} role="group" aria-label={`Passage ${rank} of ${trial}`}><LongText text={text} /></div>
    </li>
  );
}
