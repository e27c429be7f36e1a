// Quality against time and cost. The front in this picture is that of its two axes alone; a
// trial that no other beats on quality, cost and latency together may lie behind it.

import { useComputed } from "@preact/signals";
import { useMemo, useRef } from "preact/hooks";
import { type RunColumn, isFirst, nameOf } from "../data/columns";
import type { BoardRow } from "../data/overview";
import { useWidth } from "../page/size";
import { Chooser } from "../page/tables";
import { widthOf } from "../page/text";
import { fixed, isKnown, shortened } from "../words";
import { frontWords } from "./leaderboard";
import { useRun } from "./model";

const AXIS_WORDS: Record<string, (column: RunColumn) => string> = {
  seconds: (column) => `${column.title}: seconds that a user waits`,
  tokens: (column) => (column.name === "tokens" ? "tokens read and written for a question" : "tokens read and written for the index"),
  money: (column) => (column.name === "cost_usd" ? "dollars for all questions" : "dollars for the index"),
};

interface Point {
  row: BoardRow;
  cost: number;
  quality: number;
}

interface PlacedPoint extends Point {
  x: number;
  y: number;
  isOnFront: boolean;
  /** Where its label stands, if there is room for it. */
  label: { x: number; y: number } | null;
}

export function FrontSection() {
  const model = useRun();
  const { table } = model;
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  // Searches of a few milliseconds have no column in the table, but a place in this picture.
  const columns = useMemo(() => table.every.filter((column) => (column.kind === "seconds" || (column.shown && ["tokens", "money"].includes(column.kind))) && table.rows.some((row) => column.of(row) !== null)), [table]);
  const hasObjective = table.ofKind("objective").length > 0;
  const column = table.columnOf(model.against.value ?? "") ?? columns[0];
  const points = useMemo(() => (column && hasObjective ? pointsOf(table.rows, table.objective, column) : []), [table, column, hasObjective]);
  const front = useMemo(() => frontOf(points), [points]);
  const isEmpty = !hasObjective || !columns.length;
  return (
    <section id="front-section" aria-labelledby="front-heading">
      <h2 id="front-heading" tabIndex={-1}>Quality against time and cost</h2>
      <div class="fields" id="front-fields">
        {isEmpty ? null : <Chooser label="Compare the objective with" options={columns.map((one) => [one.key, AXIS_WORDS[one.kind](one)])} value={column.key} choose={(against) => model.change({ against })} />}
      </div>
      <div id="front" ref={holder}>
        {isEmpty ? <p class="hint">{hasObjective ? "Neither time nor cost was measured in this run." : "Nothing was scored in this run."}</p> : null}
        {!isEmpty && width && points.length ? <Picture points={points} front={front} column={column} room={width} /> : null}
      </div>
      <p class="hint" id="front-hint">{isEmpty ? "" : hintOf(front, column, table.rows)}</p>
    </section>
  );
}

function hintOf(front: Point[], column: RunColumn, rows: BoardRow[]): string {
  const shares = rows.some((row) => isKnown(row.front_share));
  const words = shares ? " A filled point is on the front of quality, cost and latency in at least 95 % of the resamples of the questions; an open point is less certain, the paler the less." : "";
  return `The line joins the trials that no other beats on the objective and on ${column.title}: ${front.map(({ row }) => row.id).join(", ")}. Each point is a trial; choose one to see its questions.${words}`;
}

function pointsOf(rows: BoardRow[], objective: (row: BoardRow) => number | null, column: RunColumn): Point[] {
  return rows
    .flatMap((row) => {
      const [quality, cost] = [objective(row), column.of(row)];
      return quality === null || typeof cost !== "number" ? [] : [{ row, cost, quality }];
    })
    .sort((a, b) => a.cost - b.cost || b.quality - a.quality);
}

function frontOf(points: Point[]): Point[] {
  const front: Point[] = [];
  for (const point of points) if (!point.row.stopped && (!front.length || point.quality > front[front.length - 1].quality)) front.push(point);
  return front;
}

/** About five round numbers within a range. */
export function roundNumbers(from: number, to: number): number[] {
  const rough = (to - from) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const numbers: number[] = [];
  for (let n = Math.ceil(from / step); n * step <= to && numbers.length < 20; n += 1) numbers.push(n * step);
  return numbers;
}

function rangeOf(values: number[]): [number, number] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = (most - least || Math.abs(most) || 1) * 0.06;
  return [least - room, most + room];
}

const [LEFT, RIGHT, TOP, BOTTOM, HEIGHT] = [58, 24, 30, 40, 350];

function Picture({ points, front, column, room }: { points: Point[]; front: Point[]; column: RunColumn; room: number }) {
  const width = Math.min(860, Math.max(320, room));
  const { placed, x, y, costs, qualities } = useMemo(() => {
    const [[x0, x1], [y0, y1]] = [rangeOf(points.map(({ cost }) => cost)), rangeOf(points.map(({ quality }) => quality))];
    const x = (value: number) => LEFT + ((value - x0) / (x1 - x0)) * (width - LEFT - RIGHT);
    const y = (value: number) => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
    return { placed: placePoints(points, front, x, y, width), x, y, costs: roundNumbers(x0, x1), qualities: roundNumbers(y0, y1) };
  }, [points, front, width]);
  // Steps, because between two trials of the front only the cheaper one can be had.
  const steps = front.map(({ cost, quality }, i) => (i ? `H${x(cost)}V${y(quality)}` : `M${x(cost)},${y(quality)}`)).join("");
  return (
    <svg viewBox={`0 0 ${width} ${HEIGHT}`} width={width} height={HEIGHT} role="group" aria-label={`The objective over ${column.title}, a point for each trial`}>
      {qualities.map((quality) => (
        <g key={quality}>
          <line class="grid" x1={LEFT} x2={width - RIGHT} y1={y(quality)} y2={y(quality)} />
          <text class="tick" x={LEFT - 6} y={y(quality) + 4} text-anchor="end">{fixed(quality)}</text>
        </g>
      ))}
      {costs.map((cost) => <text key={cost} class="tick" x={x(cost)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">{String(Number(cost.toPrecision(6)))}</text>)}
      <text class="name" x={(LEFT + width - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">{column.title}</text>
      <text class="name" x={4} y={13}>objective</text>
      {front.length > 1 ? <path class="front-line" d={steps} /> : null}
      {placed.map((point) => <PointMark key={point.row.id} point={point} column={column} />)}
    </svg>
  );
}

/** Places the labels: right, left, above or below of a point, or nowhere if there is no room. */
function placePoints(points: Point[], front: Point[], x: (cost: number) => number, y: (quality: number) => number, width: number): PlacedPoint[] {
  type Box = [number, number, number, number];
  const taken: Box[] = points.map(({ cost, quality }) => [x(cost) - 5, y(quality) - 5, x(cost) + 5, y(quality) + 5]);
  const onFront = new Set(front.map(({ row }) => row.id));
  const isImportant = ({ row }: Point) => Number(isFirst(row) || onFront.has(row.id));
  return [...points].sort((a, b) => isImportant(b) - isImportant(a)).map((point): PlacedPoint => {
    const [cx, cy] = [x(point.cost), y(point.quality)];
    const wide = widthOf(shortened(point.row.id, 40), 12) + 4;
    const places = [[cx + 8, cy + 4], [cx - 8 - wide, cy + 4], [cx - wide / 2, cy - 9], [cx - wide / 2, cy + 18]];
    const box = places
      .map(([at, base]): Box => [at, base - 11, at + wide, base + 3])
      .find((own) => own[0] >= LEFT && own[2] <= width && own[1] >= 0 && own[3] <= HEIGHT - BOTTOM && !taken.some((other) => own[0] < other[2] && other[0] < own[2] && own[1] < other[3] && other[1] < own[3]));
    if (box) taken.push(box);
    return { ...point, x: cx, y: cy, isOnFront: onFront.has(point.row.id), label: box ? { x: box[0], y: box[3] - 3 } : null };
  });
}

function PointMark({ point, column }: { point: PlacedPoint; column: RunColumn }) {
  const model = useRun();
  const { row, x, y, isOnFront, label } = point;
  const isChosen = useComputed(() => model.trial.value === row.id).value;
  const isOut = useComputed(() => model.settledOut.value.has(row.id)).value;
  const choose = () => model.change({ trial: row.id });
  const share = row.front_share;
  // Without a share, points are filled as in reports of earlier versions.
  const isCertain = !isKnown(share) || share >= 0.95;
  const colour = model.table.colour(row);
  const words = [`${shortened(nameOf(row))}; objective ${fixed(point.quality)}, ${column.title} ${fixed(point.cost, column.digits)}`, isOnFront ? "on the front" : "", isKnown(share) ? frontWords(share) : ""].filter(Boolean).join(", ");
  const names = ["point", isOnFront ? "on-front" : "", isOut ? "out" : "", isChosen ? "chosen" : "", isCertain ? "" : "open"].filter(Boolean).join(" ");
  return (
    <g
      class={names} data-trial={row.id} tabindex={0} role="button" aria-label={words} onClick={choose}
      onKeyDown={(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } }}
    >
      <title>{words}</title>
      <circle cx={x} cy={y} r={10} class="catch" />
      {isCertain
        ? <circle cx={x} cy={y} r={5} class="dot" fill={colour} />
        : <circle cx={x} cy={y} r={4.5} class="dot" fill="var(--paper)" stroke={colour} stroke-opacity={0.35 + 0.65 * (share ?? 0)} />}
      {label ? <text x={label.x} y={label.y} class="tick">{shortened(row.id, 40)}</text> : null}
    </g>
  );
}
