// The passages that a trial retrieved, with the evidence in them marked.

import { useMemo } from "preact/hooks";
import { type RunTable } from "../data/columns";
import type { BoardRow, Json, PassageText, QuestionPart } from "../data/overview";
import { useLength } from "../page/text";
import { counted, fixed, isKnown } from "../words";
import { heldShare, markedPieces } from "./evidence";
import { useRun } from "./model";

function placeOf(passage: PassageText): string {
  return [passage.document, isKnown(passage.page) ? `page ${passage.page}` : null, passage.book, passage.heading].filter(Boolean).join(" · ");
}

function PassageBody({ passage, pieces }: { passage: PassageText; pieces: [string, boolean][] }) {
  const { length, more } = useLength(passage.text);
  let room = length;
  return (
    <div class="body">
      {pieces.map(([piece, isEvidence], i) => {
        if (room <= 0) return null;
        const shown = piece.slice(0, room);
        room -= shown.length;
        return isEvidence ? <mark key={i}>{shown}</mark> : shown;
      })}
      {more ? <>…{more}</> : null}
    </div>
  );
}

const isNone = (settings: Json | undefined): boolean =>
  [settings ?? []].flat().every((step) => (typeof step === "string" ? step : Object.keys((step ?? {}) as object)[0]) === "none");

/**
 * Finds a trial that searches in the same way and changes nothing after the search: its
 * passages are those that the reranker was given. Null if this trial has no reranker.
 */
export function withoutReranker(row: BoardRow, table: RunTable): { twin: BoardRow | null } | null {
  if (isNone(row.settings.reranker)) return null;
  const axes = table.overview.board.columns.filter((column) => column.kind === "axis").map((column) => column.name);
  const before = axes.slice(0, axes.indexOf("reranker"));
  const after = axes.slice(axes.indexOf("reranker"), axes.indexOf("prompt"));
  const isSame = (other: BoardRow) => before.every((axis) => JSON.stringify(other.settings[axis]) === JSON.stringify(row.settings[axis]));
  const isPlain = (other: BoardRow) => after.every((axis) => isNone(other.settings[axis]));
  return { twin: table.rows.find((other) => !other.stopped && isPlain(other) && isSame(other)) ?? null };
}

export function Retrieved({ row, list, passages, held }: { row: BoardRow; list: [number, number][]; passages: PassageText[]; held: QuestionPart }) {
  const { table } = useRun();
  const evidence = held.golden.evidence ?? [];
  const marked = useMemo(() => passages.map((passage) => markedPieces(passage, evidence)), [passages, held]);
  const reranked = useMemo(() => withoutReranker(row, table), [row, table]);
  if (!passages.length) return <p class="hint">No passage was retrieved.</p>;
  const twin = reranked?.twin ?? null;
  const before = twin ? held.lists[held.trials[table.numberOf(twin)].list].map(([place]) => place) : null;
  const shares = passages.map((passage) => heldShare(passage, evidence));
  const covers = shares.map((share) => share > 0);
  const numbers = (holds: (share: number) => boolean) => shares.flatMap((share, i) => (holds(share) ? [`[${i + 1}]`] : [])).join(", ");
  const [whole, parts] = [numbers((share) => share >= 1), numbers((share) => share > 0 && share < 1)];
  const words = [counted(passages.length, "passage")];
  if (whole) words.push(`evidence in ${whole}`);
  if (parts) words.push(`a part of the evidence in ${parts}`);
  if (evidence.length && !whole && !parts) words.push("none holds evidence");
  return (
    <>
      <p class="hint">{words.join("; ")}.</p>
      {reranked ? (
        <p class="hint">{twin
          ? `The ranks before reranking are those of ${twin.id}, which searches in the same way and changes nothing after the search.`
          : "The results hold the ranks after reranking only: no trial has the same search without a later step."}</p>
      ) : null}
      <ol class="cards">
        {passages.map((passage, i) => {
          const said = [`[${i + 1}] ${placeOf(passage)}`, `score ${fixed(list[i][1])}`];
          if (before && twin) said.push(before.includes(list[i][0]) ? `before reranking [${before.indexOf(list[i][0]) + 1}]` : `not among the ${counted(before.length, "passage")} of ${twin.id}`);
          if (covers[i]) said.push(shares[i] >= 1 ? "holds evidence" : `holds ${Math.max(1, Math.floor(100 * shares[i]))} % of the evidence`);
          return (
            <li key={i} class={`card${covers[i] ? " covers" : ""}`}>
              <div class="where">{said.join(" · ")}</div>
              <PassageBody passage={passage} pieces={marked[i]} />
            </li>
          );
        })}
      </ol>
    </>
  );
}
