// ---- leaderboard
function scoresCell(scores, column) {
  if (scores.mean === null) return cellOf(`– (0/${scores.n_total})`, { class: "number missing", title: scores.missing });
  const cell = element("td", { class: "number", title: scores.missing }, fixed(scores.mean, column.digits));
  if (known(scores.low)) cell.append(element("div", { class: "range" }, `${fixed(scores.low, 2)}–${fixed(scores.high, 2)}`));
  if (column.kind === "metric") {
    const scored = element("div", { class: "range" }, `${scores.n_scored}/${scores.n_total}`);
    if (scores.n_scored < scores.n_total) scored.textContent += `, ${fixed(scores.worst, 2)} to ${fixed(scores.best, 2)}`;
    cell.append(scored);
  }
  return cell;
}
function drawnCell(column, cell) {
  if (!column.isNumber) return cellOf(cell ?? "");
  if (cell === null) return cellOf("–", { class: "number missing" });
  return typeof cell === "number" ? number(cell, column.digits) : scoresCell(cell, column);
}
function badges(row) {
  const cell = element("td");
  const kind = isFirst(row) ? "winner" : row.standing === "behind" ? "" : "tied";
  if (row.label) cell.append(element("span", { class: `badge ${kind}`, title: row.place }, row.label));
  if (board.front.includes(row.id)) {
    cell.append(" ", element("span", { class: "badge tied", title: "no trial beats it on quality, cost and latency together" }, "front"));
  }
  return cell;
}

// How far a trial is from the leading one, drawn on one scale for all trials.
const differences = new Map(board.rows.map((row, index) => [row.id, overview.differences[index]]).filter(([, difference]) => known(difference)));
const ends = [...differences.values()].flatMap(({ mean, interval }) => [mean, interval?.low ?? mean, interval?.high ?? mean]);
const [leftmost, rightmost] = [Math.min(0, ...ends), Math.max(0, ...ends)];
const DIFFERENCE = "difference";
const STANDING = "standing";
function differenceCell(row) {
  const difference = differences.get(row.id);
  if (!difference) return cellOf(row === leading ? "leads" : "–", { class: "missing" });
  const { mean, interval, n_questions: n } = difference;
  const x = (value) => 4 + ((value - leftmost) / (rightmost - leftmost || 1)) * 112;
  const picture = svg("svg", { viewBox: "0 0 120 14", width: 120, height: 14, "aria-hidden": "true", class: "interval" },
    svg("line", { x1: x(0), x2: x(0), y1: 0, y2: 14, class: "zero" }));
  if (interval) picture.append(svg("line", { x1: x(interval.low), x2: x(interval.high), y1: 7, y2: 7, class: "whisker" }));
  picture.append(svg("circle", { cx: x(mean), cy: 7, r: 3 }));
  const range = interval ? `${signed(interval.low)} to ${signed(interval.high)}` : "no interval";
  return element("td", { class: "number", title: `paired on ${counted(n, "question")}` }, signed(mean), element("div", { class: "range" }, range), picture);
}

// The column that counts, for each trial and step, the questions whose evidence was lost there.
const LOST = "lost evidence";
const hasLosses = board.rows.some((row) => Object.keys(row.losses ?? {}).length > 0);
function lossesCell(row) {
  const lost = lossSteps.filter((step) => step.is_loss && row.losses?.[step.name]);
  if (!lost.length) return cellOf(Object.keys(row.losses ?? {}).length ? "none" : "–", { class: "missing" });
  return element("td", {}, ...lost.map((step) => element("div", { class: "range", title: step.meaning }, `${row.losses[step.name]} ${step.title}`)));
}

// On a narrow screen the objective stands right after the trial, where it is seen without scrolling.
const narrow = matchMedia("(max-width: 600px)");
narrow.addEventListener("change", () => drawBoard());

function drawBoard() {
  const { sort } = state;
  const choose = (order) => change({ sort: order });
  const columns = shown.map((column) => ({ ...column, cell: (row) => drawnCell(column, row.cells[column.index]) }));
  if (differences.size) {
    const after = columns.findIndex((column) => column.kind === "objective");
    columns.splice(after + 1, 0, { kind: DIFFERENCE, title: `difference to ${leading.id}`, cell: differenceCell });
  }
  if (hasLosses && lossSteps.length) columns.push({ kind: LOST, title: "lost", cell: lossesCell });
  columns.unshift({ kind: STANDING, title: "standing", cell: badges });
  if (narrow.matches) columns.sort((one, other) => (other.kind === "objective") - (one.kind === "objective"));
  const header = element("tr", {}, sortable("trial", "trial", sort, false, choose));
  for (const column of columns) {
    header.append(column.key === undefined ? head(column.title, column.kind === DIFFERENCE ? { class: "number" } : {}) : sortable(column.title, column.key, sort, column.isNumber, choose));
  }
  const line = (row) => chosenBy(() => change({ trial: row.id }), row.id === state.trial, row.id,
    columns.map((column) => column.cell(row)), { "data-id": row.id });
  const body = (rows, title) => {
    const lines = rows.map(line);
    if (title) lines.unshift(element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: columns.length + 1 }, title)));
    return element("tbody", {}, ...lines);
  };
  replace(byId("board"), [caption("Trials, best first"), element("thead", {}, header), ...grouped(sort).map(([title, rows]) => body(rows, title))]);
  applyBrushes();
}
// The trials below the titles of their groups; one list if there are no groups, or if the user sorts them.
function grouped(sort) {
  if (sort) {
    const of = sort.key === "trial" ? (row) => row.id : columnOf(sort.key).of;
    return [[null, sorted(board.rows, of, sort.down)]];
  }
  if (!overview.group_titles.length) return [[null, board.rows]];
  const groups = overview.group_titles.map((title, index) => [sentence(title), board.rows.filter((row) => row.group === index + 1)]);
  const others = board.rows.filter((row) => !known(row.group));
  return [...groups, ["Without a group", others]].filter(([, rows]) => rows.length);
}
function markTrial() {
  markChosen("board", (id) => id === state.trial);
  for (const node of document.querySelectorAll("#plot path.trial, #front .point")) node.classList.toggle("chosen", node.dataset.trial === state.trial);
}
// Explains the steps that are in this column.
function lossLegend() {
  const shownSteps = lossSteps.filter((step) => step.is_loss && board.rows.some((row) => row.losses?.[step.name]));
  if (!shownSteps.length) return "";
  return `Lost: at how many questions the evidence was lost first at this step. ${shownSteps.map((step) => `${sentence(step.title).slice(0, -1)}: ${step.meaning}`).join(" ")}`;
}
function drawNotes() {
  const ofJudges = (note) => note.about === "judge" || note.about === "untried_judge";
  byId("legend").textContent = [
    "Mean; below it the 95 % bootstrap interval and n scored of n total, with worst and best case where scores are missing.",
    differences.size ? `The difference to ${leading.id} is the objective's, paired question by question; the line is its 95 % interval, which does not take into account that ${leading.id} was chosen as the best.` : "",
    lossLegend(),
    ...board.notes.filter(ofJudges).map((note) => `* ${sentence(note.text)} Only a qualified judge's metric may choose the winner.`),
  ].join(" ");
  byId("notes").replaceChildren(...board.notes.filter((note) => !ofJudges(note)).map((note) => element("li", {}, sentence(note.text, note.subject))));
}
function drawHeader() {
  document.title = `Reverie: ${board.experiment}`;
  byId("title").textContent = board.experiment;
  byId("verdict").textContent = (board.unscored ? [board.unscored] : board.verdict).map((text) => sentence(text, board.leads ?? board.winner)).join(" ");
  byId("partial").hidden = !board.partial;
  if (board.partial) byId("partial").textContent = `Partial results: ${board.partial}.`;
  byId("warnings").hidden = !board.warnings.length;
  byId("warnings").replaceChildren(...board.warnings.map((warning) => element("li", { title: `What to do: ${warning.action}.` }, sentence(warning.text, warning.trials[0]), " ", element("code", {}, warning.code))));
  byId("facts").textContent = `${board.corpus}. Run ${board.run}, ${board.finished}.`;
  byId("rejected-section").hidden = !board.rejected.length;
  byId("rejected").replaceChildren(...board.rejected.map((file) => element("li", {}, `${file.path}: ${file.reason}`)));
}
