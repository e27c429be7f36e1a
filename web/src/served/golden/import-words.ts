// What an import of golden questions did, in words.

import type { ImportOutcome } from "../../data/golden";
import { counted } from "../../words";

/** The server takes no larger file. */
export const MOST_IMPORT_BYTES = 20 * 1024 * 1024;

/** Why a file is not sent; null if it is. */
export function fileProblem({ name, size }: { name: string; size: number }): string | null {
  if (size > MOST_IMPORT_BYTES) return `${name} has ${(size / 1024 / 1024).toFixed(1)} MB, and at most 20 MB are imported at once. Split it into several files.`;
  return size === 0 ? `${name} is empty.` : null;
}

export function outcomeWords({ added, skipped, refused }: ImportOutcome): string {
  const words = [`${counted(added, "question")} added`];
  if (skipped) words.push(`${skipped} skipped, because ${skipped === 1 ? "it is" : "they are"} there already`);
  if (refused) words.push(`${counted(refused, "line")} refused`);
  return `${words.join("; ")}.`;
}
