// Decisions: what they say in words, how they change a question, and how they are undone.

import type { Agreement, Decision, EditDecision, QuestionEvidence, ReviewLine, ReviewState, ReviewerAgreement, WholeQuestion } from "../../data/golden";
import { counted, fixed, percent } from "../../words";

const FIELD_WORDS = { question: "the question", reference: "the reference", evidence: "the evidence", tags: "the tags" } as const;

/** What a person has done, as the end of a sentence. */
export function decisionWords(decision: Decision): string {
  switch (decision.decision) {
    case "accept":
      return "accepted it";
    case "reject":
      return "rejected it";
    case "restore":
      return "restored it";
    case "reopen":
      return "reopened it";
    case "add":
      return "added it";
    case "comment":
      return "made a remark";
    case "edit": {
      const fields = Object.entries(FIELD_WORDS).flatMap(([name, words]) => (decision[name as keyof typeof FIELD_WORDS] === undefined ? [] : [words]));
      return fields.length ? `edited ${fields.join(", ")}` : "edited it";
    }
    default:
      return JSON.stringify(decision);
  }
}

/** The state after a decision. A restored question may have been accepted before; the server's list says so a moment later. */
export function stateAfter(decision: Decision, before: ReviewState): ReviewState {
  switch (decision.decision) {
    case "accept":
      return "accepted";
    case "edit":
      return "edited";
    case "reject":
      return "rejected";
    case "restore":
      return before === "rejected" ? "open" : before;
    case "reopen":
      return "open";
    default:
      return before;
  }
}

export const isVerdict = ({ decision: { decision } }: ReviewLine): boolean => decision !== "comment" && decision !== "add";

/** Whether a question can be opened again for a decision. */
export const canReopen = (state: ReviewState): boolean => state === "accepted" || state === "edited";

/** The last decision of somebody else since a number. */
export const decidedSince = (lines: readonly ReviewLine[], seen: number, me: string): ReviewLine | null => lines.findLast((line) => line.number > seen && line.by !== me && isVerdict(line)) ?? null;

/** What the form of an edit holds. */
export interface EditDraft {
  question: string;
  reference: string;
  tags: string[];
  evidence: QuestionEvidence[];
}

export const draftOf = (question: WholeQuestion): EditDraft => ({
  question: question.question,
  reference: question.reference ?? "",
  tags: question.tags ?? [],
  evidence: question.evidence ?? [],
});

const isSame = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The fields of a draft that differ from the question. Others may have changed the other fields in the meantime. */
export function editOf(draft: EditDraft, from: EditDraft): EditDecision {
  const edit: EditDecision = { decision: "edit" };
  if (draft.question.trim() !== from.question.trim()) edit.question = draft.question.trim();
  if (draft.reference.trim() !== from.reference.trim()) edit.reference = draft.reference.trim();
  if (!isSame(draft.tags, from.tags)) edit.tags = draft.tags;
  if (!isSame(draft.evidence, from.evidence)) edit.evidence = draft.evidence;
  return edit;
}

export const isChanged = (edit: EditDecision): boolean => Object.keys(edit).length > 1;

/** A decision of this page, with what is needed to undo it. */
export interface OwnDecision {
  line: ReviewLine;
  stateBefore: ReviewState;
  before: EditDraft;
}

/** The decision after which a question has a state. */
function leadingTo(state: ReviewState): Decision {
  switch (state) {
    case "accepted":
      return { decision: "accept" };
    case "edited":
      return { decision: "edit" };
    case "rejected":
      return { decision: "reject" };
    default:
      return { decision: "reopen" };
  }
}

/** The decisions that undo another one, in order, or in words why there are none. */
export function undoing({ line, stateBefore, before }: OwnDecision): Decision[] | string {
  const name = `“${line.question}”`;
  switch (line.decision.decision) {
    case "reject":
      return stateBefore === "rejected" ? `${name} was already rejected before.` : [{ decision: "restore" }];
    case "accept":
      return stateBefore === "accepted" ? `${name} was already accepted before.` : [leadingTo(stateBefore)];
    case "edit":
      return [{ decision: "edit", ...before }, ...(stateBefore === "edited" ? [] : [leadingTo(stateBefore)])];
    case "reopen":
      return [leadingTo(stateBefore)];
    default:
      return "There is nothing to undo.";
  }
}

/** How far reviewers agree, for a reader who does not know the measure. */
export function agreementWords({ questions, agreement, conflicts }: ReviewerAgreement): string[] {
  if (!questions || !agreement) return ["No question has been decided by two people yet, so it is not known how far reviewers agree. “Second opinions” lists the questions that wait for yours."];
  const words = [
    `${counted(questions, "question")} ${questions === 1 ? "was" : "were"} decided by two or more people. In ${percent(agreement.observed)} of ${agreement.n === 1 ? "the one pair of decisions" : `the ${agreement.n} pairs of decisions`} both kept the question or both rejected it.`,
    kappaWords(agreement),
  ];
  words.push(conflicts.length ? `About ${counted(conflicts.length, "question")} they differ.` : "They differ about no question.");
  return words;
}

function kappaWords({ kappa, interval }: Agreement): string {
  if (kappa === null) return "How much of this is chance cannot be said, because all decisions are the same.";
  const range = interval ? `, with 95 % confidence between ${fixed(interval.low, 2)} and ${fixed(interval.high, 2)}` : "";
  const meaning = kappa < 0 ? "less than chance would give" : kappa < 0.2 ? "hardly more than chance" : kappa < 0.4 ? "a little more than chance" : kappa < 0.6 ? "a moderate agreement" : kappa < 0.8 ? "a good agreement" : "a very good agreement";
  return `Some agreement is chance. Without chance it is ${fixed(kappa, 2)} (Cohen's kappa${range}): ${meaning}. 0 is chance, 1 is always the same.`;
}
