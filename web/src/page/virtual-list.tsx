// A list of any length whose lines are equally high: only the lines in view are drawn.

import type { ComponentChild } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useOverflow } from "./size";

// Lines beyond the view that are drawn, so that scrolling shows no gaps.
const SPARE_LINES = 8;

export function VirtualList({ id, label, count, lineHeight, line, active, isListbox, height = 560 }: {
  id: string;
  label: string;
  count: number;
  lineHeight: number;
  /** Draws a line. Its place is set by the attributes. */
  line(index: number, attributes: { style: { top: string }; "aria-posinset": number; "aria-setsize": number }): ComponentChild;
  /** The line that is scrolled into view when it changes; -1 if there is none. */
  active: number;
  /** Whether it is one control, whose lines are chosen by the keys of the page. */
  isListbox: boolean;
  height?: number;
}) {
  const box = useRef<HTMLDivElement>(null);
  const isScrolled = useOverflow(box);
  const [view, setView] = useState({ top: 0, height });
  const measure = () => {
    const node = box.current;
    if (node) setView((before) => (before.top === node.scrollTop && before.height === node.clientHeight ? before : { top: node.scrollTop, height: node.clientHeight }));
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    measure();
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const node = box.current;
    if (!node || active < 0) return;
    const top = active * lineHeight;
    if (top < node.scrollTop) node.scrollTop = top;
    else if (top + lineHeight > node.scrollTop + node.clientHeight) node.scrollTop = top + lineHeight - node.clientHeight;
    measure();
  }, [active, count]);
  const first = Math.max(0, Math.floor(view.top / lineHeight) - SPARE_LINES);
  const last = Math.min(count, Math.ceil((view.top + view.height) / lineHeight) + SPARE_LINES);
  const lines: ComponentChild[] = [];
  for (let index = first; index < last; index += 1) lines.push(line(index, { style: { top: `${index * lineHeight}px` }, "aria-posinset": index + 1, "aria-setsize": count }));
  const activeId = active >= first && active < last ? `${id}-${active}` : undefined;
  return (
    <div class="virtual" id={id} ref={box} tabIndex={isListbox || isScrolled ? 0 : undefined} role={isListbox ? "listbox" : "list"} aria-label={label} aria-activedescendant={isListbox ? activeId : undefined} onScroll={measure}>
      <div class="virtual-lines" role="presentation" style={{ height: `${count * lineHeight}px` }}>{lines}</div>
    </div>
  );
}
