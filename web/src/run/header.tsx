// The head of a run's page: verdict, warnings, problems, and links to the sections.

import { sentence } from "../words";
import { LongText, WithCode } from "../page/text";
import { focusHeading, useRun } from "./model";

export function RunHeader({ children }: { children?: preact.ComponentChildren }) {
  const { overview: { board } } = useRun();
  const verdict = (board.unscored ? [board.unscored] : board.verdict).map((text) => sentence(text, board.leads ?? board.winner)).join(" ");
  return (
    <header>
      <h1 id="title"><LongText text={board.experiment} /></h1>
      {board.partial ? <p id="partial" role="alert">Partial results: {board.partial}.</p> : <p id="partial" role="alert" hidden />}
      <p id="verdict"><LongText text={verdict} /></p>
      <ul id="warnings" aria-label="Warnings" hidden={!board.warnings.length}>
        {board.warnings.map((warning, i) => (
          <li key={i} title={`What to do: ${warning.action}.`}><WithCode text={sentence(warning.text, warning.trials[0])} /> <code>{warning.code}</code></li>
        ))}
      </ul>
      <p id="facts">{board.corpus}. Run {board.run}, {board.finished}.</p>
      <Problems />
      {children}
    </header>
  );
}

function Problems() {
  const { problems } = useRun();
  return <div id="problems" role="alert">{[...problems.value].map(([kind, text]) => <p key={kind}>{text}</p>)}</div>;
}

/** Links within the page. The address behind the `#` names what is shown, so they go to their heading by script. */
export function SectionLinks({ sections }: { sections: [string, string][] }) {
  const model = useRun();
  const href = model.href();
  return (
    <nav class="sections" aria-label="Sections of this page">
      <ul>
        {sections.map(([heading, title]) => (
          <li key={heading}>
            <a href={href} onClick={(event) => { event.preventDefault(); focusHeading(heading); }}>{title}</a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
