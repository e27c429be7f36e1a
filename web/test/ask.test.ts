import { describe, expect, it } from "vitest";
import type { AskedPassage, AskedTrial, TrialAnswer } from "../src/data/ask";
import { LONGEST_QUESTION, askAddress, askHref, readAskAddress } from "../src/served/ask/address";
import { answersWords, refusalWords } from "../src/served/ask/desk";
import { draftOfAnswer, newQuestion, passagePieces, withoutCitations } from "../src/served/ask/golden-draft";
import { chosenTrials } from "../src/served/ask/trials";
import { MOST_IMPORT_BYTES, fileProblem, outcomeWords } from "../src/served/golden/import-words";

const passage = (text: string, changes: Partial<AskedPassage> = {}): AskedPassage => ({ document: "a.md", span: { start: 10, end: 10 + text.length }, text, score: 1, page: null, book: null, heading: null, ...changes });
const usage = { prompt_tokens: 1, cached_tokens: 0, completion_tokens: 1 };
const answered: TrialAnswer = {
  run: "r", trial: { id: "t01", labels: {} }, question: "Who?",
  passages: [passage("One."), passage("Two.", { page: 3 })],
  answer: { text: "It is two [2].", citations: [2], dropped_passages: 0, calls: 1, usage, seconds: 1 },
};

describe("addresses of the Ask page", () => {
  it("are read as they were written", () => {
    const view = { run: "zoo-1", trials: ["t01", "t02"], question: "What & why, é?" };
    expect(readAskAddress(askAddress(view))).toEqual(view);
    expect(askHref({})).toBe("#/ask");
    expect(askHref({ run: "zoo", trials: ["t01", "t02"] })).toBe("#/ask?run=zoo&trials=t01,t02");
  });
  it("name at most four trials, each once, and no question of unusual length", () => {
    expect(readAskAddress("trials=a,b,a,,c,d,e").trials).toEqual(["a", "b", "c", "d"]);
    expect(askAddress({ run: null, trials: [], question: "x".repeat(LONGEST_QUESTION) })).toBe("");
  });
});

describe("the trials that are asked", () => {
  const rows = new Map([["t01", { id: "t01" }], ["t02", { id: "t02" }]]);
  const table = (answering: string | null) =>
    ({ overview: { board: { answering: answering === null ? null : { trial: answering, note: null } } }, rowOf: (id: string | null) => rows.get(id ?? ""), leading: rows.get("t01") }) as unknown as Parameters<typeof chosenTrials>[0];
  it("are those of the address that the run has", () => {
    expect(chosenTrials(table("t01"), ["t02", "t09"])).toEqual(["t02"]);
  });
  it("are the winner, or else the first of the leaderboard", () => {
    expect([chosenTrials(table("t02"), ["t09"]), chosenTrials(table(null), [])]).toEqual([["t02"], ["t01"]]);
  });
});

describe("what became of a question", () => {
  it("is counted", () => {
    const failed: AskedTrial = { trial: "t02", answer: null, error: "no model", seconds: 0 };
    expect(answersWords([{ trial: "t01", answer: answered, error: null, seconds: 1 }, failed])).toBe("1 answer; 1 trial failed.");
  });
  it("names the scope that is missing", () => {
    expect(refusalWords({ status: 403, message: "no" })).toContain("scope “admin”");
    expect(refusalWords({ status: 500, message: "the disk is full" })).toBe("the disk is full");
  });
});

describe("a passage", () => {
  it("is one piece, or those between its gaps, in bytes", () => {
    expect(passagePieces(passage("One."))).toEqual([{ span: { start: 10, end: 14 }, text: "One." }]);
    const parts = [{ start: 0, end: 4 }, { start: 20, end: 24 }, { start: 25, end: 29 }];
    expect(passagePieces(passage("Où? … Two.\nEnd.", { parts })).map(({ text }) => text)).toEqual(["Où?", "Two.", "End."]);
    // The text of another program has no known pieces.
    for (const text of ["ùùO … x", "Où?"]) expect(passagePieces(passage(text, { parts: [{ start: 0, end: 3 }, { start: 20, end: 99 }] }))).toHaveLength(1);
  });
});

describe("a golden question of an answer", () => {
  it("begins with the answer without its citations, and the cited passages", () => {
    const draft = draftOfAnswer(answered);
    expect([draft.question, draft.reference, draft.evidence.map(({ isUsed }) => isUsed)]).toEqual(["Who?", "It is two.", [false, true]]);
    expect(withoutCitations("a [1], b[2, 3] and [9] or [x]", [1, 2, 3])).toBe("a, b and [9] or [x]");
  });
  it("sends what is selected, and the place of a quote that is whole", () => {
    const draft = draftOfAnswer(answered);
    expect(newQuestion(draft)).toEqual({ question: "Who?", answerable: true, reference: "It is two.", evidence: [{ document: "a.md", quote: "Two.", span: { start: 10, end: 14 } }] });
    const shorter = { ...draft, id: " q7 ", evidence: draft.evidence.map((item) => ({ ...item, quote: " Tw " })) };
    expect(newQuestion(shorter)).toMatchObject({ id: "q7", evidence: [{ document: "a.md", quote: "Tw" }] });
    expect(newQuestion({ ...draft, isAnswerable: false })).toEqual({ question: "Who?", answerable: false });
  });
  it("says what is missing", () => {
    const draft = draftOfAnswer(answered);
    expect(newQuestion({ ...draft, question: " " })).toBe("The question is empty.");
    expect(newQuestion({ ...draft, evidence: draft.evidence.map((item) => ({ ...item, quote: " " })) })).toContain("Passage 2");
  });
});

describe("an import", () => {
  it("is told in numbers", () => {
    expect(outcomeWords({ added: 1, skipped: 0, refused: 0, refusals: [] })).toBe("1 question added.");
    expect(outcomeWords({ added: 12, skipped: 1, refused: 2, refusals: [] })).toBe("12 questions added; 1 skipped, because it is there already; 2 lines refused.");
  });
  it("takes no file that is empty or too large", () => {
    expect(fileProblem({ name: "a.jsonl", size: MOST_IMPORT_BYTES })).toBeNull();
    expect([fileProblem({ name: "a.jsonl", size: MOST_IMPORT_BYTES + 1 }), fileProblem({ name: "a.jsonl", size: 0 })].every((words) => words?.includes("a.jsonl"))).toBe(true);
  });
});
