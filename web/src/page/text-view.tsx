// A document's text of any length, of which only the blocks in view are drawn, with chunks,
// evidence, tables and pages marked in it. Marks add elements and no text, so that a selection
// can be converted into offsets.

import { type ComponentChild, createContext } from "preact";
import { useContext, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type BlockedText, type Marks, type Segment, type TextRange, blockAt, linesOf, segmentsOf, spread } from "./text-blocks";

/** A chunk as it is drawn. */
export interface ChunkMark extends TextRange {
  /** Its place among the chunks that are drawn. */
  place: number;
  /** What stands in the margin. */
  label: string;
  /** The same in words. */
  words: string;
  isCurrent: boolean;
  /** Whether it is drawn as a chunk that no search has found. */
  isUnfound: boolean;
}

export interface EvidenceMark extends TextRange {
  words: string;
  /** The address of the golden question; null if a click does nothing. */
  href: string | null;
}

export type TextMarks = Marks<ChunkMark, EvidenceMark>;
export const NO_MARKS: TextMarks = { chunks: [], evidence: [], tables: [], pages: [], matches: [] };

/** Where the text is scrolled to. Another `turn` scrolls there again. */
export interface TextTarget {
  at: number;
  turn: number;
}

interface Watcher {
  watch(element: Element, setNear: (isNear: boolean) => void): () => void;
  chooseChunk?: (place: number) => void;
}

const WatcherContext = createContext<Watcher | null>(null);
// Blocks are drawn this far above and below the view.
const MARGIN = "800px 0px";
const LINE_HEIGHT = 22;

export function TextView({ shown, marks, label, target, chooseChunk, boxRef }: {
  shown: BlockedText;
  marks: TextMarks;
  label: string;
  target?: TextTarget | null;
  chooseChunk?: (place: number) => void;
  boxRef?: { current: HTMLDivElement | null };
}) {
  const own = useRef<HTMLDivElement>(null);
  const box = boxRef ?? own;
  const { blocks } = shown;
  const chunks = useMemo(() => spread(marks.chunks, blocks), [marks.chunks, blocks]);
  const evidence = useMemo(() => spread(marks.evidence, blocks), [marks.evidence, blocks]);
  const tables = useMemo(() => spread(marks.tables, blocks), [marks.tables, blocks]);
  const pages = useMemo(() => spread(marks.pages, blocks), [marks.pages, blocks]);
  const matches = useMemo(() => spread(marks.matches, blocks), [marks.matches, blocks]);
  const watcher = useWatcher(box);
  watcher.chooseChunk = chooseChunk;
  const targetBlock = target ? blockAt(blocks, target.at) : -1;
  useLayoutEffect(() => {
    if (!target) return undefined;
    const show = () => scrollTo(box.current, targetBlock, target.at);
    show();
    // The blocks above are drawn a moment later, and may be higher than they were taken to be.
    const later = [60, 250].map((pause) => setTimeout(show, pause));
    return () => later.forEach(clearTimeout);
  }, [target?.turn, target?.at, shown]);
  if (!shown.text) return <p class="hint">The text is empty.</p>;
  return (
    <WatcherContext.Provider value={watcher}>
      <div class={`text-view${marks.chunks.length || marks.pages.length ? " with-margin" : ""}`} ref={box} tabIndex={0} role="group" aria-label={label}>
        {blocks.map((block, n) => (
          <Block key={n} shown={shown} block={block} isWanted={n === targetBlock} marks={{ chunks: chunks[n], evidence: evidence[n], tables: tables[n], pages: pages[n], matches: matches[n] }} />
        ))}
      </div>
    </WatcherContext.Provider>
  );
}

/** Centers the place in the box, without moving the page. */
function scrollTo(box: HTMLElement | null, block: number, at: number): void {
  const element = box?.children[block];
  if (!box || !element) return;
  const pieces = [...element.querySelectorAll<HTMLElement>("[data-from]")];
  const piece = pieces.findLast((one) => Number(one.dataset.from) <= at) ?? element;
  const top = piece.getClientRects()[0]?.top ?? element.getBoundingClientRect().top;
  box.scrollTop += top - box.getBoundingClientRect().top - box.clientHeight / 3;
}

/** Says which blocks are near the view. */
function useWatcher(box: { current: HTMLDivElement | null }): Watcher {
  const state = useRef<{ watcher: Watcher; disconnect(): void }>(null);
  if (!state.current) {
    const calls = new Map<Element, (isNear: boolean) => void>();
    let observer: IntersectionObserver | null = null;
    // The box is there when its first block is watched, because refs are set before effects run.
    const start = () => (observer ??= new IntersectionObserver((entries) => entries.forEach((entry) => calls.get(entry.target)?.(entry.isIntersecting)), { root: box.current, rootMargin: MARGIN }));
    state.current = {
      watcher: {
        watch: (element, setNear) => {
          calls.set(element, setNear);
          start().observe(element);
          return () => {
            calls.delete(element);
            observer?.unobserve(element);
          };
        },
      },
      disconnect: () => observer?.disconnect(),
    };
  }
  useLayoutEffect(() => () => {
    state.current?.disconnect();
    state.current = null;
  }, []);
  return state.current.watcher;
}

function Block({ shown, block, isWanted, marks }: { shown: BlockedText; block: TextRange; isWanted: boolean; marks: TextMarks }) {
  const watcher = useContext(WatcherContext);
  const element = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(block.from === 0);
  const height = useRef<number | null>(null);
  const isDrawn = isNear || isWanted;
  useLayoutEffect(() => (element.current ? watcher?.watch(element.current, setNear) : undefined), [watcher]);
  useLayoutEffect(() => {
    if (isDrawn && element.current) height.current = element.current.offsetHeight;
  });
  const estimate = useMemo(() => linesOf(shown.text, block, 100) * LINE_HEIGHT, [shown, block]);
  return <div class="text-block" ref={element} style={{ height: isDrawn ? "" : `${height.current ?? estimate}px` }}>{isDrawn ? <Pieces text={shown.text} segments={segmentsOf(block, marks)} /> : null}</div>;
}

function Pieces({ text, segments }: { text: string; segments: Segment<ChunkMark, EvidenceMark>[] }) {
  const drawn: ComponentChild[] = [];
  const free = freeMargins(text, segments);
  for (let i = 0; i < segments.length; i += 1) {
    const { table } = segments[i];
    if (!table) {
      drawn.push(<Piece key={segments[i].from} text={text} segment={segments[i]} isMarginFree={free[i]} />);
      continue;
    }
    // The segments of a table stand in one frame. A frame goes on in the next block.
    const inside: ComponentChild[] = [];
    const first = i;
    for (; i < segments.length && segments[i].table === table; i += 1) inside.push(<Piece key={segments[i].from} text={text} segment={segments[i]} isMarginFree={free[i]} />);
    i -= 1;
    const sides = `${segments[first].from > table.from ? " continued" : ""}${segments[i].to < table.to ? " goes-on" : ""}`;
    drawn.push(<div key={`table ${segments[first].from}`} class={`table-frame${sides}`} role="group" aria-label="Table">{inside}</div>);
  }
  return <>{drawn}</>;
}

/** For each segment, whether the margin beside its line is likely to be free: no number of a chunk stands there yet. */
function freeMargins(text: string, segments: Segment<ChunkMark, EvidenceMark>[]): boolean[] {
  let taken = -1;
  return segments.map(({ from, starting }) => {
    const isFree = taken < 0 || text.slice(taken, from).includes("\n");
    if (starting.length) taken = from;
    return isFree;
  });
}

function Piece({ text, segment, isMarginFree }: { text: string; segment: Segment<ChunkMark, EvidenceMark>; isMarginFree: boolean }) {
  const { chunks, evidence, isMatch, from, to } = segment;
  const names = chunks.length ? ["chunk"] : [];
  if (chunks.length === 1) names.push(chunks[0].place % 2 ? "odd" : "even");
  if (chunks.length > 1) names.push("overlap");
  if (chunks.some((chunk) => chunk.isUnfound)) names.push("unfound");
  if (chunks.some((chunk) => chunk.isCurrent)) names.push("current");
  let content: ComponentChild = <span class={names.join(" ") || undefined} data-from={from}>{text.slice(from, to)}</span>;
  if (isMatch) content = <mark class="match">{content}</mark>;
  if (evidence.length) {
    const words = evidence.map((one) => one.words).join("; ");
    const { href } = evidence[0];
    // A quote that is cut by chunks is one stop of the tab key.
    const tabIndex = evidence[0].from < from ? -1 : undefined;
    content = href === null ? <mark class="evidence" title={words}>{content}</mark> : <a class="evidence" href={href} title={words} tabIndex={tabIndex}><mark>{content}</mark></a>;
  }
  // A number stands in the margin, or in the text if the margin of this line is likely to be taken.
  return (
    <>
      {segment.pages.map((page) => <span key={page} class="page-mark" data-page={page} />)}
      {segment.starting.map((chunk, i) => <ChunkNumber key={chunk.place} chunk={chunk} isInline={i > 0 || !isMarginFree} />)}
      {content}
    </>
  );
}

function ChunkNumber({ chunk, isInline }: { chunk: ChunkMark; isInline: boolean }) {
  const watcher = useContext(WatcherContext);
  // The tab key does not stop here: a text may have thousands of chunks, which other buttons go through.
  return <button type="button" tabIndex={-1} class={`chunk-number${isInline ? " inline" : ""}${chunk.isCurrent ? " current" : ""}${chunk.isUnfound ? " unfound" : ""}`} data-label={chunk.label} aria-label={chunk.words} title={chunk.words} onClick={() => watcher?.chooseChunk?.(chunk.place)} />;
}

// ---- selections

/** The offset of a place of a selection, or null if it is outside of the text. */
function offsetOf(box: HTMLElement, container: Node, offset: number): number | null {
  if (!box.contains(container)) return null;
  if (container.nodeType === Node.TEXT_NODE) {
    const piece = container.parentElement?.closest<HTMLElement>("[data-from]");
    return piece ? Number(piece.dataset.from) + offset : null;
  }
  // Between elements: the next piece of text begins here, or else the last one ends here.
  const range = document.createRange();
  range.setStart(container, offset);
  const pieces = [...box.querySelectorAll<HTMLElement>("[data-from]")];
  const next = pieces.find((piece) => range.comparePoint(piece, 0) >= 0);
  if (next) return Number(next.dataset.from);
  const last = pieces.at(-1);
  return last ? Number(last.dataset.from) + (last.textContent?.length ?? 0) : null;
}

/** The selected range of the text in a box; null if nothing in it is selected. */
export function selectedRange(box: HTMLElement | null): TextRange | null {
  const selection = getSelection();
  if (!box || !selection || selection.isCollapsed || !selection.rangeCount) return null;
  const range = selection.getRangeAt(0);
  const from = offsetOf(box, range.startContainer, range.startOffset);
  const to = offsetOf(box, range.endContainer, range.endOffset);
  return from !== null && to !== null && from < to ? { from, to } : null;
}
