// ---- quality against time and cost
// The front in this picture is that of its two axes alone; a trial that no other
// beats on quality, cost and latency together may lie behind it.

// Searches of a few milliseconds have no column in the table, but a place in this picture.
const timesAndCosts = every.filter((column) => (column.kind === "seconds" || column.shown && ["tokens", "money"].includes(column.kind)) && board.rows.some((row) => known(column.of(row))));
const wordedAxis = { seconds: (column) => `${column.title}: seconds that a user waits`, tokens: (column) => (column.name === "tokens" ? "tokens read and written for a question" : "tokens read and written for the index"), money: (column) => (column.name === "cost_usd" ? "dollars for all questions" : "dollars for the index") };

function drawFront() {
  const objectiveColumn = ofKind("objective")[0];
  if (!objectiveColumn || !timesAndCosts.length) {
    byId("front-fields").replaceChildren();
    byId("front").replaceChildren(element("p", { class: "hint" }, objectiveColumn
      ? "Neither time nor cost was measured in this run."
      : "Nothing was scored in this run."));
    return;
  }
  const column = columnOf(state.against) ?? timesAndCosts[0];
  replace(byId("front-fields"), [chooser("Compare the objective with", timesAndCosts.map((it) => [it.key, wordedAxis[it.kind](it)]), column.key, (key) => change({ against: key }))]);
  const points = board.rows
    .filter((row) => known(objective(row)) && known(column.of(row)))
    .map((row) => ({ row, cost: column.of(row), quality: objective(row) }))
    .sort((a, b) => a.cost - b.cost || b.quality - a.quality);
  const front = [];
  for (const point of points.filter(({ row }) => !row.stopped)) if (!front.length || point.quality > front.at(-1).quality) front.push(point);
  byId("front").replaceChildren(pictureOf(points, front, column));
  byId("front-hint").textContent = `The line joins the trials that no other beats on the objective and on ${column.title}: ${front.map(({ row }) => row.id).join(", ")}. Each point is a trial; choose one to see its questions.`;
  markTrial();
  applyBrushes();
}
// About five round numbers within a range.
function round(from, to) {
  const rough = (to - from) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const numbers = [];
  for (let n = Math.ceil(from / step); n * step <= to; n += 1) numbers.push(n * step);
  return numbers;
}
function pictureOf(points, front, column) {
  const [width, height, left, right, top, bottom] = [Math.min(860, Math.max(320, byId("front-section").clientWidth)), 350, 58, 24, 30, 40];
  const range = (values) => {
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const room = (most - least || Math.abs(most) || 1) * 0.06;
    return [least - room, most + room];
  };
  const [[x0, x1], [y0, y1]] = [range(points.map(({ cost }) => cost)), range(points.map(({ quality }) => quality))];
  const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - right);
  const y = (value) => height - bottom - ((value - y0) / (y1 - y0)) * (height - top - bottom);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `The objective over ${column.title}, a point for each trial` });
  for (const quality of round(y0, y1)) {
    root.append(
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(quality), y2: y(quality) }),
      svg("text", { class: "tick", x: left - 6, y: y(quality) + 4, "text-anchor": "end" }, fixed(quality)));
  }
  for (const cost of round(x0, x1)) {
    root.append(svg("text", { class: "tick", x: x(cost), y: height - bottom + 16, "text-anchor": "middle" }, String(Number(cost.toPrecision(6)))));
  }
  root.append(
    svg("text", { class: "name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, column.title),
    svg("text", { class: "name", x: 4, y: 13 }, "objective"));
  if (front.length > 1) {
    // Steps, because between two trials of the front only the cheaper one can be had.
    const steps = front.map(({ cost, quality }, i) => (i ? `H${x(cost)}V${y(quality)}` : `M${x(cost)},${y(quality)}`));
    root.append(svg("path", { class: "front-line", d: steps.join("") }));
  }
  const taken = [];
  const onFront = new Set(front.map(({ row }) => row.id));
  const important = (row) => isFirst(row) || onFront.has(row.id);
  for (const point of [...points].sort((a, b) => important(b.row) - important(a.row))) {
    const { row, cost, quality } = point;
    const [cx, cy] = [x(cost), y(quality)];
    const choose = () => change({ trial: row.id });
    const mark = svg("g", {
      class: `point${onFront.has(row.id) ? " on-front" : ""}`, "data-trial": row.id, tabindex: 0, role: "button",
      "aria-label": `${nameOf(row)}; objective ${fixed(quality)}, ${column.title} ${fixed(cost, column.digits)}${onFront.has(row.id) ? ", on the front" : ""}`,
      onclick: choose, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } },
    }, svg("title", {}, nameOf(row)), svg("circle", { cx, cy, r: 10, class: "catch" }), svg("circle", { cx, cy, r: 5, fill: colour(row) }));
    // A label where there is room for it: right, left, above or below; else none.
    const wide = widthOf(row.id, 12) + 4;
    const places = [[cx + 8, cy + 4], [cx - 8 - wide, cy + 4], [cx - wide / 2, cy - 9], [cx - wide / 2, cy + 18]];
    const box = places.map(([at, base]) => [at, base - 11, at + wide, base + 3])
      .find((own) => own[0] >= left && own[2] <= width && own[1] >= 0 && own[3] <= height - bottom && !taken.some((other) => own[0] < other[2] && other[0] < own[2] && own[1] < other[3] && other[1] < own[3]));
    taken.push([cx - 5, cy - 5, cx + 5, cy + 5]);
    if (box) {
      taken.push(box);
      mark.append(svg("text", { x: box[0], y: box[3] - 3, class: "tick" }, row.id));
    }
    root.append(mark);
  }
  return root;
}
