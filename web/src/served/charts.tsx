// Time series of a run, drawn with uPlot.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { LiveHistory } from "../data/live";
import { isDark, useWidth } from "../page/size";
import { clock, compact, dollars, isKnown, percent } from "../words";

type Series = keyof Omit<LiveHistory, "time_ms">;

interface Chart {
  title: string;
  series: { name: Series; title: string; colour: string; dashed?: boolean }[];
  show(value: number): string;
}

const CHARTS: Chart[] = [
  { title: "Requests in flight", series: [{ name: "in_flight", title: "in flight", colour: "--accent" }, { name: "target", title: "learned limit", colour: "--soft", dashed: true }], show: compact },
  { title: "Tokens per second", series: [{ name: "tokens_per_second", title: "tokens/s", colour: "--good" }], show: compact },
  { title: "Cost", series: [{ name: "cost_usd", title: "dollars", colour: "--warn" }], show: dollars },
  { title: "Refused requests", series: [{ name: "refused_share", title: "refused", colour: "--bad" }], show: percent },
];

const HEIGHT = 150;

export function Charts({ history }: { history: LiveHistory }) {
  return <div class="charts">{CHARTS.map((chart) => <TimeSeries key={chart.title} chart={chart} history={history} />)}</div>;
}

const colourOf = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function dataOf(chart: Chart, history: LiveHistory): uPlot.AlignedData {
  return [history.time_ms.map((ms) => ms / 1000), ...chart.series.map(({ name }) => history[name] ?? [])] as uPlot.AlignedData;
}

function optionsOf(chart: Chart, width: number, readout: (index: number | null) => void): uPlot.Options {
  const [soft, line] = [colourOf("--soft"), colourOf("--line")];
  const font = '11px system-ui, "Segoe UI", Roboto, sans-serif';
  const axis: uPlot.Axis = { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { sync: { key: "live" }, y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_, least, most) => [Math.min(0, least ?? 0), (most ?? 0) > 0 ? most * 1.08 : 1] } },
    axes: [{ ...axis, size: 30, space: 70, values: (_, times, __, ___, step) => times.map((time) => clock(time * 1000).slice(0, step < 60 ? 8 : 5)) }, { ...axis, size: 54, space: 36, values: (_, values) => values.map((value) => chart.show(value)) }],
    series: [{}, ...chart.series.map(({ title, colour, dashed }): uPlot.Series => ({ label: title, stroke: colourOf(colour), width: 1.75, dash: dashed ? [5, 4] : undefined, points: { show: false } }))],
    hooks: { setCursor: [(plot) => readout(plot.cursor.idx ?? null)] },
  };
}

function TimeSeries({ chart, history }: { chart: Chart; history: LiveHistory }) {
  const holder = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLParagraphElement>(null);
  const plot = useRef<uPlot | null>(null);
  const newest = useRef(history);
  newest.current = history;
  const width = useWidth(holder);
  const dark = isDark.value;
  // The line below a chart: the values under the pointer, else the newest ones. It changes with each move, so it is set directly.
  const show = (index: number | null) => {
    const { time_ms: times, ...values } = newest.current;
    const at = index ?? times.length - 1;
    if (readout.current) readout.current.textContent = at < 0 ? "No values yet." : [clock(times[at]), ...chart.series.map(({ name, title }) => {
      const value = values[name]?.[at];
      return `${title} ${isKnown(value) ? chart.show(value) : "–"}`;
    })].join(" · ");
  };
  useEffect(() => {
    if (!holder.current || !width) return undefined;
    const made = new uPlot(optionsOf(chart, width, show), dataOf(chart, newest.current), holder.current);
    plot.current = made;
    show(null);
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [width, dark]);
  useEffect(() => {
    plot.current?.setData(dataOf(chart, history));
    show(plot.current?.cursor.idx ?? null);
  }, [history]);
  return (
    <figure class="chart">
      <figcaption>{chart.title}</figcaption>
      <div ref={holder} class="chart-picture" aria-hidden="true" />
      <p class="range" ref={readout} />
    </figure>
  );
}
