// Parallel coordinates: each line is a trial, each axis a setting or a metric, and a drag
// along an axis keeps the lines that pass there.

import { effect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { nameOf } from "../data/columns";
import { useOverflow, useWidth } from "../page/size";
import { FittingText } from "../page/text";
import { fixed, shortened } from "../words";
import type { View } from "./address";
import { BrushFields } from "./brushes";
import { type RunModel, useRun } from "./model";
import { BOTTOM, HEIGHT, type PlottedColumn, TOP, brushBetween, extentOf, plottedColumns, wordsOfBrush } from "./scales";

/** Runs at most one drawing for each picture, the last one that was asked for. */
function onePerFrame(): (drawing: () => void) => void {
  let pending: (() => void) | null = null;
  return (drawing) => {
    if (!pending) {
      requestAnimationFrame(() => {
        const now = pending;
        pending = null;
        now?.();
      });
    }
    pending = drawing;
  };
}

/**
 * Marks the lines and brushes of the drawn plot. It changes classes of lines that exist,
 * because it runs for each picture of a drag, also with hundreds of trials.
 */
function markLines(root: HTMLElement, model: RunModel, columns: PlottedColumn[]): () => void {
  const dispose = [
    effect(() => {
      const out = model.out.value;
      const trial = model.trial.value;
      for (const path of root.querySelectorAll<SVGPathElement>("path.trial")) {
        const id = path.dataset.trial ?? "";
        path.classList.toggle("out", out.has(id));
        path.classList.toggle("chosen", id === trial);
      }
    }),
    effect(() => {
      const brushes = model.brushes.value;
      for (const rect of root.querySelectorAll<SVGRectElement>("rect.brush")) {
        const column = columns.find((one) => one.key === rect.dataset.brush);
        if (!column) continue;
        const [top, bottom] = extentOf(column, brushes.get(column.key));
        rect.setAttribute("y", String(top));
        rect.setAttribute("height", String(bottom - top));
      }
    }),
  ];
  return () => dispose.forEach((one) => one());
}

export function PlotSection() {
  const model = useRun();
  const { table } = model;
  const columns = useMemo(() => plottedColumns(table), [table]);
  return (
    <section id="plot-section" aria-labelledby="plot-heading">
      <h2 id="plot-heading" tabIndex={-1}>Axes and metrics</h2>
      <p class="hint">Each line is a trial, coloured by the objective: blue is low, orange is high. Drag along an axis to keep only the lines that pass there; the same can be typed below.</p>
      <Plot columns={columns} />
      <p id="brushed" role="status">{brushedWords(model.brushes.value, model, columns)}</p>
      <details id="brushes">
        <summary>Keep trials by typing</summary>
        <BrushFields columns={columns} />
      </details>
    </section>
  );
}

function brushedWords(brushes: View["brushes"], model: RunModel, columns: PlottedColumn[]): string {
  if (!brushes.size) return "";
  const { rows } = model.table;
  const words = [...brushes].map(([key, brush]) => wordsOfBrush(columns.find((column) => column.key === key) ?? model.table.columnOf(key), brush));
  return `${rows.length - model.out.value.size} of ${rows.length} trials are kept: ${words.join("; ")}.`;
}

function Plot({ columns }: { columns: PlottedColumn[] }) {
  const model = useRun();
  const { rows, colour, objective } = model.table;
  const holder = useRef<HTMLDivElement>(null);
  const own = useWidth(holder);
  const isScrolled = useOverflow(holder);
  const [left, right] = [40, 40];
  // As wide as the page, or wider with a scrollbar, so that axes are not too close to each other.
  const width = Math.max(own || 900, (columns.length - 1) * 104 + left + right, 320);
  const gap = (width - left - right) / Math.max(1, columns.length - 1);
  const x = (i: number) => left + i * gap;
  useEffect(() => (holder.current ? markLines(holder.current, model, columns) : undefined), [model, columns, width]);
  const lines = useMemo(() => rows.map((row) => {
    const points = columns.flatMap((column, i) => {
      const value = column.of(row);
      return value === null ? [] : [`${x(i)},${column.scale.y(value)}`];
    });
    return (
      <path key={row.id} class="trial" d={points.length ? `M${points.join("L")}` : "M0,0"} stroke={colour(row)} data-trial={row.id} onClick={() => model.change({ trial: row.id })}>
        <title>{`${shortened(nameOf(row))}; objective ${fixed(objective(row))}`}</title>
      </path>
    );
  }), [rows, columns, width]);
  const axes = useMemo(() => columns.map((column, i) => <Axis key={column.key} column={column} x={x(i)} gap={gap} width={width} isUpper={i % 2 === 1} isLast={i === columns.length - 1} />), [columns, width]);
  return (
    <div class="wide" id="plot" tabIndex={isScrolled ? 0 : undefined} role="group" aria-label="Parallel coordinates of all trials" ref={holder}>
      {own === 0 ? null : <svg viewBox={`0 0 ${width} ${HEIGHT}`} width={width} height={HEIGHT} aria-hidden="true"><g>{lines}</g>{axes}</svg>}
    </div>
  );
}

function Axis({ column, x, gap, width, isUpper, isLast }: { column: PlottedColumn; x: number; gap: number; width: number; isUpper: boolean; isLast: boolean }) {
  const model = useRun();
  const { scale } = column;
  // Names alternate between two rows, so each has the width of two columns, but none beyond the edge.
  const room = Math.min(2 * gap - 12, 2 * x, 2 * (width - x));
  const tick = (text: string, y: number) => (isLast
    ? <FittingText key={text} x={x - 6} y={y} class="tick" text-anchor="end" text={text} room={x - 16} />
    : <FittingText key={text} x={x + 6} y={y} class="tick" text={text} room={gap - 16} />);
  const ticks = () => {
    if (scale.names) {
      // Labels that would overlap are left out.
      const every = Math.ceil(14 / ((BOTTOM - TOP) / scale.names.length));
      return scale.names.map((label, n) => (n % every === 0 ? tick(label, scale.y(label) - 6) : null));
    }
    if (scale.least === scale.most) return tick(fixed(scale.most), scale.y(scale.most) - 6);
    return [tick(fixed(scale.most), TOP + 4), tick(fixed(scale.least), BOTTOM + 4)];
  };
  return (
    <g class="axis">
      <line x1={x} x2={x} y1={TOP} y2={BOTTOM} />
      <FittingText x={x} y={isUpper ? 14 : 30} text-anchor="middle" class={`name${column.judged ? " judged" : ""}`} onClick={() => model.brush(column.key, null)} text={column.title} room={room} size={13} weight="600" />
      {ticks()}
      <DragArea column={column} x={x} />
      <rect class="brush" x={x - 9} width={18} y={0} height={0} data-brush={column.key} />
    </g>
  );
}

function DragArea({ column, x }: { column: PlottedColumn; x: number }) {
  const model = useRun();
  const drag = useRef({ start: null as number | null, gesture: 0, soon: onePerFrame() }).current;
  const position = (event: PointerEvent) => {
    const root = (event.currentTarget as SVGRectElement).ownerSVGElement;
    if (!root) return TOP;
    const box = root.getBoundingClientRect();
    return Math.min(BOTTOM + 6, Math.max(TOP - 6, ((event.clientY - box.top) / box.height) * HEIGHT));
  };
  const name = () => `drag ${column.key} ${drag.gesture}`;
  const move = (event: PointerEvent) => {
    const [from, end] = [drag.start, position(event)];
    if (from !== null) drag.soon(() => model.brush(column.key, brushBetween(column, from, end), name()));
  };
  // Lines without smooth edges are drawn faster, which is seen while they change with each move.
  const markDragging = (event: PointerEvent, isDragging: boolean) => (event.currentTarget as Element).closest("#plot")?.classList.toggle("dragging", isDragging);
  const finish = (event: PointerEvent) => {
    const [from, end] = [drag.start, position(event)];
    if (from === null) return;
    drag.start = null;
    markDragging(event, false);
    drag.soon(() => model.brush(column.key, Math.abs(end - from) < 4 ? null : brushBetween(column, from, end), name()));
  };
  const begin = (event: PointerEvent & { currentTarget: SVGRectElement }) => {
    drag.start = position(event);
    drag.gesture += 1;
    markDragging(event, true);
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  return <rect class="catch" x={x - 14} width={28} y={TOP - 6} height={BOTTOM - TOP + 12} onPointerDown={begin} onPointerMove={move} onPointerUp={finish} onPointerCancel={(event) => { drag.start = null; markDragging(event, false); }} />;
}
