import { describe, expect, it } from "vitest";
import { tableOf } from "../src/data/columns";
import type { BoardRow, Effect, Overview } from "../src/data/overview";
import { heldShare } from "../src/run/evidence";
import { nextSteps } from "../src/run/next-steps";

const STEPS = ["cut_apart", "not_found", "answered_wrong"].map((name) => ({ name, title: name.replace("_", " "), meaning: "", is_loss: true }));

function row(id: string, size: number, top: number, changes: Partial<BoardRow> = {}): BoardRow {
  const labels = { chunker: `sentence(chunk_size=${size})`, retriever: `bm25(top_k=${top})` };
  const settings = { chunker: { sentence: { chunk_size: size, chunk_overlap: 0 } }, retriever: { bm25: { top_k: top, k1: 1.5 } } };
  return { id, labels, settings, standing: "", label: "", place: "", group: 1, tied: true, front: false, stopped: null, losses: {}, cells: [labels.chunker, labels.retriever, 0.5, 0.8], ...changes };
}

function overview(rows: BoardRow[], effects: Effect[] = []): Overview {
  const column = (kind: "axis" | "objective" | "money", name: string) => ({ kind, name, title: name, judged: false, digits: 3, shown: true });
  const columns = [column("axis", "chunker"), column("axis", "retriever"), column("objective", "objective"), column("money", "$")];
  const questions = Array.from({ length: 120 }, (_, i) => ({ id: `q${i}`, question: "?", answerable: true }));
  return { board: { rows, columns, effects }, metrics: [], questions, loss_steps: STEPS } as unknown as Overview;
}

const effect = (value: string, difference: number, low: number, high: number, axis = "chunker"): Effect => ({ axis, value, baseline: "", pairs: 4, difference, interval: { low, high } });
const steps = (rows: BoardRow[], effects: Effect[] = []) => nextSteps(tableOf(overview(rows, effects)));

describe("what to try next", () => {
  it("follows from where the leading trial loses most", () => {
    const losses = { not_found: 12, answered_wrong: 108, cut_apart: 5 };
    const found = steps([row("t08", 128, 3, { standing: "leads", losses }), row("t03", 32, 3, { tied: false })]);
    expect(found.map(({ why }) => why)).toEqual(["t08 goes wrong here at 108 of 120 questions: answered wrong.", "t08 goes wrong here at 12 of 120 questions: not found."]);
    expect(found[1].text).toContain("a deeper search (a larger top_k)");
  });
  it("counts the questions that a deeper search or another trial brings back", () => {
    const lost = { questions: 12, in_search: 12, ranks: [4, 9, 11, 30, 31], elsewhere: { trial: "t03", questions: 5, loses_instead: 2 } };
    const rows = (more: Partial<BoardRow>) => [row("t08", 128, 3, { standing: "leads", losses: { not_found: 12 }, ...more }), row("t03", 32, 3)];
    const found = steps(rows({ lost }));
    expect(found[0].text).toBe("Try a deeper search than top_k = 3: of the 12 questions that t08 loses in the search, 2 with top_k = 10, 3 with top_k = 20, 5 with top_k = 50 would be found. For the other 7, another retriever, another embedding or a rewritten question may help.");
    expect(found[1]).toEqual({ text: "Look at t03 beside t08.", why: "t03 gets 5 of the 12 questions that t08 loses, and loses 2 that t08 gets. What differs between the two may be worth joining.", beside: "t03" });
    expect(steps(rows({ lost: { ...lost, ranks: [], elsewhere: undefined } })).map(({ text }) => text.split(".")[0])).toEqual(["Try a deeper search (a larger top_k), or another retriever"]);
  });
  it("can be asked of another trial than the leading one", () => {
    const table = tableOf(overview([row("t08", 128, 3, { standing: "leads" }), row("t03", 32, 3, { losses: { cut_apart: 9 } })]));
    expect([nextSteps(table).length, nextSteps(table, table.rows[1])[0].why]).toEqual([0, "t03 goes wrong here at 9 of 120 questions: cut apart."]);
    // An effect compares with the leading trial's value, so it says nothing of what lies beyond another value.
    const edges = tableOf(overview([row("t08", 128, 3, { standing: "leads" }), row("t03", 64, 3), row("t01", 32, 3)], [effect("sentence(chunk_size=32)", -0.2, -0.3, -0.1)]));
    expect([nextSteps(edges)[0].text, nextSteps(edges, edges.rows[1])]).toEqual(["Try chunk_size = 256.", []]);
  });
  it("does not follow from a few questions", () => {
    expect(steps([row("t08", 128, 3, { standing: "leads", losses: { not_found: 5 } })])).toEqual([]);
  });
  it("goes beyond the largest value only where a smaller one is worse for sure", () => {
    const rows = [row("t08", 128, 3, { standing: "leads" }), row("t03", 32, 3, { tied: false }), row("t07", 128, 1)];
    const sure = effect("sentence(chunk_size=32)", -0.147, -0.191, -0.11);
    const found = steps(rows, [sure, effect("bm25(top_k=1)", -0.01, -0.02, 0.01, "retriever")]);
    expect(found).toEqual([{
      text: "Try chunk_size = 256.",
      why: "128 is the largest chunk_size that was tried, and sentence(chunk_size=32) is worse by 0.147 (95 % interval 0.110 to 0.191).",
      setting: "chunker = { sentence = { chunk_size = 256 } }",
    }]);
    const middle = [...rows, row("t09", 512, 3)];
    expect(steps(middle, [sure])).toEqual([]);
    const least = [row("t03", 32, 3, { standing: "leads" }), row("t08", 128, 3, { tied: false })];
    expect(steps(least, [effect("sentence(chunk_size=128)", -0.2, -0.3, -0.1)])[0].text).toBe("Try chunk_size = 16.");
  });
  it("names the cheapest of those that may be best", () => {
    const rows = [row("t08", 128, 3, { standing: "leads" }), row("t05", 128, 1, { cells: ["", "", 0.5, 0.2] }), row("t03", 32, 3, { tied: false, cells: ["", "", 0.1, 0.1] })];
    expect(steps(rows).map(({ text }) => text)).toEqual(["If the quality is enough, take t05."]);
    expect(steps([row("t08", 128, 3, { standing: "winner", tied: false }), rows[2]])).toEqual([]);
  });
  it("says nothing of a run without trials", () => {
    expect(steps([])).toEqual([]);
  });
});

describe("the share of evidence that a passage holds", () => {
  it("is that of the piece of which it holds most", () => {
    const passage = { document: "a.md", start: 10, end: 30, text: "", page: null, book: null, heading: null };
    const piece = (start: number, end: number, document = "a.md") => ({ document, quote: "", span: { start, end } });
    expect([heldShare(passage, [piece(12, 20)]), heldShare(passage, [piece(25, 35), piece(0, 40)]), heldShare(passage, [piece(12, 20, "b.md")]), heldShare(passage, [])]).toEqual([1, 0.5, 0, 0]);
  });
});
