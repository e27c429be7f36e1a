// What to try next.

import { LongText } from "../page/text";
import { focusHeading, useRun } from "./model";
import { nextSteps } from "./next-steps";

export function NextSection() {
  const model = useRun();
  const { table } = model;
  const steps = nextSteps(table);
  const compare = (beside: string) => {
    model.change({ trial: table.leading?.id ?? null, other: beside });
    queueMicrotask(() => focusHeading("compare-heading"));
  };
  return (
    <section id="next-section" aria-labelledby="next-heading" hidden={!steps.length}>
      <h2 id="next-heading" tabIndex={-1}>What to try next</h2>
      <p class="hint">Founded guesses, from where {table.leading?.id} loses the evidence and from what each axis changes. Only a run tells: what is done already is done and paid once.</p>
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
