// Content that may have to be loaded first.

import { useEffect, useReducer, useRef } from "preact/hooks";
import { LoadProblem, type Awaitable } from "../data/parts";

export interface Loaded<T> {
  /** The last value, also while the next one is loaded. */
  value: T | undefined;
  busy: boolean;
  problem: string | null;
  retry(): void;
}

/**
 * Loads a value for these inputs, and again when one of them changes. The last value stays
 * until the next one is there, and a value that comes after a later request is dropped.
 */
export function useLoaded<T>(load: () => Awaitable<T>, inputs: readonly unknown[]): Loaded<T> {
  const [, redraw] = useReducer((n: number, _: null) => n + 1, 0);
  const state = useRef<{ inputs: readonly unknown[]; turn: number; value: T | undefined; busy: boolean; problem: string | null }>(null);
  const now = (state.current ??= { inputs: [NaN], turn: 0, value: undefined, busy: false, problem: null });
  const isMounted = useRef(true);
  useEffect(() => () => { isMounted.current = false; }, []);

  const begin = () => {
    const turn = (now.turn += 1);
    const fail = (error: unknown) => {
      if (!(error instanceof LoadProblem)) throw error;
      [now.problem, now.busy, now.value] = [error.message, false, undefined];
    };
    try {
      const soon = load();
      if (!(soon instanceof Promise)) {
        [now.value, now.problem, now.busy] = [soon, null, false];
        return;
      }
      now.busy = true;
      const settle = (done: () => void) => {
        if (now.turn !== turn || !isMounted.current) return;
        done();
        redraw(null);
      };
      soon.then(
        (value) => settle(() => { [now.value, now.problem, now.busy] = [value, null, false]; }),
        (error: unknown) => settle(() => fail(error)),
      );
    } catch (error) {
      fail(error);
    }
  };

  const isSame = now.inputs.length === inputs.length && now.inputs.every((input, i) => Object.is(input, inputs[i]));
  if (!isSame) {
    now.inputs = [...inputs];
    begin();
  }
  return { value: now.value, busy: now.busy, problem: now.problem, retry: () => { begin(); redraw(null); } };
}
