// Adds the questions of a file to the golden questions.

import { useState } from "preact/hooks";
import type { ImportOutcome } from "../../data/golden";
import { Problem } from "../../page/tables";
import { LongText } from "../../page/text";
import { personName } from "../person";
import { RequestProblem, hasKey, postFile } from "../server";
import { useDesk } from "./desk";
import { fileProblem, outcomeWords } from "./import-words";

const IMPORT_MS = 300_000;

interface ImportState {
  isBusy: boolean;
  problem: string | null;
  found: { name: string; outcome: ImportOutcome } | null;
}

export function ImportQuestions() {
  const desk = useDesk();
  const [file, setFile] = useState<File | null>(null);
  const [{ isBusy, problem, found }, setState] = useState<ImportState>({ isBusy: false, problem: null, found: null });
  const send = async () => {
    if (!file || isBusy) return;
    if (!personName.peek() && !hasKey()) {
      desk.nameAsked.value += 1;
      setState({ isBusy: false, problem: "Give your name first: it is recorded with the questions.", found: null });
      return;
    }
    const unsent = fileProblem(file);
    if (unsent !== null) {
      setState({ isBusy: false, problem: unsent, found: null });
      return;
    }
    setState({ isBusy: true, problem: null, found: null });
    try {
      const said = new URLSearchParams({ name: file.name });
      if (personName.peek()) said.set("by", personName.peek());
      const outcome = await postFile<ImportOutcome>(`/api/golden/import?${said}`, file, IMPORT_MS);
      setState({ isBusy: false, problem: null, found: { name: file.name, outcome } });
      await desk.loadList();
    } catch (error) {
      if (!(error instanceof RequestProblem)) throw error;
      // Without an answer that refuses the file, the server may have added the questions all the same.
      const isRefused = error.status >= 400 && error.status < 500;
      const what = isRefused ? "Nothing was imported" : "It is not known whether the file was imported; look at the list";
      setState({ isBusy: false, problem: `${what}: ${error.message}`, found: null });
      if (!isRefused) await desk.loadList();
    }
  };
  return (
    <details id="import" class="import">
      <summary>Import questions</summary>
      <form class="fields" onSubmit={(event) => { event.preventDefault(); void send(); }}>
        <label>File <input type="file" id="import-file" accept=".jsonl,.ndjson,.json,.csv,.tsv" onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)} /></label>
        <button type="submit" id="import-button" disabled={!file || isBusy}>{isBusy ? "Importing…" : "Import"}</button>
      </form>
      <p class="hint">JSONL or CSV with a column <code>question</code>, and <code>reference</code>, <code>evidence</code> and <code>id</code> if there are such. Questions that are there already are skipped.</p>
      <div role="status" id="import-outcome" class="imported">
        {problem ? <Problem text={problem} /> : null}
        {found ? <Outcome name={found.name} outcome={found.outcome} /> : null}
      </div>
    </details>
  );
}

function Outcome({ name, outcome }: { name: string; outcome: ImportOutcome }) {
  const { refused, refusals } = outcome;
  return (
    <>
      <p><LongText text={name} />: {outcomeWords(outcome)}</p>
      {refusals.length ? <ul tabIndex={0} role="list" aria-label="Refused lines">{refusals.map(({ line, reason }, i) => <li key={i}>line {line}: <LongText text={reason} /></li>)}</ul> : null}
      {refused > refusals.length ? <p class="hint">The other {refused - refusals.length} are not listed.</p> : null}
    </>
  );
}
