// ---- how a score came about, in words
// Metrics keep what a person needs to check a score: verdicts on statements, evidence
// that was found, the prompts and answers of a judge. Values without a special display
// are shown as a list of names and values.

const spaced = (name) => name.replaceAll("_", " ");
const percent = (share) => `${Math.round(share * 100)} %`;
const isVerdict = (item) => item !== null && typeof item === "object" && "verdict" in item && "text" in item;
const isEvidence = (item) => item !== null && typeof item === "object" && "covered" in item && "rank" in item;

function account(detail) {
  const { transcript, agreement, ...rest } = detail !== null && typeof detail === "object" && !Array.isArray(detail) ? detail : { account: detail };
  const [nodes, others] = [[], []];
  for (const [name, value] of Object.entries(rest)) {
    const words = explained(name, value);
    if (words) nodes.push(...words);
    else others.push([name, value]);
  }
  if (others.length) nodes.push(listed(others));
  if (known(agreement)) nodes.push(element("p", {}, `The judges agreed in ${percent(agreement)} of their votes.`));
  if (Array.isArray(transcript) && transcript.length) nodes.push(calls(transcript));
  return nodes;
}
// The values with a special display.
function explained(name, value) {
  if (Array.isArray(value) && value.length && value.every(isVerdict)) return [element("h5", {}, spaced(name)), element("ul", {}, ...value.map(verdictLine))];
  if (Array.isArray(value) && value.length && value.every(isEvidence)) return value.map(evidenceLine);
  if (name === "relevant" && Array.isArray(value) && value.every((it) => typeof it === "boolean")) {
    const ranks = value.flatMap((it, index) => (it ? [index + 1] : []));
    return [element("p", {}, ranks.length ? `Relevant passages: ${ranks.map((rank) => `[${rank}]`).join(", ")} of ${value.length}.` : `None of the ${counted(value.length, "passage")} is relevant.`)];
  }
  return null;
}
const listed = (entries) => element("dl", {}, ...entries.flatMap(([name, value]) => [element("dt", {}, spaced(name)), element("dd", {}, ...plain(value))]));
function verdictLine({ text, verdict, probability, reason, votes }) {
  const word = verdict === true ? "yes" : verdict === false ? "no" : "no verdict that could be read";
  const sure = known(probability) ? `, probability of yes ${percent(probability)}` : "";
  const line = element("li", {}, element("span", { class: `verdict ${verdict === true ? "good" : verdict === false ? "bad" : ""}` }, word), `${sure}: ${text}`);
  if (reason) line.append(element("div", { class: "where" }, `Reason: ${reason}`));
  if (votes?.length) line.append(element("div", { class: "where" }, `Votes: ${votes.map(voteWords).join("; ")}`));
  return line;
}
function voteWords(vote) {
  if (vote === null || typeof vote !== "object") return String(vote);
  const said = vote.verdict ?? vote.yes ?? vote.chosen ?? vote.number;
  const word = said === true ? "yes" : said === false ? "no" : known(said) ? String(said) : "nothing that could be read";
  return `${vote.judge ?? "a judge"} says ${word}${vote.reason ? ` (${vote.reason})` : ""}`;
}
function evidenceLine({ document, start, end, covered, rank }) {
  const found = known(rank) ? `found, complete with passage [${rank}]` : covered > 0 ? `${percent(covered)} of it found` : "not found";
  return element("p", {}, `Evidence in ${document}, bytes ${start} to ${end}: ${found}.`);
}
function calls(transcript) {
  const items = transcript.map((call) => {
    const { purpose, prompt, reply, judge, ...rest } = call ?? {};
    const item = element("li", {}, element("b", {}, [judge, spaced(String(purpose ?? "call"))].filter(Boolean).join(": ")));
    if (known(prompt)) item.append(element("div", { class: "where" }, "Asked:"), element("div", { class: "body" }, String(prompt)));
    if (known(reply)) item.append(element("div", { class: "where" }, "Replied:"), element("div", { class: "body" }, typeof reply === "string" ? reply : ""), ...(typeof reply === "string" ? [] : plain(reply)));
    if (Object.keys(rest).length) item.append(...plain(rest));
    return item;
  });
  return element("details", {}, element("summary", {}, transcript.length === 1 ? "1 call to a judge" : `${transcript.length} calls to judges`), element("ol", {}, ...items));
}
// Any value as text and lists.
function plain(value) {
  if (value === null || value === undefined) return ["none"];
  if (typeof value === "boolean") return [value ? "yes" : "no"];
  if (typeof value === "number") return [Number.isInteger(value) ? String(value) : fixed(value)];
  if (typeof value === "string") return [value];
  const isScalar = (item) => item === null || typeof item !== "object";
  if (Array.isArray(value)) {
    if (!value.length) return ["none"];
    if (value.every(isScalar) && !value.some((item) => typeof item === "string" && item.length > 40)) return [value.map((item) => plain(item)[0]).join(", ")];
    return [element("ol", {}, ...value.map((item) => (isVerdict(item) ? verdictLine(item) : element("li", {}, ...plain(item)))))];
  }
  return [listed(Object.entries(value))];
}
