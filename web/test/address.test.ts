import { describe, expect, it } from "vitest";
import { tableOf } from "../src/data/columns";
import type { BoardRow, Column, Overview } from "../src/data/overview";
import { addressOf, initialView, isKept, readAddress } from "../src/run/address";

const column = (kind: Column["kind"], name: string): Column => ({ kind, name, title: name, judged: false, digits: 3, shown: true });

function row(id: string, retriever: string, recall: number | null): BoardRow {
  return {
    id, labels: { retriever }, settings: {}, standing: "behind", label: "", place: "", group: null, tied: false, front: false, stopped: null,
    cells: [retriever, recall],
  };
}

const overview = {
  board: { columns: [column("axis", "retriever"), column("metric", "recall")], rows: [row("t01", "bm25(top_k=1,2)", 0.5), row("t02", "a/b & c", 0.9), row("t03", "a/b & c", null)], answering: { trial: "t01", note: null } },
  metrics: [{ name: "recall", judged: false, objective: true, range: [0, 1], higher_is_better: true }],
  loss_steps: [{ name: "not_found", title: "not found", meaning: "", is_loss: true }],
  questions: [{ id: "q 1/x", question: "Where?", answerable: true }],
} as unknown as Overview;
const table = tableOf(overview);

describe("the address", () => {
  it("is empty for what a report shows first", () => {
    expect(addressOf(initialView(table), table)).toBe("");
  });

  it("is read as it was written", () => {
    const view = {
      ...initialView(table),
      trial: "t02", question: "q 1/x", other: "t03", sort: { key: "metric.recall", down: true }, order: { key: "lost evidence", down: false }, by: "recall", against: "metric.recall",
      brushes: new Map([["axis.retriever", { names: new Set(["bm25(top_k=1,2)", "a/b & c"]) }], ["metric.recall", { from: 0.25, to: 1 }]]),
      filter: { text: "a&b=c", answers: "failed" as const, metric: "recall", side: "above" as const, value: "0.4" },
    };
    const { view: read, unknown } = readAddress(addressOf(view, table), table);
    expect(unknown).toEqual([]);
    expect(read).toEqual(view);
  });

  it("has the form that was sent to others", () => {
    const view = { ...initialView(table), trial: "t02", question: "q 1/x", sort: { key: "metric.recall", down: true }, filter: { text: "", answers: "" as const, metric: "recall", side: "above" as const, value: "0.4" } };
    expect(addressOf(view, table)).toBe("trial=t02&question=q+1%2Fx&sort=-metric.recall&scores=above+0.4+recall");
  });

  it("is read in the form of earlier reports", () => {
    const { view } = readAddress("t02/q%201%2Fx", table);
    expect([view.trial, view.question]).toEqual(["t02", "q 1/x"]);
  });

  it.each([
    ["trial=t99", "the trial “t99”"],
    ["question=none", "the question “none”"],
    ["%E0%A4%A/x", "“%E0%A4%A/x”"],
    ["keep.metric.recall=9~a", "“9~a” of recall"],
    ["keep.metric.none=1~2", "“keep.metric.none=1~2”"],
    ["sort=metric.none", "the column “metric.none”"],
    ["scores=near+1+recall", "the filter “near 1 recall”"],
  ])("lists names that are not there: %s", (address, words) => {
    expect(readAddress(address, table).unknown).toEqual([words]);
  });
});

describe("brushes", () => {
  it("drop trials outside of a range, and trials without a value", () => {
    const kept = table.rows.filter((one) => isKept(one, new Map([["metric.recall", { from: 0.6, to: 1 }]]), table));
    expect(kept.map(({ id }) => id)).toEqual(["t02"]);
  });
});
