// The list of golden questions, brought up to date.

import type { GoldenList } from "../../data/golden";

/** A list with the questions that have changed since. */
export function withChanges(before: GoldenList | null, answer: GoldenList): GoldenList {
  if (answer.is_whole || before === null) return answer;
  const changed = new Map(answer.questions.map((question) => [question.id, question]));
  const questions = before.questions.map((question) => {
    const now = changed.get(question.id);
    changed.delete(question.id);
    return now ?? question;
  });
  return { ...answer, is_whole: true, questions: [...questions, ...changed.values()] };
}
