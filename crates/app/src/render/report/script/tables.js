// ---- tables
const caption = (text) => element("caption", { class: "unseen" }, text);
const cellOf = (text, attributes = {}) => element("td", attributes, text);
const number = (value, digits) => cellOf(fixed(value, digits), { class: "number" });
const head = (text, attributes = {}) => element("th", { scope: "col", ...attributes }, text);

// A heading that sorts. `order` is the present order: its key, and whether it is descending.
function sortable(label, key, order, isNumber, choose) {
  const mine = order?.key === key;
  const button = element("button", {
    type: "button", "data-focus": `sort ${key}`,
    onclick: () => choose(mine ? { key, down: !order.down } : { key, down: isNumber }),
  }, label, element("span", { "aria-hidden": "true" }, mine ? (order.down ? " ↓" : " ↑") : ""));
  return element("th", { scope: "col", class: isNumber ? "number" : null, "aria-sort": mine ? (order.down ? "descending" : "ascending") : null }, button);
}
function sorted(rows, of, down) {
  const keyed = rows.map((row) => [of(row), row]);
  // Rows without a value come last in both directions.
  const compare = ([x], [y]) => (known(x) ? (known(y) ? (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1) : -1) : known(y) ? 1 : 0);
  return keyed.sort(compare).map(([, row]) => row);
}
// A row that is chosen by a click anywhere, and by the button in its head.
function chosenBy(choose, chosen, button, cells, attributes = {}) {
  const opener = element("button", { type: "button", class: "open", "data-focus": `open ${button}`, "aria-pressed": String(chosen), onclick: (event) => { event.stopPropagation(); choose(); } }, button);
  return element("tr", { class: chosen ? "chosen" : null, onclick: choose, ...attributes }, element("th", { scope: "row" }, opener), ...cells);
}
function markChosen(table, isChosen) {
  for (const row of byId(table).tBodies[0] ? byId(table).querySelectorAll("tbody tr[data-id]") : []) {
    const chosen = isChosen(row.dataset.id);
    row.classList.toggle("chosen", chosen);
    row.querySelector("button.open")?.setAttribute("aria-pressed", String(chosen));
  }
}
function chooser(label, options, value, choose) {
  const select = element("select", { "data-focus": label, onchange: () => choose(select.value) },
    ...options.map(([key, text]) => element("option", { value: key, selected: key === value }, text)));
  return element("label", {}, `${label} `, select);
}
