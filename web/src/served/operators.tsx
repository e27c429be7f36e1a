// The operators of a run: a table, and the way of the data through them.

import { useMemo } from "preact/hooks";
import type { LiveOperator, LiveRun } from "../data/live";
import { Caption, Head, Scroll } from "../page/tables";
import { LongText, fitting } from "../page/text";
import { compact, isKnown, roughly, spaced } from "../words";
import { BOX_HEIGHT, BOX_WIDTH, type Point, layoutOf } from "./flow-layout";

const titleOf = (operator: LiveOperator): string => operator.title ?? spaced(operator.operator);

/** The share that is done, from 0 to 1; null if nobody knows how much there is. */
export function shareDone(operator: LiveOperator): number | null {
  if (operator.status === "finished") return 1;
  if (!isKnown(operator.rows_estimated) || operator.rows_estimated <= 0) return operator.rows_done > 0 ? null : 0;
  return Math.min(1, operator.rows_done / operator.rows_estimated);
}

function RowsBar({ operator }: { operator: LiveOperator }) {
  const share = shareDone(operator);
  const done = (share ?? 1) * 100;
  const failed = operator.rows_done ? (done * operator.rows_failed) / operator.rows_done : 0;
  return (
    <svg class={`bar ${operator.status}${share === null ? " unknown" : ""}`} width={120} height={8} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="ground" x={0} y={0} width={100} height={8} />
      <rect class="done" x={0} y={0} width={done} height={8} />
      <rect class="failed" x={done - failed} y={0} width={failed} height={8} />
    </svg>
  );
}

function rowsWords(operator: LiveOperator): string {
  const of = isKnown(operator.rows_estimated) ? ` of ${operator.status === "finished" ? "" : "about "}${compact(operator.rows_estimated)}` : "";
  return `${compact(operator.rows_done)}${of}${operator.rows_failed ? `, ${compact(operator.rows_failed)} failed` : ""}`;
}

export function StatusMark({ status }: { status: LiveOperator["status"] }) {
  const kind = { pending: "", running: "accent", finished: "good", failed: "bad" }[status] ?? "";
  return <span class={`state ${kind}`}><span class={status === "running" ? "dot moving" : "dot"} aria-hidden="true" />{status}</span>;
}

export function OperatorTable({ operators }: { operators: LiveOperator[] }) {
  const titles = new Map(operators.map((operator) => [operator.operator, titleOf(operator)]));
  const waits = (operator: LiveOperator) => {
    if (operator.held_by) return `for the run ${operator.held_by}, which does a task of it`;
    return operator.waits_for ? `for ${titles.get(operator.waits_for) ?? operator.waits_for}` : "";
  };
  const hasWaits = operators.some(waits);
  return (
    <Scroll labelledBy="operators-heading" class="tall">
      <table id="operators">
        <Caption text="Operators with their progress" />
        <thead>
          <tr>
            <Head>operator</Head><Head>status</Head><Head>rows</Head><Head number title="rows per second in the last moments, and on average">rows/s</Head>
            <Head number>queued</Head><Head number>active</Head><Head number title="taken from the store">reused</Head><Head number>failed</Head><Head number>time left</Head>{hasWaits ? <Head>waits</Head> : null}
          </tr>
        </thead>
        <tbody>
          {operators.map((operator) => (
            <tr key={operator.operator} class={operator.status === "pending" ? "pending" : undefined}>
              <th scope="row" title={operator.operator}>{titleOf(operator)}</th>
              <td><StatusMark status={operator.status} /></td>
              <td><RowsBar operator={operator} /><div class="range">{rowsWords(operator)}</div></td>
              <td class="number">{isKnown(operator.rate_now) ? compact(operator.rate_now) : "–"}{isKnown(operator.rate_average) ? <div class="range">mean {compact(operator.rate_average)}</div> : null}</td>
              <td class="number">{compact(operator.queued)}</td>
              <td class="number">{compact(operator.active)}</td>
              <td class="number">{compact(operator.reused)}</td>
              <td class={operator.failed ? "number problem" : "number"}>{compact(operator.failed)}</td>
              <td class="number">{operator.status === "finished" ? "" : roughly(operator.seconds_left)}</td>
              {hasWaits ? <td class="where">{waits(operator)}</td> : null}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

export function FlowGraph({ operators, flow }: Pick<LiveRun, "operators" | "flow">) {
  const names = operators.map(({ operator }) => operator);
  const shape = JSON.stringify([names, flow]);
  const layout = useMemo(() => layoutOf(names, flow), [shape]);
  const byName = new Map(operators.map((operator) => [operator.operator, operator]));
  const edges = layout.edges.map(({ from, to, points }) => {
    const isMoving = byName.get(from)?.status === "running" || byName.get(to)?.status === "running";
    return <path key={`${from} ${to}`} class={isMoving ? "edge moving" : "edge"} d={curveOf(points)} />;
  });
  const words = flow.map(([from, to]) => `${from} to ${to}`).join(", ");
  return (
    <Scroll label="The way of the data through the operators" class="flow">
      <svg id="flow" style={{ maxWidth: `${layout.width}px`, minWidth: `${Math.round(layout.width * 0.8)}px` }} viewBox={`0 0 ${layout.width} ${layout.height}`} role="img" aria-label={`Data goes from ${words || "operator to operator"}. The table above has the progress of each operator.`}>
        {edges}
        {operators.map((operator) => {
          const place = layout.boxes.get(operator.operator);
          return place ? <FlowBox key={operator.operator} operator={operator} x={place.x} y={place.y} /> : null;
        })}
      </svg>
    </Scroll>
  );
}

/** A curve through points: it bends between layers, and is straight within them. */
function curveOf([first, ...rest]: Point[]): string {
  let at = first;
  return `M${first.x},${first.y}${rest.map((point) => {
    const middle = (at.x + point.x) / 2;
    const step = at.y === point.y ? `L${point.x},${point.y}` : `C${middle},${at.y} ${middle},${point.y} ${point.x},${point.y}`;
    at = point;
    return step;
  }).join("")}`;
}

function FlowBox({ operator, x, y }: { operator: LiveOperator; x: number; y: number }) {
  const share = shareDone(operator);
  const title = titleOf(operator);
  const total = isKnown(operator.rows_estimated) ? ` / ${compact(operator.rows_estimated)}` : "";
  const words = operator.status === "finished" ? `${compact(operator.rows_done)} rows` : operator.status === "pending" ? "pending" : `${compact(operator.rows_done)}${total}`;
  const inner = BOX_WIDTH - 4;
  return (
    <g class={`operator ${operator.status}`}>
      <title>{`${title}: ${operator.status}, ${rowsWords(operator)}`}</title>
      <rect class="box" x={x} y={y} width={BOX_WIDTH} height={BOX_HEIGHT} rx={6} />
      <text class="name" x={x + 8} y={y + 17}>{fitting(title, BOX_WIDTH - 16, 12.5, "600")}</text>
      <text class="rows" x={x + 8} y={y + 33}>{fitting(words, BOX_WIDTH - 16, 12)}</text>
      <rect class="ground" x={x + 2} y={y + BOX_HEIGHT - 6} width={inner} height={4} rx={2} />
      <rect class="done" x={x + 2} y={y + BOX_HEIGHT - 6} width={inner * (share ?? 0.5)} height={4} rx={2} />
    </g>
  );
}

export function Failures({ failures, operators }: Pick<LiveRun, "failures" | "operators">) {
  const titles = new Map(operators.map((operator) => [operator.operator, titleOf(operator)]));
  return (
    <Scroll labelledBy="failures-heading">
      <table id="failures">
        <Caption text="Failures by operator and reason" />
        <thead><tr><Head number>times</Head><Head>operator</Head><Head>reason</Head><Head>first example</Head></tr></thead>
        <tbody>
          {[...failures].sort((a, b) => b.count - a.count).map((failure, i) => (
            <tr key={i}>
              <td class="number">{failure.count}</td>
              <th scope="row">{titles.get(failure.operator) ?? spaced(failure.operator)}</th>
              <td class="text"><LongText text={failure.reason} /></td>
              <td class="text"><div class="body"><LongText text={failure.example} /></div></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
