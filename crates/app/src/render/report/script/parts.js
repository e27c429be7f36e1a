// ---- parts: data that is loaded on demand
// A part stands in the page, or is a script in the folder beside it, which calls
// `reverieReportPart`. (`fetch` cannot read from a folder; a script can be loaded.)

class PartProblem extends Error {}

const parts = new Map();
const awaited = new Map();
// Parts beyond this number are dropped, the least recently used ones first.
const MAX_PARTS = 200;

globalThis.reverieReportPart = (name, stamp, text) => {
  const waiting = awaited.get(name);
  if (!waiting) return;
  awaited.delete(name);
  if (stamp === overview.stamp) waiting.resolve(JSON.parse(text));
  else waiting.reject(new PartProblem(`The folder “${overview.folder}” beside this page belongs to another run or to an earlier report, so what is in it is not shown. Put the page and its own folder together; or delete both, and “reverie leaderboard” writes them anew.`));
};

function loadScript(name) {
  return new Promise((resolve, reject) => {
    awaited.set(name, { resolve, reject });
    const failed = (what) => {
      awaited.delete(name);
      reject(new PartProblem(`${what}: this page shows summaries, and loads questions, passages and scores from the folder “${overview.folder}” beside it. Put that folder next to the page, and load the page again. Everything is also in results.json of the run's folder.`));
    };
    const script = element("script", { src: `${encodeURIComponent(overview.folder)}/${name}.js` });
    script.onerror = () => { script.remove(); failed(`“${overview.folder}/${name}.js” cannot be loaded`); };
    script.onload = () => { script.remove(); if (awaited.has(name)) failed(`“${overview.folder}/${name}.js” is damaged`); };
    document.head.append(script);
  });
}

function part(name) {
  const inside = byId(`part-${name}`);
  const found = parts.get(name) ?? (inside ? Promise.resolve(JSON.parse(inside.textContent)) : loadScript(name));
  parts.delete(name);
  parts.set(name, found);
  // A part that failed is loaded again at the next request.
  found.then(() => showProblem("parts"), (problem) => { parts.delete(name); showProblem("parts", problem.message); });
  if (parts.size > MAX_PARTS) parts.delete(parts.keys().next().value);
  return found;
}

// The number of the part that holds a value, and the index of the value in it.
function locate(firsts, index) {
  let [low, high] = [0, firsts.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (firsts[middle] <= index) low = middle;
    else high = middle;
  }
  return [low, index - firsts[low]];
}
const trialPart = (row) => part(`trial-${board.rows.indexOf(row)}`);
async function questionPart(index) {
  const [number, place] = locate(overview.question_parts, index);
  return (await part(`questions-${number}`))[place];
}
async function passageAt(index) {
  const [number, place] = locate(overview.passage_parts, index);
  return (await part(`passages-${number}`))[place];
}
