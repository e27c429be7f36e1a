// Labels of people in words.

import type { JudgeAgreement, VerdictLabel, VerdictPlace } from "../data/labels";
import { counted, fixed, percent } from "../words";

export const isSamePlace = (a: VerdictPlace, b: VerdictPlace): boolean =>
  a.question === b.question && a.trial === b.trial && a.metric === b.metric && a.list === b.list && a.item === b.item;

/** “2 right, 1 wrong”; empty without labels. */
export function labelWords(labels: readonly VerdictLabel[]): string {
  const right = labels.filter((label) => label.is_right).length;
  const wrong = labels.length - right;
  return [right ? `${right} right` : "", wrong ? `${wrong} wrong` : ""].filter(Boolean).join(", ");
}

// With fewer labels, chance alone may give any kappa.
const ENOUGH_FOR_KAPPA = 10;

/** How often people agree with a judge. */
export function judgeWords({ judge, labels, agreement }: JudgeAgreement): string {
  if (!agreement) return `${judge}: ${counted(labels, "label")}.`;
  const agreed = Math.round(agreement.observed * agreement.n);
  const kappa = agreement.kappa === null || agreement.n < ENOUGH_FOR_KAPPA ? "" : `; Cohen's kappa ${fixed(agreement.kappa, 2)}${agreement.interval ? ` (${fixed(agreement.interval.low, 2)} to ${fixed(agreement.interval.high, 2)})` : ""}`;
  return `${judge}: people agree with ${agreed} of ${counted(agreement.n, "verdict")} (${percent(agreement.observed)})${kappa}.`;
}
