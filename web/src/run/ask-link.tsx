// A link with which a trial is asked, where a server can do that; a report has none.

import { createContext } from "preact";
import { useContext } from "preact/hooks";

/** Gives the address at which this trial is asked this question. Null in a report. */
export const AskContext = createContext<((trial: string, question: string) => string) | null>(null);

export function AskLink({ trial, question }: { trial: string; question: string }) {
  const href = useContext(AskContext);
  return href ? <p><a class="ask-link" href={href(trial, question)}>Ask this trial</a></p> : null;
}
