// ---- two trials side by side
const MOST_LINES = 50;

// The settings of a trial as paths and values: `retriever.bm25.top_k` and 5.
function flat(value, path = "", all = new Map()) {
  if (value !== null && typeof value === "object" && Object.keys(value).length) {
    for (const [key, inner] of Object.entries(value)) flat(inner, path ? `${path}.${key}` : key, all);
  } else {
    // Spaces and line ends would not be seen.
    const isBlank = typeof value === "string" && !value.trim();
    all.set(path, isBlank || (value !== null && typeof value === "object") ? JSON.stringify(value) : String(value ?? "none"));
  }
  return all;
}
function differing(one, two) {
  const [a, b] = [flat(one.settings), flat(two.settings)];
  return [...new Set([...a.keys(), ...b.keys()])].filter((path) => a.get(path) !== b.get(path)).map((path) => [path, a.get(path), b.get(path)]);
}
// Scores by question, and whether more is better.
function measure(scores, by) {
  if (by === "objective") return [scores.objective, true];
  const index = metricNumber(by);
  return [scores.scores[index], overview.metrics[index].higher_is_better];
}
function tally(a, b, by) {
  const [[x, upwards], [y]] = [measure(a, by), measure(b, by)];
  const counts = { won: 0, lost: 0, tied: 0, sum: 0, n: 0 };
  x.forEach((value, i) => {
    if (!known(value) || !known(y[i])) return;
    counts.n += 1;
    counts.sum += value - y[i];
    if (value === y[i]) counts.tied += 1;
    else if (value > y[i] === upwards) counts.won += 1;
    else counts.lost += 1;
  });
  return counts;
}

function drawCompare() {
  const trials = board.rows.map((row) => [row.id, row.label ? `${row.id} (${row.label})` : row.id]);
  replace(byId("compare-fields"), [
    chooser("Trial", trials, state.trial, (id) => change({ trial: id })),
    chooser("beside", [["", "none"], ...trials.filter(([id]) => id !== state.trial)], state.other ?? "", (id) => change({ other: id || null })),
    chooser("Sort questions by", [["objective", "the objective"], ...metrics.map((metric) => [metric.name, metric.name])], state.by, (by) => change({ by })),
  ]);
  const [one, two] = [rowOf(state.trial), rowOf(state.other)];
  if (!one || !two || one === two) {
    return draw("compare", async () => [element("p", { class: "hint" }, "Choose a second trial to see which settings differ, and on which questions the two differ most.")]);
  }
  return draw("compare", async () => {
    const [a, b] = await Promise.all([trialPart(one), trialPart(two)]);
    return [settingsTable(one, two), talliesTable(one, two, a, b), ...differencesTable(one, two, a, b)];
  });
}
const boxed = (label, table) => element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, table);
function settingsTable(one, two) {
  const rows = differing(one, two).map(([path, a, b]) => element("tr", {}, element("th", { scope: "row" }, path), cellOf(a ?? "–"), cellOf(b ?? "–")));
  if (!rows.length) return element("p", { class: "hint" }, "The two trials have the same settings.");
  return boxed("Settings that differ", element("table", {}, caption("Settings that differ"),
    element("thead", {}, element("tr", {}, head("setting that differs"), head(one.id), head(two.id))), element("tbody", {}, ...rows)));
}
function talliesTable(one, two, a, b) {
  const lines = ["objective", ...metrics.map((metric) => metric.name)].map((by) => {
    const { won, lost, tied, sum, n } = tally(a, b, by);
    return element("tr", {}, element("th", { scope: "row" }, by === "objective" ? "the objective" : by),
      ...[won, lost, tied].map((count) => cellOf(String(count), { class: "number" })),
      cellOf(n ? signed(sum / n) : "–", { class: "number" }), cellOf(`${n}/${questions.length}`, { class: "number" }));
  });
  return boxed("Questions won, lost and tied", element("table", {}, caption(`Questions that ${one.id} wins and loses against ${two.id}`),
    element("thead", {}, element("tr", {}, head("metric"), ...[`${one.id} wins`, `${two.id} wins`, "tied", "mean difference", "compared"].map((title) => head(title, { class: "number" })))),
    element("tbody", {}, ...lines)));
}
function differencesTable(one, two, a, b) {
  const [[x], [y]] = [measure(a, state.by), measure(b, state.by)];
  const compared = questions.map((question, i) => ({ question, a: x[i], b: y[i] })).filter((it) => known(it.a) && known(it.b) && it.a !== it.b);
  compared.sort((p, q) => Math.abs(q.a - q.b) - Math.abs(p.a - p.b));
  if (!compared.length) return [element("p", { class: "hint" }, `No question has a different score by ${state.by === "objective" ? "the objective" : state.by}.`)];
  const line = ({ question, a: own, b: other }) => chosenBy(() => openQuestion(question.id), question.id === state.question, question.id,
    [cellOf(question.question, { class: "text" }), number(own), number(other), cellOf(signed(own - other), { class: "number" })], { "data-id": question.id });
  const table = element("table", { id: "differing" }, caption(`Questions on which ${one.id} and ${two.id} differ, most first`),
    element("thead", {}, element("tr", {}, head("question"), head("text"), ...[one.id, two.id, "difference"].map((title) => head(title, { class: "number" })))),
    element("tbody", {}, ...compared.slice(0, MOST_LINES).map(line)));
  const rest = compared.length - MOST_LINES;
  return [boxed("Questions that differ", table), ...(rest > 0 ? [moreButton(rest, () => {
    table.tBodies[0].append(...compared.slice(MOST_LINES).map(line));
  })] : [])];
}
function moreButton(rest, show) {
  const button = element("button", { type: "button", onclick: () => { show(); button.remove(); } }, `Show ${rest} more`);
  return button;
}
