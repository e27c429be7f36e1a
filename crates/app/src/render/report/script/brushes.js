// ---- brushes: which trials are kept
function brush(key, range, gesture) {
  const brushes = new Map(state.brushes);
  if (range && (!range.names || range.names.size)) brushes.set(key, range);
  else brushes.delete(key);
  change({ brushes }, gesture);
}
// Runs for each frame of a drag, so it only marks what is drawn; the table and the other plots follow with a delay.
function applyBrushes() {
  const out = new Set(board.rows.filter((row) => !isKept(row)).map((row) => row.id));
  for (const path of document.querySelectorAll("#plot path.trial")) {
    path.classList.toggle("out", out.has(path.dataset.trial));
    path.classList.toggle("chosen", path.dataset.trial === state.trial);
  }
  for (const rect of document.querySelectorAll("#plot rect.brush")) {
    const column = columnOf(rect.dataset.brush);
    const [top, bottom] = extent(plotted.find(({ key }) => key === column.key), state.brushes.get(column.key));
    rect.setAttribute("y", top);
    rect.setAttribute("height", bottom - top);
  }
  const n = board.rows.length - out.size;
  byId("brushed").textContent = state.brushes.size ? `${n} of ${board.rows.length} trials are kept: ${[...state.brushes].map(worded).join("; ")}.` : "";
  clearTimeout(following);
  following = setTimeout(() => {
    for (const node of document.querySelectorAll("#board tr[data-id]")) node.classList.toggle("out", out.has(node.dataset.id));
    for (const node of document.querySelectorAll("#front .point")) node.classList.toggle("out", out.has(node.dataset.trial));
    drawEffects();
  }, 60);
}
let following = null;
function worded([key, { names, from, to }]) {
  const { title, digits } = columnOf(key);
  return names ? `${title} is ${[...names].join(" or ")}` : `${title} from ${fixed(from, digits)} to ${fixed(to, digits)}`;
}
function extent(column, range) {
  if (!range) return [0, 0];
  const { names, y } = column.scale;
  if (!range.names) return [y(range.to) - 3, y(range.from) + 3];
  const half = (BOTTOM - TOP) / names.length / 2 - 1;
  const places = [...range.names].map(y);
  return [Math.min(...places) - half, Math.max(...places) + half];
}
// Fields for brushes: two numbers for a column of numbers, checkboxes for words.
function drawBrushes() {
  const fields = plotted.map((column) => {
    const { names, least, most } = column.scale;
    if (names) {
      const boxes = names.map((name) => {
        const box = element("input", { type: "checkbox", value: name, onchange: () => typed(column) });
        return element("label", {}, box, ` ${name}`);
      });
      return element("fieldset", { "data-keep": column.key }, element("legend", {}, column.title), ...boxes);
    }
    const end = (word, place) => element("label", {}, `${word} `,
      element("input", { type: "number", step: "any", placeholder: fixed(place), "data-end": word, onchange: () => typed(column) }));
    return element("fieldset", { "data-keep": column.key }, element("legend", {}, column.title), end("from", least), end("to", most));
  });
  fields.push(element("button", { type: "button", onclick: () => change({ brushes: new Map() }) }, "Keep all trials"));
  byId("brush-fields").replaceChildren(...fields);
  fillBrushes();
}
function typed(column) {
  const field = document.querySelector(`[data-keep="${CSS.escape(column.key)}"]`);
  if (column.scale.names) {
    return brush(column.key, { names: new Set([...field.querySelectorAll(":checked")].map((box) => box.value)) });
  }
  const [from, to] = ["from", "to"].map((end) => field.querySelector(`[data-end=${end}]`));
  const wrong = from.value !== "" && to.value !== "" && Number(from.value) > Number(to.value);
  to.setCustomValidity(wrong ? `This must be at least ${from.value}.` : "");
  if (wrong) return to.reportValidity();
  if (from.value === "" && to.value === "") return brush(column.key, null);
  brush(column.key, {
    from: from.value === "" ? column.scale.least : Number(from.value),
    to: to.value === "" ? column.scale.most : Number(to.value),
  });
}
function fillBrushes() {
  for (const field of document.querySelectorAll("[data-keep]")) {
    const range = state.brushes.get(field.dataset.keep);
    for (const box of field.querySelectorAll("[type=checkbox]")) box.checked = range?.names.has(box.value) ?? false;
    for (const end of field.querySelectorAll("[data-end]")) end.value = range ? range[end.dataset.end] : "";
  }
}
