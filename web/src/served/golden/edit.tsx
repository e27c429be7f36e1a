// The form for editing a golden question, next to the text of a document.

import { useEffect, useRef, useState } from "preact/hooks";
import type { GoldenQuestion } from "../../data/golden";
import { LongText } from "../../page/text";
import { isKnown } from "../../words";
import { type EditDraft, draftOf, editOf, isChanged } from "./decisions";
import { useDesk } from "./desk";
import { type Draft, draftFor, keepDraft } from "./drafts";
import { isSamePiece } from "./evidence";
import { EvidenceMarker } from "./marking";
import { PendingNotice, Presence } from "./question";

export function EditForm({ open }: { open: GoldenQuestion }) {
  const desk = useDesk();
  const { id } = open.question;
  const [draft, setDraft] = useState<Draft>(() => draftFor(id) ?? { edit: draftOf(open.question), from: draftOf(open.question) });
  const [isLeaving, setLeaving] = useState(false);
  const [shownDocument, showDocument] = useState<{ path: string; place: number; turn: number } | null>(null);
  const first = useRef<HTMLTextAreaElement>(null);
  const form = useRef<HTMLDivElement>(null);
  const { edit, from } = draft;
  const decision = editOf(edit, from);
  const changed = isChanged(decision);
  const pending = desk.pending.value;
  const isBusy = pending !== null && pending.problem === null;
  useEffect(() => (first.current ?? form.current?.querySelector<HTMLElement>("textarea, input"))?.focus({ preventScroll: true }), []);

  const change = (changes: Partial<EditDraft>) => {
    const next = { edit: { ...edit, ...changes }, from };
    setDraft(next);
    keepDraft(id, isChanged(editOf(next.edit, from)) ? next : null);
  };
  const save = async (isAnyway = false) => {
    if (isBusy) return;
    if (!edit.question.trim()) {
      desk.note.value = "The question is empty.";
      first.current?.focus();
    } else if (!changed) desk.note.value = "Nothing is changed yet.";
    else await desk.decide(decision, isAnyway);
  };
  const close = () => {
    desk.isEditing.value = false;
    desk.focusAsked.value += 1;
  };
  const leave = () => {
    if (changed && !isLeaving) setLeaving(true);
    else if (!changed) close();
  };
  const discard = () => {
    keepDraft(id, null);
    close();
  };
  useEffect(() => {
    const act = (event: KeyboardEvent) => {
      if (event.isComposing || event.defaultPrevented) return;
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        void save();
      } else if (event.key === "Escape" && !(event.target instanceof HTMLInputElement && event.target.type === "search" && event.target.value)) {
        event.preventDefault();
        if (isLeaving) setLeaving(false);
        else leave();
      }
    };
    addEventListener("keydown", act);
    return () => removeEventListener("keydown", act);
  });

  return (
    <div class="edit" ref={form}>
      <div class="edit-fields">
        <Presence id={id} />
        <NewerQuestion open={open} from={from} />
        <div class="sticky">
          <div class="fields actions" role="group" aria-label="Edit">
            <button type="button" class="primary" id="save-edit" disabled={isBusy || !changed} onClick={() => void save()}>{isBusy ? "Saving…" : "Save"} <kbd aria-hidden="true">Ctrl+Enter</kbd></button>
            <button type="button" id="leave-edit" onClick={leave}>Leave <kbd aria-hidden="true">Escape</kbd></button>
            <span class="hint" aria-hidden="true">{desk.note.value}</span>
          </div>
          <PendingNotice save={(isAnyway) => void save(isAnyway)} />
          {isLeaving ? <LeaveQuestion stay={() => setLeaving(false)} keep={close} discard={discard} /> : null}
        </div>
        <TextField id="edit-question" label="Question" rows={3} from={from.question} value={edit.question} field={first} change={(question) => change({ question })} />
        <TextField id="edit-reference" label="Reference" rows={5} from={from.reference} value={edit.reference} change={(reference) => change({ reference })} />
        {isKnown(open.question.draft) ? (
          <details><summary>Draft of a system</summary><p class="body"><LongText text={open.question.draft} /></p><button type="button" onClick={() => change({ reference: open.question.draft ?? "" })}>Use the draft as the reference</button></details>
        ) : null}
        <Tags tags={edit.tags} change={(tags) => change({ tags })} />
        <h3 id="edit-evidence">Evidence</h3>
        {edit.evidence.length ? (
          <ol class="cards" aria-labelledby="edit-evidence">
            {edit.evidence.map((item, i) => (
              <li key={`${i} ${item.document}`} class="card">
                <div class="where">{item.document || "no document"}</div>
                <div class="body">“<LongText text={item.quote} />”</div>
                <button type="button" onClick={() => showDocument({ path: item.document, place: i, turn: (shownDocument?.turn ?? 0) + 1 })} disabled={!item.document}>Show it in the text</button>{" "}
                <button type="button" class="danger" onClick={() => change({ evidence: edit.evidence.filter((_, other) => other !== i) })} aria-label={`Remove evidence ${i + 1}`}>Remove</button>
              </li>
            ))}
          </ol>
        ) : <p class="hint">No evidence. Select text of a document and press m, or search for a quote in it.</p>}
      </div>
      <EvidenceMarker
        evidence={edit.evidence} wanted={shownDocument}
        add={(item) => {
          const isKnownPiece = edit.evidence.some((other) => isSamePiece(other, item));
          desk.note.value = isKnownPiece ? "This is already evidence." : `Added as evidence ${edit.evidence.length + 1}.`;
          if (!isKnownPiece) change({ evidence: [...edit.evidence, item] });
        }}
      />
    </div>
  );
}

// The server refuses longer texts, and a field with 10 MB freezes the page.
const LONGEST_EDITED = 64 * 1024;

/** A field for a text. A text that is too long to be saved from here is only shown. */
function TextField({ id, label, rows, from, value, field, change }: { id: string; label: string; rows: number; from: string; value: string; field?: { current: HTMLTextAreaElement | null }; change(text: string): void }) {
  if (from.length > LONGEST_EDITED) {
    return (
      <>
        <h3>{label}</h3>
        <p class="hint">It has {from.length.toLocaleString("en-US")} characters, which is too long to be edited here. Change it in the file of the questions.</p>
        <div class="body"><LongText text={from} /></div>
      </>
    );
  }
  return (
    <>
      <label for={id}>{label}</label>
      <textarea id={id} rows={rows} value={value} ref={field} onInput={(event) => change(event.currentTarget.value)} />
    </>
  );
}

/** The question as it is now, if somebody has changed it since the edit began. */
function NewerQuestion({ open, from }: { open: GoldenQuestion; from: EditDraft }) {
  const now = draftOf(open.question);
  if (now.question === from.question && now.reference === from.reference) return null;
  return (
    <div class="notice">
      <p>The question was changed since you began. Only what you change yourself is saved. It is now:</p>
      <dl><dt>question</dt><dd><LongText text={now.question} /></dd><dt>reference</dt><dd>{now.reference ? <LongText text={now.reference} /> : "none"}</dd></dl>
    </div>
  );
}

function LeaveQuestion({ stay, keep, discard }: { stay(): void; keep(): void; discard(): void }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  return (
    <div class="notice" role="alertdialog" aria-label="Leave the edit">
      <p>You have changes that are not saved.</p>
      <button type="button" class="primary" id="keep-draft" ref={button} onClick={keep}>Leave, and keep them for later</button>{" "}
      <button type="button" onClick={stay}>Go on editing</button>{" "}
      <button type="button" class="danger" id="discard-draft" onClick={discard}>Discard them</button>
    </div>
  );
}

function Tags({ tags, change }: { tags: string[]; change(tags: string[]): void }) {
  const desk = useDesk();
  const [given, setGiven] = useState("");
  const known = [...new Set(desk.list.value?.questions.flatMap((question) => question.tags) ?? [])].filter((tag) => !tags.includes(tag)).slice(0, 200);
  const add = () => {
    const tag = given.trim();
    if (tag && !tags.includes(tag)) change([...tags, tag]);
    setGiven("");
  };
  return (
    <div class="tag-fields">
      <label for="edit-tag">Tags</label>
      <div class="fields">
        {tags.map((tag) => <span key={tag} class="badge">{tag} <button type="button" class="remove" aria-label={`Remove the tag ${tag}`} onClick={() => change(tags.filter((other) => other !== tag))}>×</button></span>)}
        <input id="edit-tag" list="known-tags" value={given} maxLength={200} onInput={(event) => setGiven(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) { event.preventDefault(); add(); } }} />
        <datalist id="known-tags">{known.map((tag) => <option key={tag} value={tag} />)}</datalist>
        <button type="button" disabled={!given.trim()} onClick={add}>Add the tag</button>
      </div>
    </div>
  );
}
