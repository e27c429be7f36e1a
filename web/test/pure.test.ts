import { describe, expect, it } from "vitest";
import { sorted } from "../src/data/columns";
import { locate } from "../src/data/parts";
import { differing, flat } from "../src/data/settings";
import { meanInterval, tally } from "../src/run/tally";
import { cellSize, colourTable, readMatrix } from "../src/run/matrix-data";
import { markedPieces } from "../src/run/evidence";
import { compact, duration, fixed, roughly, sentence, signed } from "../src/words";

describe("numbers in words", () => {
  it("have no minus before a zero", () => {
    expect([fixed(-0.0001), signed(0.00049), signed(0.25)]).toEqual(["0.000", "0.000", "+0.250"]);
  });
  it("are short", () => {
    expect([compact(999), compact(9_900), compact(48_000), compact(1_234_567), compact(3.14)]).toEqual(["999", "9,900", "48.0 k", "1.2 M", "3.1"]);
  });
  it("are durations with two units", () => {
    expect([duration(0.2), duration(75), duration(7505), duration(90_000), roughly(731)]).toEqual(["0 s", "1 min 15 s", "2 h 5 min", "1 d 1 h", "12 min"]);
  });
  it("are sentences that keep the name of a trial small", () => {
    expect([sentence("no winner"), sentence("t04 leads", "t04")]).toEqual(["No winner.", "t04 leads."]);
  });
});

describe("data of a run", () => {
  it("finds the part of a value", () => {
    expect([locate([0, 10, 20], 9), locate([0, 10, 20], 10), locate([0], 5)]).toEqual([[0, 9], [1, 0], [0, 5]]);
  });
  it("sorts rows without a value last in both directions", () => {
    const of = (value: number | null) => value;
    expect(sorted([2, null, 1], of, false)).toEqual([1, 2, null]);
    expect(sorted([2, null, 1], of, true)).toEqual([2, 1, null]);
  });
  it("lists settings as paths, and those that differ", () => {
    expect([...flat({ a: { b: 1, c: " " }, d: null })]).toEqual([["a.b", "1"], ["a.c", '" "'], ["d", "none"]]);
    expect([...flat({ separators: ["\n", " "] })]).toEqual([["separators", '["\\n"," "]']]);
    expect(differing([{ a: { b: 1 }, same: 2 }, { a: { b: 3 }, same: 2, more: true }])).toEqual([["a.b", ["1", "3"]], ["more", [undefined, "true"]]]);
  });
  it("counts questions that are won, lost and tied", () => {
    expect(tally([1, 0.5, null, 0], [0.5, 0.5, 1, 1], true)).toEqual({ won: 1, lost: 1, tied: 1, sum: -0.5, squares: 1.25, n: 3 });
    expect(tally([1], [0.5], false)).toMatchObject({ won: 0, lost: 1 });
  });
  it("have an interval of the mean difference, with enough of them", () => {
    // Ten differences of 0 and ten of 1: mean 0.5, standard error 0.5 / √19.
    const [low, high] = meanInterval({ sum: 10, squares: 10, n: 20 }) ?? [0, 0];
    expect([low.toFixed(4), high.toFixed(4)]).toEqual(["0.2752", "0.7248"]);
    expect(meanInterval({ sum: 1, squares: 1, n: 9 })).toBeNull();
  });
  it("marks evidence by bytes of UTF-8", () => {
    const passage = { document: "a.md", start: 10, end: 30, text: "Größe: die Mühle.", page: null, book: null, heading: null };
    const begin = 10 + new TextEncoder().encode("Größe: ").length;
    const span = { start: begin, end: begin + new TextEncoder().encode("die Mühle").length };
    expect(markedPieces(passage, [{ document: "a.md", quote: "", span }])).toEqual([["Größe: ", false], ["die Mühle", true], [".", false]]);
    expect(markedPieces(passage, [{ document: "b.md", quote: "", span }])).toEqual([["Größe: die Mühle.", false]]);
  });
});

describe("the matrix", () => {
  it("is read by the indexes of trials and questions", () => {
    const values = btoa(String.fromCharCode(0, 254, 255, 127, 1, 2));
    const matrix = readMatrix({ trial_order: [1, 0], question_order: [2, 0, 1], values }, 2, 3);
    expect([matrix.at(0, 0), matrix.at(0, 1), matrix.at(0, 2), matrix.at(1, 0)]).toEqual([0, 1, null, 0.5]);
    expect(() => readMatrix({ trial_order: [], question_order: [], values }, 2, 2)).toThrow("6 values instead of 2 × 2");
  });
  it("has a colour for each score and none without one", () => {
    for (const isDark of [true, false]) {
      const colours = colourTable(isDark);
      expect(colours).toHaveLength(255);
      expect(colours[0]).not.toEqual(colours[254]);
      expect(colours[255]).toBeUndefined();
    }
  });
  it("has cells that browsers can draw", () => {
    expect(cellSize(10, 8, 1200)).toEqual({ width: 32, height: 20 });
    expect(cellSize(5000, 400, 1200).width * 5000).toBeLessThanOrEqual(16_000);
  });
});
