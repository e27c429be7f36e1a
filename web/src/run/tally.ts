import { isKnown } from "../words";

/** At how many questions the first trial wins, loses and ties, and the sum of differences and of their squares. */
export function tally(x: (number | null)[], y: (number | null)[], upwards: boolean) {
  const counts = { won: 0, lost: 0, tied: 0, sum: 0, squares: 0, n: 0 };
  x.forEach((value, i) => {
    const other = y[i];
    if (!isKnown(value) || !isKnown(other)) return;
    counts.n += 1;
    counts.sum += value - other;
    counts.squares += (value - other) ** 2;
    if (value === other) counts.tied += 1;
    else if (value > other === upwards) counts.won += 1;
    else counts.lost += 1;
  });
  return counts;
}

// Fewer pairs say too little about the spread.
const FEWEST_PAIRS = 10;

/** The ends of the 95 % interval of the mean difference, by the normal distribution; null with few pairs. */
export function meanInterval({ sum, squares, n }: { sum: number; squares: number; n: number }): [number, number] | null {
  if (n < FEWEST_PAIRS) return null;
  const mean = sum / n;
  const error = Math.sqrt(Math.max(0, squares / n - mean * mean) / (n - 1));
  return [mean - 1.96 * error, mean + 1.96 * error];
}
