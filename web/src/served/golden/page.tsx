// Golden questions, reviewed by several people at once: the queue on the left, the question on the right.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Boundary } from "../../page/boundary";
import { Problem } from "../../page/tables";
import { isNarrow } from "../../page/size";
import { useNews } from "../news";
import { PersonField, personName } from "../person";
import { hrefOf } from "../route";
import { DeskContext, GoldenDesk, useDesk } from "./desk";
import { EditForm } from "./edit";
import { ImportQuestions } from "./import";
import { KeyHelp, isTyping, useKeys } from "./keys";
import { Progress } from "./progress";
import { Queue } from "./queue";
import { QuestionPane } from "./question";

// The server forgets after 20 s who has a question open.
const PRESENCE_MS = 8000;
// Questions that are passed faster than this, with a key that is held, are not asked for.
const CALM_MS = 150;

export function GoldenPage() {
  const desk = useMemo(() => new GoldenDesk(), []);
  useEffect(() => {
    document.title = "Reverie: golden questions";
    void desk.loadList();
    return () => desk.leave();
  }, []);
  useNews("/api/golden/news", () => desk.followNews(isTyping), (problem) => { desk.newsProblem.value = problem; });
  useKeys(desk);
  const id = useCalm(desk.view.value.id);
  usePresence(desk, id);
  useEffect(() => void desk.loadQuestion(), [id]);
  return (
    <DeskContext.Provider value={desk}>
      <main id="main" tabIndex={-1} class="served golden">
        <h1>Golden questions</h1>
        <Content />
        <p class="unseen" role="status" aria-live="polite" id="golden-note">{desk.note.value}</p>
      </main>
    </DeskContext.Provider>
  );
}

/** A value that changes at once, unless it changes often: then when the changes pause. */
function useCalm<T>(value: T): T {
  const [calm, setCalm] = useState(value);
  const changed = useRef(0);
  useEffect(() => {
    const isCalm = performance.now() - changed.current > CALM_MS;
    changed.current = performance.now();
    if (isCalm) setCalm(value);
    const later = isCalm ? undefined : setTimeout(() => setCalm(value), CALM_MS);
    return () => clearTimeout(later);
  }, [value]);
  return calm;
}

/** Tells the server which question is open, until the page is left or hidden for good. */
function usePresence(desk: GoldenDesk, id: string | null): void {
  const name = personName.value;
  useEffect(() => {
    if (id === null) return undefined;
    const tell = () => { if (document.visibilityState === "visible") void desk.tellPresence(id); };
    tell();
    const timer = setInterval(tell, PRESENCE_MS);
    return () => clearInterval(timer);
  }, [id, name]);
  useEffect(() => {
    const leave = () => { if (desk.view.peek().id !== null) void desk.tellPresence(null, true); };
    addEventListener("pagehide", leave);
    return () => {
      removeEventListener("pagehide", leave);
      void desk.tellPresence(null, true);
    };
  }, []);
}

function Content() {
  const desk = useDesk();
  const list = desk.list.value;
  const problem = desk.listProblem.value;
  const isEditing = desk.isEditing.value && desk.question.value !== null;
  return (
    <>
      <PersonField words="You review as" ask={desk.nameAsked.value} />
      {problem ? <Problem text={`The golden questions could not be loaded${list ? "; what you see may be old" : ""}: ${problem}`} retry={() => void desk.loadList()} /> : null}
      {desk.newsProblem.value ? <p class="late">Decisions of others do not arrive at the moment: {desk.newsProblem.value} The page connects again by itself.</p> : null}
      {!list && !problem ? <p class="hint" role="status" aria-busy="true">Loading the golden questions…</p> : null}
      {list && !list.questions.length ? <p class="hint">There are no golden questions in {list.path} yet. Import a file, make questions of answers on the page <a href={hrefOf({ page: "ask", address: "" })}>Ask</a>, or let a model write some with <code>reverie golden generate</code>.</p> : null}
      {list?.questions.length ? <Progress list={list} /> : null}
      {/* It stays where it is when the first questions arrive, so that what it says stays too. */}
      {list ? <ImportQuestions /> : null}
      {list?.questions.length ? (
        <>
          <div class={`review${isEditing ? " editing" : ""}`}>
            <section class="queue" aria-labelledby="queue-heading" hidden={isEditing}><Boundary name="Queue"><Queue /></Boundary></section>
            <section class="open-question" aria-labelledby="golden-heading"><Boundary name="Question"><OpenQuestion /></Boundary></section>
          </div>
          <KeyHelp />
        </>
      ) : null}
    </>
  );
}

function OpenQuestion() {
  const desk = useDesk();
  const heading = useRef<HTMLHeadingElement>(null);
  const { id } = desk.view.value;
  const open = desk.question.value;
  const problem = desk.questionProblem.value;
  const asked = desk.focusAsked.value;
  useEffect(() => {
    if (!asked) return;
    // The heading stays for all questions, so that the focus is never lost between two of them.
    const node = heading.current;
    node?.focus({ preventScroll: true });
    // A new question is scrolled to its top. On a narrow screen the queue is above it, so it has to be scrolled to.
    if (node && (isNarrow.peek() || node.getBoundingClientRect().top < 0)) node.scrollIntoView({ block: "start" });
  }, [asked]);
  return (
    <>
      <h2 id="golden-heading" tabIndex={-1} ref={heading}>{id === null ? "No question is open" : id}</h2>
      {id === null ? (
        <p class="hint">Choose a question of the queue, or <button type="button" class="primary" id="start-review" onClick={() => desk.advance("")}>Start with the next open question</button></p>
      ) : null}
      {problem ? <Problem text={problem} retry={() => void desk.loadQuestion()} /> : null}
      {id !== null && !open && !problem ? <p class="hint" role="status" aria-busy="true">Loading the question…</p> : null}
      {open && open.question.id === id ? desk.isEditing.value ? <EditForm key={id} open={open} /> : <QuestionPane key={id} open={open} /> : null}
    </>
  );
}
