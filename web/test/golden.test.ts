import { describe, expect, it } from "vitest";
import type { ListedQuestion, ReviewLine, ReviewState } from "../src/data/golden";
import { agreementWords, canReopen, decidedSince, decisionWords, draftOf, editOf, isChanged, stateAfter, undoing } from "../src/served/golden/decisions";
import { withChanges } from "../src/served/golden/changes";
import { NO_FILTER, countedValues, goldenAddress, neighbor, nextQuestion, passes, readGoldenAddress } from "../src/served/golden/filter";
import { hrefOf, pageOf, readRoute } from "../src/served/route";

const listed = (id: string, changes: Partial<ListedQuestion> = {}): ListedQuestion => ({
  id, question: `Question ${id}?`, state: "open", kind: null, tags: [], split: null, answerable: true, has_reference: true, evidence: 1, documents: ["a.md"], reviewers: [], comments: 0, ...changes,
});
const ann = { me: "Ann", conflicts: new Set<string>() };
const free = () => false;

describe("a list of golden questions", () => {
  it("takes the questions that have changed and those that are new, in their places", () => {
    const list = { path: "g", last: 1, version: "1-0", is_whole: true, questions: [listed("a"), listed("b")], reviewers: {}, agreement: { questions: 0, agreement: null, conflicts: [] }, present: {} };
    const answer = { ...list, last: 3, is_whole: false, questions: [listed("c"), listed("a", { state: "accepted" as ReviewState })], present: { Ben: "b" } };
    const now = withChanges(list, answer);
    expect(now.questions.map(({ id, state }) => `${id} ${state}`)).toEqual(["a accepted", "b open", "c open"]);
    expect([now.last, now.is_whole, now.present]).toEqual([3, true, { Ben: "b" }]);
    expect(withChanges(list, { ...answer, is_whole: true }).questions.length).toBe(2);
  });
});

describe("addresses of golden questions", () => {
  it("are read as they were written", () => {
    const view = { id: "q&7 ü", show: "second" as const, state: "open", kind: "multi_hop", tag: "a b&c", split: "none", document: "x/ü.md", find: "wind vane" };
    expect(readGoldenAddress(goldenAddress(view))).toEqual(view);
    expect(goldenAddress({ ...NO_FILTER, id: null })).toBe("");
    expect(readGoldenAddress("show=other").show).toBe("");
  });
  it.each(["#/golden", "#/golden?id=q7&state=open", "#/ask", "#/ask?run=a&trials=t01,t02&q=why%20so%3F", "#/documents", "#/documents?path=a%26b"])("are addresses of the page: %s", (hash) => {
    expect(hrefOf(readRoute(hash))).toBe(hash);
    expect(pageOf(readRoute(hash))).toBe(hash.split("?")[0]);
  });
});

describe("the queue", () => {
  it("has the questions that pass all filters", () => {
    const question = listed("q1", { kind: "multi_hop", tags: ["hard"], documents: ["a.md", "b.md"], reviewers: ["Ben"] });
    const isIn = (changes: Partial<typeof NO_FILTER>) => passes(question, { ...NO_FILTER, ...changes }, ann);
    expect([{}, { state: "open" }, { kind: "multi_hop" }, { tag: "hard" }, { split: "none" }, { document: "b.md" }, { find: "QUESTION q1" }, { show: "second" as const }].map(isIn)).not.toContain(false);
    expect([{ state: "accepted" }, { kind: "none" }, { tag: "easy" }, { split: "tune" }, { document: "c.md" }, { find: "absent" }, { show: "conflicts" as const }].map(isIn)).not.toContain(true);
  });
  it("has second opinions, whatever the others have decided", () => {
    const second = { ...NO_FILTER, show: "second" as const, state: "open" };
    expect(passes(listed("a", { state: "rejected", reviewers: ["Ben"] }), second, ann)).toBe(true);
    expect(passes(listed("a", { state: "rejected", reviewers: ["Ann", "Ben"] }), second, ann)).toBe(false);
    expect(passes(listed("a"), second, ann)).toBe(false);
  });
  it("counts values", () => {
    expect(countedValues([listed("a", { tags: ["x", "y", "x"] }), listed("b", { tags: ["y"] })], ({ tags }) => tags)).toEqual([["y", 2], ["x", 1]]);
  });
});

describe("the next question", () => {
  const all = [listed("a"), listed("b", { state: "accepted" }), listed("c"), listed("d"), listed("e", { state: "rejected" })];
  it("is the next open one that nobody has open, and then the first one", () => {
    expect(nextQuestion(all, "a", NO_FILTER, ann, free)).toBe("c");
    expect(nextQuestion(all, "a", NO_FILTER, ann, (id) => id === "c")).toBe("d");
    expect(nextQuestion(all, "d", NO_FILTER, ann, free)).toBe("a");
    expect(nextQuestion(all, null, NO_FILTER, ann, free)).toBe("a");
    expect(nextQuestion(all, "a", NO_FILTER, ann, () => true)).toBeNull();
    expect(nextQuestion([], null, NO_FILTER, ann, free)).toBeNull();
  });
  it("stays in the list that is reviewed", () => {
    const filter = { ...NO_FILTER, state: "accepted" };
    const accepted = ["a", "b", "c"].map((id) => listed(id, { state: "accepted" }));
    expect(nextQuestion(accepted, "b", filter, ann, free)).toBe("c");
    expect(nextQuestion(accepted, "c", filter, ann, free)).toBeNull();
    const conflicts = { me: "Ann", conflicts: new Set(["b", "e"]) };
    expect(nextQuestion(all, "b", { ...NO_FILTER, show: "conflicts" }, conflicts, free)).toBe("e");
    expect(nextQuestion(all, "e", { ...NO_FILTER, show: "conflicts" }, conflicts, free)).toBeNull();
    const seconds = [listed("a", { reviewers: ["Ben"] }), listed("b"), listed("c", { reviewers: ["Ben"], state: "rejected" })];
    expect(nextQuestion(seconds, "c", { ...NO_FILTER, show: "second" }, ann, free)).toBe("a");
  });
  it("is a neighbor for the arrow keys, also if the current one is not in the list any more", () => {
    const isOpen = (question: ListedQuestion) => question.state === "open";
    expect([neighbor(all, "b", 1, isOpen), neighbor(all, "b", -1, isOpen), neighbor(all, "a", -1, isOpen), neighbor(all, null, 1, isOpen), neighbor(all, "d", 1, isOpen)]).toEqual(["c", "a", null, "a", null]);
  });
});

describe("decisions", () => {
  const question = { id: "q", question: "Q?", reference: "R.", tags: ["x"], evidence: [{ document: "a.md", quote: "w" }] };
  const line = (number: number, by: string, decision: ReviewLine["decision"]): ReviewLine => ({ number, time_ms: 0, by, question: "q", decision });
  it("send only the fields that were changed", () => {
    const from = draftOf(question);
    expect(isChanged(editOf({ ...from, question: " Q? " }, from))).toBe(false);
    expect(editOf({ ...from, reference: "", tags: ["x", "y"] }, from)).toEqual({ decision: "edit", reference: "", tags: ["x", "y"] });
    expect(editOf({ ...from, evidence: [] }, from)).toEqual({ decision: "edit", evidence: [] });
  });
  it("have words and states", () => {
    expect(decisionWords({ decision: "edit", question: "", tags: [] })).toBe("edited the question, the tags");
    expect(stateAfter({ decision: "reopen" }, "accepted")).toBe("open");
    expect([canReopen("accepted"), canReopen("edited"), canReopen("open"), canReopen("rejected")]).toEqual([true, true, false, false]);
    expect([stateAfter({ decision: "restore" }, "rejected"), stateAfter({ decision: "comment", text: "" }, "edited")]).toEqual(["open", "edited"]);
  });
  it("are undone as far as the server can", () => {
    const before = draftOf(question);
    const undo = (decision: ReviewLine["decision"], stateBefore: ReviewState) => undoing({ line: line(1, "Ann", decision), stateBefore, before });
    const back = { decision: "edit", ...before };
    expect(undo({ decision: "reject" }, "open")).toEqual([{ decision: "restore" }]);
    expect(undo({ decision: "edit", question: "x" }, "open")).toEqual([back, { decision: "reopen" }]);
    expect(undo({ decision: "edit", question: "x" }, "edited")).toEqual([back]);
    expect(undo({ decision: "edit", question: "x" }, "accepted")).toEqual([back, { decision: "accept" }]);
    expect(undo({ decision: "accept" }, "rejected")).toEqual([{ decision: "reject" }]);
    expect(undo({ decision: "accept" }, "open")).toEqual([{ decision: "reopen" }]);
    expect(undo({ decision: "accept" }, "accepted")).toContain("already accepted");
    expect(undo({ decision: "reopen" }, "accepted")).toEqual([{ decision: "accept" }]);
    expect(undo({ decision: "reopen" }, "edited")).toEqual([{ decision: "edit" }]);
  });
  it("of others are known by their number", () => {
    expect(decidedSince([line(1, "Ben", { decision: "add", question })], 0, "Ann")).toBeNull();
    const lines = [line(1, "Ben", { decision: "accept" }), line(4, "Ben", { decision: "reject" }), line(5, "Ann", { decision: "accept" }), line(6, "Ben", { decision: "comment", text: "x" })];
    expect(decidedSince(lines, 1, "Ann")?.number).toBe(4);
    expect(decidedSince(lines, 4, "Ann")).toBeNull();
  });
  it("are compared in words", () => {
    expect(agreementWords({ questions: 0, agreement: null, conflicts: [] })[0]).toContain("Second opinions");
    const words = agreementWords({ questions: 12, agreement: { n: 14, observed: 0.857, kappa: 0.61, interval: { low: 0.2, high: 0.9 } }, conflicts: ["a"] }).join(" ");
    expect(words).toContain("86 %");
    expect(words).toContain("0.61 (Cohen's kappa, with 95 % confidence between 0.20 and 0.90): a good agreement");
    expect(words).toContain("About 1 question they differ");
  });
});
