// Which chunks are drawn over a text, and what the searches of the run found of them.

import { useMemo, useState } from "preact/hooks";
import type { DocumentText } from "../../data/documents";
import { Chooser, Problem } from "../../page/tables";
import { LongText } from "../../page/text";
import type { BlockedText } from "../../page/text-blocks";
import type { ChunkMark } from "../../page/text-view";
import { counted, percent, shortened } from "../../words";
import type { DocumentView } from "./address";
import { type FoundCounts, countFound, firstLevel, levelsOf, mostFound, parserOf } from "./chunks";
import type { LoadedChunks } from "./document";

/** The chunks of one chunker and one level, as they are drawn. */
export interface DrawnChunks {
  marks: ChunkMark[];
  /** Beside `marks`: what is known of each chunk. */
  facts: { number: number; bytes: number; searchable: boolean; found: FoundCounts; isUnfound: boolean }[];
  levels: number[];
  level: number | null;
  current: number | null;
  choose(place: number): void;
  /** Why these chunks do not fit the text. */
  mismatch: string | null;
}

export function useChunks({ inRun, list }: LoadedChunks, document: DocumentText, shown: BlockedText, view: DocumentView): DrawnChunks {
  const [chosen, setChosen] = useState<{ of: string; place: number } | null>(null);
  const chunker = view.chunker === null ? undefined : inRun?.chunkers[view.chunker - 1];
  const levels = useMemo(() => levelsOf(chunker?.chunks ?? []), [chunker]);
  const level = chunker ? (view.level !== null && levels.includes(view.level) ? view.level : firstLevel(chunker.chunks)) : null;
  const counted = useMemo(() => {
    const chunks = chunker?.chunks.filter((chunk) => chunk.level === level) ?? [];
    const found = chunker && inRun ? countFound(chunks, chunker, inRun.found) : [];
    return chunks.map((chunk, i) => ({ chunk, range: { from: shown.bytes.unitOf(chunk.span.start), to: shown.bytes.unitOf(chunk.span.end) }, found: found[i] }));
  }, [chunker, level, shown]);
  const isFiltered = view.unfound && counted.some(({ chunk }) => chunk.searchable);
  const of = `${view.chunker} ${level}`;
  const current = chosen?.of === of ? chosen.place : null;
  const facts = useMemo(() => counted.map(({ chunk, found }) => ({ number: chunk.number, bytes: chunk.span.end - chunk.span.start, searchable: chunk.searchable, found, isUnfound: chunk.searchable && found.size === 0 })), [counted]);
  const marks = useMemo(() => counted.flatMap(({ chunk, range, found }, place): ChunkMark[] => {
    const { isUnfound } = facts[place];
    if (isFiltered && !isUnfound) return [];
    const most = mostFound(found);
    const words = !chunk.searchable ? "not searched itself" : isUnfound ? "no search has found it" : `found by up to ${most} ${most === 1 ? "question" : "questions"} of a trial`;
    return [{ ...range, place, label: `${chunk.number}${most ? ` ×${most}` : ""}`, words: `Chunk ${chunk.number}, ${words}`, isCurrent: place === current, isUnfound }];
  }), [counted, facts, isFiltered, current]);
  const parser = chunker ? parserOf(chunker, list?.parsers ?? []) : document.parser;
  const isTooLong = counted.some(({ chunk }) => chunk.span.end > shown.bytes.length);
  const mismatch = isTooLong || parser !== document.parser ? `These chunks were cut from the text of parser ${parser}, so their borders do not fit the text of parser ${document.parser}.` : null;
  return { marks, facts, levels, level, current, choose: (place) => setChosen({ of, place }), mismatch };
}

export function ChunkControls({ loaded, drawn, view, change, show }: { loaded: LoadedChunks; drawn: DrawnChunks; view: DocumentView; change(changes: Partial<DocumentView>): void; show(chunk: ChunkMark): void }) {
  const { inRun, isBusy, problem, retry, list } = loaded;
  if (!list) return null;
  if (problem) return <Problem text={`The chunks could not be loaded: ${problem}`} retry={retry} />;
  if (isBusy || !inRun) return <p class="hint" role="status" aria-busy="true">Loading the chunks of the run {list.run}…</p>;
  if (!inRun.chunkers.length) return <p class="hint">The run {inRun.run} has cut no chunks.</p>;
  const chunker = view.chunker === null ? undefined : inRun.chunkers[view.chunker - 1];
  const { facts, levels, level, mismatch } = drawn;
  const parser = chunker ? parserOf(chunker, list.parsers) : view.parser;
  const searched = facts.filter(({ searchable }) => searchable).length;
  const unfound = facts.filter(({ isUnfound }) => isUnfound).length;
  return (
    <div class="chunks">
      <div class="fields">
        <Chooser label="Chunks of" options={[["", "no chunker"], ...inRun.chunkers.map(({ label, trials }, i): [string, string] => [String(i + 1), `${label} (${shortened(trials.join(", "), 60)})`])]} value={String(view.chunker ?? "")} choose={(value) => change({ chunker: value ? Number(value) : null, level: null })} />
        {levels.length > 1 ? <Chooser label="Level" options={levels.map((one): [string, string] => [String(one), one === 0 ? "0, the largest" : String(one)])} value={String(level ?? "")} choose={(value) => change({ level: Number(value) })} /> : null}
        {chunker && searched ? <label><input type="checkbox" id="only-unfound" checked={view.unfound} onChange={(event) => change({ unfound: event.currentTarget.checked })} /> Only chunks that no search has found</label> : null}
      </div>
      {view.chunker !== null && !chunker ? <p class="problem">The run has no chunker with the number {view.chunker}.</p> : null}
      {chunker?.problem ? <p class="problem">The chunks cannot be shown: <LongText text={chunker.problem} /></p> : null}
      {mismatch && facts.length ? <p class="problem">{mismatch} {parser !== view.parser ? <button type="button" onClick={() => change({ parser, with: null })}>Show the text of parser {parser}</button> : null}</p> : null}
      {chunker && !chunker.problem ? (
        facts.length ? (
          <>
            <p class="hint" id="chunk-count">
              {counted(facts.length, "chunk")}{levels.length > 1 ? ` of level ${level}` : ""}.{" "}
              {searched ? <><strong>{unfound} of {searched} ({percent(unfound / searched)})</strong> {unfound === 1 ? "was" : "were"} found by no search of {chunker.trials.length === 1 ? "its trial" : `its ${chunker.trials.length} trials`}.</> : "Chunks of this level are not searched themselves."}
            </p>
            <ChunkWalk drawn={drawn} trials={chunker.trials} show={show} isUnfoundOnly={view.unfound} />
          </>
        ) : <p class="hint">This chunker has cut no chunk of this document.</p>
      ) : null}
    </div>
  );
}

/** Goes from chunk to chunk, and says which trials found the current one. */
function ChunkWalk({ drawn, trials, show, isUnfoundOnly }: { drawn: DrawnChunks; trials: string[]; show(chunk: ChunkMark): void; isUnfoundOnly: boolean }) {
  const { marks, facts, current, choose } = drawn;
  const at = marks.findIndex(({ place }) => place === current);
  const go = (index: number) => {
    const mark = marks[index];
    if (!mark) return;
    choose(mark.place);
    show(mark);
  };
  if (!marks.length) return <p class="hint">{isUnfoundOnly ? "Every chunk was found by a search." : ""}</p>;
  const fact = current === null ? undefined : facts[current];
  const found = fact ? [...fact.found].sort((a, b) => b[1] - a[1]) : [];
  return (
    <div class="chunk-walk">
      <button type="button" id="previous-chunk" disabled={at <= 0} onClick={() => go(at - 1)}>Previous chunk</button>{" "}
      <button type="button" id="next-chunk" disabled={at >= marks.length - 1} onClick={() => go(at + 1)}>{at < 0 ? "First chunk" : "Next chunk"}</button>{" "}
      <span class="hint" role="status" id="current-chunk">
        {fact ? <>Chunk {fact.number}{at >= 0 ? ` (${at + 1} of ${marks.length} shown)` : ""}, {fact.bytes.toLocaleString("en-US")} bytes: {!fact.searchable ? "it is not searched itself" : found.length ? `found for ${found.map(([trial, count]) => `${counted(count, "question")} of ${trial}`).join(", ")}` : `no search of ${trials.length === 1 ? "the trial" : `the ${trials.length} trials`} has found it`}.</> : "The numbers in the margin are those of the chunks; × is how many questions of the best trial found one."}
      </span>
    </div>
  );
}
