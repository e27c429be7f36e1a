// The page to ask questions. Text of models and documents is set as text, never as markup.

const byId = (id) => document.getElementById(id);
const isSet = (value) => value !== null && value !== undefined && value !== "";
const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

function element(name, attributes = {}, ...children) {
  const node = name === "svg" || name === "path" ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (!isSet(value) || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter(isSet));
  return node;
}

// ---- requests to the service, and its errors
const KEY = "reverie-key";
let key = null;
try { key = sessionStorage.getItem(KEY); } catch { /* Where storage is forbidden the key lives as long as the page. */ }
function storeKey(value) {
  key = value;
  try { sessionStorage.setItem(KEY, value); } catch { /* as above */ }
}

// An error with advice for the reader, and the service's own message as `detail`.
class Trouble extends Error {
  constructor(message, advice, more = {}) {
    super(message);
    Object.assign(this, { advice, ...more });
  }
}
// `Retry-After` holds seconds or a date.
function retryAdvice(header) {
  const seconds = /^\d+$/.test(header ?? "") ? Number(header) : Math.ceil((Date.parse(header ?? "") - Date.now()) / 1000);
  if (!Number.isFinite(seconds)) return "Try again in a moment.";
  if (seconds < 1) return "Try again now.";
  const clock = new Date(Date.now() + seconds * 1000).toLocaleTimeString();
  return `Try again in ${seconds < 120 ? plural(seconds, "second") : plural(Math.ceil(seconds / 60), "minute")}, at ${clock}.`;
}
async function readRefusal(response) {
  const { status } = response;
  const said = await response.json().then((body) => body?.error?.message, () => null);
  const request = response.headers.get("x-request-id");
  const detail = [typeof said === "string" ? `The service said: ${said}` : null, request ? `Request ${request}` : null].filter(Boolean).join(" · ");
  const again = retryAdvice(response.headers.get("retry-after"));
  const of = {
    401: [key ? "The API key was not accepted." : "This service wants an API key.", "Enter a key to go on. It is kept in this tab until you close it."],
    403: ["This API key may not do that.", "Enter another key, or ask those who run the service."],
    404: ["The service does not have this any more.", "It may have been started anew with other documents. Ask again."],
    408: ["It took too long.", "Try again, or ask a shorter question."],
    413: ["The question or the conversation is too long.", "Shorten it, or begin a new conversation."],
    429: ["Too many questions were asked.", again],
    503: ["The service is not ready, or too busy.", again],
  }[status === 504 ? 408 : status] ?? (status < 500
    ? ["The service did not accept the question.", "Change it, or begin a new conversation."]
    : ["The service failed.", "Try again. If it fails again, tell those who run it."]);
  return new Trouble(...of, { detail, status });
}
async function call(path, { body, signal } = {}) {
  const headers = { ...(body && { "content-type": "application/json" }), ...(key && { authorization: `Bearer ${key}` }) };
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Trouble("The service cannot be reached.", "See that it is running and that you are connected, then try again.");
  });
  if (!response.ok) throw await readRefusal(response);
  return response;
}
function troubleNode(error, retry) {
  const trouble = error instanceof Trouble ? error : new Trouble("Something failed that this page did not expect.", "Try again, or load the page again.", { detail: `${error?.message ?? error}` });
  const node = element("div", { class: "trouble" }, element("p", { class: "problem" }, trouble.message), element("p", {}, trouble.advice),
    trouble.detail ? element("p", { class: "where", dir: "auto" }, trouble.detail) : null);
  if (trouble.status === 401 || trouble.status === 403) {
    const field = element("input", { type: "password", autocomplete: "off", required: true, "aria-label": "API key", placeholder: "API key" });
    const use = (event) => { event.preventDefault(); storeKey(field.value.trim()); retry(); };
    node.append(element("form", { onsubmit: use }, field, element("button", { type: "submit" }, "Use this key")));
  } else {
    node.append(element("button", { type: "button", onclick: retry }, "Try again"));
  }
  return node;
}

// The data of server-sent events, whose lines may be split between reads. A `\r` at the end may be half of a `\r\n`.
async function* events(stream) {
  const [reader, decoder] = [stream.getReader(), new TextDecoder()];
  let [rest, data] = ["", []];
  for (let done = false; !done;) {
    const read = await reader.read();
    done = read.done;
    rest += done ? `${decoder.decode()}\n\n` : decoder.decode(read.value, { stream: true });
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      else if (line === "" && data.length) yield data.splice(0).join("\n");
    }
  }
}

// ---- the model, which names the page
let model = null;
async function findModel() {
  model = (await (await call("v1/models")).json())?.data?.[0]?.id ?? null;
  if (!model) throw new Trouble("The service has no model to ask.", "Tell those who run it.");
  document.title = `${model} · Reverie`;
  byId("title").replaceChildren(element("bdi", {}, model));
  byId("lead").replaceChildren("Reverie answers questions from the collection “", element("bdi", {}, model), "” and shows the passages behind each answer.");
  byId("notice").replaceChildren();
}
function start() {
  findModel().catch((error) => byId("notice").replaceChildren(troubleNode(error, start)));
}

// ---- the text of an answer: headings, lists, code, bold words and the markers of sources
// `[1]`, `[source 1, 2]`, and what some models write instead: `【1】`, `【1†source】`.
const MARKER = /[[【]\s*(?:sources?\s+)?(\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\s*(?:†[^\]】\n]{0,80})?[\]】]([.,;:!?)。，；：！？）]*)/gi;
const [HEADING, RULE, ITEM] = [/^ {0,3}(#{1,6})\s+(.*)/, /^ {0,3}([-*_])(?: *\1){2,} *$/, /^ *(?:[-*+•]|(\d{1,3})[.)])\s+(.*)/];
function renderAnswer(text, sources) {
  return text.split(/^ *```[^\n]*\n([\s\S]*?)(?:^ *```[^\n]*$\n?|$(?![\s\S]))/m).flatMap((part, i) => {
    if (i % 2) return [element("pre", { tabindex: "0" }, element("code", {}, part.replace(/\n$/, "")))];
    return renderBlocks(part, sources);
  });
}
// The blocks of Markdown in a text: headings, rules, lists and paragraphs. Line breaks in a paragraph are kept.
function renderBlocks(text, sources) {
  const root = element("div");
  const lists = []; // The open lists, outermost first.
  let [words, blank] = [null, 0];
  const list = () => lists[lists.length - 1];
  const holder = () => list()?.node.lastChild ?? root;
  for (const untabbed of text.split("\n")) {
    const line = untabbed.replace(/^\s+/, (space) => space.replaceAll("\t", "    ")).trimEnd();
    const indent = line.search(/\S/);
    const [heading, item] = [HEADING.exec(line), ITEM.exec(line)];
    if (!line) {
      blank += 1;
      continue;
    }
    if (heading || RULE.test(line)) {
      [lists.length, words] = [0, null];
      // The page's own headings come first: its name is h1, a question is h3.
      root.append(heading ? element(`h${Math.min(heading[1].length + 3, 6)}`, { dir: "auto" }, ...renderInline(heading[2], sources)) : element("hr"));
    } else if (item) {
      const kind = item[1] ? "ol" : "ul";
      while (list() && (indent < list().indent || (indent < list().indent + 2 && list().kind !== kind))) lists.pop();
      if (!list() || indent >= list().indent + 2) {
        const node = element(kind, { start: item[1], dir: "auto" });
        holder().append(node);
        lists.push({ node, kind, indent });
      }
      words = element("div", { class: "text" }, ...renderInline(item[2], sources));
      list().node.append(element("li", {}, words));
    } else {
      // An indented line belongs to the item above it; any other ends the list.
      while (list() && indent < list().indent + 2) {
        lists.pop();
        words = null;
      }
      const content = renderInline(lists.length ? line.trim() : line, sources);
      if (words) words.append("\n".repeat(blank + 1), ...content);
      else holder().append(words = element("div", { class: "text", dir: "auto" }, ...content));
    }
    blank = 0;
  }
  return [...root.childNodes];
}
function renderInline(text, sources) {
  return text.split(/(`[^`\n]+`|\*\*[^*\s](?:[^*\n]*[^*\s])?\*\*)/).flatMap((part, i) => {
    if (i % 2 === 0) return renderMarkers(part, sources);
    return part[0] === "`" ? [element("code", {}, part.slice(1, -1))] : [element("strong", {}, ...renderInline(part.slice(2, -2), sources))];
  });
}
// The marker of a known source becomes a button, on one line with the punctuation after it; other markers stay text.
function renderMarkers(text, sources) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(MARKER)) {
    const named = found[1].split(/[,;]/).map((number) => sources.find((source) => source.number === Number(number)));
    if (!named.every(Boolean)) continue;
    // The service does not recognise markers such as `【1†source】`, so its `cited` lacks their sources.
    for (const source of named) source.cited = true;
    const buttons = named.map((source) => element("button", { type: "button", class: "marker", title: source.title, "aria-label": `[${source.number}] ${source.title}`, onclick: () => openSource(source) }, `[${source.number}]`));
    nodes.push(text.slice(at, found.index), element("span", { class: "together" }, ...buttons, found[2]));
    at = found.index + found[0].length;
  }
  return [...nodes, text.slice(at)];
}

// ---- sources
const formatScore = (score) => (typeof score === "number" ? score.toFixed(3) : null);
function readSources(list) {
  return list.flatMap(({ source, document: texts, metadata }) => (metadata ?? []).map((about, i) => ({
    ...about, id: about.id ?? source?.id, title: about.book || about.file || source?.name || "Source", text: about.quote ?? texts?.[i] ?? "",
  })));
}
const where = (about) => [about.book ? about.file : null, isSet(about.page) ? `page ${about.page}` : null, about.heading, formatScore(about.score) && `score ${formatScore(about.score)}`].filter(Boolean);
const joinWithDots = (parts) => parts.flatMap((part, i) => [i ? " · " : "", element("bdi", {}, part)]);
function sourceCard(source) {
  const name = element("button", { type: "button", onclick: () => openSource(source) }, `[${source.number}] `, element("bdi", {}, source.title));
  const node = element("li", { class: "card" },
    element("div", { class: "name" }, name, source.cited ? element("span", { class: "badge" }, "cited") : null),
    element("div", { class: "where" }, ...joinWithDots(where(source))),
    element("p", { class: "quote", dir: "auto" }, [...source.text].slice(0, 300).join("").replace(/\s+/g, " ")));
  source.card = node;
  return node;
}
function sourceList(found) {
  const sources = [...found].sort((a, b) => Boolean(b.cited) - Boolean(a.cited) || a.number - b.number);
  const cited = sources.filter((source) => source.cited).length;
  // All cited sources are shown, at least five in all; the rest when the reader opens it.
  const shown = sources.length <= 6 ? sources.length : Math.max(cited, 5);
  const rest = sources.slice(shown);
  return element("section", {}, element("h4", {}, `${plural(sources.length, "source")}, ${cited || "none"} cited`),
    element("ul", { class: "cards" }, ...sources.slice(0, shown).map(sourceCard)),
    rest.length ? element("details", {}, element("summary", {}, `${rest.length} more, not cited`), element("ul", { class: "cards" }, ...rest.map(sourceCard))) : null);
}

// ---- the panel: one dialog, beside the conversation where there is room and above it where there is not
const [panel, passage, wide] = [byId("panel"), byId("passage"), matchMedia("(min-width: 1000px)")];
let [opened, opener, loading] = [null, null, null];
function openPanel() {
  if (panel.open) panel.close();
  if (wide.matches) panel.show(); else panel.showModal();
  document.body.classList.toggle("beside", wide.matches);
}
function showText(found) {
  const mark = element("mark", {}, found.text);
  passage.replaceChildren(element("span", { class: "around" }, found.before), mark, element("span", { class: "around" }, found.after));
  const [frame, box] = [passage.getBoundingClientRect(), mark.getBoundingClientRect()];
  // A passage that fits is centred; of a longer one the beginning is shown.
  passage.scrollTop += box.top - frame.top - Math.max((frame.height - box.height) / 2, 48);
}
// The page as a picture in which the passage is marked. It is drawn when it is looked at.
async function showPage(found, signal) {
  passage.replaceChildren(element("p", { class: "hint waiting" }, `Drawing page ${found.page}`));
  try {
    const at = `rag/sources/${encodeURIComponent(found.id)}/page`;
    const [place, picture] = await Promise.all([call(at, { signal }), call(`${at}.png`, { signal })]);
    const [{ boxes }, url] = [await place.json(), URL.createObjectURL(await picture.blob())];
    signal.addEventListener("abort", () => URL.revokeObjectURL(url));
    if (signal.aborted) return;
    const words = `Page ${found.page} of ${found.book ?? found.file}. ${boxes.length ? "The passage is marked." : "The passage was not found on it."}`;
    const image = element("img", { src: url, alt: words });
    passage.replaceChildren(element("figure", {}, image, element("figcaption", { class: "hint" }, words)));
    await image.decode();
    if (boxes.length) passage.scrollTop = Math.min(...boxes.map((box) => box.top)) * image.getBoundingClientRect().height - 48;
  } catch (error) {
    if (!signal.aborted) passage.replaceChildren(troubleNode(error, () => showPage(found, signal)));
  }
}
// Two buttons: the passage in its text, and on its page.
function showForms(found, signal) {
  let shown = null;
  signal.addEventListener("abort", () => shown?.abort());
  const forms = [["Text", () => showText(found)], [`Page ${found.page}`, () => showPage(found, shown.signal)]].map(([name, show], i) =>
    element("button", { type: "button", "aria-pressed": String(i === 0), onclick: (event) => {
      for (const form of forms) form.setAttribute("aria-pressed", String(form === event.currentTarget));
      // What is still being drawn is not wanted any more.
      shown?.abort();
      shown = new AbortController();
      show();
    } }, name));
  byId("panel-forms").replaceChildren(...forms);
}
async function openSource(source) {
  if (!panel.contains(document.activeElement)) opener = document.activeElement;
  opened?.card?.classList.remove("open");
  loading?.abort();
  [opened, loading] = [source, new AbortController()];
  const { signal } = loading;
  source.card?.classList.add("open");
  byId("panel-title").textContent = `[${source.number}] ${source.title}`;
  byId("panel-where").replaceChildren(...joinWithDots(where(source)));
  passage.replaceChildren(element("p", { class: "hint waiting" }, "Loading"));
  byId("panel-forms").replaceChildren();
  if (!panel.open) openPanel();
  passage.focus({ preventScroll: true });
  try {
    const found = await (await call(`rag/sources/${encodeURIComponent(source.id)}`, { signal })).json();
    showText(found);
    if (found.has_page_image) showForms(found, signal);
  } catch (error) {
    if (!signal.aborted) passage.replaceChildren(troubleNode(error, () => openSource(source)));
  }
}
panel.addEventListener("close", () => {
  if (panel.open) return; // It was closed only to be placed anew for another width.
  document.body.classList.remove("beside");
  loading.abort();
  opened.card?.classList.remove("open");
  (opener?.isConnected ? opener : byId("question")).focus({ preventScroll: true });
});
byId("close").addEventListener("click", () => panel.close());
addEventListener("keydown", (event) => { if (event.key === "Escape" && panel.open && wide.matches) panel.close(); });
wide.addEventListener("change", () => { if (panel.open) openPanel(); });

// ---- a verdict on an answer
const THUMB = "M7 10v10H3V10zM7 10l4-8c1.7 0 2.6 1.2 2.3 2.8L12.5 9H19c1.3 0 2.2 1.2 1.9 2.4l-1.7 6.8A2.4 2.4 0 0 1 16.9 20H7";
function verdict(request) {
  const said = element("span", { class: "where", role: "status" });
  const sendVerdict = async (name) => {
    try {
      await call("rag/feedback", { body: { request_id: request, verdict: name, comment: null } });
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.classList.contains(name)));
      said.textContent = "Noted.";
    } catch (error) {
      if (error.status === 404) document.body.classList.add("no-feedback");
      else said.textContent = `Not sent. ${error.message}`;
    }
  };
  const buttons = [["up", "Good answer"], ["down", "Bad answer"]].map(([name, label]) => element("button", { type: "button", class: name, title: label, "aria-label": label, "aria-pressed": "false", onclick: () => sendVerdict(name) },
    element("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, element("path", { d: THUMB }))));
  return element("div", { class: "verdict", role: "group", "aria-label": "Your verdict on this answer" }, ...buttons, said);
}

// ---- the conversation
let turns = [];
let running = null;
const [question, send, stop] = [byId("question"), byId("send"), byId("stop")];
function setRunning(controller) {
  if (!controller && document.activeElement === stop) question.focus();
  running = controller;
  send.hidden = Boolean(controller);
  stop.hidden = !controller;
  byId("new").hidden = !turns.length;
}
function ask(text) {
  const [answer, foot] = [element("div", { class: "answer", "aria-live": "polite" }), element("div")];
  const asked = element("h3", { class: "asked", dir: "auto" }, text);
  const turn = { question: text, text: "", answer, foot, node: element("article", { class: "turn" }, asked, answer, foot) };
  turns.push(turn);
  byId("turns").append(turn.node);
  asked.scrollIntoView({ block: "start" });
  run(turn);
}
async function run(turn) {
  if (running) return;
  const controller = new AbortController();
  setRunning(controller);
  Object.assign(turn, { text: "", id: null, sources: [], ended: null, done: false });
  turn.answer.setAttribute("aria-busy", "true");
  turn.answer.replaceChildren(element("p", { class: "hint waiting" }, "Searching the documents"));
  turn.foot.replaceChildren();
  byId("status").textContent = "The question was sent.";
  let trouble = null;
  try {
    if (!model) await findModel();
    await stream(turn, controller.signal);
  } catch (error) {
    if (error.name === "AbortError" || controller.signal.aborted) turn.ended = "stopped";
    else trouble = error instanceof TypeError && turn.started ? connectionBroke() : error;
  }
  if (!turn.node.isConnected) return;
  turn.failed = Boolean(trouble);
  if (trouble?.status === 404) model = null;
  finish(turn, trouble);
  setRunning(null);
}
const connectionBroke = () => new Trouble("The connection broke before the answer was complete.", "Try again.");
async function stream(turn, signal) {
  const before = turns.slice(0, turns.indexOf(turn)).filter((past) => past.text && !past.failed)
    .flatMap((past) => [{ role: "user", content: past.question }, { role: "assistant", content: past.text }]);
  const response = await call("v1/chat/completions", { body: { model, stream: true, messages: [...before, { role: "user", content: turn.question }] }, signal });
  turn.started = true;
  let drawn = 0;
  for await (const data of events(response.body)) {
    if (data === "[DONE]") { turn.done = true; return; }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Trouble("The service failed while it was answering.", "Try again. If it fails again, tell those who run it.", { detail: `The service said: ${chunk.error.message ?? chunk.error}` });
    turn.id = chunk.id ?? turn.id;
    if (Array.isArray(chunk.sources)) turn.sources = readSources(chunk.sources);
    turn.ended = chunk.choices?.[0]?.finish_reason ?? turn.ended;
    turn.text += chunk.choices?.[0]?.delta?.content ?? "";
    if (turn.text) drawn ||= requestAnimationFrame(() => { drawn = 0; if (turn.answer.ariaBusy === "true") turn.answer.replaceChildren(...renderAnswer(turn.text, [])); });
  }
  throw connectionBroke();
}
function finish(turn, trouble) {
  const { sources, text, foot } = turn;
  const say = (words) => foot.append(element("p", { class: "hint said" }, words));
  // Screen readers read the whole answer once, when it is no longer busy.
  turn.answer.removeAttribute("aria-busy");
  turn.answer.replaceChildren(...renderAnswer(text, sources));
  if (trouble) {
    foot.append(troubleNode(trouble, () => { if (!running) { question.focus(); run(turn); } }));
  } else if (turn.ended === "stopped") say(text ? "Stopped before the end." : "Stopped.");
  else if (turn.ended === "length") say("The answer was cut off: it reached the longest length that is allowed.");
  else if (!text.trim()) say(sources.length ? "No answer was written. These passages were found." : "The service sent no answer.");
  if (turn.done && turn.id && text) foot.append(verdict(turn.id));
  if (sources.length) foot.append(sourceList(sources));
  else if (turn.done && text) say("No sources: no passage stands behind this answer.");
  byId("status").textContent = trouble ? `${trouble.message} ${trouble.advice}` : `The answer is there, with ${plural(sources.length, "source")}.`;
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = question.value.trim();
  if (!text || running) return;
  question.value = "";
  ask(text);
});
question.addEventListener("keydown", (event) => {
  // While an input method composes a word, Enter belongs to it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  byId("ask").requestSubmit();
});
stop.addEventListener("click", () => running?.abort());
byId("new").addEventListener("click", () => {
  running?.abort();
  turns = [];
  byId("turns").replaceChildren();
  if (panel.open) panel.close();
  setRunning(null);
  question.focus();
});
start();
