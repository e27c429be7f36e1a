// Parts: data that is loaded on demand. A part stands in the page, is a script in the
// folder beside it, or comes from the server.

import type { MatrixPart, Overview, PassageText, QuestionPart, TrialPart } from "./overview";

/** Why something cannot be loaded, in words for the user. */
export class LoadProblem extends Error {}

export type Awaitable<T> = T | Promise<T>;

/** Reads a part, at once if it is at hand. */
export type ReadPart = (name: string) => Awaitable<unknown>;

// Parts beyond this number are dropped, the least recently used ones first.
const MAX_PARTS = 200;

/** Waits for all values, or gives them at once if none has to be waited for. */
export function together<T extends readonly unknown[]>(values: readonly [...{ [K in keyof T]: Awaitable<T[K]> }]): Awaitable<T>;
export function together<T>(values: readonly Awaitable<T>[]): Awaitable<T[]>;
export function together(values: readonly unknown[]): Awaitable<unknown> {
  return values.some((value) => value instanceof Promise) ? Promise.all(values) : values;
}

export function continueWith<T, U>(value: Awaitable<T>, next: (value: T) => Awaitable<U>): Awaitable<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** The number of the part that holds a value, and the index of the value in it. */
export function locate(firsts: number[], index: number): [number, number] {
  let [low, high] = [0, firsts.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (firsts[middle] <= index) low = middle;
    else high = middle;
  }
  return [low, index - firsts[low]];
}

export class Parts {
  private readonly kept = new Map<string, Awaitable<unknown>>();

  constructor(
    private readonly overview: Overview,
    private readonly read: ReadPart,
    /** Is called with the problem of a part that failed, and with null when one was read. */
    private readonly report: (problem: string | null) => void,
  ) {}

  private part<T>(name: string): Awaitable<T> {
    const found = this.kept.get(name) ?? this.read(name);
    this.kept.delete(name);
    this.kept.set(name, found);
    if (this.kept.size > MAX_PARTS) this.kept.delete(this.kept.keys().next().value ?? name);
    if (found instanceof Promise) {
      found.then(
        (value) => {
          // A value that is at hand is drawn without a wait the next time.
          if (this.kept.get(name) === found) this.kept.set(name, value);
          this.report(null);
        },
        (problem: unknown) => {
          // A part that failed is loaded again at the next request.
          if (this.kept.get(name) === found) this.kept.delete(name);
          this.report(problem instanceof Error ? problem.message : String(problem));
        },
      );
    }
    return found as Awaitable<T>;
  }

  trial(number: number): Awaitable<TrialPart> {
    return this.part(`trial-${number}`);
  }

  question(index: number): Awaitable<QuestionPart> {
    const [number, place] = locate(this.overview.question_parts, index);
    return continueWith(this.part<QuestionPart[]>(`questions-${number}`), (part) => part[place]);
  }

  passage(index: number): Awaitable<PassageText> {
    const [number, place] = locate(this.overview.passage_parts, index);
    return continueWith(this.part<PassageText[]>(`passages-${number}`), (part) => part[place]);
  }

  /** A picture of a page, a PNG file in Base64. */
  page(number: number): Awaitable<string> {
    return this.part(`page-${number}`);
  }

  matrix(name: string): Awaitable<MatrixPart> {
    return this.part(name);
  }
}

declare global {
  // Scripts of the folder call this function.
  var reverieReportPart: ((name: string, stamp: string, text: string) => void) | undefined;
}

/** Reads the parts of a report file. It must not call `fetch`, which cannot read a local folder; a script can be loaded. */
export function reportParts(overview: Overview): ReadPart {
  const awaited = new Map<string, { resolve(value: unknown): void; reject(problem: Error): void }>();
  globalThis.reverieReportPart = (name, stamp, text) => {
    const waiting = awaited.get(name);
    if (!waiting) return;
    awaited.delete(name);
    if (stamp === overview.stamp) waiting.resolve(JSON.parse(text));
    else waiting.reject(new LoadProblem(`The folder “${overview.folder}” beside this page belongs to another run or to an earlier report, so what is in it is not shown. Put the page and its own folder together; or delete both, and “reverie leaderboard” writes them anew.`));
  };
  const loadScript = (name: string) =>
    new Promise<unknown>((resolve, reject) => {
      awaited.set(name, { resolve, reject });
      const failed = (what: string) => {
        awaited.delete(name);
        reject(new LoadProblem(`${what}: this page shows summaries, and loads questions, passages and scores from the folder “${overview.folder}” beside it. Put that folder next to the page, and load the page again. Everything is also in results.json of the run's folder.`));
      };
      const script = document.createElement("script");
      script.src = `${encodeURIComponent(overview.folder ?? "")}/${name}.js`;
      script.onerror = () => {
        script.remove();
        failed(`“${overview.folder}/${name}.js” cannot be loaded`);
      };
      script.onload = () => {
        script.remove();
        if (awaited.has(name)) failed(`“${overview.folder}/${name}.js” is damaged`);
      };
      document.head.append(script);
    });
  return (name) => {
    const inside = document.getElementById(`part-${name}`);
    return inside ? JSON.parse(inside.textContent ?? "null") : loadScript(name);
  };
}

/** Whether a part is in the page, so that it costs nothing to read it. */
export const isInPage = (name: string): boolean => document.getElementById(`part-${name}`) !== null;
