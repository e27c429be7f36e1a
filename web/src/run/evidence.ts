import type { Evidence, PassageText } from "../data/overview";

/** Pieces of a passage's text, and whether each is evidence. Spans count bytes of UTF-8. */
export function markedPieces(passage: PassageText, evidence: Evidence[]): [string, boolean][] {
  const spans = evidence
    .flatMap(({ document, span }): [number, number][] => (span && document === passage.document ? [[Math.max(span.start, passage.start), Math.min(span.end, passage.end)]] : []))
    .filter(([from, to]) => from < to)
    .sort((a, b) => a[0] - b[0]);
  if (!spans.length) return [[passage.text, false]];
  const bytes = new TextEncoder().encode(passage.text);
  const decoder = new TextDecoder();
  const text = (from: number, to: number) => decoder.decode(bytes.subarray(from - passage.start, to - passage.start));
  const pieces: [string, boolean][] = [];
  let at = passage.start;
  for (const [from, to] of spans) {
    if (to <= at) continue;
    pieces.push([text(at, Math.max(at, from)), false], [text(Math.max(at, from), to), true]);
    at = to;
  }
  pieces.push([text(at, passage.start + bytes.length), false]);
  return pieces.filter(([piece]) => piece);
}

/** The largest share of a piece of evidence that a passage holds, in [0, 1]. */
export function heldShare(passage: PassageText, evidence: Evidence[]): number {
  const shares = evidence.map(({ document, span }) => {
    if (!span || document !== passage.document || span.end <= span.start) return 0;
    return Math.max(0, Math.min(span.end, passage.end) - Math.max(span.start, passage.start)) / (span.end - span.start);
  });
  return Math.max(0, ...shares);
}
