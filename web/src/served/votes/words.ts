// Votes in words.

import type { Agreement } from "../../data/golden";
import type { PairVotes, RecordedVote, Verdict, VoteProgress, VoteShare, VoteStanding } from "../../data/votes";
import { counted, fixed, percent } from "../../words";

export const VERDICT_WORDS: Record<Verdict, string> = {
  left: "left is better",
  right: "right is better",
  both_good: "both are equally good",
  both_bad: "both are bad",
  skip: "skipped",
};

const VERDICT_KEYS: Record<string, Verdict> = { ArrowLeft: "left", ArrowRight: "right", "=": "both_good", b: "both_bad", s: "skip" };

export const verdictOfKey = (key: string): Verdict | null => (Object.hasOwn(VERDICT_KEYS, key) ? VERDICT_KEYS[key] : null);

export const TOO_FEW = "too few votes to tell";

export const peopleWords = (n: number): string => (n === 1 ? "1 person" : `${n} people`);

/** What became of a vote. `isRevealing` names the trials. */
export function recordedWords(verdict: Verdict, { left, right }: Pick<RecordedVote, "left" | "right">, isRevealing: boolean): string {
  const said = verdict === "skip" ? "Skipped." : `Recorded: ${VERDICT_WORDS[verdict]}.`;
  return isRevealing ? `${said} Left was ${left}, right was ${right}.` : said;
}

/** Why there is nothing to vote on. */
export function emptyWords({ trials, seen, left, equal }: VoteProgress): string {
  if (trials < 2) return "This run has no two trials that write answers, so there is nothing to compare.";
  if (left > 0) return "";
  if (!seen) return `All trials of this run give the same answers (${counted(equal, "pair")}), so there is nothing to compare.`;
  return "You have seen all pairs of answers of this run. Thank you.";
}

export function progressWords({ votes, people, mine, left, equal }: VoteProgress): string {
  const words = [`${counted(votes, "vote")} by ${peopleWords(people)}, ${mine} by you; ${counted(left, "pair")} of answers left for you.`];
  if (equal) words.push(`${counted(equal, "pair")} of answers with the same text ${equal === 1 ? "is" : "are"} left out.`);
  return words.join(" ");
}

export function shareWords({ share, interval }: VoteShare): string {
  if (share === null) return TOO_FEW;
  return `${percent(share)}${interval ? ` (${percent(interval.low)} to ${percent(interval.high)})` : ""}`;
}

/** Which of two trials people prefer. */
export function pairWords({ first, second, preference: { share }, differs }: PairVotes): string {
  if (share === null || differs === null) return TOO_FEW;
  if (!differs) return "no difference shown";
  return `${share > 0.5 ? first : second} is preferred`;
}

export function sideWords({ share, interval, p_value: p, votes }: VoteStanding["side"]): string {
  if (share === null) return `Whether the left side has an advantage: ${TOO_FEW}.`;
  const range = interval ? ` (95 % interval ${percent(interval.low)} to ${percent(interval.high)})` : "";
  const said = `The left answer won ${percent(share)} of the ${counted(votes, "vote")} that one side won${range}`;
  return p !== null && p < 0.05
    ? `${said}. People prefer ${share > 0.5 ? "the left" : "the right"} side. Sides are drawn at random, so this adds noise, but favors no trial.`
    : `${said}: no side has an advantage that shows.`;
}

export function peopleAgreementWords(agreement: Agreement | null, compared: number): string {
  if (!agreement) return `${counted(compared, "pair")} of votes by two people on the same answers: ${TOO_FEW} how far people agree.`;
  const { kappa, interval } = agreement;
  const chance = kappa === null ? "all votes are the same, so it is not known how much of that is chance" : `Cohen's kappa ${fixed(kappa, 2)}${interval ? ` (${fixed(interval.low, 2)} to ${fixed(interval.high, 2)})` : ""}, where 0 is chance and 1 is full agreement`;
  return `Two people who saw the same answers voted alike in ${percent(agreement.observed)} of ${counted(agreement.n, "pair")} of votes; ${chance}.`;
}
