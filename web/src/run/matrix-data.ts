// The matrix of questions and trials as numbers: decoding, order and colours.

import type { MatrixPart } from "../data/overview";

/** A byte for “no score”. */
const NO_SCORE = 255;

export interface Matrix {
  trialOrder: number[];
  questionOrder: number[];
  /** The objective of a trial and a question by their indexes; null without a score. */
  at(trial: number, question: number): number | null;
  byteAt(trial: number, question: number): number;
}

export function readMatrix(part: MatrixPart, trials: number, questions: number): Matrix {
  const bytes = Uint8Array.from(atob(part.values), (letter) => letter.charCodeAt(0));
  if (bytes.length !== trials * questions) throw new Error(`The matrix has ${bytes.length} values instead of ${trials} × ${questions}.`);
  const byteAt = (trial: number, question: number) => bytes[trial * questions + question] ?? NO_SCORE;
  return {
    trialOrder: part.trial_order,
    questionOrder: part.question_order,
    byteAt,
    at: (trial, question) => {
      const byte = byteAt(trial, question);
      return byte === NO_SCORE ? null : byte / 254;
    },
  };
}

type Colour = [number, number, number];

// From blue through a neutral colour to orange, like the lines of the plot. The neutral colour
// is that of the paper, and both ends differ from it in lightness too.
const STOPS: Record<"light" | "dark", Colour[]> = {
  light: [[28, 78, 163], [122, 160, 214], [232, 230, 224], [236, 164, 84], [184, 84, 8]],
  dark: [[110, 162, 255], [66, 92, 150], [52, 57, 68], [168, 102, 44], [255, 168, 82]],
};

/** Colours of the bytes 0 to 254. */
export function colourTable(isDark: boolean): Colour[] {
  const stops = STOPS[isDark ? "dark" : "light"];
  return Array.from({ length: NO_SCORE }, (_, byte) => {
    const place = (byte / (NO_SCORE - 1)) * (stops.length - 1);
    const first = Math.min(stops.length - 2, Math.floor(place));
    const share = place - first;
    return stops[first].map((value, i) => Math.round(value + (stops[first + 1][i] - value) * share)) as Colour;
  });
}

export interface CellSize {
  width: number;
  height: number;
}

/** As large as there is room for, but never too small to be hit, and never a canvas that browsers refuse. */
export function cellSize(columns: number, rows: number, room: number): CellSize {
  const widest = Math.max(1, Math.floor(16_000 / Math.max(1, columns)));
  return {
    width: Math.min(widest, Math.max(4, Math.min(32, Math.floor(room / Math.max(1, columns))))),
    height: Math.max(4, Math.min(20, Math.floor(520 / Math.max(1, rows)))),
  };
}
