// One document: its text by one or two parsers, evidence, chunks, and pages as pictures.

import { useMemo, useState } from "preact/hooks";
import type { DocumentInRun, DocumentList, DocumentText, ReadingProblem } from "../../data/documents";
import { FindField, useSearch } from "../../page/find-field";
import { useLoaded } from "../../page/loaded";
import { Chooser, Problem } from "../../page/tables";
import { LongText } from "../../page/text";
import { type BlockedText, blockedText } from "../../page/text-blocks";
import { type TextTarget, NO_MARKS, TextView } from "../../page/text-view";
import { counted, isKnown, shortened, spaced } from "../../words";
import { goldenAddress, NO_FILTER } from "../golden/filter";
import { hrefOf } from "../route";
import { getJson, runPath } from "../server";
import { DOCUMENT_MS, type DocumentView } from "./address";
import { ChunkControls, useChunks } from "./chunk-controls";
import { PagePicture } from "./picture";

type Change = (changes: Partial<DocumentView>, step?: "pushState" | "replaceState") => void;

interface ReadDocument {
  document: DocumentText;
  shown: BlockedText;
}

const loadText = async (path: string, parser: number): Promise<ReadDocument> => {
  const document = await getJson<DocumentText>(`/api/documents/text?path=${encodeURIComponent(path)}&parser=${parser}`, DOCUMENT_MS);
  return { document, shown: blockedText(document.text) };
};

export function DocumentPane({ path, list, isListMissing, view, change }: { path: string; list: DocumentList | null; isListMissing: boolean; view: DocumentView; change: Change }) {
  const parsers = list?.parsers ?? [];
  const { value, busy, problem, retry } = useLoaded(() => loadText(path, view.parser), [path, view.parser]);
  const other = useLoaded(() => (view.with === null ? null : loadText(path, view.with)), [path, view.with]);
  // The chunks may take long, so they are asked for when the text is there.
  const isTextRead = value !== undefined;
  const inRun = useLoaded(() => (list && isTextRead ? getJson<DocumentInRun>(runPath(list.run, `document?path=${encodeURIComponent(path)}`), DOCUMENT_MS) : null), [list?.run, path, isTextRead]);
  const names = parsers.map(({ number, name }): [string, string] => [String(number), `${number}: ${name}`]);
  const [turns, setTurns] = useState<{ target: TextTarget; page: number | null } | null>(null);
  const goTo = (number: number) => setTurns((before) => ({ target: { at: 0, turn: (before?.target.turn ?? 0) + 1 }, page: number }));
  const pages = value?.document.pages ?? [];
  const hasPages = value?.document.has_pages ?? false;
  const parserWords = (document: DocumentText) => `${document.parser}: ${document.parser_name}`;
  return (
    <>
      <div class="fields">
        {parsers.length > 1 ? (
          <>
            <Chooser label="Parser" options={names} value={String(view.parser)} choose={(number) => change({ parser: Number(number), page: view.page })} />
            <Chooser label="compare with" options={[["", "nothing"], ...names.filter(([number]) => Number(number) !== view.parser)]} value={String(view.with ?? "")} choose={(number) => change({ with: number ? Number(number) : null })} />
          </>
        ) : null}
        {pages.length > 1 ? <Chooser label="Go to page" options={[["", "–"], ...pages.map(({ number }): [string, string] => [String(number), String(number)])]} value="" choose={(number) => { if (number) goTo(Number(number)); }} /> : null}
        {hasPages ? <label><input type="checkbox" id="show-picture" checked={view.page !== null} onChange={(event) => change({ page: event.currentTarget.checked ? (pages[0]?.number ?? 1) : null })} /> Show pages as pictures</label> : null}
      </div>
      {list === null && !isListMissing ? <p class="hint">No run has finished yet, so no chunks are shown.</p> : null}
      {busy ? <p class="hint" role="status" aria-busy="true">Reading the document…</p> : null}
      {problem ? <Problem text={problem} retry={retry} /> : null}
      <div class={`texts${view.with !== null || view.page !== null ? " beside" : ""}`}>
        {value && !problem ? (
          <ReadText
            key={`parser ${value.document.parser}`} read={value} label={parserWords(value.document)} view={view} change={change} goTo={turns}
            chunks={{ inRun: inRun.value ?? null, isBusy: inRun.busy, problem: inRun.problem, retry: inRun.retry, list }}
          />
        ) : null}
        {view.with !== null ? (
          <div class="column">
            {other.busy ? <p class="hint" role="status" aria-busy="true">Reading the document by the other parser…</p> : null}
            {other.problem ? <Problem text={other.problem} retry={other.retry} /> : null}
            {other.value && !other.problem ? <ReadText key={`parser ${other.value.document.parser}`} read={other.value} label={parserWords(other.value.document)} view={{ ...view, evidence: null }} change={change} goTo={turns} chunks={null} /> : null}
          </div>
        ) : null}
        {view.page !== null && hasPages ? <Pages path={path} document={value?.document ?? null} page={view.page} change={change} goTo={goTo} evidence={view.evidence} /> : null}
      </div>
    </>
  );
}

/** Chunks as far as they are loaded. */
export interface LoadedChunks {
  inRun: DocumentInRun | null;
  isBusy: boolean;
  problem: string | null;
  retry(): void;
  list: DocumentList | null;
}

const NO_CHUNKS: LoadedChunks = { inRun: null, isBusy: false, problem: null, retry: () => {}, list: null };

function ReadText({ read, label, view, change, goTo, chunks }: { read: ReadDocument; label: string; view: DocumentView; change: Change; goTo: { target: TextTarget; page: number | null } | null; chunks: LoadedChunks | null }) {
  const { document, shown } = read;
  const { bytes } = shown;
  const [own, setOwn] = useState<TextTarget | null>(() => firstTarget(read, view.evidence));
  const show = (at: number) => setOwn((before) => ({ at, turn: (before?.turn ?? 0) + 1 }));
  const page = goTo ? document.pages.find(({ number }) => number === goTo.page) : undefined;
  // A page that is gone to wins over an older place, and the other way round.
  const [seenPage, setSeenPage] = useState(goTo?.target.turn);
  if (goTo && page && goTo.target.turn !== seenPage) {
    setSeenPage(goTo.target.turn);
    show(bytes.unitOf(page.start));
  }
  const search = useSearch(shown, (match) => show(match.from));
  const drawn = useChunks(chunks ?? NO_CHUNKS, document, shown, view);
  const fixed = useMemo(() => ({
    evidence: document.evidence.flatMap(({ question, span }) => (span ? [{ from: bytes.unitOf(span.start), to: bytes.unitOf(span.end), words: `Evidence of ${question}`, href: hrefOf({ page: "golden", address: goldenAddress({ ...NO_FILTER, id: question }) }) }] : [])),
    tables: document.tables.map(({ start, end }) => ({ from: bytes.unitOf(start), to: bytes.unitOf(end) })),
    pages: document.pages.map(({ number, start }) => ({ number, from: bytes.unitOf(start), to: bytes.unitOf(start) + 1 })),
  }), [read]);
  const marks = useMemo(() => ({ ...NO_MARKS, ...fixed, chunks: drawn.marks, matches: search.current ? [search.current] : [] }), [fixed, drawn.marks, search.current]);
  return (
    <div class="column">
      <h2>{shortened(label)}</h2>
      {document.title ? <p class="where">Title: <LongText text={document.title} /></p> : null}
      <p class="where">{document.text.length.toLocaleString("en-US")} characters{document.pages.length ? `, ${counted(document.pages.length, "page")}` : ""}{document.tables.length ? `, ${counted(document.tables.length, "table")}` : ""}</p>
      <Problems problems={document.problems} />
      <EvidenceList document={document} show={(start) => show(bytes.unitOf(start))} />
      {chunks ? <ChunkControls loaded={chunks} drawn={drawn} view={view} change={change} show={(chunk) => show(chunk.from)} /> : null}
      <div class="fields"><FindField search={search} label="Find in the text" id={`find-text-${document.parser}`} /></div>
      <TextView shown={shown} marks={marks} label={`Text by ${label}`} target={own} chooseChunk={(place) => drawn.choose(place)} />
    </div>
  );
}

function firstTarget({ document, shown }: ReadDocument, question: string | null): TextTarget | null {
  const span = question === null ? null : document.evidence.find((item) => item.question === question && item.span)?.span;
  return span ? { at: shown.bytes.unitOf(span.start), turn: 0 } : null;
}

const PROBLEM_WORDS: Record<string, string> = {
  no_text: "A page has no text. It may be a picture of a text, which needs a parser with character recognition",
  low_confidence: "The text was read from a picture, and much of it is unsure",
  broken_table: "A table does not fit together",
  replaced_characters: "Bytes that mean no character were replaced by �",
  guessed_encoding: "The file does not say how its text is encoded, so the encoding was guessed",
  unmapped_font: "A font does not say which letters its pictures are",
  unread_part: "A part of the file, such as an attachment, was not read",
  hidden_part: "Parts that the program which made the file does not show, such as hidden sheets, were read",
};
const FIRST_PROBLEMS = 20;

function Problems({ problems }: { problems: ReadingProblem[] }) {
  const [isWhole, setWhole] = useState(false);
  if (!problems.length) return null;
  const shown = isWhole ? problems : problems.slice(0, FIRST_PROBLEMS);
  return (
    <details class="reading-problems" open={problems.length < 4}>
      <summary>{counted(problems.length, "problem")} of reading</summary>
      <ul>{shown.map(({ kind, page, detail }, i) => <li key={i}>{isKnown(page) ? `Page ${page}: ` : ""}{PROBLEM_WORDS[kind] ?? spaced(kind)}{detail ? <>: <LongText text={detail} /></> : null}.</li>)}</ul>
      {shown.length < problems.length ? <button type="button" onClick={() => setWhole(true)}>Show all {problems.length}</button> : null}
    </details>
  );
}

const FIRST_EVIDENCE = 100;

function EvidenceList({ document: { evidence }, show }: { document: DocumentText; show(start: number): void }) {
  const [isWhole, setWhole] = useState(false);
  if (!evidence.length) return <p class="hint">No golden question has evidence in this document.</p>;
  const missing = evidence.filter(({ span }) => !span).length;
  const shown = isWhole ? evidence : evidence.slice(0, FIRST_EVIDENCE);
  return (
    <details class="evidence-list">
      <summary>{counted(evidence.length, "piece")} of golden evidence{missing ? `, ${missing} of ${evidence.length === 1 ? "it" : "them"} not in this text` : ""}</summary>
      <ul>
        {shown.map(({ question, quote, span }, i) => (
          <li key={i}>
            <a href={hrefOf({ page: "golden", address: goldenAddress({ ...NO_FILTER, id: question }) })}>{shortened(question, 60)}</a>: “{shortened(quote, 160)}”{" "}
            {span ? <button type="button" onClick={() => show(span.start)}>Show</button> : <span class="problem">not in the text of this parser</span>}
          </li>
        ))}
      </ul>
      {shown.length < evidence.length ? <button type="button" onClick={() => setWhole(true)}>Show all {evidence.length}</button> : null}
    </details>
  );
}

/** Pages as pictures, with the evidence of the chosen question marked. */
function Pages({ path, document, page, change, goTo, evidence }: { path: string; document: DocumentText | null; page: number; change: Change; goTo(page: number): void; evidence: string | null }) {
  const numbers = document?.pages.map(({ number }) => number) ?? [];
  const last = numbers.at(-1) ?? null;
  const move = (to: number) => {
    change({ page: to }, "replaceState");
    goTo(to);
  };
  const mark = document?.evidence.find((item) => item.question === evidence)?.quote;
  return (
    <div class="column">
      <h2>Page {page}{last ? ` of ${last}` : ""}</h2>
      <div class="fields">
        <button type="button" id="previous-page" disabled={page <= 1} onClick={() => move(page - 1)}>Previous page</button>
        <button type="button" id="next-page" disabled={last !== null && page >= last} onClick={() => move(page + 1)}>Next page</button>
      </div>
      <PagePicture path={path} page={page} mark={mark} />
    </div>
  );
}
