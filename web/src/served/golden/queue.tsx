// The queue of golden questions, with its filters.

import { useMemo } from "preact/hooks";
import type { ListedQuestion } from "../../data/golden";
import { Chooser } from "../../page/tables";
import { VirtualList } from "../../page/virtual-list";
import { counted, shortened, spaced } from "../../words";
import { personName } from "../person";
import { useDesk } from "./desk";
import { type QueueFilter, type Show, NO_FILTER, countedValues, needsSecondOpinion } from "./filter";

const LINE_HEIGHT = 76;
// More choices than this make a field of choices useless, and slow.
const MOST_CHOICES = 500;

export function Queue() {
  const desk = useDesk();
  const view = desk.view.value;
  const found = desk.shown.value;
  const all = desk.list.value?.questions ?? [];
  const place = found.findIndex(({ id }) => id === view.id);
  const isBlind = view.show === "second";
  return (
    <>
      <h2 id="queue-heading">Queue</h2>
      <Filters all={all} />
      <p class="hint" id="queue-count" role="status">{found.length === all.length ? counted(all.length, "question") : `${found.length} of ${counted(all.length, "question")}`}{place >= 0 ? `, number ${place + 1} is open` : ""}.{isBlind ? " What the others have decided is hidden until you have decided." : ""}</p>
      {isBlind && !personName.value ? <p class="problem">Give your name above: second opinions are the questions that others have decided about, and you have not.</p> : null}
      {found.length ? (
        <VirtualList
          id="queue" label="Questions" count={found.length} lineHeight={LINE_HEIGHT} active={place} isListbox
          line={(index, attributes) => <QueueLine key={found[index].id} index={index} question={found[index]} attributes={attributes} isBlind={isBlind} />}
        />
      ) : <p class="hint">{emptyWords(view)} {view.id !== null || all.length ? <button type="button" onClick={() => desk.change(NO_FILTER, "pushState")}>Show all questions</button> : null}</p>}
    </>
  );
}

function emptyWords(filter: QueueFilter): string {
  if (filter.show === "second") return "No question waits for your second opinion.";
  if (filter.show === "conflicts") return "The reviewers differ about no question.";
  return "No question passes these filters.";
}

function Filters({ all }: { all: ListedQuestion[] }) {
  const desk = useDesk();
  const view = desk.view.value;
  const me = personName.value;
  const { conflicts } = desk.viewer.value;
  const second = useMemo(() => all.filter((question) => needsSecondOpinion(question, me)).length, [all, me]);
  const choices = useMemo(() => {
    const options = (values: [string, number][]): [string, string][] => values.slice(0, MOST_CHOICES).map(([value, count]) => [value, `${spaced(value)} (${count})`]);
    return {
      state: options(countedValues(all, (question) => [question.state])),
      kind: options(countedValues(all, (question) => [question.kind ?? "none"])),
      tag: countedValues(all, (question) => question.tags).slice(0, MOST_CHOICES).map(([value, count]): [string, string] => [value, `${value} (${count})`]),
      split: options(countedValues(all, (question) => [question.split ?? "none"])),
      document: countedValues(all, (question) => question.documents).slice(0, MOST_CHOICES).map(([value, count]): [string, string] => [value, `${value} (${count})`]),
    };
  }, [all]);
  const choose = (label: string, name: keyof typeof choices) => {
    const options = choices[name];
    // A filter that a link sets is shown even if no question has its value.
    const known = !view[name] || options.some(([value]) => value === view[name]) ? options : [...options, [view[name], `${view[name]} (0)`] as [string, string]];
    if (known.length < 2 && !view[name]) return null;
    return <Chooser label={label} options={[["", "all"], ...known]} value={view[name]} choose={(value) => desk.change({ [name]: value }, "pushState")} />;
  };
  const active = (["kind", "tag", "split", "document"] as const).filter((name) => view[name]).length;
  return (
    <form class="queue-filters" role="search" aria-label="Filters of the queue" onSubmit={(event) => event.preventDefault()}>
      <div class="fields">
        <label>Find <input type="search" id="find-golden" value={view.find} onInput={(event) => desk.change({ find: event.currentTarget.value })} onKeyDown={(event) => { if (event.key === "Escape") event.currentTarget.blur(); }} /></label>
        <Chooser label="Show" options={[["", "all questions"], ["second", `second opinions (${second})`], ["conflicts", `conflicts (${conflicts.size})`]]} value={view.show} choose={(value) => desk.change({ show: value as Show }, "pushState")} />
        {view.show === "second" ? null : choose("State", "state")}
      </div>
      <details open={active > 0 ? true : undefined}>
        <summary>More filters{active ? ` (${active} set)` : ""}</summary>
        <div class="fields">{choose("Kind", "kind")}{choose("Tag", "tag")}{choose("Split", "split")}{choose("Document", "document")}</div>
      </details>
    </form>
  );
}

const STATE_CLASS: Record<string, string> = { open: "tied", accepted: "good", edited: "good", rejected: "bad" };

export const ReviewBadge = ({ state }: { state: string }) => <span class={`badge ${STATE_CLASS[state] ?? ""}`}>{state}</span>;

function QueueLine({ index, question, attributes, isBlind }: { index: number; question: ListedQuestion; attributes: object; isBlind: boolean }) {
  const desk = useDesk();
  const isOpen = desk.view.value.id === question.id;
  const others = desk.othersAt(question.id);
  const hidden = isBlind && needsSecondOpinion(question, personName.value);
  const choose = () => {
    desk.note.value = "";
    desk.open(question.id, "pushState");
  };
  const facts = [
    question.kind ? spaced(question.kind) : null,
    question.answerable ? (question.evidence ? `${question.evidence} evidence` : "no evidence") : "not in the documents",
    question.comments ? counted(question.comments, "remark") : null,
  ].filter(Boolean);
  return (
    <div {...attributes} id={`queue-${index}`} class={`queue-line${isOpen ? " chosen" : ""}`} role="option" aria-selected={isOpen} onClick={choose}>
      <div class="queue-text">{shortened(question.question, 160)}</div>
      <div class="range">
        {hidden ? <span class="badge tied">decided by {question.reviewers.length}</span> : <ReviewBadge state={question.state} />}{" "}
        {desk.viewer.value.conflicts.has(question.id) && !hidden ? <><span class="badge warn">conflict</span>{" "}</> : null}
        {others.length ? <><span class="badge warn">{shortened(others.join(", "), 40)} {others.length === 1 ? "has" : "have"} it open</span>{" "}</> : null}
        {shortened(question.id, 40)} · {facts.join(" · ")}
      </div>
    </div>
  );
}
