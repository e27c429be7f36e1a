// A golden question made of an answer: what the form begins with, and what it sends.

import type { AskedPassage, NewQuestion, TrialAnswer } from "../../data/ask";
import type { ByteSpan } from "../../data/golden";
import { ByteMap } from "../../page/bytes";

// Joins the pieces of a shortened passage, as `crates/rag/src/refine/pieces.rs` does.
const LEFT_OUT = " … ";

export interface PassagePiece {
  span: ByteSpan;
  text: string;
}

/** The pieces of a passage that stand in its document without a gap. Evidence must not have gaps. */
export function passagePieces({ text, span, parts }: AskedPassage): PassagePiece[] {
  const whole = [{ span, text }];
  if (!parts?.length) return whole;
  const pieces: PassagePiece[] = [];
  let rest = text;
  for (const part of parts) {
    if (pieces.length) rest = rest.startsWith(LEFT_OUT) ? rest.slice(LEFT_OUT.length) : rest.replace(/^\n+/, "");
    const bytes = new ByteMap(rest);
    const wanted = part.end - part.start;
    const length = bytes.unitOf(wanted);
    // A text that is not the document's has no known pieces.
    if (wanted > bytes.length || bytes.byteOf(length) !== wanted) return whole;
    pieces.push({ span: part, text: rest.slice(0, length) });
    rest = rest.slice(length);
  }
  return pieces;
}

/** The text of an answer without its citations. Other numbers in brackets stay. */
export function withoutCitations(text: string, citations: readonly number[]): string {
  const isCited = (numbers: string) => numbers.split(",").every((number) => citations.includes(Number(number)));
  return text.replace(/[ \t]*\[(\d+(?:\s*,\s*\d+)*)\]/g, (whole, numbers: string) => (isCited(numbers) ? "" : whole)).trim();
}

export interface EvidenceDraft {
  isUsed: boolean;
  document: string;
  page: number | null;
  /** The rank of its passage, from 1. */
  rank: number;
  quote: string;
  /** The piece of the passage before it was edited. */
  whole: PassagePiece;
}

/** What the form holds. */
export interface GoldenDraft {
  id: string;
  question: string;
  reference: string;
  isAnswerable: boolean;
  evidence: EvidenceDraft[];
}

/** Cited passages are evidence until somebody decides otherwise. */
export function draftOfAnswer({ question, answer, passages }: TrialAnswer): GoldenDraft {
  const citations = answer?.citations ?? [];
  return {
    id: "",
    question,
    reference: answer ? withoutCitations(answer.text, citations) : "",
    isAnswerable: true,
    evidence: passages.flatMap((passage, i) =>
      passagePieces(passage).map((whole) => ({ isUsed: citations.includes(i + 1), document: passage.document, page: passage.page, rank: i + 1, quote: whole.text, whole })),
    ),
  };
}

/** The question that the form describes, or in words what is missing. */
export function newQuestion(draft: GoldenDraft): NewQuestion | string {
  const question = draft.question.trim();
  if (!question) return "The question is empty.";
  const added: NewQuestion = { question, answerable: draft.isAnswerable };
  if (draft.id.trim()) added.id = draft.id.trim();
  if (!draft.isAnswerable) return added;
  const used = draft.evidence.filter(({ isUsed }) => isUsed);
  const empty = used.find(({ quote }) => !quote.trim());
  if (empty) return `Passage ${empty.rank} is selected as evidence, but its quote is empty.`;
  const reference = draft.reference.trim();
  if (reference) added.reference = reference;
  added.evidence = used.map(({ document, quote, whole }) => (quote === whole.text ? { document, quote, span: whole.span } : { document, quote: quote.trim() }));
  return added;
}
