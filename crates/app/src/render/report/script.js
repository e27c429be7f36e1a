"use strict";
// The report: draws the board, which says everything about trials in words and
// numbers, and what each trial made of each question. Text from documents and
// models is only ever set as text, never as markup.
const { board, questions, trials, passages, details } = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const known = (value) => value !== null && value !== undefined;
// No minus before zero: `+ 0` takes it away.
const fixed = (value, digits = 3) => (known(value) ? (Number(value.toFixed(digits)) + 0).toFixed(digits) : "–");
const state = { trial: board.answering?.trial, question: null, sort: null, brushes: new Map() };

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
const asked = () => trials[state.trial] ?? [];
// A name that a sentence begins with stays as it is.
const sentence = (text, subject) => `${subject && text.startsWith(subject) ? text[0] : text[0].toUpperCase()}${text.slice(1)}.`;

// ---- header
document.title = `Reverie: ${board.experiment}`;
byId("title").textContent = board.experiment;
byId("verdict").textContent = (board.unscored ? [board.unscored] : board.verdict).map((text) => sentence(text, board.winner)).join(" ");
if (board.partial) {
  byId("partial").hidden = false;
  byId("partial").textContent = `Partial results: ${board.partial}.`;
}
byId("facts").textContent = `${board.corpus}. Run ${board.run}, ${board.finished}.`;

// ---- what the plot and the tables show
// What a row has in a column: a word, a number, or the mean of scores.
const valueOf = (column) => (row) => { const cell = row.cells[column.index]; return cell?.mean ?? (typeof cell === "object" ? null : cell); };
const shown = board.columns
  .map((column, index) => ({ ...column, index, title: column.judged ? `${column.title}*` : column.title }))
  .filter((column) => column.shown)
  .map((column) => ({ ...column, of: valueOf(column), isNumber: column.kind !== "axis" }));
const ofKind = (kind) => shown.filter((column) => column.kind === kind);
const metrics = ofKind("metric");
const columns = [...ofKind("axis"), ...metrics, ...ofKind("seconds").slice(0, 1), ...ofKind("objective")]
  .filter((column) => board.rows.some((row) => known(column.of(row))));

const objective = (row) => ofKind("objective")[0]?.of(row);
const objectives = board.rows.map(objective).filter(known);
const [low, high] = [Math.min(...objectives), Math.max(...objectives)];
// Blue is low and orange is high: told apart with any colour vision.
function colour(row) {
  const value = objective(row);
  if (!known(value)) return "var(--soft)";
  const share = high > low ? (value - low) / (high - low) : 1;
  return `hsl(${share > 0.5 ? 28 : 215} ${30 + Math.abs(share - 0.5) * 120}% ${52}%)`;
}

// ---- parallel coordinates
function scale(column, top, bottom) {
  const values = board.rows.map(column.of).filter(known);
  if (!column.isNumber) {
    const names = [...new Set(values)];
    const step = (bottom - top) / names.length;
    return { names, y: (value) => top + step * (names.indexOf(value) + 0.5) };
  }
  let [least, most] = [Math.min(...values), Math.max(...values)];
  if (least === most) [least, most] = [least - 0.5, most + 0.5];
  return { least, most, y: (value) => bottom - ((value - least) / (most - least)) * (bottom - top) };
}
function kept(row) {
  return [...state.brushes].every(([index, [from, to]]) => {
    const column = columns[index];
    const value = column.of(row);
    if (!known(value)) return false;
    const y = column.scale.y(value);
    return y >= from && y <= to;
  });
}
// A text that has no more room than this is cut, and says all of itself when it is pointed at.
const LETTER = 6.6;
function fitting(attributes, text, room) {
  const most = Math.max(2, Math.floor(room / LETTER));
  const node = svg("text", attributes, text.length > most ? `${text.slice(0, most - 1)}…` : text);
  if (text.length > most) node.append(svg("title", {}, text));
  return node;
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
  for (const row of board.rows) {
    const points = columns
      .map((column) => [column.x, column.of(row), column])
      .filter(([, value]) => known(value))
      .map(([x, value, column]) => `${x},${column.scale.y(value)}`);
    const path = svg("path", { d: `M${points.join("L")}`, class: "trial", stroke: colour(row), "data-trial": row.id });
    path.append(svg("title", {}, `${row.id}: ${ofKind("axis").map((axis) => axis.of(row)).join(", ")}; objective ${fixed(objective(row))}`));
    path.addEventListener("click", () => chooseTrial(row.id));
    path.style.cursor = "pointer";
    lines.append(path);
  }
  root.append(lines);
  columns.forEach((column, i) => {
    const group = svg("g", { class: "axis" });
    group.append(svg("line", { x1: column.x, x2: column.x, y1: top, y2: bottom }));
    // Neighbours stand in two rows, so that a name has the room of two columns, but none beyond the edge.
    const room = Math.min(2 * gap - 12, 2 * column.x, 2 * (width - column.x));
    const name = fitting({ x: column.x, y: i % 2 ? 14 : 30, "text-anchor": "middle", class: `name${column.judged ? " judged" : ""}` }, column.title, room);
    name.addEventListener("click", () => { state.brushes.delete(i); update(); });
    group.append(name);
    if (!column.isNumber) {
      const beside = (i === columns.length - 1 ? width - column.x : gap) - 14;
      // Labels that would stand on each other are left out; a trial's line tells them too.
      const every = Math.ceil(13 / ((bottom - top) / column.scale.names.length));
      column.scale.names.forEach((label, n) => {
        if (n % every === 0) group.append(fitting({ x: column.x + 6, y: column.scale.y(label) - 6, class: "tick" }, label, beside));
      });
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
function scoresCell(scores, column) {
  if (scores.mean === null) return element("td", { class: "number missing", title: scores.missing ?? "" }, `– (0/${scores.n_total})`);
  const cell = element("td", { class: "number", title: scores.missing ?? "" }, fixed(scores.mean, column.digits));
  if (known(scores.low)) cell.append(element("div", { class: "range" }, `${fixed(scores.low, 2)}–${fixed(scores.high, 2)}`));
  if (column.kind === "metric") {
    const scored = element("div", { class: "range" }, `${scores.n_scored}/${scores.n_total}`);
    if (scores.n_scored < scores.n_total) scored.textContent += `, ${fixed(scores.worst, 2)} to ${fixed(scores.best, 2)}`;
    cell.append(scored);
  }
  return cell;
}
function drawnCell(column, cell) {
  if (!column.isNumber) return element("td", {}, cell ?? "");
  if (cell === null) return element("td", { class: "number missing" }, "–");
  return typeof cell === "number" ? number(cell, column.digits) : scoresCell(cell, column);
}
function badges(row) {
  const cell = element("td");
  const kind = row.standing === "winner" || row.standing === "leads" ? "winner" : row.standing === "behind" ? "" : "tied";
  if (row.label) cell.append(element("span", { class: `badge ${kind}`, title: row.place }, row.label));
  if (board.front.includes(row.id)) {
    cell.append(" ", element("span", { class: "badge tied", title: "no trial beats it on quality, cost and latency together" }, "front"));
  }
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
  const rows = [...board.rows];
  if (state.sort) {
    const { of, down } = state.sort;
    rows.sort((a, b) => {
      const [x, y] = [of(a) ?? -Infinity, of(b) ?? -Infinity];
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
  }
  const head = element("tr", {}, element("th"), sortable("trial", "trial", (row) => row.id, false));
  for (const column of shown) head.append(sortable(column.title, column.index, column.of, column.isNumber));
  const body = element("tbody");
  for (const row of rows) {
    const attributes = rowAttributes(row.id === state.trial, !kept(row), () => chooseTrial(row.id));
    body.append(element("tr", attributes, badges(row), element("td", {}, row.id),
      ...shown.map((column) => drawnCell(column, row.cells[column.index]))));
  }
  byId("board").replaceChildren(element("thead", {}, head), body);
}
function drawNotes() {
  const ofJudges = (note) => note.about === "judge" || note.about === "untried_judge";
  byId("legend").textContent = [
    "Mean; below it the 95 % bootstrap interval and n scored of n total, with worst and best case where scores are missing.",
    ...board.notes.filter(ofJudges).map((note) => `* ${sentence(note.text)} Only a qualified judge's metric may choose.`),
  ].join(" ");
  byId("notes").replaceChildren(...board.notes.filter((note) => !ofJudges(note)).map((note) => element("li", {}, sentence(note.text, note.subject))));
}

// ---- questions of the chosen trial
function drawQuestions() {
  byId("questions-heading").textContent = state.trial ? `Questions of ${state.trial}` : "Questions";
  const head = element("tr", {}, element("th", {}, "question"), element("th", {}, ""));
  for (const metric of metrics) head.append(element("th", { class: "number" }, metric.name));
  const body = element("tbody");
  asked().forEach((result, i) => {
    const row = element("tr", rowAttributes(result.question === state.question, false, () => chooseQuestion(result.question)),
      element("td", {}, result.question), element("td", { class: "text" }, questions[i].question));
    for (const metric of metrics) {
      const scored = result.scores[metric.name];
      row.append(known(scored?.value)
        ? number(scored.value)
        : element("td", { class: "number missing", title: scored?.missing ?? "not scored" }, "–"));
    }
    body.append(row);
  });
  byId("questions").replaceChildren(element("thead", {}, head), body);
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
  const index = asked().findIndex((result) => result.question === state.question);
  const detail = byId("detail");
  if (index < 0) {
    byId("detail-heading").textContent = "One question";
    detail.replaceChildren(element("p", { class: "hint" }, "Choose a question above to see its evidence, what was retrieved, the answer and every verdict."));
    return;
  }
  const [golden, result] = [questions[index], asked()[index]];
  byId("detail-heading").textContent = `${state.trial} · ${golden.id}`;
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
  // Each passage stands once in the data, whoever found it; its score is the trial's own.
  const found = result.passages.map(([place, score]) => ({ ...passages[place], score }));
  found.forEach((passage, i) => {
    const [body, covers] = highlighted(passage, golden.evidence ?? []);
    cards.append(element("div", { class: `card${covers ? " covers" : ""}` },
      element("div", { class: "where" }, `[${i + 1}] ${where(passage)} · score ${fixed(passage.score)}${covers ? " · holds evidence" : ""}`), body));
  });
  nodes.push(cards, element("h3", {}, "Verdicts"));
  const scores = element("dl");
  for (const metric of metrics) {
    const scored = result.scores[metric.name];
    const cell = element("dd", {}, known(scored?.value) ? fixed(scored.value) : scored?.missing ?? "not scored");
    if (known(scored?.detail)) {
      cell.append(element("details", {}, element("summary", {}, "how it came about"), element("pre", {}, JSON.stringify(details[scored.detail], null, 2))));
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
    const row = board.rows.find((other) => other.id === path.dataset.trial);
    path.classList.toggle("out", !kept(row));
    path.classList.toggle("chosen", row.id === state.trial);
  }
  for (const rect of document.querySelectorAll("#plot rect.brush")) {
    const range = state.brushes.get(Number(rect.dataset.brush));
    rect.setAttribute("y", range ? range[0] : 0);
    rect.setAttribute("height", range ? range[1] - range[0] : 0);
  }
  const count = board.rows.filter(kept).length;
  byId("brushed").textContent = state.brushes.size ? `${count} of ${board.rows.length} trials pass the brushes.` : "";
  drawBoard();
}
for (const rejected of board.rejected) {
  byId("rejected-section").hidden = false;
  byId("rejected").append(element("li", {}, `${rejected.path}: ${rejected.reason}`));
}
const [linkedTrial, linkedQuestion] = location.hash.slice(1).split("/").map(decodeURIComponent);
if (board.rows.some((row) => row.id === linkedTrial)) state.trial = linkedTrial;
if (questions.some((question) => question.id === linkedQuestion)) state.question = linkedQuestion;
drawPlot();
drawNotes();
update();
drawQuestions();
drawDetail();
