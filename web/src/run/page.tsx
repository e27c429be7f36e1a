// The pages of one run: everything about it on one page, with links to its sections.

import type { ComponentType } from "preact";
import { Boundary } from "../page/boundary";
import { LongText } from "../page/text";
import { CompareSection } from "./compare";
import { EffectsSection } from "./effects";
import { FrontSection } from "./front";
import { RunHeader, SectionLinks } from "./header";
import { Leaderboard } from "./leaderboard";
import { MatrixSection } from "./matrix";
import { NextSection } from "./next";
import { nextSteps } from "./next-steps";
import { RunContext, type RunModel } from "./model";
import { PlotSection } from "./plot";
import { QuestionSection } from "./question";
import { QuestionsSection } from "./questions";

interface Section {
  heading: string;
  title: string;
  Content: ComponentType;
}

function sectionsOf({ overview }: RunModel): Section[] {
  const { matrix, board } = overview;
  const sections: Section[] = [
    { heading: "board-heading", title: "Leaderboard", Content: Leaderboard },
    { heading: "next-heading", title: "What next", Content: NextSection },
    { heading: "plot-heading", title: "Axes and metrics", Content: PlotSection },
    { heading: "front-heading", title: "Quality, time and cost", Content: FrontSection },
    { heading: "effects-heading", title: "Effects", Content: EffectsSection },
  ];
  if (matrix) sections.push({ heading: "matrix-heading", title: "Questions and trials", Content: () => <MatrixSection name={matrix} /> });
  sections.push(
    { heading: "compare-heading", title: "Side by side", Content: CompareSection },
    { heading: "questions-heading", title: "Questions", Content: QuestionsSection },
    { heading: "question-heading", title: "One question", Content: QuestionSection },
  );
  if (board.rejected.length) sections.push({ heading: "rejected-heading", title: "Rejected files", Content: () => <Rejected files={board.rejected} /> });
  return sections;
}

function Rejected({ files }: { files: { path: string; reason: string }[] }) {
  return (
    <section id="rejected-section" aria-labelledby="rejected-heading">
      <h2 id="rejected-heading" tabIndex={-1}>Files that gave no document</h2>
      <ul id="rejected">{files.map((file) => <li key={file.path}><LongText text={`${file.path}: ${file.reason}`} /></li>)}</ul>
    </section>
  );
}

const sectionsByModel = new WeakMap<RunModel, Section[]>();

export function RunPage({ model }: { model: RunModel }) {
  // The same components at each drawing, so that sections keep their state.
  const sections = sectionsByModel.get(model) ?? sectionsOf(model);
  sectionsByModel.set(model, sections);
  const hasEffects = model.overview.board.effects.length > 0;
  const isEmpty = (heading: string) => (heading === "effects-heading" && !hasEffects) || (heading === "next-heading" && !nextSteps(model.table).length);
  const links = sections.filter(({ heading }) => !isEmpty(heading)).map(({ heading, title }): [string, string] => [heading, title]);
  return (
    <RunContext.Provider value={model}>
      <RunHeader />
      <SectionLinks sections={links} />
      <main id="main" tabIndex={-1}>
        {sections.map(({ heading, title, Content }) => <Boundary key={heading} name={title}><Content /></Boundary>)}
      </main>
    </RunContext.Provider>
  );
}

/** The plot alone, for a frame in a notebook. */
export function PlotPage({ model }: { model: RunModel }) {
  return (
    <RunContext.Provider value={model}>
      <main id="main" tabIndex={-1}><Boundary name="Axes and metrics"><PlotSection /></Boundary></main>
    </RunContext.Provider>
  );
}

export function SkipLink({ words, heading }: { words: string; heading?: string }) {
  return (
    <a
      class="skip" id="skip" href="#main"
      onClick={(event) => {
        event.preventDefault();
        if (heading) document.getElementById(heading)?.scrollIntoView();
        document.getElementById("main")?.focus({ preventScroll: heading !== undefined });
      }}
    >{words}</a>
  );
}
