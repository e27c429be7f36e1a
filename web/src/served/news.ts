// A stream that says that something has changed, without saying what.

import { useEffect, useRef } from "preact/hooks";
import { keepReading } from "./reconnect";

/**
 * Calls `use` for changes until the page is left, also after the connection was lost and is
 * there again, because changes may have been missed. `setProblem` gets why there is no connection.
 */
export function useNews(path: string, use: () => void, setProblem: (problem: string | null) => void): void {
  const calls = useRef({ use, setProblem });
  calls.current = { use, setProblem };
  useEffect(() => {
    let wasLost = false;
    return keepReading(path, {
      begin(works) {
        if (wasLost) calls.current.use();
        wasLost = false;
        works();
        calls.current.setProblem(null);
      },
      read: () => calls.current.use(),
      fail(problem) {
        wasLost = true;
        calls.current.setProblem(problem);
      },
    });
  }, [path]);
}
