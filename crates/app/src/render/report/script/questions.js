// ---- questions of the chosen trial
const PAGE_LINES = 100;

function drawFilter() {
  const filter = (changes, gesture = null) => change({ filter: { ...state.filter, ...changes } }, gesture);
  const text = element("input", { type: "search", id: "find", oninput: () => filter({ text: text.value }, "find") });
  const value = element("input", { type: "number", step: "any", id: "score-value", oninput: () => filter({ value: value.value }, "score") });
  const select = (id, options, key) => {
    const node = element("select", { id, onchange: () => filter({ [key]: node.value }) }, ...options.map(([name, words]) => element("option", { value: name }, words)));
    return node;
  };
  byId("filter").replaceChildren(
    element("label", {}, "Find in questions ", text),
    element("label", {}, "Answers ", select("answers", [["", "all"], ["yes", "answered"], ["no", "not answered"], ["failed", "failed"]], "answers")),
    element("label", {}, "Score of ", select("score-metric", [["", "any metric"], ...metrics.map((metric) => [metric.name, metric.name])], "metric")),
    element("label", {}, "is ", select("score-side", [["below", "below"], ["above", "above"]], "side")),
    element("label", {}, "this value ", value),
    element("button", { type: "button", onclick: () => filter(NOTHING_FILTERED) }, "Show all"));
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
}
function fillFilter() {
  const { text, answers, metric, side, value } = state.filter;
  for (const [id, now] of [["find", text], ["answers", answers], ["score-metric", metric], ["score-side", side], ["score-value", value]]) {
    // An equal value is not set again: that would move the cursor of somebody who types.
    if (byId(id) && byId(id).value !== now) byId(id).value = now;
  }
}
function passes(index, scores) {
  const { text, answers, metric, side, value } = state.filter;
  const { id, question } = questions[index];
  if (text && !`${id} ${question}`.toLowerCase().includes(text.toLowerCase())) return false;
  const answered = scores.answers[index];
  if (answers === "yes" && answered !== 1 || answers === "no" && answered === 1 || answers === "failed" && answered !== 2) return false;
  if (metric && value !== "") {
    const score = scores.scores[metricNumber(metric)][index];
    return known(score) && (side === "below" ? score < Number(value) : score > Number(value));
  }
  return true;
}
// Why a question has no score by a metric.
function reasonOf(scores, metric, index) {
  const found = Object.entries(scores.missing[metricNumber(metric.name)]).find(([, places]) => places.includes(index));
  return found?.[0] ?? "not scored";
}
function drawQuestions() {
  byId("questions-heading").textContent = state.trial ? `Questions of ${state.trial}` : "Questions";
  fillFilter();
  const row = rowOf(state.trial);
  if (!row || !questions.length) {
    byId("filter").hidden = true;
    byId("filtered").textContent = questions.length ? "There is no trial whose questions could be shown." : "There are no golden questions.";
    draw("questions", async () => []);
    byId("more-questions").replaceChildren();
    return;
  }
  draw("questions", async () => {
    const scores = await trialPart(row);
    const of = (index) => (state.order.key === "question" ? questions[index].id : state.order.key === LOST ? scores.losses?.[index] : scores.scores[metricNumber(state.order.key)][index]);
    let shownOnes = questions.map((_, index) => index).filter((index) => passes(index, scores));
    if (state.order) shownOnes = sorted(shownOnes, of, state.order.down);
    const isFiltered = shownOnes.length < questions.length;
    byId("filtered").textContent = isFiltered ? `${shownOnes.length} of ${counted(questions.length, "question")}.` : "";
    const choose = (order) => change({ order });
    const header = element("tr", {}, sortable("question", "question", state.order, false, choose), head("text"),
      ...metrics.map((metric) => sortable(metric.name, metric.name, state.order, true, choose)),
      ...(scores.losses ? [sortable("lost", LOST, state.order, false, choose)] : []));
    const body = element("tbody", {}, ...shownOnes.slice(0, PAGE_LINES).map((index) => questionLine(index, scores)));
    const rest = shownOnes.length - PAGE_LINES;
    byId("more-questions").replaceChildren(...(rest > 0 ? [moreButton(rest, () => body.append(...shownOnes.slice(PAGE_LINES).map((index) => questionLine(index, scores))))] : []));
    return [caption(`Questions of ${row.id} with their scores`), element("thead", {}, header), body];
  });
}
function questionLine(index, scores) {
  const { id, question, answerable } = questions[index];
  const cells = metrics.map((metric) => {
    const score = scores.scores[metricNumber(metric.name)][index];
    return known(score) ? number(score) : cellOf("–", { class: "number missing", title: reasonOf(scores, metric, index) });
  });
  if (scores.losses) {
    const step = lossSteps[scores.losses[index]];
    cells.push(cellOf(step?.title ?? "–", { class: step?.is_loss ? null : "missing", title: step?.meaning }));
  }
  const text = element("td", { class: "text" }, question);
  if (!answerable) text.append(" ", element("span", { class: "badge tied" }, "not in the documents"));
  if (scores.answers[index] === 2) text.append(" ", element("span", { class: "badge bad" }, "failed"));
  return chosenBy(() => openQuestion(id), id === state.question, id, [text, ...cells], { "data-id": id });
}
function markQuestion() {
  markChosen("questions", (id) => id === state.question);
  if (byId("differing")) markChosen("differing", (id) => id === state.question);
}
function openQuestion(id) {
  change({ question: id });
  byId("question-heading").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
  byId("question-heading").focus({ preventScroll: true });
}
