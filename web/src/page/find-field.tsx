// A search in a text of which the browser's own search sees only the blocks in view.

import { useEffect, useState } from "preact/hooks";
import type { BlockedText, TextRange } from "./text-blocks";
import { findWords } from "./text-blocks";

// A text of 10 MB is searched when typing pauses.
const PAUSE_MS = 200;

export interface Search {
  words: string;
  setWords(words: string): void;
  matches: TextRange[];
  /** The match that is shown; null if there is none. */
  current: TextRange | null;
  place: number;
  go(step: number): void;
}

/** Finds words in a text, and calls `show` with the match that is gone to. */
export function useSearch(shown: BlockedText | null, show: (match: TextRange) => void): Search {
  const [words, setWords] = useState("");
  const [found, setFound] = useState<{ matches: TextRange[]; place: number }>({ matches: [], place: 0 });
  useEffect(() => {
    if (!words.trim() || !shown) {
      setFound({ matches: [], place: 0 });
      return undefined;
    }
    const later = setTimeout(() => {
      const matches = findWords(shown.text, words);
      setFound({ matches, place: 0 });
      if (matches[0]) show(matches[0]);
    }, PAUSE_MS);
    return () => clearTimeout(later);
  }, [words, shown]);
  const go = (step: number) => {
    const { matches, place } = found;
    if (!matches.length) return;
    const next = (place + step + matches.length) % matches.length;
    setFound({ matches, place: next });
    show(matches[next]);
  };
  return { words, setWords, matches: found.matches, current: found.matches[found.place] ?? null, place: found.place, go };
}

export function FindField({ search, label, id }: { search: Search; label: string; id: string }) {
  const { words, setWords, matches, place, go } = search;
  const count = !words.trim() ? "" : matches.length ? `${place + 1} of ${matches.length >= 1000 ? "1,000 or more" : matches.length}` : "not found";
  return (
    <span class="find-field">
      <label>{label} <input type="search" id={id} value={words} onInput={(event) => setWords(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) { event.preventDefault(); go(event.shiftKey ? -1 : 1); } }} /></label>{" "}
      <button type="button" disabled={!matches.length} aria-label="Previous match" onClick={() => go(-1)}>↑</button>{" "}
      <button type="button" disabled={!matches.length} aria-label="Next match" onClick={() => go(1)}>↓</button>{" "}
      <span class="hint" role="status">{count}</span>
    </span>
  );
}
