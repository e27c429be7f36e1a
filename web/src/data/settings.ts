// The settings of trials as paths and values, and what differs between trials.

import type { Json } from "./overview";

/** Paths and values: `retriever.bm25.top_k` and 5. */
export function flat(value: Json, path = "", all = new Map<string, string>()): Map<string, string> {
  // A list, such as the separators of a chunker, is one value.
  if (value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length) {
    for (const [key, inner] of Object.entries(value)) flat(inner, path ? `${path}.${key}` : key, all);
  } else {
    // Spaces and line ends would not be seen.
    const isBlank = typeof value === "string" && !value.trim();
    all.set(path, isBlank || (value !== null && typeof value === "object") ? JSON.stringify(value) : String(value ?? "none"));
  }
  return all;
}

/** The paths at which not all of these settings are equal, with the value of each. */
export function differing(settings: Json[]): [string, (string | undefined)[]][] {
  const flats = settings.map((one) => flat(one));
  const paths = [...new Set(flats.flatMap((one) => [...one.keys()]))];
  return paths
    .map((path): [string, (string | undefined)[]] => [path, flats.map((one) => one.get(path))])
    .filter(([, values]) => values.some((value) => value !== values[0]));
}
