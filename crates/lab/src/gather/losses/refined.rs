//! Names the step of a `refine` list that removed evidence. A run keeps only the passages after the whole list, so its
//! steps are run again one after the other, up to the first that needs a model, a function or an index. If the evidence
//! is still there then, all remaining steps are named together.

use super::{TracedStage, TracedTrial};
use crate::{
    Error,
    plan::work::{ApplyStageWork, Work},
    results::{LossStep, QuestionLoss},
    task::{CallTurn, chunk_table, searchable_questions},
};
use eval::{Question, metric::find_evidence};
use rag::{Axis, Choice, Component, Context, Corpus, Passage, PassageStage, PassageStep, refine::RefineConfig};

/// Where a list of several steps lost evidence, replaces the list's name with the name of the step.
pub(super) async fn name_steps(
    cx: &TracedTrial<'_>,
    stages: &[TracedStage],
    losses: &mut [QuestionLoss],
) -> Result<(), Error> {
    let mut lists = stages.iter().enumerate().filter_map(|(place, stage)| match &cx.plan.tasks[stage.id].work {
        Work::ApplyStage(work) if work.axis == Axis::Refine => Some((place, work)),
        _ => None,
    });
    let Some((place, work)) = lists.next_back() else { return Ok(()) };
    let steps = work.pipeline.refine.single_steps();
    let is_lost_here = |step: Option<LossStep>, component: Option<&str>| {
        step == Some(LossStep::Dropped) && component == Some(stages[place].component.as_str())
    };
    let was_lost =
        |loss: &QuestionLoss| loss.evidence.iter().any(|item| is_lost_here(item.step, item.component.as_deref()));
    let Some(before) = place.checked_sub(1).filter(|_| steps.len() > 1) else { return Ok(()) };
    if !losses.iter().any(was_lost) {
        return Ok(());
    }
    let rerun = Rerun::open(cx, work, &steps).await?;
    for (number, loss) in losses.iter_mut().enumerate().filter(|(_, loss)| was_lost(loss)) {
        let question = &cx.questions()[number];
        let passages = stages[before].passages.get(&question.id).map(|found| found.passages.clone());
        let names = rerun.losing_steps(question, number, passages.unwrap_or_default()).await?;
        for (item, name) in loss.evidence.iter_mut().zip(&names) {
            if is_lost_here(item.step, item.component.as_deref()) {
                item.component = Some(name.clone());
            }
        }
        if loss.step == LossStep::Dropped {
            let first = loss.evidence.iter().find(|item| item.step == Some(LossStep::Dropped));
            loss.component = first.and_then(|item| item.component.clone());
        }
    }
    Ok(())
}

/// The steps of a list that can run again, and their inputs.
struct Rerun<'a> {
    min_overlap: f64,
    names: Vec<&'a str>,
    /// The first steps of the list, before one that needs a model, a function or an index.
    steps: Vec<Box<dyn PassageStep>>,
    table: std::sync::Arc<rag::ChunkTable>,
    questions: Vec<rag::pipeline::SearchableQuestion>,
}

impl<'a> Rerun<'a> {
    async fn open(cx: &TracedTrial<'_>, work: &ApplyStageWork, list: &'a [RefineConfig]) -> Result<Self, Error> {
        let run_context = &cx.prepared.run_context;
        let asks = |step: &RefineConfig| {
            !step.models().is_empty()
                || step.needs_embedder()
                || step.runs_function()
                || step.searches_again()
                || !step.indexes().is_empty()
        };
        let steps = {
            let models = run_context.models().in_turn(CallTurn::default());
            let context = Context { pipeline: Some(&work.pipeline), ..models.context(None) };
            let steps = list.iter().take_while(|step| !asks(step)).map(|step| step.step(&context));
            steps.collect::<Result<Vec<_>, _>>()?
        };
        let inputs = cx.outputs(work.corpus.chunks.iter().copied().chain(work.queries));
        let table = chunk_table(run_context, &inputs, &work.corpus.chunks).await?;
        let rewrites = work.pipeline.query.rewrites_question();
        let questions = searchable_questions(run_context, &inputs, work.queries, rewrites).await?;
        let names = list.iter().map(|step| step.name()).collect();
        Ok(Self { min_overlap: cx.min_overlap, names, steps, table, questions })
    }

    /// The name of the step that lost each piece of the question's evidence: the step after the last passages that held
    /// it. If that step cannot run again, the names of all steps from there on, joined by `+`.
    async fn losing_steps(
        &self,
        question: &Question,
        number: usize,
        mut passages: Vec<Passage>,
    ) -> Result<Vec<String>, Error> {
        let Some(searchable) = self.questions.get(number) else { return Ok(Vec::new()) };
        let corpus = Corpus::exact(&self.table, &[]);
        let mut held = vec![self.holds(question, &passages)];
        for step in &self.steps {
            passages = step.run(searchable.for_steps(None, None), corpus, passages).await?;
            held.push(self.holds(question, &passages));
        }
        let name = |item: usize| {
            let last = held.iter().rposition(|step| step[item]).unwrap_or_default();
            let is_known = last < self.steps.len();
            let from = last.min(self.names.len().saturating_sub(1));
            if is_known { self.names[from].to_owned() } else { self.names[from..].join("+") }
        };
        Ok((0..question.evidence.len()).map(name).collect())
    }

    fn holds(&self, question: &Question, passages: &[Passage]) -> Vec<bool> {
        find_evidence(&question.evidence, passages, self.min_overlap).iter().map(|found| found.rank.is_some()).collect()
    }
}
