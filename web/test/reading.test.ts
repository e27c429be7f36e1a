import { describe, expect, it } from "vitest";
import { ByteMap } from "../src/page/bytes";
import { blockAt, blockedText, blocksOf, findWords, linesOf, segmentsOf, spread, trimmed } from "../src/page/text-blocks";
import { FIRST_VIEW, documentsAddress, readDocumentsAddress } from "../src/served/documents/address";
import { countFound, firstLevel, levelsOf, mostFound, parserOf } from "../src/served/documents/chunks";
import { evidenceAt, isSamePiece, placeOf } from "../src/served/golden/evidence";

const encoder = new TextEncoder();
const MIXED = "aé日🦊e\u0301👩‍👩‍👧 ß\r\n".repeat(400);

describe("offsets in bytes", () => {
  it.each(["", "plain", MIXED, `${"a".repeat(1024)}🦊`, `${"a".repeat(1023)}🦊b`, "lone \ud83e half"])("are those of the encoder", (text) => {
    const map = new ByteMap(text);
    expect(map.length).toBe(encoder.encode(text).length);
    for (let unit = 0; unit <= text.length; unit += 1) {
      const isInside = unit > 0 && /[\uD800-\uDBFF]/.test(text[unit - 1]) && /[\uDC00-\uDFFF]/.test(text[unit] ?? "");
      if (isInside) continue;
      const byte = encoder.encode(text.slice(0, unit)).length;
      expect(map.byteOf(unit)).toBe(byte);
      expect(map.unitOf(byte)).toBe(unit);
    }
  });
  it("inside a character belong to it", () => {
    const map = new ByteMap("é🦊x");
    expect([0, 1, 2, 3, 4, 5, 6, 7, 99].map((byte) => map.unitOf(byte))).toEqual([0, 0, 1, 1, 1, 1, 3, 4, 4]);
  });
});

describe("blocks of a text", () => {
  it.each(["", "x", MIXED, "🦊".repeat(9001), `a${"🦊".repeat(9001)}`, "word ".repeat(5000), "\n".repeat(9000)])("are the whole text, and cut no character", (text) => {
    const blocks = blocksOf(text);
    expect(blocks.map(({ from, to }) => text.slice(from, to)).join("")).toBe(text);
    for (const { from, to } of blocks) {
      expect(to - from).toBeGreaterThan(0);
      expect(to - from).toBeLessThanOrEqual(4000);
      expect(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/.test(text.slice(from, to))).toBe(false);
    }
  });
  it("end after a line if they can", () => {
    const text = `${"a".repeat(90)}\n`.repeat(100);
    expect(blocksOf(text).every(({ to }) => text[to - 1] === "\n")).toBe(true);
  });
  it("are found by a place", () => {
    const { blocks } = blockedText("x".repeat(10_000));
    expect([0, 3999, 4000, 9999, 20_000].map((at) => blockAt(blocks, at))).toEqual([0, 0, 1, 2, 2]);
  });
  it("of a line of 10 MB without a space are cut in a moment", () => {
    const text = "x".repeat(10_000_000);
    const began = performance.now();
    const blocks = blocksOf(text);
    const lines = blocks.reduce((sum, block) => sum + linesOf(text, block, 100), 0);
    expect([blocks.length, lines]).toEqual([2500, 100_000]);
    expect(performance.now() - began).toBeLessThan(2000);
  });
  it("have about as many lines as they take", () => {
    expect(linesOf("ab\n\ncdefgh", { from: 0, to: 10 }, 3)).toBe(4);
  });
});

describe("marks of a text", () => {
  const { blocks } = blockedText("x".repeat(10_000));
  it("are in each block that they touch", () => {
    const [long, short, none] = [{ from: 10, to: 8001 }, { from: 4000, to: 4001 }, { from: 5, to: 5 }];
    expect(spread([long, short, none], blocks)).toEqual([[long], [long, short], [long]]);
  });
  it("cut a block into segments with the same marks", () => {
    const [a, b] = [{ from: 0, to: 10 }, { from: 8, to: 20 }];
    const segments = segmentsOf({ from: 4, to: 16 }, { chunks: [a, b], evidence: [{ from: 9, to: 12 }], tables: [{ from: 14, to: 30 }], pages: [{ from: 12, to: 13, number: 7 }], matches: [] });
    expect(segments.map(({ from, to }) => [from, to])).toEqual([[4, 8], [8, 9], [9, 10], [10, 12], [12, 14], [14, 16]]);
    expect(segments.map(({ chunks }) => chunks.length)).toEqual([1, 2, 2, 1, 1, 1]);
    expect(segments.map(({ starting }) => starting.length)).toEqual([0, 1, 0, 0, 0, 0]);
    expect(segments.map(({ evidence }) => evidence.length)).toEqual([0, 0, 1, 1, 0, 0]);
    expect(segments[4].pages).toEqual([7]);
    expect(segments.map(({ table }) => table !== null)).toEqual([false, false, false, false, false, true]);
  });
});

describe("quotes", () => {
  it("are found whatever the white space and the case, and are no patterns", () => {
    expect(findWords("The  Wind\nvane (a+b).* [x]", "wind vane (A+B).*")).toEqual([{ from: 5, to: 22 }]);
    expect(findWords("abc", " ")).toEqual([]);
    expect(findWords("a".repeat(5000), "a")).toHaveLength(1000);
  });
  it("lose white space at their ends", () => {
    expect(trimmed("  a b \n", { from: 0, to: 7 })).toEqual({ from: 2, to: 5 });
    expect(trimmed(" \n ", { from: 0, to: 3 })).toBeNull();
  });
  it("become evidence with bytes, and are found again", () => {
    const shown = blockedText(`é🦊 ${MIXED}the wïnd vane 🧭 points\nnorth`);
    const at = shown.text.indexOf("the wïnd");
    const item = evidenceAt("d", shown, { from: at - 1, to: at + 16 });
    expect(item?.quote).toBe("the wïnd vane 🧭");
    const bytes = encoder.encode(shown.text);
    expect(new TextDecoder().decode(bytes.slice(item?.span?.start, item?.span?.end))).toBe(item?.quote);
    expect(item && placeOf(shown, item)).toEqual({ from: at, to: at + 16 });
    // The text has changed since: the words are searched.
    expect(placeOf(shown, { document: "d", quote: "points north", span: { start: 0, end: 3 } })).toEqual({ from: shown.text.length - 12, to: shown.text.length });
    expect(placeOf(shown, { document: "d", quote: "absent" })).toBeNull();
  });
  it("are the same piece at the same place", () => {
    const [one, other, anywhere] = [{ document: "d", quote: "w", span: { start: 0, end: 1 } }, { document: "d", quote: "w", span: { start: 5, end: 6 } }, { document: "d", quote: "w" }];
    expect([isSamePiece(one, { ...one }), isSamePiece(one, other), isSamePiece(one, anywhere), isSamePiece(one, { ...one, document: "e" })]).toEqual([true, false, true, false]);
  });
});

describe("chunks", () => {
  const chunk = (number: number, start: number, end: number, level = 0, searchable = true) => ({ number, span: { start, end }, level, searchable });
  it("are found by passages that are, hold or are held by them, and not by neighbors that overlap", () => {
    const chunks = [chunk(0, 0, 100), chunk(1, 80, 180), chunk(2, 180, 9000), chunk(3, 9000, 9100)];
    const counts = countFound(chunks, { trials: ["t1", "t2", "t3"] }, { t1: [[{ start: 0, end: 100 }, 3], [{ start: 500, end: 600 }, 2]], t2: [[{ start: 80, end: 9000 }, 5]], other: [[{ start: 0, end: 9999 }, 9]] });
    expect(counts.map((one) => [...one])).toEqual([[["t1", 3]], [["t2", 5]], [["t1", 2], ["t2", 5]], []]);
    expect(counts.map(mostFound)).toEqual([3, 5, 5, 0]);
  });
  it("have levels, and the searched one is drawn first", () => {
    const chunks = [chunk(0, 0, 9, 0, false), chunk(1, 0, 4, 1), chunk(2, 4, 9, 1)];
    expect(levelsOf(chunks)).toEqual([0, 1]);
    expect(firstLevel(chunks)).toBe(1);
  });
  it("belong to the parser that the label names", () => {
    const parsers = [{ number: 1, name: "text" }, { number: 2, name: "marker" }];
    expect([parserOf({ label: "sentence, of marker" }, parsers), parserOf({ label: "sentence" }, parsers), parserOf({ label: "a, of b" }, parsers)]).toEqual([2, 1, 1]);
  });
});

describe("addresses of documents", () => {
  it("are read as they were written", () => {
    const view = { ...FIRST_VIEW, path: "a & b/ü🦊.md", parser: 2, with: 1, chunker: 3, level: 0, unfound: true, evidence: "q&7", page: 4, find: "a b" };
    expect(readDocumentsAddress(documentsAddress(view))).toEqual(view);
    expect(documentsAddress(FIRST_VIEW)).toBe("");
    expect(readDocumentsAddress("parser=x&level=-1&page=0")).toEqual(FIRST_VIEW);
  });
});
