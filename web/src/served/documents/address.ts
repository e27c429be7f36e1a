// Addresses of the Documents page: `#/documents?path=P&parser=2&with=1&chunker=1&…`.

import { hrefOf } from "../route";

/** A parser may read a scanned document for minutes. */
export const DOCUMENT_MS = 300_000;

export interface DocumentView {
  /** Null for the list. */
  path: string | null;
  /** The number of the parser. */
  parser: number;
  /** The parser whose text is beside it; null if there is none. */
  with: number | null;
  /** The place of the chunker among those of the run, from 1; null if no chunks are drawn. */
  chunker: number | null;
  /** The level of a hierarchy; null for the level that is searched. */
  level: number | null;
  /** Whether only chunks that no search has found are drawn. */
  unfound: boolean;
  /** The golden question whose evidence is shown first. */
  evidence: string | null;
  /** The page whose picture is shown; null if none is. */
  page: number | null;
  find: string;
}

export const FIRST_VIEW: DocumentView = { path: null, parser: 1, with: null, chunker: null, level: null, unfound: false, evidence: null, page: null, find: "" };

const numberIn = (text: string | null, least: number): number | null => (text !== null && /^\d{1,9}$/.test(text) && Number(text) >= least ? Number(text) : null);

export function readDocumentsAddress(address: string): DocumentView {
  const said = new URLSearchParams(address);
  return {
    path: said.get("path") || null,
    parser: numberIn(said.get("parser"), 1) ?? 1,
    with: numberIn(said.get("with"), 1),
    chunker: numberIn(said.get("chunker"), 1),
    level: numberIn(said.get("level"), 0),
    unfound: said.get("unfound") === "yes",
    evidence: said.get("evidence"),
    page: numberIn(said.get("page"), 1),
    find: said.get("find") ?? "",
  };
}

export function documentsAddress(view: DocumentView): string {
  const said = new URLSearchParams();
  if (view.path !== null) said.set("path", view.path);
  if (view.parser !== 1) said.set("parser", String(view.parser));
  for (const name of ["with", "chunker", "level", "page"] as const) if (view[name] !== null) said.set(name, String(view[name]));
  if (view.unfound) said.set("unfound", "yes");
  if (view.evidence !== null) said.set("evidence", view.evidence);
  if (view.find) said.set("find", view.find);
  return said.toString();
}

export const documentsHref = (changes: Partial<DocumentView>): string => hrefOf({ page: "documents", address: documentsAddress({ ...FIRST_VIEW, ...changes }) });
