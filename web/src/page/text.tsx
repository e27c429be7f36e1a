// Text from documents, models and users: never markup, and never so long that it freezes the page.

import { useState } from "preact/hooks";

const FIRST_LENGTH = 20_000;
const STEP_LENGTH = 500_000;

/** Cuts a text without cutting a character of two code units. */
function cut(text: string, length: number): string {
  const code = text.charCodeAt(length - 1);
  return text.slice(0, code >= 0xd800 && code <= 0xdbff ? length - 1 : length);
}

/** How much of a text is shown, and a button for more of it. */
export function useLength(text: string): { length: number; more: preact.ComponentChild } {
  const [grown, setGrown] = useState<{ text: string; length: number } | null>(null);
  const length = grown?.text === text ? grown.length : FIRST_LENGTH;
  if (text.length <= length) return { length: text.length, more: null };
  const show = (event: MouseEvent) => {
    event.stopPropagation();
    setGrown({ text, length: length + STEP_LENGTH });
  };
  const rest = text.length - length;
  const next = Math.min(rest, STEP_LENGTH);
  const words = next === rest ? `Show the other ${rest.toLocaleString("en-US")} characters` : `Show ${next.toLocaleString("en-US")} more of ${rest.toLocaleString("en-US")} characters`;
  return { length, more: <> <button type="button" class="more-text" onClick={show}>{words}</button></> };
}

/** `bdi` keeps marks of writing direction in the text from turning around the words that stand after it. */
export function LongText({ text }: { text: string }) {
  const { length, more } = useLength(text);
  return <><bdi>{length < text.length ? `${cut(text, length)}…` : text}</bdi>{more}</>;
}

/** A sentence in which names stand between backticks. */
export function WithCode({ text }: { text: string }) {
  const parts = text.split("`");
  // With a backtick that is not closed, nothing is a name.
  if (parts.length % 2 === 0) return <LongText text={text} />;
  return <>{parts.map((part, i) => (i % 2 ? <code key={i}>{part}</code> : <LongText key={i} text={part} />))}</>;
}

// ---- texts in plots

const ruler = document.createElement("canvas").getContext("2d");
const FONT = 'system-ui, "Segoe UI", Roboto, sans-serif';

/** How wide a text is drawn, in the font of plots. */
export function widthOf(text: string, size = 13, weight = "normal"): number {
  if (!ruler) return text.length * size * 0.6;
  ruler.font = `${weight} ${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

/**
 * Shortens a text to the width `room`. First the names of settings are left out, then the
 * middle, because labels of one axis often begin alike and differ at the end.
 */
export function fitting(whole: string, room: number, size = 12, weight = "normal"): string {
  // A longer text fits into no plot, and would take long to measure.
  const text = whole.length > 300 ? `${whole.slice(0, 120)}…${whole.slice(-180)}` : whole;
  if (widthOf(text, size, weight) <= room) return text;
  const values = text.replace(/[a-z_]+=/g, "");
  if (widthOf(values, size, weight) <= room) return values;
  const shortened = (length: number) => `${values.slice(0, Math.floor(length * 0.4))}…${values.slice(values.length - Math.ceil(length * 0.6))}`;
  let length = values.length - 1;
  while (length > 2 && widthOf(shortened(length), size, weight) > room) length -= 1;
  return shortened(length);
}

export function FittingText({ text, room, size, weight, ...attributes }: { text: string; room: number; size?: number; weight?: string } & preact.SVGAttributes<SVGTextElement>) {
  const shown = fitting(text, room, size, weight);
  return <text {...attributes}>{shown}{shown === text ? null : <title>{text.slice(0, 500)}</title>}</text>;
}
