import { describe, expect, it } from "vitest";
import type { VerdictLabel } from "../src/data/labels";
import type { PairVotes, VoteProgress } from "../src/data/votes";
import { isSamePlace, judgeWords, labelWords } from "../src/run/label-words";
import { hrefOf, pageOf, readRoute } from "../src/served/route";
import { readVotesAddress, votableRuns, votesAddress } from "../src/served/votes/address";
import { TOO_FEW, emptyWords, pairWords, peopleAgreementWords, progressWords, recordedWords, shareWords, sideWords, verdictOfKey } from "../src/served/votes/words";
import type { RunSummary } from "../src/data/live";

const progress = (changes: Partial<VoteProgress> = {}): VoteProgress => ({ trials: 3, votes: 4, people: 2, mine: 1, seen: 1, left: 7, equal: 0, ...changes });
const pair = (share: number | null, differs: boolean | null): PairVotes => ({ first: "t01", second: "t02", equal: 0, p_value: null, differs, preference: { votes: 9, questions: 9, share, interval: null } });

describe("addresses of votes", () => {
  it.each(["#/votes", "#/votes?run=zoo-1"])("are addresses of the page: %s", (hash) => {
    expect(hrefOf(readRoute(hash))).toBe(hash);
    expect(pageOf(readRoute(hash))).toBe("#/votes");
  });
  it("are read as they were written", () => {
    expect(readVotesAddress(votesAddress("zoo &1"))).toEqual({ run: "zoo &1" });
    expect(readVotesAddress("")).toEqual({ run: null });
  });
  it("lead to runs that have results", () => {
    const runs = [{ run: "a", has_results: false }, { run: "b", has_results: true }] as RunSummary[];
    expect(votableRuns(runs).map(({ run }) => run)).toEqual(["b"]);
  });
});

describe("a vote", () => {
  it("is given with a key", () => {
    expect(["ArrowLeft", "ArrowRight", "=", "b", "s"].map(verdictOfKey)).toEqual(["left", "right", "both_good", "both_bad", "skip"]);
    expect(["ArrowUp", "x", "toString", "constructor"].map(verdictOfKey)).toEqual([null, null, null, null]);
  });
  it("names the trials only if that is wanted", () => {
    const trials = { left: "t01", right: "t02" };
    expect(recordedWords("left", trials, false)).toBe("Recorded: left is better.");
    expect(recordedWords("both_bad", trials, true)).toBe("Recorded: both are bad. Left was t01, right was t02.");
    expect(recordedWords("skip", trials, false)).toBe("Skipped.");
  });
});

describe("what is left to vote on", () => {
  it("is counted, with the pairs of equal texts", () => {
    expect(progressWords(progress())).toBe("4 votes by 2 people, 1 by you; 7 pairs of answers left for you.");
    expect(progressWords(progress({ equal: 1 }))).toContain("1 pair of answers with the same text is left out.");
  });
  it("is nothing for a reason", () => {
    expect(emptyWords(progress({ trials: 1, left: 0 }))).toContain("no two trials that write answers");
    expect(emptyWords(progress({ left: 0, mine: 0, seen: 0, equal: 9 }))).toContain("the same answers (9 pairs)");
    expect(emptyWords(progress({ left: 0, mine: 0, seen: 12 }))).toContain("You have seen all pairs");
    expect(emptyWords(progress())).toBe("");
  });
});

describe("the standing", () => {
  it("says that there are too few votes instead of a number", () => {
    expect(shareWords({ votes: 3, questions: 3, share: null, interval: null })).toBe(TOO_FEW);
    expect(pairWords(pair(null, null))).toBe(TOO_FEW);
    expect(peopleAgreementWords(null, 3)).toContain(TOO_FEW);
    expect(sideWords({ votes: 3, questions: 3, share: null, interval: null, p_value: null })).toContain(TOO_FEW);
  });
  it("names the trial that is preferred, if the difference is real", () => {
    expect(pairWords(pair(0.7, true))).toBe("t01 is preferred");
    expect(pairWords(pair(0.3, true))).toBe("t02 is preferred");
    expect(pairWords(pair(0.7, false))).toBe("no difference shown");
    expect(shareWords({ votes: 40, questions: 20, share: 0.7, interval: { low: 0.55, high: 0.83 } })).toBe("70 % (55 % to 83 %)");
  });
  it("names a side that is preferred, if that is real", () => {
    const side = { votes: 50, questions: 25, share: 0.8, interval: { low: 0.66, high: 0.9 } };
    expect(sideWords({ ...side, p_value: 0.001 })).toContain("People prefer the left side");
    expect(sideWords({ ...side, p_value: 0.2 })).toContain("no side has an advantage that shows");
  });
  it("has the agreement of people", () => {
    const agreement = { n: 12, observed: 0.75, kappa: 0.5, interval: { low: 0.1, high: 0.8 } };
    expect(peopleAgreementWords(agreement, 12)).toBe("Two people who saw the same answers voted alike in 75 % of 12 pairs of votes; Cohen's kappa 0.50 (0.10 to 0.80), where 0 is chance and 1 is full agreement.");
    expect(peopleAgreementWords({ ...agreement, kappa: null }, 12)).toContain("not known how much of that is chance");
  });
});

describe("labels for judges", () => {
  const place = { question: "q1", trial: "t01", metric: "faithfulness", list: "statements", item: 0 };
  const label = (by: string, isRight: boolean): VerdictLabel => ({ ...place, by, is_right: isRight });
  it("are counted", () => {
    expect(labelWords([])).toBe("");
    expect(labelWords([label("Ann", true), label("Ben", false), label("Cem", true)])).toBe("2 right, 1 wrong");
  });
  it("belong to one item of one list", () => {
    expect(isSamePlace(place, { ...place })).toBe(true);
    expect([{ item: 1 }, { list: "sentences" }, { metric: "x" }, { trial: "t02" }, { question: "q2" }].map((change) => isSamePlace(place, { ...place, ...change }))).not.toContain(true);
  });
  it("say how far people agree with a judge", () => {
    expect(judgeWords({ judge: "qwen", labels: 12, agreement: { n: 12, observed: 0.75, kappa: 0.5, interval: null } })).toBe("qwen: people agree with 9 of 12 verdicts (75 %); Cohen's kappa 0.50.");
    expect(judgeWords({ judge: "qwen", labels: 4, agreement: { n: 4, observed: 0.75, kappa: 0.5, interval: null } })).toBe("qwen: people agree with 3 of 4 verdicts (75 %).");
    expect(judgeWords({ judge: "qwen", labels: 1, agreement: null })).toBe("qwen: 1 label.");
  });
});
