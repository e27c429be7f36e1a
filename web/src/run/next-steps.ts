// What to try next, from what the trials of a run have shown.

import type { RunTable } from "../data/columns";
import type { BoardRow, Json } from "../data/overview";
import { counted, dollars, fixed } from "../words";

export interface NextStep {
  text: string;
  /** What the run has shown. */
  why: string;
  /** A value for the experiment file. */
  setting?: string;
  /** A trial to look at beside it. */
  beside?: string;
}

/** What may help where evidence is lost at a step. */
const REMEDIES: Record<string, string> = {
  not_found: "Try a deeper search (a larger top_k), or another retriever. “One question” tells at which rank the evidence was.",
  not_read: "Look at these files on the page Documents; another parser may read them.",
  cut_apart: "Try larger chunks or an overlap, so that a chunk holds the evidence.",
  ranked_out: "Try a larger top_k or top_n, or another reranker.",
  dropped: "Try a milder refine, or none.",
  cut_from_prompt: "Give the prompt more room (context_tokens), or fewer passages.",
  not_used: "Try another prompt or a stronger model; fewer passages may help too.",
  answered_wrong: "The passages are there: try a stronger model, another prompt or another generator.",
};
const SEARCH_STEPS = ["not_found", "ranked_out"];
// Fewer questions than this may be chance.
const FEWEST_LOST = 3;
const LEAST_SHARE = 0.05;
const MOST_LOSSES = 2;
// Depths of a search for which the questions that come back are counted.
const DEPTHS = [10, 20, 50, 100];

/** For one trial. What is cheaper is only said of the leading one. */
export function nextSteps(table: RunTable, row: BoardRow | undefined = table.leading): NextStep[] {
  if (!row) return [];
  const steps = [...afterLosses(table, row), ...foundElsewhere(row), ...beyondEdges(table, row)];
  return row === table.leading ? [...steps, ...cheapest(table)] : steps;
}

/** The component on an axis, and its settings. */
function component(row: BoardRow, axis: string): [string, Record<string, Json>] | null {
  const value = row.settings[axis];
  if (typeof value === "string") return [value, {}];
  if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
  const [name] = Object.keys(value);
  const settings = value[name];
  return name === undefined ? null : [name, settings !== null && typeof settings === "object" && !Array.isArray(settings) ? settings : {}];
}

function afterLosses(table: RunTable, row: BoardRow): NextStep[] {
  const total = table.overview.questions.length;
  const lost = table.lossSteps
    .map((step) => ({ step, count: row.losses?.[step.name] ?? 0 }))
    .filter(({ step, count }) => step.is_loss && count >= Math.max(FEWEST_LOST, LEAST_SHARE * total))
    .sort((one, other) => other.count - one.count);
  const steps = lost.slice(0, MOST_LOSSES).flatMap(({ step, count }) => {
    const text = (SEARCH_STEPS.includes(step.name) ? deeperSearch(row) : null) ?? REMEDIES[step.name];
    return text ? [{ text, why: `${row.id} goes wrong here at ${count} of ${counted(total, "question")}: ${step.title}.` }] : [];
  });
  // A deeper search is the remedy for two steps.
  return steps.filter(({ text }, i) => steps.findIndex((other) => other.text === text) === i);
}

/** None if no rank is known. */
function deeperSearch(row: BoardRow): string | null {
  const { lost } = row;
  if (!lost?.ranks.length) return null;
  const [, settings] = component(row, "retriever") ?? ["", {}];
  const shallow = typeof settings.top_k === "number" ? settings.top_k : 0;
  const within = DEPTHS.filter((depth) => depth > shallow).map((depth) => ({ depth, count: lost.ranks.filter((rank) => rank <= depth).length }));
  const rising = within.filter(({ count }, i) => count > (within[i - 1]?.count ?? 0)).map(({ depth, count }) => `${count} with top_k = ${depth}`);
  const rest = lost.in_search - lost.ranks.length;
  const others = rest ? ` For the other ${rest}, another retriever, another embedding or a rewritten question may help.` : "";
  const now = shallow ? ` than top_k = ${shallow}` : "";
  return `Try a deeper search${now}: of the ${counted(lost.in_search, "question")} that ${row.id} loses in the search, ${rising.join(", ") || "none within the first 100"} would be found.${others}`;
}

/** The trial that does not lose most of what this one loses. */
function foundElsewhere({ id, lost }: BoardRow): NextStep[] {
  if (!lost?.elsewhere || lost.elsewhere.questions < FEWEST_LOST) return [];
  const { trial, questions, loses_instead: instead } = lost.elsewhere;
  return [{
    text: `Look at ${trial} beside ${id}.`,
    why: `${trial} gets ${questions} of the ${counted(lost.questions, "question")} that ${id} loses, and loses ${instead} that ${id} gets. What differs between the two may be worth joining.`,
    beside: trial,
  }];
}

/** Values beyond the largest or smallest one that was tried, where a value on the other side is worse for sure. */
function beyondEdges(table: RunTable, row: BoardRow): NextStep[] {
  const steps: NextStep[] = [];
  for (const { name: axis } of table.ofKind("axis")) {
    // Effects are differences to the value of the leading trial.
    if (row.labels[axis] !== table.leading?.labels[axis]) continue;
    const own = component(row, axis);
    const worse = table.overview.board.effects.filter((effect) => effect.axis === axis && effect.interval !== null && effect.interval.high < 0);
    if (!own || !worse.length) continue;
    const [name, settings] = own;
    for (const [key, value] of Object.entries(settings)) {
      if (typeof value !== "number" || !Number.isInteger(value)) continue;
      const rows = table.rows.filter((other) => component(other, axis)?.[0] === name);
      const tried = [...new Set(rows.map((other) => component(other, axis)?.[1][key]))].filter((other): other is number => typeof other === "number");
      // The trials with another value that is worse for sure.
      const others = rows.filter((other) => worse.some((effect) => effect.value === other.labels[axis])).map((other) => component(other, axis)?.[1][key]);
      const isLargest = value === Math.max(...tried) && others.some((other) => typeof other === "number" && other < value);
      const isSmallest = value === Math.min(...tried) && value > 1 && others.some((other) => typeof other === "number" && other > value);
      if (!isLargest && !isSmallest) continue;
      const next = isLargest ? value * 2 : Math.max(1, Math.floor(value / 2));
      const effect = worse.find(({ value: label }) => rows.some((other) => other.labels[axis] === label && component(other, axis)?.[1][key] !== value));
      if (!effect) continue;
      steps.push({
        text: `Try ${key} = ${next}.`,
        why: `${value} is the ${isLargest ? "largest" : "smallest"} ${key} that was tried, and ${effect.value} is worse by ${fixed(-(effect.difference ?? 0))} (95 % interval ${fixed(-(effect.interval?.high ?? 0))} to ${fixed(-(effect.interval?.low ?? 0))}).`,
        setting: `${axis} = { ${name} = { ${key} = ${next} } }`,
      });
    }
  }
  return steps;
}

/** The cheapest of the trials that may be best. */
function cheapest(table: RunTable): NextStep[] {
  const [money] = table.ofKind("money");
  const best = table.rows.filter((row) => row.tied || row === table.leading);
  if (!money || best.length < 2) return [];
  const priced = best.flatMap((row) => { const cost = money.of(row); return typeof cost === "number" ? [{ row, cost }] : []; });
  const [least] = priced.sort((one, other) => one.cost - other.cost);
  const own = priced.find(({ row }) => row === table.leading);
  if (!own || !least || least.cost >= own.cost) return [];
  return [{ text: `If the quality is enough, take ${least.row.id}.`, why: `It is one of the ${best.length} trials that may be best, and its answers cost ${dollars(least.cost)} instead of ${dollars(own.cost)}.` }];
}
