// Evidence of golden questions, and where it is in a text.

import type { QuestionEvidence } from "../../data/golden";
import { type BlockedText, type TextRange, findWords, trimmed } from "../../page/text-blocks";

/** Where a piece of evidence is in a text: at its span if the text there is its quote, or else where its words are. */
export function placeOf({ text, bytes }: BlockedText, { quote, span }: QuestionEvidence): TextRange | null {
  if (span) {
    const range = { from: bytes.unitOf(span.start), to: bytes.unitOf(span.end) };
    const plain = (words: string) => words.replace(/\s+/g, " ").trim();
    if (plain(text.slice(range.from, range.to)) === plain(quote)) return range;
  }
  return findWords(text, quote)[0] ?? null;
}

/** Evidence for a range of a text, in bytes as the server counts them. */
export function evidenceAt(document: string, { text, bytes }: BlockedText, range: TextRange): QuestionEvidence | null {
  const whole = trimmed(text, range);
  return whole && { document, quote: text.slice(whole.from, whole.to), span: { start: bytes.byteOf(whole.from), end: bytes.byteOf(whole.to) } };
}

/** Whether two pieces are the same place of a document. Words may stand in it twice. */
export const isSamePiece = (a: QuestionEvidence, b: QuestionEvidence): boolean =>
  a.document === b.document && (a.span && b.span ? a.span.start === b.span.start && a.span.end === b.span.end : a.quote === b.quote);
