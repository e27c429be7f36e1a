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

/** Whether the content of an element is larger than the element, so that the tab key has to stop at it for scrolling. */
export function useOverflow(ref: RefObject<HTMLElement>): boolean {
  const [isLarger, setLarger] = useState(false);
  useLayoutEffect(() => {
    const node = ref.current;
    if (!node) return;
    const measure = () => setLarger(node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(node);
    for (const child of node.children) observer.observe(child);
    return () => observer.disconnect();
  }, []);
  return isLarger;
}

function followMedia(query: string): Signal<boolean> {
  const media = matchMedia(query);
  const matches = signal(media.matches);
  media.addEventListener("change", () => { matches.value = media.matches; });
  return matches;
}

export const isNarrow = followMedia("(max-width: 600px)");
export const isDark = followMedia("(prefers-color-scheme: dark)");
