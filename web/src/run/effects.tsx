// What each axis changes.

import type { RunColumn } from "../data/columns";
import type { Effect } from "../data/overview";
import { Caption, Head, Scroll, TextCell } from "../page/tables";
import { LongText } from "../page/text";
import { fixed } from "../words";
import { useRun } from "./model";

/** The axes for which there are effects. */
export function useEffects(): { axis: RunColumn; own: Effect[] }[] {
  const { table, overview: { board } } = useRun();
  return table.ofKind("axis").map((axis) => ({ axis, own: board.effects.filter((effect) => effect.axis === axis.name) })).filter(({ own }) => own.length);
}

export function EffectsSection() {
  const axes = useEffects();
  return (
    <section id="effects-section" aria-labelledby="effects-heading" hidden={!axes.length}>
      <h2 id="effects-heading" tabIndex={-1}>What each axis changes</h2>
      <p class="hint" id="effects-hint">The difference of the objective with each value in place of the leading trial's, in pairs of trials that are equal on all other axes. The interval has 95 % and is over questions: where it holds 0, the value may change nothing. A value without pairs has no trial that is otherwise equal.</p>
      <div id="effects">{axes.map(({ axis, own }) => <AxisEffects key={axis.key} axis={axis} own={own} />)}</div>
    </section>
  );
}

const withSign = (value: number) => `${value > 0 ? "+" : ""}${fixed(value)}`;

function AxisEffects({ axis, own }: { axis: RunColumn; own: Effect[] }) {
  return (
    <Scroll label={`The objective by ${axis.title}`}>
      <table>
        <Caption text={`The objective by ${axis.title}`} />
        <thead><tr><Head>{axis.title}</Head><Head>instead of</Head><Head number>objective</Head><Head number>95 % interval</Head><Head number>pairs</Head></tr></thead>
        <tbody>
          {own.map(({ value, baseline, difference, interval, pairs }) => (
            <tr key={`${value} ${baseline}`}>
              <th scope="row"><LongText text={value} /></th>
              <TextCell text={baseline} />
              <td class="number">{difference === null ? "–" : withSign(difference)}</td>
              <td class="number">{interval ? `${withSign(interval.low)} to ${withSign(interval.high)}` : "–"}</td>
              <td class="number">{pairs}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
