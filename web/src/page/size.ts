import { type Signal, signal } from "@preact/signals";
import { type RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

const RESIZE_PAUSE_MS = 150;

/** The width of an element: at once, and a moment after it has changed. */
export function useWidth(ref: RefObject<HTMLElement>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const node = ref.current;
    if (!node) return;
    setWidth(node.clientWidth);
    let later: ReturnType<typeof setTimeout> | undefined;
    const observer = new ResizeObserver(() => {
      clearTimeout(later);
      later = setTimeout(() => setWidth(node.clientWidth), RESIZE_PAUSE_MS);
    });
    observer.observe(node);
    return () => {
      clearTimeout(later);
      observer.disconnect();
    };
  }, []);
  return width;
}

function followMedia(query: string): Signal<boolean> {
  const media = matchMedia(query);
  const matches = signal(media.matches);
  media.addEventListener("change", () => { matches.value = media.matches; });
  return matches;
}

export const isNarrow = followMedia("(max-width: 600px)");
export const isDark = followMedia("(prefers-color-scheme: dark)");
