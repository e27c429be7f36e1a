// Requests to the server that served this page. Every request ends: with an answer, with
// words for the user, or in the form that asks for a key.

import { signal } from "@preact/signals";
import { LoadProblem } from "../data/parts";

const REQUEST_MS = 30_000;
const STORED_KEY = "reverie-key";

/** A request that failed; `status` is 0 if there was no answer. */
export class RequestProblem extends LoadProblem {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

/** Whether the form for the key is shown, and whether the last key was refused. */
export const keyForm = signal<{ isRefused: boolean } | null>(null);

let key = storedKey();
let awaitedKey: { promise: Promise<void>; resolve(): void } | null = null;

function storedKey(): string | null {
  try {
    return sessionStorage.getItem(STORED_KEY);
  } catch {
    // Storage may be switched off; the key is then asked for again after a reload.
    return null;
  }
}

export function giveKey(given: string): void {
  key = given;
  try {
    sessionStorage.setItem(STORED_KEY, given);
  } catch {
    // See `storedKey`.
  }
  keyForm.value = null;
  awaitedKey?.resolve();
  awaitedKey = null;
}

/** All requests that were refused wait for the same key. */
function nextKey(): Promise<void> {
  if (!awaitedKey) {
    let resolve = () => {};
    const promise = new Promise<void>((done) => { resolve = done; });
    awaitedKey = { promise, resolve };
    keyForm.value = { isRefused: key !== null };
  }
  return awaitedKey.promise;
}

async function send(path: string, init: RequestInit): Promise<Response> {
  for (;;) {
    const used = key;
    const headers = new Headers(init.headers);
    if (used !== null) headers.set("Authorization", `Bearer ${used}`);
    const response = await fetch(path, { ...init, headers, cache: "no-store" });
    if (response.status !== 401) return response;
    // Another request may have been given a key in the meantime.
    if (key === used) await nextKey();
    init.signal?.throwIfAborted();
  }
}

/** The server's own words if it has any. */
async function wordsOf(response: Response): Promise<string> {
  const fallback = `The server answered with status ${response.status}.`;
  try {
    const body: unknown = await response.json();
    const message = (body as { error?: { message?: unknown } } | null)?.error?.message;
    return typeof message === "string" && message ? message : fallback;
  } catch {
    return fallback;
  }
}

function problemOf(error: unknown, timer: Deadline, stop?: AbortSignal | null): RequestProblem {
  if (error instanceof RequestProblem) return error;
  if (stop?.aborted) return new RequestProblem("The request was stopped.", 0);
  if (timer.isOver()) return new RequestProblem(`The server did not answer within ${timer.mostMs / 1000} s.`, 0);
  return new RequestProblem("The server cannot be reached. Check whether “reverie ui” is running.", 0);
}

interface Deadline {
  mostMs: number;
  isOver(): boolean;
  stop(): void;
}

/** A timer that aborts a request, but not while the user is asked for a key. */
function deadline(controller: AbortController, mostMs = REQUEST_MS): Deadline {
  let left = mostMs;
  let isOver = false;
  const timer = setInterval(() => {
    if (keyForm.peek()) return;
    left -= 1000;
    if (left > 0) return;
    isOver = true;
    controller.abort();
  }, 1000);
  return { mostMs, isOver: () => isOver, stop: () => clearInterval(timer) };
}

async function request<T>(path: string, init: RequestInit, read: (response: Response) => Promise<T>, mostMs?: number): Promise<T> {
  const controller = new AbortController();
  const timer = deadline(controller, mostMs);
  const abort = () => controller.abort();
  init.signal?.addEventListener("abort", abort);
  try {
    const response = await send(path, { ...init, signal: controller.signal });
    if (!response.ok) throw new RequestProblem(await wordsOf(response), response.status);
    return await read(response);
  } catch (error) {
    throw problemOf(error, timer, init.signal);
  } finally {
    timer.stop();
    init.signal?.removeEventListener("abort", abort);
  }
}

const readJson = <T,>(response: Response): Promise<T> => response.json() as Promise<T>;

export const getJson = <T,>(path: string, mostMs?: number): Promise<T> => request<T>(path, {}, readJson<T>, mostMs);

/** A file or a picture. An `img` element or a link cannot send a key. */
export const getBlob = (path: string, mostMs?: number): Promise<Blob> => request(path, {}, (response) => response.blob(), mostMs);

/** With `keepalive`, the request is sent even if the page is being left. */
export const postJson = <T,>(path: string, body: unknown, keepalive = false): Promise<T> =>
  request<T>(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, keepalive }, readJson<T>);

/** A request that may take minutes, until `signal` gives it up. */
export const postJsonSlowly = <T,>(path: string, body: unknown, mostMs: number, signal: AbortSignal): Promise<T> =>
  request<T>(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal }, readJson<T>, mostMs);

/** Sends a file as it is. */
export const postFile = <T,>(path: string, file: Blob, mostMs: number): Promise<T> =>
  request<T>(path, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } }, readJson<T>, mostMs);

/** Whether this tab has a key, so that the server may know who sends requests. */
export const hasKey = (): boolean => key !== null;

/** The address of a run in the API. */
export const runPath = (run: string, rest: string): string => `/api/runs/${encodeURIComponent(run)}/${rest}`;

/** Opens a stream of events. Only its beginning has a deadline. */
export async function openStream(path: string, controller: AbortController): Promise<ReadableStream<Uint8Array>> {
  const timer = deadline(controller);
  try {
    const response = await send(path, { signal: controller.signal, headers: { Accept: "text/event-stream" } });
    if (!response.ok) throw new RequestProblem(await wordsOf(response), response.status);
    if (!response.body) throw new RequestProblem("The server sent no stream of events.", response.status);
    return response.body;
  } catch (error) {
    throw problemOf(error, timer);
  } finally {
    timer.stop();
  }
}
