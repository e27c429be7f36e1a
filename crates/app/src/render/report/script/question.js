// ---- one question, through all stages
function where(passage) {
  return [passage.document, known(passage.page) ? `page ${passage.page}` : null, passage.book, passage.heading].filter(Boolean).join(" · ");
}
// The passage's text with the evidence in it marked.
function highlighted(passage, evidence) {
  const spans = evidence
    .filter((item) => item.span && item.document === passage.document)
    .map((item) => [Math.max(item.span.start, passage.start), Math.min(item.span.end, passage.end)])
    .filter(([from, to]) => from < to)
    .sort((a, b) => a[0] - b[0]);
  const body = element("div", { class: "body" });
  // Spans count bytes of UTF-8.
  const bytes = new TextEncoder().encode(passage.text);
  const text = (from, to) => new TextDecoder().decode(bytes.slice(from - passage.start, to - passage.start));
  let at = passage.start;
  for (const [from, to] of spans) {
    if (to <= at) continue;
    body.append(text(at, Math.max(at, from)), element("mark", {}, text(Math.max(at, from), to)));
    at = to;
  }
  body.append(text(at, passage.start + bytes.length));
  return [body, spans.length > 0];
}
// Finds a trial that searches in the same way and changes nothing after the search: its passages are those that the reranker was given.
function withoutReranker(row) {
  const isNone = (settings) => [settings ?? []].flat().every((step) => (typeof step === "string" ? step : Object.keys(step)[0]) === "none");
  if (isNone(row.settings.reranker)) return null;
  const axes = board.columns.filter((column) => column.kind === "axis").map((column) => column.name);
  const before = axes.slice(0, axes.indexOf("reranker")), after = axes.slice(axes.indexOf("reranker"), axes.indexOf("prompt"));
  const same = (other) => before.every((axis) => JSON.stringify(other.settings[axis]) === JSON.stringify(row.settings[axis]));
  const isPlain = (other) => after.every((axis) => isNone(other.settings[axis]));
  return { twin: board.rows.find((other) => !other.stopped && isPlain(other) && same(other)) ?? null };
}

function drawQuestion() {
  const index = indexOfQuestion.get(state.question);
  const heading = byId("question-heading");
  if (index === undefined || !rowOf(state.trial)) {
    heading.textContent = "One question";
    return draw("question", async () => [element("p", { class: "hint" }, questions.length
      ? "Choose a question above to see its evidence, what was retrieved, the answer and every verdict."
      : "There are no golden questions in this run.")]);
  }
  heading.textContent = `${[state.trial, state.other].filter(Boolean).join(" and ")} · ${questions[index].id}`;
  return draw("question", async () => {
    const held = await questionPart(index);
    const rows = [rowOf(state.trial), rowOf(state.other)].filter(Boolean);
    const columns = await Promise.all(rows.map((row) => ofTrial(row, index, held)));
    return [golden(held.golden), element("div", { class: "columns" }, ...columns), everyTrial(held)];
  });
}
function golden({ question, reference, evidence, answerable, tags, split }) {
  const facts = element("dl", {}, element("dt", {}, "question"), element("dd", {}, question));
  const add = (name, text) => facts.append(element("dt", {}, name), element("dd", {}, text));
  if (reference) add("reference", reference);
  for (const item of evidence ?? []) {
    add("evidence", `${item.document}: ${item.quote}`);
    const number = (overview.pages ?? []).findIndex((page) => page.document === item.document && page.quote === item.quote);
    if (number >= 0) facts.lastChild.append(pagePicture(number));
  }
  if (answerable === false) add("answer", "The documents hold no answer; a system should say so.");
  if (tags?.length) add("tags", tags.join(", "));
  if (split) add("split", split);
  return facts;
}
// A page of a document, which is drawn when it is opened.
function pagePicture(number) {
  const { document: name, page, is_marked: isMarked } = overview.pages[number];
  const words = `Page ${page} of ${name}. ${isMarked ? "The evidence is marked." : "The evidence was not found on it."}`;
  const details = element("details", { class: "page" }, element("summary", {}, `page ${page}`));
  details.addEventListener("toggle", async () => {
    if (!details.open || details.querySelector("img")) return;
    const picture = await part(`page-${number}`);
    details.append(element("img", { src: `data:image/png;base64,${picture}`, alt: words }), element("p", { class: "hint" }, words));
  });
  return details;
}
async function ofTrial(row, index, held) {
  const own = held.trials[board.rows.indexOf(row)];
  const list = held.lists[own.list];
  const [scores, passages] = await Promise.all([trialPart(row), Promise.all(list.map(([place]) => passageAt(place)))]);
  const column = element("div", { class: "column" }, element("h3", {}, nameOf(row)));
  column.append(...lossOf(own.loss, held.golden.evidence ?? []), ...searched(held.searches?.[own.search]), element("h4", {}, "Retrieved"), ...retrieved(row, list, passages, held), element("h4", {}, "Answer"), answer(own), element("h4", {}, "Verdicts"), verdicts(own, scores, index, held));
  return column;
}
// Where this trial lost the question's evidence, as elements of the page; empty if that is not known.
function lossOf(loss, evidence) {
  if (!loss) return [];
  const step = lossStep(loss.step);
  const line = (item, i) => {
    if (!item.step) return null;
    const { chunk, rank, searched: given, depth } = item;
    const said = [`evidence ${i + 1}${evidence[i] ? ` in ${evidence[i].document}` : ""}: ${lossWords(item)}`];
    if (chunk) said.push(`chunk ${chunk.number} holds ${Math.round(100 * chunk.share)} % of it`);
    if (known(rank)) said.push(`rank ${rank} of the search, which gave ${counted(given, "passage")}`);
    else if (depth) said.push(`not among the first ${counted(depth, "chunk")} of the search`);
    if (chunk) said.push(`shares with the question: ${chunk.shared_terms.join(", ") || "no word"}`);
    return element("li", {}, said.join("; "));
  };
  const lines = (loss.evidence ?? []).map(line).filter(Boolean);
  const heading = element("h4", {}, step?.is_loss ? "Where it was lost" : "How it ended");
  return [heading, element("p", { class: "hint" }, `${sentence(lossWords(loss))} ${step?.meaning ?? ""}`), lines.length ? element("ul", {}, ...lines) : null].filter(Boolean);
}
// The searches that a component wrote; empty if the question was searched as it was asked.
function searched(search) {
  if (!search) return [];
  const line = ({ words, text, passages }) => element("li", {}, text,
    words === text ? null : element("div", { class: "where" }, `by words: ${words}`),
    ...passages.map((passage) => element("div", { class: "where" }, `with the vector of: ${passage}`)));
  const why = search.fallback ? element("p", { class: "problem" }, `Fell back, because: ${search.fallback}`) : null;
  const remarks = (search.remarks ?? []).map((remark) => element("li", {}, remark));
  const after = remarks.length ? [element("h4", {}, "After retrieval"), element("ul", {}, ...remarks)] : [];
  const before = search.queries.length || why ? [element("h4", {}, "Searched"), element("ol", {}, ...search.queries.map(line)), why] : [];
  return [...before, ...after].filter(Boolean);
}
function retrieved(row, list, passages, held) {
  if (!passages.length) return [element("p", { class: "hint" }, "No passage was retrieved.")];
  const [reranked, evidence] = [withoutReranker(row), held.golden.evidence ?? []];
  const before = reranked?.twin ? held.lists[held.trials[board.rows.indexOf(reranked.twin)].list].map(([place]) => place) : null;
  const holding = [];
  const cards = passages.map((passage, i) => {
    const [body, covers] = highlighted(passage, evidence);
    if (covers) holding.push(i + 1);
    const said = [`[${i + 1}] ${where(passage)}`, `score ${fixed(list[i][1])}`];
    if (before) said.push(before.includes(list[i][0]) ? `before reranking [${before.indexOf(list[i][0]) + 1}]` : `not among the ${counted(before.length, "passage")} of ${reranked.twin.id}`);
    if (covers) said.push("holds evidence");
    return element("li", { class: `card${covers ? " covers" : ""}` }, element("div", { class: "where" }, said.join(" · ")), body);
  });
  const words = [counted(passages.length, "passage")];
  if (evidence.length) words.push(holding.length ? `evidence in ${holding.map((rank) => `[${rank}]`).join(", ")}` : "none holds evidence");
  const notes = [element("p", { class: "hint" }, `${words.join("; ")}.`)];
  if (reranked) {
    notes.push(element("p", { class: "hint" }, reranked.twin
      ? `The ranks before reranking are those of ${reranked.twin.id}, which searches in the same way and changes nothing after the search.`
      : "The results hold the ranks after reranking only: no trial has the same search without a later step."));
  }
  return [...notes, element("ol", { class: "cards" }, ...cards)];
}
function answer(own) {
  if (!own.answer) return element("p", { class: own.error ? "problem" : "hint" }, own.error ? `It failed: ${own.error}` : "This question was not answered in this run.");
  const { text, citations, seconds, usage, dropped_passages: dropped, finish } = own.answer;
  const said = [
    `cites ${citations.map((n) => `[${n}]`).join(" ") || "nothing"}`, `${fixed(seconds, 2)} s`,
    `${usage.prompt_tokens} tokens read, ${usage.completion_tokens} written`,
  ];
  if (finish === "length") said.push("cut off at max_tokens");
  if (dropped) said.push(`${counted(dropped, "passage")} left out because the context was full`);
  return element("div", { class: "card" }, element("div", { class: "body" }, text), element("div", { class: "where" }, said.join(" · ")));
}
function verdicts(own, scores, index, held) {
  const list = element("dl", { class: "verdicts" });
  for (const metric of metrics) {
    const number = metricNumber(metric.name);
    const score = scores.scores[number][index];
    const cell = element("dd", {}, known(score) ? fixed(score) : reasonOf(scores, metric, index));
    const detail = own.details?.[number];
    if (known(detail)) cell.append(element("details", {}, element("summary", {}, "how it came about"), ...account(held.details[detail])));
    list.append(element("dt", {}, metric.title), cell);
  }
  return list;
}
// How all trials did on this question. It stays open while one trial after the other is chosen.
let everyTrialIsOpen = false;
function everyTrial(held) {
  const scored = held.trials.map((own, i) => ({ row: board.rows[i], own })).filter(({ own }) => known(own.objective));
  if (scored.length < 2) return null;
  const line = ({ row, own }) => chosenBy(() => change({ trial: row.id }), row.id === state.trial, row.id,
    [cellOf(nameOf(row).slice(row.id.length + 2), { class: "text" }), number(own.objective), cellOf(own.answer?.text ?? own.error ?? "–", { class: "text answer" })]);
  const best = sorted(scored, ({ own }) => own.objective, true);
  return element("details", { open: everyTrialIsOpen, ontoggle: (event) => { everyTrialIsOpen = event.target.open; } }, element("summary", {}, `All ${scored.length} trials on this question`),
    boxed("All trials on this question", element("table", {}, caption("All trials on this question, best first"),
      element("thead", {}, element("tr", {}, head("trial"), head("what it is"), head("objective", { class: "number" }), head("answer"))),
      element("tbody", {}, ...best.map(line)))));
}
