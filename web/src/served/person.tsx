// The name of the person at this browser, under which decisions are recorded.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

const STORED_NAME = "reverie-name";
const LONGEST_NAME = 80;

/** Empty if it is not known. */
export const personName = signal(storedName());
/** Whether the server knows the name from the key. It then overrides any other name. */
export const isNameOfKey = signal(false);

function storedName(): string {
  try {
    return localStorage.getItem(STORED_NAME) ?? "";
  } catch {
    // Storage may be switched off; the name is then asked for again after a reload.
    return "";
  }
}

export function setPersonName(name: string): void {
  personName.value = name.trim().slice(0, LONGEST_NAME);
  try {
    localStorage.setItem(STORED_NAME, personName.value);
  } catch {
    // See `storedName`.
  }
}

/** Uses the name that the server has recorded, which is that of the key if it differs from what was sent. */
export function adoptRecordedName(name: string): void {
  if (name === personName.peek()) return;
  isNameOfKey.value = true;
  personName.value = name;
}

/** Shows the name, and changes it. `ask` counts requests for a name: each opens the field and focuses it. */
export function PersonField({ words, ask = 0 }: { words: string; ask?: number }) {
  const name = personName.value;
  const [isChanging, setChanging] = useState(false);
  const [given, setGiven] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const isAsked = !name || isChanging;
  useEffect(() => { if (ask || isChanging) field.current?.focus(); }, [ask, isChanging]);
  if (isNameOfKey.value) return <p class="person hint">{words} <strong>{name}</strong> (the name of your key)</p>;
  if (!isAsked) return <p class="person hint">{words} <strong>{name}</strong> <button type="button" id="change-name" onClick={() => { setGiven(name); setChanging(true); }}>Change</button></p>;
  return (
    <form
      class="person fields" id="person"
      onSubmit={(event) => {
        event.preventDefault();
        if (!given.trim()) return;
        setPersonName(given);
        setChanging(false);
      }}
    >
      <label>{words} <input id="person-name" autocomplete="name" maxLength={LONGEST_NAME} required value={given} ref={field} onInput={(event) => setGiven(event.currentTarget.value)} /></label>
      <button type="submit" class="primary">Use this name</button>
      {isChanging ? <button type="button" onClick={() => setChanging(false)}>Cancel</button> : <span class="hint">It stays in this browser, and others see it next to your decisions.</span>}
    </form>
  );
}
