// The text of a document, in which evidence is marked by a selection or by a search.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { DocumentList, DocumentText } from "../../data/documents";
import type { QuestionEvidence } from "../../data/golden";
import { FindField, useSearch } from "../../page/find-field";
import { useLoaded } from "../../page/loaded";
import { Problem } from "../../page/tables";
import { type BlockedText, type TextRange, blockedText } from "../../page/text-blocks";
import { type TextTarget, NO_MARKS, TextView, selectedRange } from "../../page/text-view";
import { shortened } from "../../words";
import { DOCUMENT_MS } from "../documents/address";
import { RequestProblem, getJson } from "../server";
import { useDesk } from "./desk";
import { evidenceAt, placeOf } from "./evidence";
import { isPlainKey } from "./keys";

const MOST_LISTED = 50;

/** The paths of the corpus. Without a run, only those that golden questions name are known. */
async function loadPaths(): Promise<string[]> {
  try {
    return (await getJson<DocumentList>("/api/documents")).documents.map(({ path }) => path);
  } catch (error) {
    if (error instanceof RequestProblem) return [];
    throw error;
  }
}

export function EvidenceMarker({ evidence, wanted, add }: { evidence: QuestionEvidence[]; wanted: { path: string; place: number; turn: number } | null; add(item: QuestionEvidence): void }) {
  const desk = useDesk();
  const named = useMemo(() => [...new Set(desk.list.peek()?.questions.flatMap((question) => question.documents) ?? [])], []);
  const { value: found } = useLoaded(loadPaths, []);
  const paths = useMemo(() => [...new Set([...(found ?? []), ...named])].filter(Boolean).sort(), [found]);
  const [path, setPath] = useState(evidence.find((item) => item.document)?.document ?? named[0] ?? "");
  const [given, setGiven] = useState(path);
  const open = (next: string) => {
    setGiven(next);
    setPath(next);
  };
  useEffect(() => { if (wanted?.path) open(wanted.path); }, [wanted?.turn]);
  const listed = paths.filter((one) => one.toLowerCase().includes(given.toLowerCase())).slice(0, MOST_LISTED);
  return (
    <div class="marking">
      <form class="fields" onSubmit={(event) => { event.preventDefault(); open(given.trim()); }}>
        <label>Document <input id="marking-document" list="marking-documents" value={given} onInput={(event) => { setGiven(event.currentTarget.value); if (paths.includes(event.currentTarget.value)) setPath(event.currentTarget.value); }} /></label>
        <datalist id="marking-documents">{listed.map((one) => <option key={one} value={one} />)}</datalist>
        <button type="submit">Open</button>
      </form>
      {path ? <MarkedDocument key={path} path={path} evidence={evidence} wanted={wanted?.path === path ? wanted : null} add={add} /> : <p class="hint">Choose a document to mark evidence in it.</p>}
    </div>
  );
}

function MarkedDocument({ path, evidence, wanted, add }: { path: string; evidence: QuestionEvidence[]; wanted: { place: number; turn: number } | null; add(item: QuestionEvidence): void }) {
  const { value, busy, problem, retry } = useLoaded(() => getJson<DocumentText>(`/api/documents/text?path=${encodeURIComponent(path)}&parser=1`, DOCUMENT_MS), [path]);
  const shown = useMemo(() => (value ? blockedText(value.text) : null), [value]);
  if (problem) return <Problem text={problem} retry={retry} />;
  if (busy || !shown) return <p class="hint" role="status" aria-busy="true">Loading {path}…</p>;
  return <MarkedText path={path} shown={shown} evidence={evidence} wanted={wanted} add={add} />;
}

function MarkedText({ path, shown, evidence, wanted, add }: { path: string; shown: BlockedText; evidence: QuestionEvidence[]; wanted: { place: number; turn: number } | null; add(item: QuestionEvidence): void }) {
  const box = useRef<HTMLDivElement>(null);
  const [target, setTarget] = useState<TextTarget | null>(null);
  const [selected, setSelected] = useState<TextRange | null>(null);
  const show = (at: number) => setTarget((before) => ({ at, turn: (before?.turn ?? 0) + 1 }));
  const search = useSearch(shown, (match) => show(match.from));
  const places = useMemo(() => evidence.map((item) => (item.document === path ? placeOf(shown, item) : null)), [evidence, shown]);
  const marks = useMemo(() => ({
    ...NO_MARKS,
    evidence: places.flatMap((range, i) => (range ? [{ ...range, words: `evidence ${i + 1}`, href: null }] : [])),
    matches: search.current ? [search.current] : [],
  }), [places, search.current]);
  useEffect(() => {
    const place = places[wanted ? wanted.place : places.findIndex(Boolean)];
    if (place) show(place.from);
  }, [wanted?.turn, shown]);
  useEffect(() => {
    const follow = () => setSelected(selectedRange(box.current));
    document.addEventListener("selectionchange", follow);
    return () => document.removeEventListener("selectionchange", follow);
  }, []);
  const use = (range: TextRange | null) => {
    const item = range && evidenceAt(path, shown, range);
    if (item) add(item);
  };
  useEffect(() => {
    const act = (event: KeyboardEvent) => {
      if (event.key !== "m" || !isPlainKey(event)) return;
      event.preventDefault();
      use(selectedRange(box.current) ?? search.current);
    };
    addEventListener("keydown", act);
    return () => removeEventListener("keydown", act);
  });
  const piece = selected ?? search.current;
  return (
    <>
      <div class="fields">
        <FindField search={search} label="Find a quote" id="find-quote" />
        {/* A press on the button must not take the selection away. */}
        <button type="button" class="primary" id="use-selection" disabled={!piece} onMouseDown={(event) => event.preventDefault()} onClick={() => use(piece)}>{selected || !search.current ? "Use the selection as evidence" : "Use the found words as evidence"} <kbd aria-hidden="true">m</kbd></button>
      </div>
      <p class="hint">{piece ? `“${shortened(shown.text.slice(piece.from, piece.to), 120)}”` : "Select text with the mouse, or with caret browsing (F7), or search for the words of the quote."}</p>
      <TextView shown={shown} marks={marks} label={`Text of ${path}`} target={target} boxRef={box} />
    </>
  );
}
