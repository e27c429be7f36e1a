// ---- state: what is shown, kept in the page's address
// The address names what is shown (#trial=t08&question=urgency), so that it can
// be sent to somebody, and so that the browser's back button works.

const NOTHING_FILTERED = { text: "", answers: "", metric: "", side: "below", value: "" };
const initial = () => ({
  trial: board.answering?.trial ?? null,
  question: null,
  other: null, // the trial beside it
  sort: null, // of the leaderboard
  order: null, // of the list of questions
  by: "objective", // the score that two trials are compared by
  against: null, // the column of time or cost beside the objective
  brushes: new Map(),
  filter: { ...NOTHING_FILTERED },
});
let state = initial();

// Joins a list of names; their commas are encoded.
const joined = (names) => names.map(encodeURIComponent).join(",");
const split = (text) => text.split(",").filter(Boolean).map(decodeURIComponent);
const ordered = (order) => `${order.down ? "-" : ""}${order.key}`;

function address(of) {
  const said = new URLSearchParams();
  if (of.trial && of.trial !== initial().trial || of.question || of.other) said.set("trial", of.trial ?? "");
  if (of.question) said.set("question", of.question);
  if (of.other) said.set("with", of.other);
  if (of.sort) said.set("sort", ordered(of.sort));
  if (of.order) said.set("order", ordered(of.order));
  if (of.by !== "objective") said.set("by", of.by);
  if (of.against) said.set("against", of.against);
  for (const [key, brush] of of.brushes) said.set(`keep.${key}`, brush.names ? joined([...brush.names]) : `${brush.from}~${brush.to}`);
  const { text, answers, metric, side, value } = of.filter;
  if (text) said.set("find", text);
  if (answers) said.set("answers", answers);
  if (metric && value !== "") said.set("scores", `${side} ${value} ${metric}`);
  return said.toString();
}

// Reads an address. Names that this report does not have are left out, and shown as a problem.
function readAddress(text) {
  const [read, unknown] = [initial(), []];
  const trial = (id, use) => { if (rowOf(id)) use(id); else unknown.push(`the trial “${id}”`); };
  const question = (id) => { if (indexOfQuestion.has(id)) read.question = id; else unknown.push(`the question “${id}”`); };
  if (text && !text.includes("=")) {
    // The form of earlier reports: #t08/urgency.
    let words;
    try { words = text.split("/").map(decodeURIComponent); } catch { return [read, [`“${text}”`]]; }
    if (words[0]) trial(words[0], (id) => { read.trial = id; });
    if (words[1]) question(words[1]);
    return [read, unknown];
  }
  const order = (value, keys) => {
    const key = value.replace(/^-/, "");
    if (keys.includes(key)) return { key, down: value.startsWith("-") };
    unknown.push(`the column “${key}”`);
    return null;
  };
  for (const [name, value] of new URLSearchParams(text)) {
    if (name === "trial") { if (value) trial(value, (id) => { read.trial = id; }); }
    else if (name === "question") question(value);
    else if (name === "with") trial(value, (id) => { read.other = id; });
    else if (name === "sort") read.sort = order(value, ["trial", ...shown.map((column) => column.key)]);
    else if (name === "order") read.order = order(value, ["question", ...(lossSteps.length ? [LOST] : []), ...metrics.map((metric) => metric.name)]);
    else if (name === "by" && (value === "objective" || metricNumber(value) >= 0)) read.by = value;
    else if (name === "against" && columnOf(value)?.isNumber) read.against = value;
    else if (name.startsWith("keep.") && columnOf(name.slice(5))) {
      const brush = readBrush(columnOf(name.slice(5)), value);
      if (brush) read.brushes.set(name.slice(5), brush);
      else unknown.push(`“${value}” of ${columnOf(name.slice(5)).title}`);
    }
    else if (name === "find") read.filter.text = value;
    else if (name === "answers" && ["yes", "no", "failed"].includes(value)) read.filter.answers = value;
    else if (name === "scores") {
      const [, side, number, metric] = value.match(/^(below|above) (\S+) (.*)$/) ?? [];
      if (metricNumber(metric) >= 0 && Number.isFinite(Number(number))) Object.assign(read.filter, { side, value: number, metric });
      else unknown.push(`the filter “${value}”`);
    }
    else unknown.push(`“${name}=${value}”`);
  }
  return [read, unknown];
}
function readBrush(column, text) {
  if (!column.isNumber) {
    let names;
    try { names = split(text); } catch { return null; }
    return names.length && names.every((name) => board.rows.some((row) => column.of(row) === name)) ? { names: new Set(names) } : null;
  }
  const [from, to, ...more] = text.split("~").map(Number);
  return Number.isFinite(from) && Number.isFinite(to) && from <= to && !more.length ? { from, to } : null;
}

// The drawings that depend on each part of the state.
const drawnBy = {
  trial: [markTrial, drawTrial, drawQuestions, drawCompare, drawQuestion],
  question: [markQuestion, drawQuestion],
  other: [drawCompare, drawQuestion],
  sort: [drawBoard],
  order: [drawQuestions],
  by: [drawCompare],
  against: [drawFront],
  brushes: [applyBrushes, fillBrushes],
  filter: [drawQuestions],
};
// Each change is a step for the back button. All changes of one `gesture`, such as a
// drag or typing, are one step.
function change(changes, gesture = null) {
  const goesOn = gesture !== null && gesture === lastGesture;
  if (!goesOn) endGesture();
  state = { ...state, ...changes };
  lastGesture = gesture;
  // Browsers limit how often the address changes, so a gesture sets it only at its end.
  if (!goesOn) write("pushState");
  else later ??= setTimeout(endGesture, 150);
  new Set(Object.keys(changes).flatMap((key) => drawnBy[key])).forEach((drawing) => drawing());
}
let [remembered, lastGesture, later] = ["", null, null];
function endGesture() {
  if (later === null) return;
  clearTimeout(later);
  later = null;
  write("replaceState");
}
function write(step) {
  const said = address(state);
  if (said === remembered) return;
  remembered = said;
  showProblem("address");
  try {
    history[step](null, "", `#${said}`);
  } catch (error) {
    // In a notebook's frame the page cannot change its address.
    if (error.name !== "SecurityError") throw error;
  }
}
function followAddress() {
  clearTimeout(later);
  later = null;
  const [read, unknown] = readAddress(location.hash.slice(1));
  state = read;
  [remembered, lastGesture] = [location.hash.slice(1), null];
  showProblem("address", unknown.length ? `The address of this page names what this report does not have: ${unknown.join(", ")}. The rest of it is shown.` : null);
  drawAll();
}
