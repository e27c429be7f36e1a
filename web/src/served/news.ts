// A stream that says that something has changed, without saying what.

import { useEffect, useRef } from "preact/hooks";
import { readEvents } from "./events";
import { pauseAfter } from "./live-stream";
import { RequestProblem, openStream } from "./server";

const SILENCE_MS = 60_000;

/**
 * Calls `use` for changes until the page is left, also after the connection was lost and is
 * there again, because changes may have been missed. `setProblem` gets why there is no connection.
 */
export function useNews(path: string, use: () => void, setProblem: (problem: string | null) => void): void {
  const calls = useRef({ use, setProblem });
  calls.current = { use, setProblem };
  useEffect(() => {
    let isLeft = false;
    let attempts = 0;
    let pause: ReturnType<typeof setTimeout> | undefined;
    let controller = new AbortController();
    const connect = async (): Promise<void> => {
      controller = new AbortController();
      let silence: ReturnType<typeof setTimeout> | undefined;
      const alive = () => {
        clearTimeout(silence);
        silence = setTimeout(() => controller.abort(), SILENCE_MS);
      };
      let problem = "The connection to the server was lost.";
      try {
        const stream = await openStream(path, controller);
        if (attempts > 0) calls.current.use();
        attempts = 0;
        calls.current.setProblem(null);
        alive();
        await readEvents(stream, () => { if (!isLeft) calls.current.use(); }, alive);
        problem = "The connection to the server was closed.";
      } catch (error) {
        if (error instanceof RequestProblem) problem = error.message;
      } finally {
        clearTimeout(silence);
      }
      if (isLeft) return;
      const wait = pauseAfter(attempts);
      attempts += 1;
      calls.current.setProblem(problem);
      pause = setTimeout(() => void connect(), wait);
    };
    void connect();
    return () => {
      isLeft = true;
      clearTimeout(pause);
      controller.abort();
    };
  }, [path]);
}
