// How a score came about, in words. Metrics keep what a person needs to check a score:
// verdicts on statements, evidence that was found, the prompts and answers of a judge.
// Values without a special display are shown as a list of names and values.

import type { ComponentChild, ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { VerdictPlace } from "../data/labels";
import type { Json } from "../data/overview";
import { LongText } from "../page/text";
import { counted, fixed, isKnown, percent, spaced } from "../words";
import { LabelButtons } from "./labels";

type JsonObject = { [name: string]: Json };

const isObject = (value: Json | undefined): value is JsonObject => value !== null && value !== undefined && typeof value === "object" && !Array.isArray(value);
const isVerdict = (item: Json): item is JsonObject => isObject(item) && "verdict" in item && "text" in item;
const isEvidence = (item: Json): item is JsonObject => isObject(item) && "covered" in item && "rank" in item;
const asText = (value: Json | undefined): string => (typeof value === "string" ? value : isKnown(value) ? JSON.stringify(value) : "");

/** Content that is made when it is opened: a transcript may be long. */
export function Folded({ summary, children }: { summary: string; children: () => ComponentChildren }) {
  const [wasOpened, setOpened] = useState(false);
  return (
    <details onToggle={(event) => { if (event.currentTarget.open) setOpened(true); }}>
      <summary onClick={() => setOpened(true)}>{summary}</summary>
      {wasOpened ? children() : null}
    </details>
  );
}

/** The score that a detail belongs to. */
export type ScorePlace = Pick<VerdictPlace, "question" | "trial" | "metric">;

export function Account({ detail, of }: { detail: Json; of?: ScorePlace }) {
  const { transcript, agreement, ...rest } = isObject(detail) ? detail : ({ account: detail } as JsonObject);
  const special: ComponentChild[] = [];
  const others: [string, Json][] = [];
  for (const [name, value] of Object.entries(rest)) {
    const words = explained(name, value, of);
    if (words) special.push(words);
    else others.push([name, value]);
  }
  return (
    <>
      {special}
      {others.length ? <Listed entries={others} /> : null}
      {typeof agreement === "number" ? <p>The judges agreed in {percent(agreement)} of their votes.</p> : null}
      {Array.isArray(transcript) && transcript.length ? <Calls transcript={transcript} /> : null}
    </>
  );
}

/** The values with a special display. */
function explained(name: string, value: Json, of?: ScorePlace): ComponentChild {
  if (!Array.isArray(value)) return null;
  if (value.length && value.every(isVerdict)) return <div key={name}><h5>{spaced(name)}</h5><ul>{value.map((item, i) => <VerdictLine key={i} verdict={item} place={of && { ...of, list: name, item: i }} />)}</ul></div>;
  if (value.length && value.every(isEvidence)) return <div key={name}>{value.map((item, i) => <EvidenceLine key={i} evidence={item} />)}</div>;
  if (name === "relevant" && value.every((it) => typeof it === "boolean")) {
    const ranks = value.flatMap((it, index) => (it ? [`[${index + 1}]`] : []));
    return <p key={name}>{ranks.length ? `Relevant passages: ${ranks.join(", ")} of ${value.length}.` : `None of the ${counted(value.length, "passage")} is relevant.`}</p>;
  }
  return null;
}

const Listed = ({ entries }: { entries: [string, Json][] }) => (
  <dl>{entries.map(([name, value]) => [<dt key={`${name} name`}>{spaced(name)}</dt>, <dd key={name}><Plain value={value} /></dd>])}</dl>
);

function VerdictLine({ verdict: item, place }: { verdict: JsonObject; place?: VerdictPlace }) {
  const { text, verdict, probability, reason, votes } = item;
  const word = verdict === true ? "yes" : verdict === false ? "no" : "no verdict that could be read";
  const sure = typeof probability === "number" ? `, probability of yes ${percent(probability)}` : "";
  return (
    <li>
      <span class={`verdict ${verdict === true ? "good" : verdict === false ? "bad" : ""}`}>{word}</span>{sure}: <LongText text={asText(text)} />
      {place && typeof verdict === "boolean" ? <LabelButtons place={place} /> : null}
      {reason ? <div class="where">Reason: <LongText text={asText(reason)} /></div> : null}
      {Array.isArray(votes) && votes.length ? <div class="where">Votes: <LongText text={votes.map(voteWords).join("; ")} /></div> : null}
    </li>
  );
}

function voteWords(vote: Json): string {
  if (!isObject(vote)) return String(vote);
  const said = vote.verdict ?? vote.yes ?? vote.chosen ?? vote.number;
  const word = said === true ? "yes" : said === false ? "no" : isKnown(said) ? asText(said) : "nothing that could be read";
  return `${asText(vote.judge) || "a judge"} says ${word}${vote.reason ? ` (${asText(vote.reason)})` : ""}`;
}

function EvidenceLine({ evidence: { document, start, end, covered, rank } }: { evidence: JsonObject }) {
  const found = isKnown(rank) ? `found, complete with passage [${rank}]` : Number(covered) > 0 ? `${percent(Number(covered))} of it found` : "not found";
  return <p>Evidence in {asText(document)}, bytes {String(start)} to {String(end)}: {found}.</p>;
}

function Calls({ transcript }: { transcript: Json[] }) {
  return <Folded summary={transcript.length === 1 ? "1 call to a judge" : `${transcript.length} calls to judges`}>{() => <ol>{transcript.map((call, i) => <JudgeCall key={i} call={call} />)}</ol>}</Folded>;
}

function JudgeCall({ call }: { call: Json }) {
  const { purpose, prompt, reply, judge, ...rest } = isObject(call) ? call : ({} as JsonObject);
  return (
    <li>
      <b>{[asText(judge), spaced(asText(purpose) || "call")].filter(Boolean).join(": ")}</b>
      {isKnown(prompt) ? <><div class="where">Asked:</div><div class="body"><LongText text={asText(prompt)} /></div></> : null}
      {isKnown(reply) ? <><div class="where">Replied:</div><div class="body">{typeof reply === "string" ? <LongText text={reply} /> : null}</div>{typeof reply === "string" ? null : <Plain value={reply} />}</> : null}
      {Object.keys(rest).length ? <Plain value={rest} /> : null}
    </li>
  );
}

const isScalar = (item: Json) => item === null || typeof item !== "object";

function scalarWords(value: Json): string {
  if (value === null || value === undefined) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : fixed(value);
  return asText(value);
}

/** Any value as text and lists. */
function Plain({ value }: { value: Json }): ComponentChildren {
  if (value === undefined || isScalar(value)) return <LongText text={scalarWords(value)} />;
  if (Array.isArray(value)) {
    if (!value.length) return "none";
    if (value.every(isScalar) && !value.some((item) => typeof item === "string" && item.length > 40)) return <LongText text={value.map(scalarWords).join(", ")} />;
    return <ol>{value.map((item, i) => (isVerdict(item) ? <VerdictLine key={i} verdict={item} /> : <li key={i}><Plain value={item} /></li>))}</ol>;
  }
  return <Listed entries={Object.entries(value)} />;
}
