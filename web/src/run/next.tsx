// What to try next.

import { useState } from "preact/hooks";
import { Chooser } from "../page/tables";
import { LongText } from "../page/text";
import { focusHeading, useRun } from "./model";
import { nextSteps } from "./next-steps";

export function NextSection() {
  const model = useRun();
  const { table } = model;
  const [chosen, setChosen] = useState<string | null>(null);
  const row = table.rowOf(chosen) ?? table.leading;
  const steps = nextSteps(table, row);
  const compare = (beside: string) => {
    model.change({ trial: row?.id ?? null, other: beside });
    queueMicrotask(() => focusHeading("compare-heading"));
  };
  return (
    <section id="next-section" aria-labelledby="next-heading" hidden={!steps.length && chosen === null}>
      <h2 id="next-heading" tabIndex={-1}>What to try next</h2>
      <div class="fields">
        <Chooser label="with the trial" options={table.rows.map(({ id, label }): [string, string] => [id, label ? `${id} (${label})` : id])} value={row?.id ?? ""} choose={setChosen} />
      </div>
      <p class="hint">Suggestions, from where {row?.id} loses the evidence and from what each axis changes. Only another run can tell whether they help; it computes and pays only what is new.</p>
      {steps.length ? null : <p class="hint">Nothing stands out for {row?.id}.</p>}
      <ol id="next-steps">
        {steps.map(({ text, why, setting, beside }) => (
          <li key={text}>
            <strong>{text}</strong> <LongText text={why} />
            {setting ? <> In the experiment file: <code>{setting}</code></> : null}
            {beside ? <> <button type="button" onClick={() => compare(beside)}>Compare the two</button></> : null}
          </li>
        ))}
      </ol>
    </section>
  );
}
