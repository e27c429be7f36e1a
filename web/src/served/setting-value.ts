// Values of settings as people type them.

/** A number, a truth value, a list or a table as in JSON; anything else is a plain text. */
export function settingOf(typed: string): unknown {
  const text = typed.trim();
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
