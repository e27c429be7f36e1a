// Which trials are asked.

import type { RunTable } from "../../data/columns";

/** The trials that an address names, as far as the run has them; else the winner, or the first of the leaderboard. */
export function chosenTrials(table: Pick<RunTable, "overview" | "rowOf" | "leading">, named: readonly string[]): string[] {
  const known = named.filter((id) => table.rowOf(id) !== undefined);
  if (known.length) return known;
  const first = table.rowOf(table.overview.board.answering?.trial ?? null) ?? table.leading;
  return first ? [first.id] : [];
}
