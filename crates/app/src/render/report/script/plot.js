// ---- parallel coordinates
const plotted = [...ofKind("axis"), ...metrics, ...ofKind("seconds").slice(0, 1), ...ofKind("objective")]
  .filter((column) => board.rows.some((row) => known(column.of(row))));
const [TOP, BOTTOM] = [46, 348];

function scale(column) {
  const values = board.rows.map(column.of).filter(known);
  if (!column.isNumber) {
    const names = [...new Set(values)];
    const step = (BOTTOM - TOP) / names.length;
    return { names, y: (value) => TOP + step * (names.indexOf(value) + 0.5) };
  }
  const [least, most] = [Math.min(...values), Math.max(...values)];
  if (least === most) return { least, most, y: () => (TOP + BOTTOM) / 2, value: () => least };
  return {
    least, most,
    y: (value) => BOTTOM - ((value - least) / (most - least)) * (BOTTOM - TOP),
    value: (y) => least + ((BOTTOM - y) / (BOTTOM - TOP)) * (most - least),
  };
}
for (const column of plotted) column.scale = scale(column);

// Whether the brushes keep a trial.
function isKept(row) {
  for (const [key, brush] of state.brushes) {
    const value = columnOf(key).of(row);
    if (!known(value)) return false;
    if (brush.names ? !brush.names.has(value) : value < brush.from || value > brush.to) return false;
  }
  return true;
}
// Shortens a text to the width `room`; its tooltip has the whole text. First the names of settings are left out, then
// the middle, because labels of one axis often begin alike and differ at the end.
function fitting(attributes, text, room, size = 12, weight = "normal") {
  if (widthOf(text, size, weight) <= room) return svg("text", attributes, text);
  const values = text.replace(/[a-z_]+=/g, "");
  if (widthOf(values, size, weight) <= room) return svg("text", attributes, values, svg("title", {}, text));
  const cut = (length) => `${values.slice(0, Math.floor(length * 0.4))}…${values.slice(values.length - Math.ceil(length * 0.6))}`;
  let length = values.length - 1;
  while (length > 2 && widthOf(cut(length), size, weight) > room) length -= 1;
  return svg("text", attributes, cut(length), svg("title", {}, text));
}
function drawPlot() {
  const [left, right] = [40, 40];
  // As wide as the page, or wider with a scrollbar, so that axes are not too close to each other.
  const width = Math.max(byId("plot").clientWidth || 900, (plotted.length - 1) * 104 + left + right, 320);
  const gap = (width - left - right) / Math.max(1, plotted.length - 1);
  const root = svg("svg", { viewBox: `0 0 ${width} 372`, width, height: 372, "aria-hidden": "true" });
  plotted.forEach((column, i) => { column.x = left + i * gap; });
  const lines = svg("g");
  for (const row of board.rows) {
    const points = plotted.filter((column) => known(column.of(row))).map((column) => `${column.x},${column.scale.y(column.of(row))}`);
    lines.append(svg("path", {
      d: points.length ? `M${points.join("L")}` : "M0,0", class: "trial", stroke: colour(row), "data-trial": row.id,
      onclick: () => change({ trial: row.id }),
    }, svg("title", {}, `${nameOf(row)}; objective ${fixed(objective(row))}`)));
  }
  root.append(lines, ...plotted.map((column, i) => drawAxis(root, column, i, gap, width)));
  byId("plot").replaceChildren(root);
}
function drawAxis(root, column, i, gap, width) {
  const { x } = column;
  const group = svg("g", { class: "axis" }, svg("line", { x1: x, x2: x, y1: TOP, y2: BOTTOM }));
  // Names alternate between two rows, so each has the width of two columns, but none beyond the edge.
  const room = Math.min(2 * gap - 12, 2 * x, 2 * (width - x));
  const name = fitting({ x, y: i % 2 ? 14 : 30, "text-anchor": "middle", class: `name${column.judged ? " judged" : ""}`, onclick: () => brush(column.key, null) },
    column.title, room, 13, "600");
  group.append(name);
  const last = i === plotted.length - 1;
  const tick = (text, y) => {
    const beside = (last ? x : gap) - 16;
    group.append(fitting(last ? { x: x - 6, y, class: "tick", "text-anchor": "end" } : { x: x + 6, y, class: "tick" }, text, beside));
  };
  if (column.isNumber && column.scale.least === column.scale.most) {
    tick(fixed(column.scale.most), column.scale.y() - 6);
  } else if (column.isNumber) {
    tick(fixed(column.scale.most), TOP + 4);
    tick(fixed(column.scale.least), BOTTOM + 4);
  } else {
    // Labels that would overlap are left out.
    const every = Math.ceil(14 / ((BOTTOM - TOP) / column.scale.names.length));
    column.scale.names.forEach((label, n) => { if (n % every === 0) tick(label, column.scale.y(label) - 6); });
  }
  const area = svg("rect", { class: "catch", x: x - 14, width: 28, y: TOP - 6, height: BOTTOM - TOP + 12 });
  let [start, gesture] = [null, 0];
  const position = (event) => {
    const box = root.getBoundingClientRect();
    return Math.min(BOTTOM + 6, Math.max(TOP - 6, ((event.clientY - box.top) / box.height) * 372));
  };
  area.addEventListener("pointerdown", (event) => { start = position(event); gesture += 1; area.setPointerCapture(event.pointerId); });
  area.addEventListener("pointermove", (event) => {
    const [from, end] = [start, position(event)];
    if (from !== null) soon(() => brush(column.key, brushed(column, from, end), `drag ${column.key} ${gesture}`));
  });
  area.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const end = position(event);
    const from = start;
    start = null;
    soon(() => brush(column.key, Math.abs(end - from) < 4 ? null : brushed(column, from, end), `drag ${column.key} ${gesture}`));
  });
  group.append(area, svg("rect", { class: "brush", x: x - 9, width: 18, y: 0, height: 0, "data-brush": column.key }));
  return group;
}
// The brush between two heights of an axis.
function brushed(column, a, b) {
  const [top, bottom] = [Math.min(a, b), Math.max(a, b)];
  const { names, y, value, least, most } = column.scale;
  if (names) return { names: new Set(names.filter((name) => y(name) >= top && y(name) <= bottom)) };
  // All trials have the same number, in the middle of the axis.
  if (least === most) return y() >= top && y() <= bottom ? { from: least, to: most } : null;
  const rounded = (x) => Number(Math.min(most, Math.max(least, x)).toPrecision(6));
  // At the end of the axis the exact value is used, because a rounded one could exclude it.
  return { from: bottom >= BOTTOM ? least : rounded(value(bottom)), to: top <= TOP ? most : rounded(value(top)) };
}
// At most one drawing per frame.
let pending = null;
function soon(drawing) {
  if (!pending) requestAnimationFrame(() => { const now = pending; pending = null; now(); });
  pending = drawing;
}
