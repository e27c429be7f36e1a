"use strict";
// The report: draws results.json. Text from documents and models is only ever
// set as text, never as markup.
const results = JSON.parse(document.getElementById("data").textContent);
const AXES = ["chunker", "embedder", "retriever", "reranker", "generator"];
const byId = (id) => document.getElementById(id);
const fixed = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const winner = results.winner.trial ?? null;
const state = { trial: winner ?? results.trials[0]?.trial.id, question: null, sort: null, brushes: new Map() };

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
function svg(name, attributes = {}, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
const chosenTrial = () => results.trials.find((trial) => trial.trial.id === state.trial);
const sentences = (said) => said.map((sentence) => `${sentence[0].toUpperCase()}${sentence.slice(1)}.`).join(" ");
const scoreValue = (scored) => (scored && "value" in scored.score ? scored.score.value : null);

// ---- header
document.title = `Reverie: ${results.experiment}`;
byId("title").textContent = results.experiment;
byId("verdict").textContent = sentences(results.verdict);
if (results.partial) {
  byId("partial").hidden = false;
  byId("partial").textContent = `Partial results: ${results.partial}.`;
}
byId("facts").textContent =
  `${results.documents} documents, ${(results.text_bytes / 1e6).toFixed(2)} MB of text, ${results.questions.length} questions, ` +
  `${results.trials.length} trials` +
  `. Run ${results.run}, ${new Date(results.time_ms).toISOString().replace("T", " ").slice(0, 16)} UTC.`;

// ---- what the plot and the tables show
const varying = AXES.filter((axis) => new Set(results.trials.map((trial) => trial.trial.labels[axis])).size > 1);
const columns = [
  ...varying.map((axis) => ({ name: axis, kind: "category", of: (trial) => trial.trial.labels[axis] })),
  ...results.metrics.map((metric) => ({
    name: metric.name, judged: metric.judged, kind: "number",
    of: (trial) => trial.metrics[metric.name]?.mean ?? null,
  })),
  { name: "seconds p50", kind: "number", of: (trial) => trial.latency_p50 },
  { name: "objective", kind: "number", of: (trial) => trial.objective?.mean ?? null },
].filter((column) => results.trials.some((trial) => column.of(trial) !== null && column.of(trial) !== undefined));

const split = results.trials.some((trial) => trial.test);
const objectives = results.trials.map((trial) => trial.objective?.mean).filter((value) => value !== null && value !== undefined);
const [low, high] = [Math.min(...objectives), Math.max(...objectives)];
// Blue is low and orange is high: told apart with any colour vision.
function colour(trial) {
  const value = trial.objective?.mean;
  if (value === null || value === undefined) return "var(--soft)";
  const share = high > low ? (value - low) / (high - low) : 1;
  return `hsl(${share > 0.5 ? 28 : 215} ${30 + Math.abs(share - 0.5) * 120}% ${52}%)`;
}

// ---- parallel coordinates
function scale(column, top, bottom) {
  const values = results.trials.map(column.of).filter((value) => value !== null && value !== undefined);
  if (column.kind === "category") {
    const names = [...new Set(values)];
    const step = (bottom - top) / names.length;
    return { names, y: (value) => top + step * (names.indexOf(value) + 0.5) };
  }
  let [least, most] = [Math.min(...values), Math.max(...values)];
  if (least === most) [least, most] = [least - 0.5, most + 0.5];
  return { least, most, y: (value) => bottom - ((value - least) / (most - least)) * (bottom - top) };
}
function kept(trial) {
  return [...state.brushes].every(([index, [from, to]]) => {
    const column = columns[index];
    const value = column.of(trial);
    if (value === null || value === undefined) return false;
    const y = column.scale.y(value);
    return y >= from && y <= to;
  });
}
function drawPlot() {
  const width = Math.max(900, columns.length * 96);
  const [top, bottom, left] = [46, 348, 60];
  const gap = (width - left - 60) / Math.max(1, columns.length - 1);
  const root = svg("svg", { viewBox: `0 0 ${width} 372`, role: "img", "aria-label": "Parallel coordinates of all trials" });
  columns.forEach((column, i) => {
    column.x = left + i * gap;
    column.scale = scale(column, top, bottom);
  });
  const lines = svg("g");
  for (const trial of results.trials) {
    const points = columns
      .map((column) => [column.x, column.of(trial), column])
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([x, value, column]) => `${x},${column.scale.y(value)}`);
    const path = svg("path", { d: `M${points.join("L")}`, class: "trial", stroke: colour(trial), "data-trial": trial.trial.id });
    path.append(svg("title", {}, `${trial.trial.id}: ${varying.map((axis) => trial.trial.labels[axis]).join(", ")}; objective ${fixed(trial.objective?.mean)}`));
    path.addEventListener("click", () => chooseTrial(trial.trial.id));
    path.style.cursor = "pointer";
    lines.append(path);
  }
  root.append(lines);
  columns.forEach((column, i) => {
    const group = svg("g", { class: "axis" });
    group.append(svg("line", { x1: column.x, x2: column.x, y1: top, y2: bottom }));
    const name = svg("text", { x: column.x, y: i % 2 ? 14 : 30, "text-anchor": "middle", class: `name${column.judged ? " judged" : ""}` }, column.judged ? `${column.name}*` : column.name);
    name.addEventListener("click", () => { state.brushes.delete(i); update(); });
    group.append(name);
    if (column.kind === "category") {
      for (const label of column.scale.names) {
        group.append(svg("text", { x: column.x + 6, y: column.scale.y(label) - 6, class: "tick" }, label));
      }
    } else {
      group.append(svg("text", { x: column.x + 5, y: top + 4, class: "tick" }, fixed(column.scale.most)));
      group.append(svg("text", { x: column.x + 5, y: bottom + 4, class: "tick" }, fixed(column.scale.least)));
    }
    const brush = svg("rect", { class: "brush", x: column.x - 9, width: 18, y: 0, height: 0, "data-brush": i });
    const area = svg("rect", { class: "catch", x: column.x - 14, width: 28, y: top - 6, height: bottom - top + 12 });
    let start = null;
    const position = (event) => {
      const box = root.getBoundingClientRect();
      return Math.min(bottom + 6, Math.max(top - 6, ((event.clientY - box.top) / box.height) * 372));
    };
    area.addEventListener("pointerdown", (event) => { start = position(event); area.setPointerCapture(event.pointerId); });
    area.addEventListener("pointermove", (event) => {
      if (start === null) return;
      const now = position(event);
      state.brushes.set(i, [Math.min(start, now), Math.max(start, now)]);
      update();
    });
    area.addEventListener("pointerup", () => {
      const range = state.brushes.get(i);
      if (range && range[1] - range[0] < 4) state.brushes.delete(i);
      start = null;
      update();
    });
    group.append(area, brush);
    root.append(group);
  });
  byId("plot").replaceChildren(root);
}

// ---- leaderboard
function number(value, digits) { return element("td", { class: "number" }, fixed(value, digits)); }
function summaryCell(summary) {
  if (!summary || summary.mean === null) return element("td", { class: "number missing" }, summary ? `– (0/${summary.n_total})` : "–");
  const cell = element("td", { class: "number" }, fixed(summary.mean));
  if (summary.low !== null && summary.low !== undefined) {
    cell.append(element("div", { class: "range" }, `${fixed(summary.low, 2)}–${fixed(summary.high, 2)}`));
  }
  const scored = element("div", { class: "range" }, `${summary.n_scored}/${summary.n_total}`);
  if (summary.n_scored < summary.n_total) scored.textContent += `, ${fixed(summary.worst, 2)} to ${fixed(summary.best, 2)}`;
  cell.append(scored);
  return cell;
}
function sortable(label, key, of, isNumber) {
  const button = element("button", { onclick: () => {
    state.sort = state.sort?.key === key ? { key, of, down: !state.sort.down } : { key, of, down: isNumber };
    drawBoard();
  } }, label + (state.sort?.key === key ? (state.sort.down ? " ↓" : " ↑") : ""));
  return element("th", { class: isNumber ? "number" : "" }, button);
}
function rowAttributes(chosen, out, choose) {
  return {
    class: `${chosen ? "chosen" : ""} ${out ? "out" : ""}`, tabindex: "0", onclick: choose,
    onkeydown: (event) => { if (event.key === "Enter") choose(); },
  };
}
function drawBoard() {
  const trials = [...results.trials];
  if (state.sort) {
    const { of, down } = state.sort;
    trials.sort((a, b) => {
      const [x, y] = [of(a) ?? -Infinity, of(b) ?? -Infinity];
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
  }
  const head = element("tr", {}, element("th"), sortable("trial", "trial", (trial) => trial.trial.id, false));
  for (const axis of varying) head.append(sortable(axis, axis, (trial) => trial.trial.labels[axis], false));
  head.append(sortable("objective", "objective", (trial) => trial.objective?.mean, true));
  if (split) head.append(sortable("on test questions", "test", (trial) => trial.test?.mean, true));
  for (const metric of results.metrics) {
    head.append(sortable(metric.judged ? `${metric.name}*` : metric.name, metric.name, (trial) => trial.metrics[metric.name]?.mean, true));
  }
  head.append(sortable("s p50", "p50", (trial) => trial.latency_p50, true), sortable("s p95", "p95", (trial) => trial.latency_p95, true));
  head.append(sortable("tokens", "tokens", (trial) => trial.tokens, true), sortable("$", "cost", (trial) => trial.cost_usd, true));
  const body = element("tbody");
  const separated = results.trials.some((trial) => trial.group > 1);
  for (const trial of trials) {
    const id = trial.trial.id;
    let badge = "";
    if (id === winner) badge = element("span", { class: "badge winner" }, separated ? "winner" : "leads");
    else if (trial.stopped) badge = element("span", { class: "badge tied", title: trial.stopped.reason }, trial.stopped.kind.replaceAll("_", " "));
    else if (winner && trial.tied) badge = element("span", { class: "badge tied", title: `p = ${fixed(trial.p_value)}` }, "tied");
    else if (winner && trial.group) badge = element("span", { class: "badge", title: `p = ${fixed(trial.p_value)}` }, `group ${trial.group}`);
    const row = element("tr", rowAttributes(id === state.trial, !kept(trial), () => chooseTrial(id)), element("td", {}, badge), element("td", {}, id));
    for (const axis of varying) row.append(element("td", {}, trial.trial.labels[axis]));
    row.append(summaryCell(trial.objective));
    if (split) row.append(summaryCell(trial.test));
    for (const metric of results.metrics) row.append(summaryCell(trial.metrics[metric.name]));
    row.append(number(trial.latency_p50, 2), number(trial.latency_p95, 2), number(trial.tokens, 0), number(trial.cost_usd, 4));
    body.append(row);
  }
  byId("board").replaceChildren(element("thead", {}, head), body);
  byId("legend").textContent =
    "Mean; below it the 95 % bootstrap interval and n scored of n total, with worst and best case where scores are missing." +
    (results.metrics.some((metric) => metric.judged) ? ` * ${results.judges.map(judgeInWords).join(" ")} Only a qualified judge's metric may choose.` : "");
}

/** How a judge did on labelled cases. */
function judgeInWords({ judge, record }) {
  if (!record) return `Judged by ${judge}, which was never tried on labelled cases.`;
  const range = (interval) => (interval ? ` [${fixed(interval.low, 2)}, ${fixed(interval.high, 2)}]` : "");
  const kinds = record.kinds.map(
    (kind) =>
      `${kind.kind} ${kind.qualified ? "qualified" : "not qualified"} (balanced accuracy ${fixed(kind.balanced_accuracy, 2)}${range(kind.accuracy_interval)}, AUC ${fixed(kind.auc, 2)}${range(kind.auc_interval)})`,
  );
  return `Judged by ${judge}: ${kinds.join("; ")}.`;
}

// ---- questions of the chosen trial
function drawQuestions() {
  const trial = chosenTrial();
  byId("questions-heading").textContent = trial ? `Questions of ${trial.trial.id}` : "Questions";
  const head = element("tr", {}, element("th", {}, "question"), element("th", {}, ""));
  for (const metric of results.metrics) head.append(element("th", { class: "number" }, metric.name));
  const body = element("tbody");
  (trial?.questions ?? []).forEach((result, i) => {
    const golden = results.questions[i];
    const row = element("tr", rowAttributes(result.question === state.question, false, () => chooseQuestion(result.question)),
      element("td", {}, result.question), element("td", { class: "text" }, golden.question));
    for (const metric of results.metrics) {
      const scored = result.scores[metric.name];
      const value = scoreValue(scored);
      row.append(value === null
        ? element("td", { class: "number missing", title: missingText(scored) }, "–")
        : number(value));
    }
    body.append(row);
  });
  byId("questions").replaceChildren(element("thead", {}, head), body);
}
function missingText(scored) {
  const missing = scored?.score?.missing;
  const detail = missing?.detail?.message ? `\`${missing.detail.function}\`: ${missing.detail.message}` : missing?.detail;
  return missing ? `${missing.reason.replaceAll("_", " ")}: ${detail}` : "not scored";
}

// ---- one question
function highlighted(passage, evidence) {
  const spans = evidence
    .filter((item) => item.span && item.document === passage.document)
    .map((item) => [Math.max(item.span.start, passage.span.start), Math.min(item.span.end, passage.span.end)])
    .filter(([from, to]) => from < to)
    .sort((a, b) => a[0] - b[0]);
  const body = element("div", { class: "body" });
  // Spans count bytes of UTF-8.
  const bytes = new TextEncoder().encode(passage.text);
  const text = (from, to) => new TextDecoder().decode(bytes.slice(from - passage.span.start, to - passage.span.start));
  let at = passage.span.start;
  for (const [from, to] of spans) {
    if (to <= at) continue;
    body.append(text(at, Math.max(at, from)), element("mark", {}, text(Math.max(at, from), to)));
    at = to;
  }
  body.append(text(at, passage.span.start + bytes.length));
  return [body, spans.length > 0];
}
function where(passage) {
  return [passage.document, passage.page !== null ? `page ${passage.page}` : null, passage.book, passage.heading].filter(Boolean).join(" · ");
}
function drawDetail() {
  const trial = chosenTrial();
  const index = trial?.questions.findIndex((result) => result.question === state.question) ?? -1;
  const detail = byId("detail");
  if (index < 0) {
    byId("detail-heading").textContent = "One question";
    detail.replaceChildren(element("p", { class: "hint" }, "Choose a question above to see its evidence, what was retrieved, the answer and every verdict."));
    return;
  }
  const [golden, result] = [results.questions[index], trial.questions[index]];
  byId("detail-heading").textContent = `${trial.trial.id} · ${golden.id}`;
  const facts = element("dl", {}, element("dt", {}, "question"), element("dd", {}, golden.question));
  if (golden.reference) facts.append(element("dt", {}, "reference"), element("dd", {}, golden.reference));
  for (const item of golden.evidence ?? []) facts.append(element("dt", {}, "evidence"), element("dd", {}, `${item.document}: ${item.quote}`));
  const nodes = [facts];
  nodes.push(element("h3", {}, "Answer"));
  if (result.answer) {
    nodes.push(element("div", { class: "card" },
      element("div", { class: "body" }, result.answer.text),
      element("div", { class: "where" }, `cites ${result.answer.citations.map((n) => `[${n}]`).join(" ") || "nothing"} · ${fixed(result.answer.seconds, 2)} s · ` +
        `${result.answer.usage.prompt_tokens} tokens read, ${result.answer.usage.completion_tokens} written`)));
  } else {
    nodes.push(element("p", { class: "hint" }, result.error ?? "This question was not answered in this run."));
  }
  nodes.push(element("h3", {}, "Retrieved"));
  const cards = element("div", { class: "cards" });
  result.passages.forEach((passage, i) => {
    const [body, covers] = highlighted(passage, golden.evidence ?? []);
    cards.append(element("div", { class: `card${covers ? " covers" : ""}` },
      element("div", { class: "where" }, `[${i + 1}] ${where(passage)} · score ${fixed(passage.score)}${covers ? " · holds evidence" : ""}`), body));
  });
  nodes.push(cards, element("h3", {}, "Verdicts"));
  const scores = element("dl");
  for (const metric of results.metrics) {
    const scored = result.scores[metric.name];
    const value = scoreValue(scored);
    const cell = element("dd", {}, value === null ? missingText(scored) : fixed(value));
    if (scored?.detail) {
      cell.append(element("details", {}, element("summary", {}, "how it came about"), element("pre", {}, JSON.stringify(scored.detail, null, 2))));
    }
    scores.append(element("dt", {}, metric.name), cell);
  }
  nodes.push(scores);
  detail.replaceChildren(...nodes);
}

// ---- linking
// The address names what is shown (#t08/urgency), so that it can be sent to somebody.
function remember() {
  const shown = `#${[state.trial, state.question].filter(Boolean).map(encodeURIComponent).join("/")}`;
  // In a notebook's frame the page has no address of its own to change.
  try { history.replaceState(null, "", shown); } catch (error) { if (error.name !== "SecurityError") throw error; }
}
function chooseTrial(id) { state.trial = id; remember(); update(); drawQuestions(); drawDetail(); }
function chooseQuestion(id) { state.question = id; remember(); drawQuestions(); drawDetail(); byId("detail-heading").scrollIntoView({ behavior: "smooth", block: "nearest" }); }
function update() {
  for (const path of document.querySelectorAll("#plot path.trial")) {
    const trial = results.trials.find((other) => other.trial.id === path.dataset.trial);
    path.classList.toggle("out", !kept(trial));
    path.classList.toggle("chosen", trial.trial.id === state.trial);
  }
  for (const rect of document.querySelectorAll("#plot rect.brush")) {
    const range = state.brushes.get(Number(rect.dataset.brush));
    rect.setAttribute("y", range ? range[0] : 0);
    rect.setAttribute("height", range ? range[1] - range[0] : 0);
  }
  const count = results.trials.filter(kept).length;
  byId("brushed").textContent = state.brushes.size ? `${count} of ${results.trials.length} trials pass the brushes.` : "";
  drawBoard();
}
for (const rejected of results.rejected) {
  byId("rejected-section").hidden = false;
  const reason = typeof rejected.reason === "string" ? rejected.reason : Object.entries(rejected.reason).map(([kind, detail]) => `${kind.replaceAll("_", " ")}${detail ? `: ${typeof detail === "string" ? detail : JSON.stringify(detail)}` : ""}`).join();
  byId("rejected").append(element("li", {}, `${rejected.path}: ${reason}`));
}
const [linkedTrial, linkedQuestion] = location.hash.slice(1).split("/").map(decodeURIComponent);
if (results.trials.some((trial) => trial.trial.id === linkedTrial)) state.trial = linkedTrial;
if (results.questions.some((question) => question.id === linkedQuestion)) state.question = linkedQuestion;
drawPlot();
update();
drawQuestions();
drawDetail();
