// ---- what each axis changes
function drawEffects() {
  const axes = ofKind("axis");
  const rows = board.rows.filter((row) => kept(row) && !row.stopped && known(objective(row)));
  byId("effects-section").hidden = !axes.length || !objectives.length;
  byId("effects-hint").textContent = `The mean objective of the ${state.brushes.size ? "kept " : ""}trials with each value (${counted(rows.length, "trial")}). The bar goes from the lowest to the highest of them, the line is the mean; the deviation is the standard deviation. Values are compared fairly only where each was tried with the same others.`;
  byId("effects").replaceChildren(...axes.map((axis) => effect(axis, rows)).filter(known));
}
function effect(axis, rows) {
  const byValue = grouping(rows, axis.of);
  const values = [...byValue].map(([value, own]) => {
    const scores = own.map(objective);
    const mean = scores.reduce((sum, score) => sum + score, 0) / scores.length;
    const deviation = Math.sqrt(scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / Math.max(1, scores.length - 1));
    return { value, n: scores.length, mean, deviation, least: Math.min(...scores), most: Math.max(...scores) };
  }).sort((a, b) => b.mean - a.mean);
  if (!values.length) return null;
  const x = (value) => 4 + ((value - lowest) / (highest - lowest || 1)) * 132;
  const line = ({ value, n, mean, deviation, least, most }) => element("tr", {},
    element("th", { scope: "row" }, value), number(mean), cellOf(String(n), { class: "number" }),
    cellOf(n > 1 ? fixed(deviation) : "–", { class: "number" }), element("td", { class: "number" }, `${fixed(least)}–${fixed(most)}`, svg("svg", { viewBox: "0 0 140 14", width: 140, height: 14, "aria-hidden": "true", class: "spread" },
      svg("rect", { x: x(least) - 1, width: x(most) - x(least) + 2, y: 4, height: 6 }),
      svg("line", { x1: x(mean), x2: x(mean), y1: 0, y2: 14 }))));
  const header = element("tr", {}, head(axis.title), ...["mean", "trials", "deviation", "lowest–highest"].map((title) => head(title, { class: "number" })));
  return element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `The objective by ${axis.title}` },
    element("table", {}, caption(`The objective by ${axis.title}`), element("thead", {}, header), element("tbody", {}, ...values.map(line))));
}
function grouping(rows, of) {
  const groups = new Map();
  for (const row of rows) groups.set(of(row), [...(groups.get(of(row)) ?? []), row]);
  return groups;
}
