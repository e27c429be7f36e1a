// The form that makes a golden question of an answer.

import { useEffect, useRef } from "preact/hooks";
import { PersonField } from "../person";
import { askDesk } from "./desk";
import type { EvidenceDraft, GoldenDraft } from "./golden-draft";

export function GoldenForm() {
  const trial = askDesk.formOf.value;
  const draft = trial === null ? undefined : askDesk.drafts.value[trial];
  return trial !== null && draft ? <Form key={trial} trial={trial} draft={draft} /> : null;
}

function Form({ trial, draft }: { trial: string; draft: GoldenDraft }) {
  const heading = useRef<HTMLHeadingElement>(null);
  const isBusy = askDesk.isAdding.value;
  const problem = askDesk.addProblem.value;
  useEffect(() => {
    heading.current?.focus({ preventScroll: true });
    heading.current?.scrollIntoView({ block: "nearest" });
  }, []);
  const change = (changes: Partial<GoldenDraft>) => askDesk.changeDraft(trial, changes);
  const changeEvidence = (place: number, changes: Partial<EvidenceDraft>) => change({ evidence: draft.evidence.map((item, i) => (i === place ? { ...item, ...changes } : item)) });
  return (
    <section aria-labelledby="new-question-heading" id="new-question">
      <h2 id="new-question-heading" tabIndex={-1} ref={heading}>A golden question of the answer of {trial}</h2>
      <p class="hint">Others see it on the page Golden, where it waits for a decision.</p>
      <PersonField words="You add it as" ask={askDesk.nameAsked.value} />
      <form
        class="edit-fields"
        onSubmit={(event) => {
          event.preventDefault();
          void askDesk.add(trial);
        }}
      >
        <label for="new-question-text">Question</label>
        <textarea id="new-question-text" rows={2} value={draft.question} onInput={(event) => change({ question: event.currentTarget.value })} />
        <fieldset>
          <legend>Do the documents answer it?</legend>
          <label><input type="radio" name="answerable" checked={draft.isAnswerable} onChange={() => change({ isAnswerable: true })} /> Yes</label>
          <label><input type="radio" name="answerable" checked={!draft.isAnswerable} onChange={() => change({ isAnswerable: false })} /> No, and a system should say so</label>
        </fieldset>
        {draft.isAnswerable ? (
          <>
            <label for="new-question-reference">Reference: the right answer</label>
            <textarea id="new-question-reference" rows={5} value={draft.reference} onInput={(event) => change({ reference: event.currentTarget.value })} />
            <h3>Evidence</h3>
            {draft.evidence.length ? (
              <>
                <p class="hint">Select the passages that hold the answer. Shorten each quote to the words that are needed; it must stand in its document as it is here.</p>
                <ol class="cards">{draft.evidence.map((item, place) => <EvidenceField key={place} item={item} place={place} change={(changes) => changeEvidence(place, changes)} />)}</ol>
              </>
            ) : <p class="hint">No passage was found, so there is nothing to quote. Evidence can be marked later on the page Golden.</p>}
          </>
        ) : null}
        <label for="new-question-id">Id (if you leave it empty, it is made of the question's words)</label>
        <input id="new-question-id" value={draft.id} maxLength={200} onInput={(event) => change({ id: event.currentTarget.value })} />
        {problem ? <p class="problem" role="alert" id="new-question-problem">{problem}</p> : null}
        <div class="fields">
          <button type="submit" class="primary" id="add-question" disabled={isBusy}>{isBusy ? "Adding…" : "Add the golden question"}</button>
          <button type="button" disabled={isBusy} onClick={() => askDesk.closeForm()}>Close</button>
        </div>
      </form>
    </section>
  );
}

function EvidenceField({ item, place, change }: { item: EvidenceDraft; place: number; change(changes: Partial<EvidenceDraft>): void }) {
  const where = [`passage ${item.rank}`, item.document || "no document", item.page === null ? null : `page ${item.page}`].filter(Boolean).join(" · ");
  const isWhole = item.quote === item.whole.text;
  return (
    <li class="card">
      <label><input type="checkbox" checked={item.isUsed} onChange={(event) => change({ isUsed: event.currentTarget.checked })} /> {where}</label>
      <textarea rows={3} aria-label={`Quote ${place + 1}, of ${where}`} value={item.quote} onInput={(event) => change({ quote: event.currentTarget.value, isUsed: true })} />
      {isWhole ? <span class="hint">The whole passage.</span> : <button type="button" onClick={() => change({ quote: item.whole.text })}>Take the whole passage again</button>}
    </li>
  );
}
