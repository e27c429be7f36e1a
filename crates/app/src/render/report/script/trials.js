// ---- trials and their columns
const rowOf = (id) => board.rows.find((row) => row.id === id);
const indexOfQuestion = new Map(questions.map((question, index) => [question.id, index]));
// What a row has in a column: a word, a number, or the mean of scores.
function valueOf(index) {
  return (row) => {
    const cell = row.cells[index];
    return cell?.mean ?? (typeof cell === "object" ? null : cell);
  };
}
const every = board.columns
  .map((column, index) => ({ ...column, index, key: `${column.kind}.${column.name}`, title: column.judged ? `${column.title}*` : column.title }))
  .map((column) => ({ ...column, of: valueOf(column.index), isNumber: column.kind !== "axis" }));
const shown = every.filter((column) => column.shown);
const ofKind = (kind) => shown.filter((column) => column.kind === kind);
const columnOf = (key) => every.find((column) => column.key === key);
const metrics = ofKind("metric");
const metricNumber = (name) => overview.metrics.findIndex((metric) => metric.name === name);
// All steps at which a question can end; empty in runs of earlier versions.
const lossSteps = overview.loss_steps ?? [];
const lossStep = (name) => lossSteps.find((step) => step.name === name);
const lossWords = ({ step, component }) => `${lossStep(step)?.title ?? step}${component ? ` (${component})` : ""}`;
const objective = (row) => ofKind("objective")[0]?.of(row);
const nameOf = (row) => `${row.id}: ${Object.entries(row.labels).filter(([, label]) => label !== "none").map(([, label]) => label).join(", ")}`;

const objectives = board.rows.map(objective).filter(known);
const [lowest, highest] = [Math.min(...objectives), Math.max(...objectives)];
// Blue is low and orange is high: told apart with any colour vision.
function colour(row) {
  const value = objective(row);
  if (!known(value)) return "var(--soft)";
  const share = highest > lowest ? (value - lowest) / (highest - lowest) : 1;
  return `hsl(${share > 0.5 ? 28 : 215} ${30 + Math.abs(share - 0.5) * 120}% 52%)`;
}
const isFirst = (row) => row.standing === "winner" || row.standing === "leads";
const leading = board.rows.find(isFirst) ?? board.rows[0];
