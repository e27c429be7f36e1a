// One golden question with everything that a reviewer needs, and the buttons that decide about it.

import { useEffect, useRef, useState } from "preact/hooks";
import type { EvidenceExcerpt, GoldenQuestion, ReviewLine } from "../../data/golden";
import { useOverflow } from "../../page/size";
import { LongText } from "../../page/text";
import { Problem } from "../../page/tables";
import { Folded } from "../../run/verdicts";
import { counted, isKnown, moment, spaced } from "../../words";
import { documentsHref } from "../documents/address";
import { PagePicture } from "../documents/picture";
import { canReopen, decisionWords, isVerdict } from "./decisions";
import { useDesk } from "./desk";
import { draftFor, keepRemark, remarkFor } from "./drafts";
import { remarkAsked } from "./keys";
import { ReviewBadge } from "./queue";

export function QuestionPane({ open }: { open: GoldenQuestion }) {
  const { question, evidence } = open;
  const desk = useDesk();
  const isBlind = desk.isBlind.value;
  const { origin } = question;
  return (
    <>
      <Presence id={question.id} />
      <div class="sticky"><Actions open={open} isBlind={isBlind} /><PendingNotice /></div>
      <p class="where">
        {isBlind ? null : <ReviewBadge state={open.state} />}{" "}
        {[origin ? spaced(origin.kind) : "written by a person", question.split ? `split ${question.split}` : null].filter(Boolean).join(" · ")}
        {question.answerable === false ? <>{" "}<span class="badge warn">not in the documents: a system should say so</span></> : null}
      </p>
      {question.turns?.length ? (
        <>
          <h3>Earlier in the conversation</h3>
          <ol class="turns">{question.turns.map(({ role, content }, i) => <li key={i}><span class="where">{role}:</span> <LongText text={content} /></li>)}</ol>
        </>
      ) : null}
      <h3>Question</h3>
      <p class="body whole question-text"><LongText text={question.question} /></p>
      <h3>Reference</h3>
      {isKnown(question.reference) ? <p class="body whole"><LongText text={question.reference} /></p> : <p class="hint">It has no reference answer.</p>}
      {isKnown(question.draft) ? <><h3>Draft of a system</h3><p class="body whole"><LongText text={question.draft} /></p><p class="hint">{isKnown(question.reference) ? "It is dropped when you accept or edit the question." : "It becomes the reference when you accept the question."}</p></> : null}
      <h3>Evidence</h3>
      {evidence.length ? <ol class="cards">{evidence.map((excerpt, i) => <EvidenceCard key={i} excerpt={excerpt} question={question.id} />)}</ol> : <p class="hint">It has no evidence.</p>}
      {question.tags?.length ? <><h3>Tags</h3><p class="tags">{question.tags.map((tag) => <span key={tag} class="badge">{tag}</span>)}</p></> : null}
      {origin ? <p class="hint">Written by {origin.model}{origin.persona ? ` as “${origin.persona}”` : ""}, {spaced(origin.style)}, {spaced(origin.length)}.</p> : null}
      <History decisions={open.decisions} isBlind={isBlind} />
      <Remark id={question.id} />
    </>
  );
}

/** Who else has the question open, so that two people do not do the same work. */
export function Presence({ id }: { id: string }) {
  const others = useDesk().othersAt(id);
  return <div role="status" id="also-open">{others.length ? <p class="notice">{others.join(", ")} {others.length === 1 ? "has" : "have"} this question open now.</p> : null}</div>;
}

function Actions({ open, isBlind }: { open: GoldenQuestion; isBlind: boolean }) {
  const desk = useDesk();
  const pending = desk.pending.value;
  const isBusy = pending !== null && pending.problem === null;
  const draft = draftFor(open.question.id);
  return (
    <div class="fields actions" role="group" aria-label="Decide">
      <button type="button" class="primary" id="accept" aria-keyshortcuts="a" disabled={isBusy} onClick={() => void desk.decide({ decision: "accept" })}>Accept <kbd aria-hidden="true">a</kbd></button>
      <button type="button" id="edit" aria-keyshortcuts="e" disabled={isBusy} onClick={() => desk.edit()}>{draft ? "Go on editing" : "Edit"} <kbd aria-hidden="true">e</kbd></button>
      <button type="button" class="danger" id="reject" aria-keyshortcuts="r" disabled={isBusy} onClick={() => void desk.decide({ decision: "reject" })}>Reject <kbd aria-hidden="true">r</kbd></button>
      {open.state === "rejected" && !isBlind ? <button type="button" id="restore" aria-keyshortcuts="z" disabled={isBusy} onClick={() => void desk.decide({ decision: "restore" })}>Restore <kbd aria-hidden="true">z</kbd></button>
        : <button type="button" id="undo" aria-keyshortcuts="z" disabled={isBusy} onClick={() => void desk.undo()}>Undo mine <kbd aria-hidden="true">z</kbd></button>}
      {canReopen(open.state) && !isBlind ? <button type="button" id="reopen" aria-keyshortcuts="o" disabled={isBusy} onClick={() => void desk.reopen()}>Reopen <kbd aria-hidden="true">o</kbd></button> : null}
      <button type="button" aria-keyshortcuts="c" onClick={() => { remarkAsked.value += 1; }}>Remark <kbd aria-hidden="true">c</kbd></button>
      {draft ? <span class="hint">You have an edit that is not saved.</span> : null}
      {/* In view also where the status line of the page is not. */}
      <span class="hint" aria-hidden="true">{isBusy ? "Saving…" : desk.note.value}</span>
    </div>
  );
}

/** A decision that could not be made: what is wrong, and how to go on. */
export function PendingNotice({ save }: { save?: (isAnyway: boolean) => void }) {
  const desk = useDesk();
  const pending = desk.pending.value;
  const { id } = desk.view.value;
  if (!pending || pending.problem === null) return null;
  const { decision, overtaken } = pending;
  const what = decisionWords(decision).replace(/ it$/, "");
  const isElsewhere = pending.id !== id;
  // If the question is being edited, the form is sent as it is now: it may have changed since the request that failed.
  const again = (isAnyway: boolean) => (save && decision.decision === "edit" ? save(isAnyway) : void desk.decide(decision, isAnyway));
  return (
    <div class="notice problem" role="alert" id="pending">
      {overtaken ? (
        <>
          <p>{desk.isBlind.value ? "Somebody else has decided about this question in the meantime." : <><LongText text={overtaken.by} /> has decided about this question in the meantime ({moment(overtaken.time_ms)}): {decisionWords(overtaken.decision)}.</>} What you decided ({what}) is not recorded. The question below is as it is now: decide again.</p>
          <button type="button" id="decide-anyway" onClick={() => again(true)}>Decide anyway: {decision.decision}</button>{" "}
          <button type="button" id="leave-decision" onClick={() => { desk.dismissPending(); desk.advance("You have left the decision of the other person as it is."); }}>Leave it, and go on</button>{" "}
        </>
      ) : <Problem text={`Your decision${isElsewhere ? ` about ${pending.id}` : ""} (${what}) is not recorded: ${pending.problem}`} retry={isElsewhere ? undefined : () => again(false)} />}
      <button type="button" onClick={() => desk.dismissPending()}>Dismiss</button>
    </div>
  );
}

function EvidenceCard({ excerpt, question }: { excerpt: EvidenceExcerpt; question: string }) {
  const { document: path, before, quote, after, page, problem } = excerpt;
  const box = useRef<HTMLDivElement>(null);
  const isScrolled = useOverflow(box);
  // The quote is in view, also where the text before it is long.
  useEffect(() => {
    const [node, mark] = [box.current, box.current?.querySelector("mark")];
    if (node && mark) node.scrollTop = mark.offsetTop - node.offsetTop - 60;
  }, [before]);
  return (
    <li class="card">
      <div class="where">{path ? <a href={documentsHref({ path, evidence: question })}>{path}</a> : "no document"}{isKnown(page) ? ` · page ${page}` : ""}</div>
      <div class="body" ref={box} tabIndex={isScrolled ? 0 : undefined} role="group" aria-label={`Evidence in ${path}`}>{before ? `…${before}` : null}<mark><LongText text={quote} /></mark>{after ? `${after}…` : null}</div>
      {problem ? <p class="problem">This evidence is not in the document: <LongText text={problem} />.</p> : null}
      {isKnown(page) ? <Folded summary={`Page ${page} as a picture`}>{() => <PagePicture path={path} page={page} mark={quote} />}</Folded> : null}
    </li>
  );
}

function History({ decisions, isBlind }: { decisions: ReviewLine[]; isBlind: boolean }) {
  if (isBlind) return <><h3>Decisions and remarks</h3><p class="hint" id="blind">{counted(new Set(decisions.filter(isVerdict).map(({ by }) => by)).size, "person").replace(/persons$/, "people")} decided about this question. What they decided is hidden until you have decided, so that your opinion is your own.</p></>;
  return (
    <>
      <h3>Decisions and remarks</h3>
      {decisions.length ? <ol class="history">{decisions.map((line) => <HistoryLine key={line.number} line={line} />)}</ol> : <p class="hint">Nobody has decided about this question yet.</p>}
    </>
  );
}

function HistoryLine({ line: { by, time_ms: time, decision } }: { line: ReviewLine }) {
  return (
    <li>
      <strong><LongText text={by} /></strong> {decisionWords(decision)} <span class="range">{moment(time)}</span>
      {decision.decision === "comment" ? <div class="body whole remark"><LongText text={decision.text} /></div> : null}
      {decision.decision === "edit" ? (
        <div class="where">
          {isKnown(decision.question) ? <div>question: <LongText text={decision.question} /></div> : null}
          {isKnown(decision.reference) ? <div>reference: {decision.reference ? <LongText text={decision.reference} /> : "removed"}</div> : null}
          {isKnown(decision.tags) ? <div>tags: {decision.tags.join(", ") || "none"}</div> : null}
          {isKnown(decision.evidence) ? <div>evidence: {counted(decision.evidence.length, "piece")}</div> : null}
        </div>
      ) : null}
    </li>
  );
}

function Remark({ id }: { id: string }) {
  const desk = useDesk();
  const field = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(remarkFor(id));
  const asked = remarkAsked.value;
  const askedBefore = useRef(asked);
  useEffect(() => {
    if (asked !== askedBefore.current) field.current?.focus();
    askedBefore.current = asked;
  }, [asked]);
  const pending = desk.pending.value;
  const isBusy = pending !== null && pending.problem === null;
  const change = (value: string) => {
    setText(value);
    keepRemark(id, value);
  };
  const send = async () => {
    if (!text.trim() || isBusy) return;
    if (await desk.decide({ decision: "comment", text: text.trim() })) setText("");
  };
  return (
    <form class="remark-form" onSubmit={(event) => { event.preventDefault(); void send(); }}>
      <label for="remark">Your remark</label>
      <textarea
        id="remark" rows={2} value={text} ref={field} readOnly={isBusy} onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); void send(); }
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
      <button type="submit" disabled={!text.trim() || isBusy}>Add the remark</button> <span class="hint">It changes nothing about the question. Ctrl+Enter adds it.</span>
    </form>
  );
}
