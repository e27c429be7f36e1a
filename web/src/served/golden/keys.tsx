// The keys of the Golden page. They do nothing while somebody types, and can be switched off.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { GoldenDesk } from "./desk";

const STORED_KEYS = "reverie-golden-keys";
/** Whether single letters are commands. Speech input and some screen readers need them off. */
const areKeysOn = signal(storedKeys());
const isHelpOpen = signal(false);
/** Counts requests for the field of the remark. */
export const remarkAsked = signal(0);

function storedKeys(): boolean {
  try {
    return localStorage.getItem(STORED_KEYS) !== "off";
  } catch {
    return true;
  }
}

function setKeys(areOn: boolean): void {
  areKeysOn.value = areOn;
  try {
    localStorage.setItem(STORED_KEYS, areOn ? "on" : "off");
  } catch {
    // The choice then lasts as long as the page.
  }
}

const isTextField = (element: Element | null): boolean => element !== null && element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
export const isTyping = (): boolean => isTextField(document.activeElement);
/** Whether a key press is text, belongs to a shortcut of the browser, or is none of the page's keys. */
export const isPlainKey = (event: KeyboardEvent): boolean => areKeysOn.peek() && !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing && !event.defaultPrevented && !isTextField(event.target as Element | null);

export function useKeys(desk: GoldenDesk): void {
  useEffect(() => {
    const act = (event: KeyboardEvent) => {
      if (!isPlainKey(event)) return;
      const command = commandOf(desk, event);
      if (!command) return;
      event.preventDefault();
      command();
    };
    addEventListener("keydown", act);
    return () => removeEventListener("keydown", act);
  }, []);
}

function commandOf(desk: GoldenDesk, event: KeyboardEvent): (() => void) | null {
  if (event.key === "?") return () => { isHelpOpen.value = !isHelpOpen.value; };
  // An edit has its own keys, and the other ones would leave it by mistake.
  if (desk.isEditing.peek()) return null;
  const target = event.target as Element;
  // Arrows scroll where there is something to scroll.
  const canScroll = target.closest(".scroll, .text-view, .body, details, fieldset") !== null;
  const move = (step: 1 | -1) => () => {
    desk.move(step);
    if (!target.closest("#queue")) desk.focusAsked.value += 1;
  };
  switch (event.key) {
    case "j":
      return move(1);
    case "k":
      return move(-1);
    case "ArrowDown":
    case "ArrowRight":
      return canScroll ? null : move(1);
    case "ArrowUp":
    case "ArrowLeft":
      return canScroll ? null : move(-1);
    case "/":
      return () => document.getElementById("find-golden")?.focus();
    case "z":
      return () => void desk.undo();
  }
  // A key that is held must not decide about one question after the other.
  if (event.repeat || !"areco".includes(event.key)) return null;
  if (!desk.isShown()) return () => { desk.note.value = "The question is not there yet."; };
  if (desk.isSurprised()) return () => { desk.note.value = "Somebody else has decided in the meantime: read it first."; };
  switch (event.key) {
    case "a":
      return () => void desk.decide({ decision: "accept" });
    case "r":
      return () => void desk.decide({ decision: "reject" });
    case "e":
      return () => desk.edit();
    case "o":
      return () => void desk.reopen();
    case "c":
      return () => { remarkAsked.value += 1; };
    default:
      return null;
  }
}

const KEYS: [string, string][] = [
  ["a", "accept"], ["e", "edit"], ["r", "reject"], ["o", "open an accepted or edited question again"], ["z", "restore a rejected question, or undo your last decision"], ["c", "write a remark"],
  ["j or ↓", "next question"], ["k or ↑", "previous question"], ["/", "search"], ["m", "in an edit: use the selection as evidence"],
  ["Ctrl+Enter", "save an edit or a remark"], ["Escape", "leave an edit or a field"], ["?", "show these keys"],
];

/** Switches the keys on and off, for all pages that have some. */
export const KeySwitch = () => <label><input type="checkbox" checked={areKeysOn.value} onChange={(event) => setKeys(event.currentTarget.checked)} /> Use single letters as commands</label>;

export function KeyHelp() {
  const summary = useRef<HTMLElement>(null);
  const isOpen = isHelpOpen.value;
  useEffect(() => { if (isOpen) summary.current?.focus(); }, [isOpen]);
  return (
    <details id="keys" open={isOpen} onToggle={(event) => { isHelpOpen.value = event.currentTarget.open; }}>
      <summary ref={summary}>Keys (?)</summary>
      <dl>{KEYS.map(([key, words]) => [<dt key={`${key} key`}><kbd>{key}</kbd></dt>, <dd key={key}>{words}</dd>])}</dl>
      <KeySwitch />
    </details>
  );
}
