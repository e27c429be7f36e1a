"use strict";
// The report. It draws the leaderboard, and what each trial retrieved and answered
// for each question. Text from documents and models is set as text, never as markup.

const byId = (id) => document.getElementById(id);
const overview = JSON.parse(byId("data").textContent);
const { board, questions } = overview;

const known = (value) => value !== null && value !== undefined;
// No minus before zero: `+ 0` takes it away.
const fixed = (value, digits = 3) => (known(value) ? (Number(value.toFixed(digits)) + 0).toFixed(digits) : "–");
const signed = (value, digits = 3) => (known(value) && Number(value.toFixed(digits)) > 0 ? "+" : "") + fixed(value, digits);
const counted = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter(known));
  return node;
}
function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}
function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}
// Capitalizes a sentence, unless it begins with the name `subject`.
function sentence(text, subject) {
  return `${subject && text.startsWith(subject) ? text[0] : text[0].toUpperCase()}${text.slice(1)}.`;
}
// How wide a text is drawn, in the font of plots.
const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, size = 13, weight = "normal") {
  ruler.font = `${weight} ${size}px system-ui, "Segoe UI", Roboto, sans-serif`;
  return ruler.measureText(text).width;
}

// Problems are shown above everything else, one of each kind.
const problems = new Map();
function showProblem(kind, text) {
  if (text) problems.set(kind, text);
  else problems.delete(kind);
  byId("problems").replaceChildren(...[...problems.values()].map((problem) => element("p", {}, problem)));
}
function showFailure(error) {
  showProblem("script", `The page's script failed, so what you see may be incomplete: ${error?.message ?? error}`);
}
addEventListener("error", (event) => { if (event.error) showFailure(event.error); });
addEventListener("unhandledrejection", (event) => showFailure(event.reason));

// Replaces the content of a node, and keeps the focus: elements that may have it are named by `data-focus`.
function replace(node, children) {
  const name = node.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  node.replaceChildren(...children.filter(known));
  if (name) node.querySelector(`[data-focus="${CSS.escape(name)}"]`)?.focus({ preventScroll: true });
}

// A drawing that waits for a part is dropped if a later drawing of the same node has begun.
const turns = new Map();
async function draw(place, make) {
  const turn = (turns.get(place) ?? 0) + 1;
  turns.set(place, turn);
  const node = byId(place);
  node.setAttribute("aria-busy", "true");
  let content;
  try {
    content = await make();
  } catch (error) {
    if (!(error instanceof PartProblem)) throw error;
    content = [element("p", { class: "problem" }, error.message)];
  }
  if (turns.get(place) !== turn) return;
  node.removeAttribute("aria-busy");
  replace(node, content);
}
