import { describe, expect, it } from "vitest";
import { EventParser } from "../src/served/events";
import { layersOf, layoutOf } from "../src/served/flow-layout";
import { hrefOf, readRoute } from "../src/served/route";

describe("addresses of served pages", () => {
  it.each(["#/", "#/runs?beside=a%20b,c%2Cd", "#/runs/a%2Fb?trial=t08&question=urgency", "#/runs/a", "#/runs/a/live"])("are read as they were written: %s", (hash) => {
    expect(hrefOf(readRoute(hash))).toBe(hash);
  });
  it("are the list of runs if they are not known", () => {
    for (const hash of ["", "#", "#nothing", "#/runs", "#/runs?beside="]) expect(readRoute(hash)).toEqual({ page: "runs" });
  });
});

describe("events of a server", () => {
  it("are complete when an empty line follows, however they are cut", () => {
    const text = ': hello\n\ndata: {"a":1}\r\n\r\nevent: x\ndata: one\ndata:two\n\ndata: rest';
    for (let size = 1; size < text.length; size += 1) {
      const parser = new EventParser();
      const events: string[] = [];
      for (let at = 0; at < text.length; at += size) events.push(...parser.add(text.slice(at, at + size)));
      expect(events).toEqual(['{"a":1}', "one\ntwo"]);
    }
  });
});

describe("the flow of a run", () => {
  it("goes from left to right, and sources stand next to what needs them", () => {
    const layers = layersOf(["load", "chunk", "index", "query", "search"], [["load", "chunk"], ["chunk", "index"], ["index", "search"], ["query", "search"]]);
    expect([...layers.values()]).toEqual([0, 1, 2, 2, 3]);
  });
  it("does not hang at a circle", () => {
    expect(layoutOf(["a", "b"], [["a", "b"], ["b", "a"]]).boxes.size).toBe(2);
  });
  it("leads edges around the boxes that they pass", () => {
    const { edges, boxes } = layoutOf(["a", "b", "c"], [["a", "b"], ["b", "c"], ["a", "c"]]);
    const long = edges.find(({ from, to }) => from === "a" && to === "c");
    const passed = boxes.get("b");
    expect(long?.points).toHaveLength(4);
    expect(long?.points.some(({ x, y }) => passed && x >= passed.x && x <= passed.x + 134 && y >= passed.y && y <= passed.y + 46)).toBe(false);
  });
});
