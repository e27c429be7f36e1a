// The newest snapshot of a run that is going on, and how old it is.

import { useEffect, useState } from "preact/hooks";
import type { LiveRun, RunState } from "../data/live";
import { runPath, RequestProblem, openStream } from "./server";
import { readEvents } from "./events";

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 10_000;
// A connection without a byte for so long is taken for broken.
const SILENCE_MS = 60_000;

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

export const pauseAfter = (attempts: number): number => Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempts);

/** Follows a run until the page is left, and connects again with growing pauses. */
export function useLive(run: string): { live: LiveState; retry(): void } {
  const [live, setLive] = useState<LiveState>({ snapshot: null, received_ms: 0, problem: null, next_ms: null });
  const [connection, setConnection] = useState(0);
  useEffect(() => {
    let isLeft = false;
    let attempts = 0;
    let last: LiveRun | null = null;
    let pause: ReturnType<typeof setTimeout> | undefined;
    let controller = new AbortController();
    const connect = async (): Promise<void> => {
      controller = new AbortController();
      let silence: ReturnType<typeof setTimeout> | undefined;
      const alive = () => {
        clearTimeout(silence);
        silence = setTimeout(() => controller.abort(), SILENCE_MS);
      };
      let problem = "The connection to the server was closed.";
      try {
        const stream = await openStream(runPath(run, "live"), controller);
        alive();
        await readEvents(stream, (data) => {
          if (isLeft) return;
          last = JSON.parse(data) as LiveRun;
          attempts = 0;
          setLive({ snapshot: last, received_ms: Date.now(), problem: null, next_ms: null });
        }, alive);
      } catch (error) {
        if (error instanceof RequestProblem) problem = error.message;
        else if (error instanceof SyntaxError) problem = `The server sent what this page cannot read: ${error.message}.`;
        else problem = "The connection to the server was lost.";
      } finally {
        clearTimeout(silence);
      }
      if (isLeft) return;
      if (last && isOver((last as LiveRun).state)) return;
      const wait = pauseAfter(attempts);
      attempts += 1;
      setLive((before) => ({ ...before, problem, next_ms: Date.now() + wait }));
      pause = setTimeout(() => void connect(), wait);
    };
    void connect();
    return () => {
      isLeft = true;
      clearTimeout(pause);
      controller.abort();
    };
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
