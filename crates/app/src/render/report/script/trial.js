// ---- the chosen trial: where it stands, what it lacks, its settings
let settingsAreOpen = false;
function drawTrial() {
  const row = rowOf(state.trial);
  if (!row) return replace(byId("trial"), []);
  const lacking = shown.filter((column) => row.cells[column.index]?.missing).map((column) => `${column.title}: ${row.cells[column.index].missing}`);
  const settings = element("dl", {}, ...[...flat(row.settings)].flatMap(([path, value]) => [element("dt", {}, path), element("dd", {}, value)]));
  replace(byId("trial"), [
    element("p", { class: "hint" }, [`${nameOf(row)}. Its place: ${row.place}`, ...lacking].join(". "), "."),
    element("details", { open: settingsAreOpen, ontoggle: (event) => { settingsAreOpen = event.target.open; } },
      element("summary", { "data-focus": "settings" }, `Settings of ${row.id}`), settings),
  ]);
}
