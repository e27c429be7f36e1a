// The chunks of a document: which level is drawn, and how many questions found each.

import type { ChunkBorders, ChunkedDocument, DocumentInRun, Parser } from "../../data/documents";
import type { ByteSpan } from "../../data/golden";

/** By trial, how many questions found a chunk. */
export type FoundCounts = Map<string, number>;

/** The levels of a hierarchy, the largest chunks first. */
export const levelsOf = (chunks: readonly ChunkBorders[]): number[] => [...new Set(chunks.map(({ level }) => level))].sort((a, b) => a - b);

/** The level that is drawn first: the smallest of the searched chunks. */
export const firstLevel = (chunks: readonly ChunkBorders[]): number => chunks.reduce((most, chunk) => (chunk.searchable ? Math.max(most, chunk.level) : most), 0);

// Passages are looked up by the pieces of the text that they touch.
const BUCKET_BYTES = 4096;

const holds = (outer: ByteSpan, inner: ByteSpan): boolean => outer.start <= inner.start && outer.end >= inner.end;

/**
 * How many questions found each chunk, by trial. A passage counts for a chunk if it is the
 * chunk, holds it (a window or a parent), or is a part of it (a compressed passage). If several
 * passages count, the largest number is used, because one question may have found all of them.
 */
export function countFound(chunks: readonly ChunkBorders[], { trials }: Pick<ChunkedDocument, "trials">, found: DocumentInRun["found"]): FoundCounts[] {
  const counts: FoundCounts[] = chunks.map(() => new Map());
  for (const trial of trials) {
    const buckets = new Map<number, [ByteSpan, number][]>();
    for (const passage of found[trial] ?? []) {
      const [{ start, end }] = passage;
      for (let n = Math.floor(start / BUCKET_BYTES); n <= Math.floor(Math.max(start, end - 1) / BUCKET_BYTES); n += 1) {
        const bucket = buckets.get(n);
        if (bucket) bucket.push(passage);
        else buckets.set(n, [passage]);
      }
    }
    if (!buckets.size) continue;
    chunks.forEach(({ span }, i) => {
      let most = 0;
      for (let n = Math.floor(span.start / BUCKET_BYTES); n <= Math.floor(Math.max(span.start, span.end - 1) / BUCKET_BYTES); n += 1) {
        for (const [passage, questions] of buckets.get(n) ?? []) if (questions > most && (holds(passage, span) || holds(span, passage))) most = questions;
      }
      if (most) counts[i].set(trial, most);
    });
  }
  return counts;
}

/** The most questions of one trial that found a chunk. */
export const mostFound = (counts: FoundCounts): number => Math.max(0, ...counts.values());

/** The parser whose text was cut: the label of a chunker names it if it is not the default. */
export function parserOf(chunker: Pick<ChunkedDocument, "label">, parsers: readonly Parser[]): number {
  const name = chunker.label.split(", of ").at(-1);
  return (chunker.label.includes(", of ") ? parsers.find((parser) => parser.name === name)?.number : undefined) ?? 1;
}
