// Questions and trials: the objective of each trial at each question, as a picture.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunTable } from "../data/columns";
import { isInPage } from "../data/parts";
import { useLoaded } from "../page/loaded";
import { isDark, useWidth } from "../page/size";
import { Problem } from "../page/tables";
import { counted, fixed, shortened } from "../words";
import { type CellSize, type Matrix, cellSize, colourTable, readMatrix } from "./matrix-data";
import { useRun } from "./model";

// Above and below the picture, in pixels.
const BORDER = 2;

/** A cell by its row and column in the picture. */
interface Cursor {
  row: number;
  column: number;
}

/** Whether the section was ever in view: a part that is not in the page is loaded only then. */
function useSeen(name: string) {
  const ref = useRef<HTMLElement>(null);
  const [isSeen, setSeen] = useState(() => isInPage(name));
  useEffect(() => {
    const node = ref.current;
    if (isSeen || !node) return undefined;
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) setSeen(true);
    });
    observer.observe(node);
    const load = () => setSeen(true);
    // Whoever goes through the page with the tab key would pass a picture that is not there yet.
    const loadForKeys = (event: KeyboardEvent) => { if (event.key === "Tab") load(); };
    addEventListener("beforeprint", load);
    addEventListener("keydown", loadForKeys);
    return () => {
      observer.disconnect();
      removeEventListener("beforeprint", load);
      removeEventListener("keydown", loadForKeys);
    };
  }, [isSeen]);
  return { ref, isSeen };
}

export function MatrixSection({ name }: { name: string }) {
  const model = useRun();
  const { table, overview } = model;
  const { ref, isSeen } = useSeen(name);
  const { value, busy, problem, retry } = useLoaded(() => (isSeen ? model.parts.matrix(name) : null), [model, isSeen]);
  const matrix = useMemo(() => (value ? readMatrix(value, table.rows.length, overview.questions.length) : null), [value]);
  return (
    <section id="matrix-section" class={matrix ? undefined : "not-loaded"} aria-labelledby="matrix-heading" ref={ref}>
      <h2 id="matrix-heading" tabIndex={-1}>Questions and trials</h2>
      <p class="hint" id="matrix-hint">Each row is a trial and each column a question; similar ones are next to each other. Click a cell, or move with the arrow keys and press Enter, to open that trial and question.</p>
      <div id="matrix" aria-busy={busy ? "true" : undefined}>
        {problem ? <Problem text={problem} retry={retry} /> : null}
        {matrix ? <Picture matrix={matrix} /> : problem ? null : <Placeholder rows={table.rows.length} columns={overview.questions.length} />}
      </div>
    </section>
  );
}

/** As high as the picture, so that nothing below it moves when it comes: a click there would be lost. */
function Placeholder({ rows, columns }: { rows: number; columns: number }) {
  return (
    <div aria-hidden="true">
      <div class="scroll matrix" style={{ height: `${rows * cellSize(columns, rows, 0).height + BORDER}px` }} />
      <p class="hint">{"\u00a0"}</p>
      <Legend dark={isDark.value} />
    </div>
  );
}

function wordsOf(cursor: Cursor, matrix: Matrix, table: RunTable): string {
  const [trial, question] = [matrix.trialOrder[cursor.row], matrix.questionOrder[cursor.column]];
  const summary = table.overview.questions[question];
  const value = matrix.at(trial, question);
  return `${table.rows[trial].id}, question ${summary.id}: ${value === null ? "no score" : `objective ${fixed(value, 2)}`}. ${shortened(summary.question, 200)}`;
}

function Picture({ matrix }: { matrix: Matrix }) {
  const model = useRun();
  const { table, overview } = model;
  const holder = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const outer = useRef<HTMLDivElement>(null);
  const room = useWidth(outer);
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const [rows, columns] = [matrix.trialOrder.length, matrix.questionOrder.length];
  const size = cellSize(columns, rows, room - 70);
  const dark = isDark.value;
  const cells = useMemo(() => (room ? drawCells(matrix, size, dark) : null), [matrix, size.width, size.height, dark, room]);
  const chosen: Cursor = {
    row: matrix.trialOrder.findIndex((index) => table.rows[index].id === model.trial.value),
    column: matrix.questionOrder.findIndex((index) => overview.questions[index].id === model.question.value),
  };
  useLayoutEffect(() => {
    if (canvas.current && cells) drawPicture(canvas.current, cells, size, cursor, chosen, dark);
  }, [cells, cursor?.row, cursor?.column, chosen.row, chosen.column]);

  const open = (at: Cursor) => {
    setCursor(at);
    model.openQuestion(overview.questions[matrix.questionOrder[at.column]].id, table.rows[matrix.trialOrder[at.row]].id);
  };
  const cellAt = (event: MouseEvent & { currentTarget: HTMLCanvasElement }): Cursor => {
    const box = event.currentTarget.getBoundingClientRect();
    const place = (value: number, most: number) => Math.max(0, Math.min(most - 1, Math.floor(value)));
    return { row: place(((event.clientY - box.top) / box.height) * rows, rows), column: place(((event.clientX - box.left) / box.width) * columns, columns) };
  };
  const move = (event: KeyboardEvent) => {
    const at = cursor ?? { row: Math.max(0, chosen.row), column: Math.max(0, chosen.column) };
    const steps: Record<string, Cursor> = {
      ArrowLeft: { ...at, column: at.column - 1 }, ArrowRight: { ...at, column: at.column + 1 },
      ArrowUp: { ...at, row: at.row - 1 }, ArrowDown: { ...at, row: at.row + 1 },
      Home: { ...at, column: 0 }, End: { ...at, column: columns - 1 },
    };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(at);
    } else if (steps[event.key]) {
      event.preventDefault();
      const next = cursor ? steps[event.key] : at;
      const inside = { row: Math.max(0, Math.min(rows - 1, next.row)), column: Math.max(0, Math.min(columns - 1, next.column)) };
      setCursor(inside);
      scrollTo(holder.current, inside, size);
    }
  };
  const named = size.height >= 12;
  return (
    <div ref={outer}>
      <div
        class="scroll matrix" ref={holder} tabIndex={0} role="application" onKeyDown={move}
        aria-label={`The objective of ${counted(rows, "trial")} at ${counted(columns, "question")}. Arrow keys move, Enter opens.`} aria-describedby="matrix-cell"
      >
        {named ? (
          <svg class="matrix-names" width={64} height={rows * size.height} aria-hidden="true">
            {matrix.trialOrder.map((index, row) => <text key={index} class={row === (cursor?.row ?? chosen.row) ? "current" : undefined} x={58} y={(row + 0.5) * size.height + 4} text-anchor="end">{shortened(table.rows[index].id, 7)}</text>)}
          </svg>
        ) : null}
        <canvas
          ref={canvas} aria-hidden="true" width={columns * size.width} height={rows * size.height}
          onMouseMove={(event) => {
            const at = cellAt(event);
            if (at.row !== cursor?.row || at.column !== cursor.column) setCursor(at);
          }}
          onClick={(event) => open(cellAt(event))}
        />
      </div>
      <p class="hint" id="matrix-cell" aria-live="polite">{cursor ? wordsOf(cursor, matrix, table) : "No cell is chosen."}</p>
      <Legend dark={dark} />
    </div>
  );
}

function scrollTo(holder: HTMLElement | null, { row, column }: Cursor, size: CellSize): void {
  if (!holder) return;
  const [x, y] = [column * size.width, row * size.height];
  const [wide, high] = [holder.clientWidth - 80, holder.clientHeight - 20];
  if (x < holder.scrollLeft || x + size.width > holder.scrollLeft + wide) holder.scrollLeft = x - wide / 2;
  if (y < holder.scrollTop || y + size.height > holder.scrollTop + high) holder.scrollTop = y - high / 2;
}

/** The cells alone, drawn once. Cells without a score stay empty: the striped ground is seen. */
function drawCells(matrix: Matrix, size: CellSize, dark: boolean): HTMLCanvasElement {
  const [rows, columns] = [matrix.trialOrder.length, matrix.questionOrder.length];
  const colours = colourTable(dark);
  const small = document.createElement("canvas");
  [small.width, small.height] = [columns, rows];
  const context = small.getContext("2d");
  if (!context || !rows || !columns) return small;
  const image = context.createImageData(columns, rows);
  matrix.trialOrder.forEach((trial, row) => {
    matrix.questionOrder.forEach((question, column) => {
      const colour = colours[matrix.byteAt(trial, question)];
      if (!colour) return;
      image.data.set([...colour, 255], (row * columns + column) * 4);
    });
  });
  context.putImageData(image, 0, 0);
  const large = document.createElement("canvas");
  [large.width, large.height] = [columns * size.width, rows * size.height];
  const target = large.getContext("2d");
  if (!target) return large;
  target.imageSmoothingEnabled = false;
  target.drawImage(small, 0, 0, large.width, large.height);
  // Thin gaps, where cells are large enough to have them.
  if (size.width >= 8 && size.height >= 8) {
    target.fillStyle = getComputedStyle(document.body).backgroundColor;
    for (let column = 0; column <= columns; column += 1) target.fillRect(column * size.width - 0.5, 0, 1, large.height);
    for (let row = 0; row <= rows; row += 1) target.fillRect(0, row * size.height - 0.5, large.width, 1);
  }
  return large;
}

function drawPicture(canvas: HTMLCanvasElement, cells: HTMLCanvasElement, size: CellSize, cursor: Cursor | null, chosen: Cursor, dark: boolean): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const [ink, paper] = dark ? ["#ffffff", "#000000"] : ["#000000", "#ffffff"];
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (cells.width && cells.height) context.drawImage(cells, 0, 0);
  const frame = (x: number, y: number, width: number, height: number, thick: number) => {
    context.strokeStyle = paper;
    context.lineWidth = thick + 2;
    context.strokeRect(x, y, width, height);
    context.strokeStyle = ink;
    context.lineWidth = thick;
    context.strokeRect(x, y, width, height);
  };
  const inset = 0.5;
  if (chosen.row >= 0 && chosen.column < 0) frame(inset, chosen.row * size.height + inset, canvas.width - 1, size.height - 1, 1);
  if (chosen.row >= 0 && chosen.column >= 0) frame(chosen.column * size.width + inset, chosen.row * size.height + inset, size.width - 1, size.height - 1, 1);
  if (cursor) frame(cursor.column * size.width + 1, cursor.row * size.height + 1, Math.max(2, size.width - 2), Math.max(2, size.height - 2), 2);
}

function Legend({ dark }: { dark: boolean }) {
  const colours = useMemo(() => colourTable(dark), [dark]);
  return (
    <p class="legend" id="matrix-legend">
      <span>objective 0</span>
      <svg width={160} height={14} role="img" aria-label="Blue is 0, orange is 1">
        {Array.from({ length: 32 }, (_, i) => <rect key={i} x={i * 5} y={0} width={5.5} height={14} fill={`rgb(${colours[Math.round((i / 31) * 254)].join(" ")})`} />)}
      </svg>
      <span>1</span>
      <span class="stripes" aria-hidden="true" />
      <span>no score</span>
    </p>
  );
}
