// The data of the server's API about documents. Spans are bytes of UTF-8.

import type { ByteSpan } from "./golden";

export interface ListedDocument {
  path: string;
  /** Golden questions with evidence in it. */
  questions: number;
}

export interface Parser {
  number: number;
  name: string;
}

export interface DocumentList {
  run: string;
  parsers: Parser[];
  documents: ListedDocument[];
}

export interface ReadingProblem {
  kind: string;
  page?: number | null;
  detail?: string;
}

export interface DocumentText {
  path: string;
  parser: number;
  parser_name: string;
  title: string | null;
  text: string;
  tables: ByteSpan[];
  pages: { number: number; start: number }[];
  problems: ReadingProblem[];
  evidence: { question: string; quote: string; span: ByteSpan | null }[];
  has_pages: boolean;
}

export interface ChunkBorders {
  number: number;
  span: ByteSpan;
  searchable: boolean;
  /** 0 is the largest. */
  level: number;
}

export interface ChunkedDocument {
  label: string;
  trials: string[];
  chunks: ChunkBorders[];
  problem: string | null;
}

export interface DocumentInRun {
  run: string;
  chunkers: ChunkedDocument[];
  /** By trial: passages, and how many questions found each. */
  found: Record<string, [ByteSpan, number][]>;
}
