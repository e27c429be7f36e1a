// The newest snapshot of a run that is going on, and how old it is.

import { useEffect, useState } from "preact/hooks";
import type { LiveRun, RunState } from "../data/live";
import { keepReading } from "./reconnect";
import { runPath } from "./server";

export interface LiveState {
  snapshot: LiveRun | null;
  /** When the snapshot arrived, by the clock of this browser. */
  received_ms: number;
  /** Why there is no connection; null while there is one. */
  problem: string | null;
  /** When the next attempt to connect begins. */
  next_ms: number | null;
}

/** Whether a run in this state will not go on, so that its last snapshot is final. */
export const isOver = (state: RunState): boolean => state === "finished" || state === "failed";

/** Follows a run until the page is left, and connects again with growing pauses. */
export function useLive(run: string): { live: LiveState; retry(): void } {
  const [live, setLive] = useState<LiveState>({ snapshot: null, received_ms: 0, problem: null, next_ms: null });
  const [connection, setConnection] = useState(0);
  useEffect(() => {
    let last: LiveRun | null = null;
    return keepReading(runPath(run, "live"), {
      read(data, works) {
        last = JSON.parse(data) as LiveRun;
        works();
        setLive({ snapshot: last, received_ms: Date.now(), problem: null, next_ms: null });
      },
      isComplete: () => last !== null && isOver(last.state),
      fail: (problem, pause) => setLive((before) => ({ ...before, problem, next_ms: Date.now() + pause })),
    });
  }, [run, connection]);
  return { live, retry: () => setConnection((n) => n + 1) };
}

/** The time by this browser's clock, once a second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
