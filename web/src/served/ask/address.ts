// Addresses of the Ask page: `#/ask?run=R&trials=t01,t02&q=…`.

import { hrefOf } from "../route";

/** The server takes at most so many trials in one request. */
export const MOST_TRIALS = 4;
/** The longest question that the server takes, in characters. */
export const LONGEST_QUESTION = 16_000;
// A longer question is not written into the address.
const LONGEST_IN_ADDRESS = 2000;

export interface AskView {
  /** Null for the newest run with results. */
  run: string | null;
  /** Empty for the winner of the run. */
  trials: string[];
  question: string;
}

export function readAskAddress(address: string): AskView {
  const said = new URLSearchParams(address);
  const trials = [...new Set((said.get("trials") ?? "").split(",").filter(Boolean))];
  return { run: said.get("run") || null, trials: trials.slice(0, MOST_TRIALS), question: said.get("q") ?? "" };
}

export function askAddress({ run, trials, question }: AskView): string {
  const said: string[] = [];
  if (run !== null) said.push(`run=${encodeURIComponent(run)}`);
  if (trials.length) said.push(`trials=${trials.map(encodeURIComponent).join(",")}`);
  if (question && question.length <= LONGEST_IN_ADDRESS) said.push(`q=${encodeURIComponent(question)}`);
  return said.join("&");
}

export const askHref = (view: Partial<AskView>): string => hrefOf({ page: "ask", address: askAddress({ run: null, trials: [], question: "", ...view }) });
