// A stream of events that is read until the page is left: when it is lost, it is opened again, after growing pauses.

import { readEvents } from "./events";
import { RequestProblem, openStream } from "./server";

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 10_000;
// A connection without a byte for so long is taken for broken.
const SILENCE_MS = 60_000;

export interface StreamReader {
  /** The server has answered. `works` says that the next pause may be short again. */
  begin?(works: () => void): void;
  /** An event. */
  read(data: string, works: () => void): void;
  /** Whether nothing more is expected, now that the stream has ended. */
  isComplete?(): boolean;
  /** There is no connection, for this reason; the next attempt begins after so many milliseconds. */
  fail(problem: string, pause_ms: number): void;
}

const pauseAfter = (attempts: number): number => Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempts);

/** Reads a stream until the returned function is called. */
export function keepReading(path: string, reader: StreamReader): () => void {
  let isLeft = false;
  let attempts = 0;
  let pause: ReturnType<typeof setTimeout> | undefined;
  let controller = new AbortController();
  const works = () => { attempts = 0; };
  const connect = async (): Promise<void> => {
    controller = new AbortController();
    let silence: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => controller.abort(), SILENCE_MS);
    };
    let problem = "The connection to the server was closed.";
    try {
      const stream = await openStream(path, controller);
      reader.begin?.(works);
      alive();
      await readEvents(stream, (data) => { if (!isLeft) reader.read(data, works); }, alive);
    } catch (error) {
      if (error instanceof RequestProblem) problem = error.message;
      else if (error instanceof SyntaxError) problem = `The server sent what this page cannot read: ${error.message}.`;
      else problem = "The connection to the server was lost.";
    } finally {
      clearTimeout(silence);
    }
    if (isLeft || reader.isComplete?.()) return;
    const wait = pauseAfter(attempts);
    attempts += 1;
    reader.fail(problem, wait);
    pause = setTimeout(() => void connect(), wait);
  };
  void connect();
  return () => {
    isLeft = true;
    clearTimeout(pause);
    controller.abort();
  };
}
