// The address of the votes: `#/votes?run=RUN`.

import type { RunSummary } from "../../data/live";

export const readVotesAddress = (address: string): { run: string | null } => ({ run: new URLSearchParams(address).get("run") });

export const votesAddress = (run: string): string => new URLSearchParams({ run }).toString();

/** The runs that people can vote on. */
export const votableRuns = (runs: readonly RunSummary[]): RunSummary[] => runs.filter((run) => run.has_results);
