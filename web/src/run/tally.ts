import { isKnown } from "../words";

/** At how many questions the first trial wins, loses and ties, and the sum of differences. */
export function tally(x: (number | null)[], y: (number | null)[], upwards: boolean) {
  const counts = { won: 0, lost: 0, tied: 0, sum: 0, n: 0 };
  x.forEach((value, i) => {
    const other = y[i];
    if (!isKnown(value) || !isKnown(other)) return;
    counts.n += 1;
    counts.sum += value - other;
    if (value === other) counts.tied += 1;
    else if (value > other === upwards) counts.won += 1;
    else counts.lost += 1;
  });
  return counts;
}
