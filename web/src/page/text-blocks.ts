// A long text in blocks, of which only those in view are drawn, and what is marked in each block.

import { ByteMap } from "./bytes";

/** Code units of a text, the end is exclusive. */
export interface TextRange {
  from: number;
  to: number;
}

export interface BlockedText {
  text: string;
  bytes: ByteMap;
  blocks: TextRange[];
}

const BLOCK_LENGTH = 4000;

/** Cuts a text after a line if there is one in the second half of the block, or else after a space. */
export function blocksOf(text: string): TextRange[] {
  const blocks: TextRange[] = [];
  let from = 0;
  while (from < text.length) {
    let to = Math.min(text.length, from + BLOCK_LENGTH);
    if (to < text.length) {
      // Only the second half is searched: a search through all that comes before would take minutes in a line of 10 MB.
      const half = from + BLOCK_LENGTH / 2;
      const ending = text.slice(half, to);
      const line = ending.lastIndexOf("\n");
      const space = line >= 0 ? line : ending.lastIndexOf(" ");
      if (space >= 0) to = half + space + 1;
      // A character of two code units stays whole.
      else if (/[\uDC00-\uDFFF]/.test(text[to])) to -= 1;
    }
    blocks.push({ from, to });
    from = to;
  }
  return blocks;
}

export const blockedText = (text: string): BlockedText => ({ text, bytes: new ByteMap(text), blocks: blocksOf(text) });

/** The number of the block that holds a place. */
export function blockAt(blocks: readonly TextRange[], at: number): number {
  let [low, high] = [0, blocks.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (blocks[middle].from <= at) low = middle;
    else high = middle;
  }
  return low;
}

/** For each block, the ranges that share a code unit with it. */
export function spread<T extends TextRange>(ranges: readonly T[], blocks: readonly TextRange[]): T[][] {
  const found: T[][] = blocks.map(() => []);
  for (const range of ranges) {
    if (range.to <= range.from) continue;
    for (let n = blockAt(blocks, range.from); n < blocks.length && blocks[n].from < range.to; n += 1) found[n].push(range);
  }
  return found;
}

/** What is marked in a text. A page is the range of its first character, because only its beginning is drawn. */
export interface Marks<Chunk extends TextRange, Evidence extends TextRange> {
  chunks: Chunk[];
  evidence: Evidence[];
  tables: TextRange[];
  pages: (TextRange & { number: number })[];
  matches: TextRange[];
}

/** A piece of text with the same marks from its beginning to its end. */
export interface Segment<Chunk, Evidence> extends TextRange {
  chunks: Chunk[];
  evidence: Evidence[];
  isMatch: boolean;
  table: TextRange | null;
  /** Chunks and pages that begin here. */
  starting: Chunk[];
  pages: number[];
}

/** The segments of a block. */
export function segmentsOf<C extends TextRange, E extends TextRange>(block: TextRange, marks: Marks<C, E>): Segment<C, E>[] {
  const cuts = new Set([block.from, block.to]);
  const add = ({ from, to }: TextRange) => {
    if (from > block.from) cuts.add(from);
    if (to < block.to) cuts.add(to);
  };
  [marks.chunks, marks.evidence, marks.tables, marks.matches].forEach((ranges) => ranges.forEach(add));
  marks.pages.forEach(({ from }) => add({ from, to: block.to }));
  const ends = [...cuts].filter((cut) => cut >= block.from && cut <= block.to).sort((a, b) => a - b);
  return ends.slice(0, -1).map((from, i) => {
    const to = ends[i + 1];
    const covers = (range: TextRange) => range.from <= from && range.to >= to;
    const chunks = marks.chunks.filter(covers);
    return {
      from,
      to,
      chunks,
      evidence: marks.evidence.filter(covers),
      isMatch: marks.matches.some(covers),
      table: marks.tables.find(covers) ?? null,
      starting: chunks.filter((chunk) => chunk.from === from),
      pages: marks.pages.filter((page) => page.from === from).map(({ number }) => number),
    };
  });
}

/** About how many lines a block takes if a line has so many characters. */
export function linesOf(text: string, block: TextRange, lineLength: number): number {
  // Cut first, so that the search for the end of a line ends with the block.
  const pieces = text.slice(block.from, block.to).split("\n");
  if (pieces.at(-1) === "") pieces.pop();
  return pieces.reduce((lines, piece) => lines + Math.max(1, Math.ceil(piece.length / lineLength)), 0);
}

const MOST_MATCHES = 1000;

/** Where words are in a text. White space in them stands for any white space, and case is ignored. */
export function findWords(text: string, words: string): TextRange[] {
  const parts = words.trim().split(/\s+/).filter(Boolean);
  if (!parts.length) return [];
  const pattern = new RegExp(parts.map((part) => part.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")).join("\\s+"), "gi");
  const found: TextRange[] = [];
  for (const match of text.matchAll(pattern)) {
    found.push({ from: match.index, to: match.index + match[0].length });
    if (found.length >= MOST_MATCHES) break;
  }
  return found;
}

/** A range without white space at its ends; null if nothing is left. */
export function trimmed(text: string, { from, to }: TextRange): TextRange | null {
  const piece = text.slice(from, to);
  const start = from + piece.length - piece.trimStart().length;
  const end = start + piece.trim().length;
  return start < end ? { from: start, to: end } : null;
}
