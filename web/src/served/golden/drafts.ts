// What was typed and not sent yet, so that it is there after a mistake, a failed request, or a reload.

import type { EditDraft } from "./decisions";

const STORED_DRAFTS = "reverie-golden-drafts";

export interface Draft {
  edit: EditDraft;
  /** The question when the edit began: only what differs is sent. */
  from: EditDraft;
}

interface Stored {
  edits: Record<string, Draft>;
  remarks: Record<string, string>;
}

const stored = readStored();
let later: ReturnType<typeof setTimeout> | undefined;

function readStored(): Stored {
  try {
    const found = JSON.parse(sessionStorage.getItem(STORED_DRAFTS) ?? "null") as Stored | null;
    if (found?.edits && found.remarks) return found;
  } catch {
    // Storage may be switched off, or hold something else.
  }
  return { edits: {}, remarks: {} };
}

function write(): void {
  clearTimeout(later);
  later = undefined;
  try {
    sessionStorage.setItem(STORED_DRAFTS, JSON.stringify(stored));
  } catch {
    // Drafts then live as long as the page.
  }
}

const writeSoon = (): void => { later ??= setTimeout(write, 300); };
addEventListener("pagehide", () => { if (later !== undefined) write(); });

export const draftFor = (id: string): Draft | null => (Object.hasOwn(stored.edits, id) ? stored.edits[id] : null);

export function keepDraft(id: string, draft: Draft | null): void {
  if (draft) stored.edits[id] = draft;
  else delete stored.edits[id];
  writeSoon();
}

export const remarkFor = (id: string): string => (Object.hasOwn(stored.remarks, id) ? stored.remarks[id] : "");

export function keepRemark(id: string, text: string): void {
  if (text) stored.remarks[id] = text;
  else delete stored.remarks[id];
  writeSoon();
}
