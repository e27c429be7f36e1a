// Addresses of the served pages: `#/`, `#/runs/RUN?…`, `#/runs/RUN/live`, `#/runs?beside=A,B`,
// `#/ask?…`, `#/golden?…`, `#/documents?…`, `#/votes?…`.

export type Route =
  | { page: "runs" }
  | { page: "beside"; runs: string[] }
  | { page: "run"; run: string; address: string }
  | { page: "live"; run: string }
  | { page: "ask"; address: string }
  | { page: "golden"; address: string }
  | { page: "documents"; address: string }
  | { page: "votes"; address: string };

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function readRoute(hash: string): Route {
  const [path, ...rest] = hash.replace(/^#/, "").split("?");
  const query = rest.join("?");
  const [first, run, page] = path.split("/").filter(Boolean);
  if (first === "ask" || first === "golden" || first === "documents" || first === "votes") return { page: first, address: query };
  if (first !== "runs") return { page: "runs" };
  if (run === undefined) {
    const beside = /(?:^|&)beside=([^&]*)/.exec(query)?.[1] ?? "";
    const runs = [...new Set(beside.split(",").filter(Boolean).map(decoded))];
    return runs.length ? { page: "beside", runs } : { page: "runs" };
  }
  return page === "live" ? { page: "live", run: decoded(run) } : { page: "run", run: decoded(run), address: query };
}

export function hrefOf(route: Route): string {
  switch (route.page) {
    case "runs":
      return "#/";
    case "beside":
      return `#/runs?beside=${route.runs.map(encodeURIComponent).join(",")}`;
    case "live":
      return `#/runs/${encodeURIComponent(route.run)}/live`;
    case "run":
      return `#/runs/${encodeURIComponent(route.run)}${route.address ? `?${route.address}` : ""}`;
    case "ask":
    case "golden":
    case "documents":
    case "votes":
      return `#/${route.page}${route.address ? `?${route.address}` : ""}`;
  }
}

/** The same for all addresses of one page, whatever is shown on it. */
export const pageOf = (route: Route): string => hrefOf("address" in route ? { ...route, address: "" } : route);
