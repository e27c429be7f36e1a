import type { RunState } from "../data/live";

const MOVING: readonly RunState[] = ["running"];
const STATE_CLASS: Record<RunState, string> = { running: "accent", paused: "warn", finished: "good", interrupted: "warn", failed: "bad", stalled: "bad" };

export function StateMark({ state }: { state: RunState }) {
  return <span class={`state ${STATE_CLASS[state] ?? ""}`}><span class={MOVING.includes(state) ? "dot moving" : "dot"} aria-hidden="true" />{state}</span>;
}
