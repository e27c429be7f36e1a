// The address of the served page, and changes of it by the page itself.

import { signal } from "@preact/signals";
import { type Route, hrefOf, readRoute } from "./route";

export const route = signal<Route>(readRoute(location.hash));

// Browsers limit how often the address changes, and a key that is held changes it often.
const REPLACE_PAUSE_MS = 150;

let later: ReturnType<typeof setTimeout> | undefined;

function write(step: "pushState" | "replaceState"): void {
  clearTimeout(later);
  later = undefined;
  const href = hrefOf(route.peek());
  if (href === location.hash) return;
  try {
    history[step](null, "", href);
  } catch {
    // In a frame that may not change its address, the page works without one.
  }
}

/** Shows another route. With `pushState`, the browser's back button returns to the one before. */
export function navigate(to: Route, step: "pushState" | "replaceState" = "pushState"): void {
  if (step === "pushState" && later !== undefined) write("replaceState");
  route.value = to;
  if (step === "pushState") write(step);
  else later ??= setTimeout(() => write("replaceState"), REPLACE_PAUSE_MS);
}

/** Reads the route after the address was changed by a link, by hand or by the back button. */
export function followAddress(): void {
  clearTimeout(later);
  later = undefined;
  route.value = readRoute(location.hash);
}
