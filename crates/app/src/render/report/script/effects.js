// ---- what each axis changes
function drawEffects() {
  const axes = ofKind("axis").map((axis) => ({ axis, own: board.effects.filter((effect) => effect.axis === axis.name) })).filter(({ own }) => own.length);
  byId("effects-section").hidden = !axes.length;
  byId("effects-hint").textContent = "The difference of the objective with each value in place of the leading trial's, in pairs of trials that are equal on all other axes. The interval has 95 % and is over questions: where it holds 0, the value may change nothing. A value without pairs has no trial that is otherwise equal.";
  byId("effects").replaceChildren(...axes.map(({ axis, own }) => effect(axis, own)));
}
function effect(axis, own) {
  const line = ({ value, baseline, pairs, difference, interval }) => element("tr", {},
    element("th", { scope: "row" }, value), cellOf(baseline),
    cellOf(known(difference) ? withSign(difference) : "–", { class: "number" }),
    cellOf(known(interval) ? `${withSign(interval.low)} to ${withSign(interval.high)}` : "–", { class: "number" }),
    cellOf(String(pairs), { class: "number" }));
  const header = element("tr", {}, head(axis.title), head("instead of"), ...["objective", "95 % interval", "pairs"].map((title) => head(title, { class: "number" })));
  return element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `The objective by ${axis.title}` },
    element("table", {}, caption(`The objective by ${axis.title}`), element("thead", {}, header), element("tbody", {}, ...own.map(line))));
}
function withSign(value) {
  return `${value > 0 ? "+" : ""}${fixed(value)}`;
}
