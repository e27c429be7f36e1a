//! Traces the golden evidence of each question through a trial. The passages after each stage show where it was lost.
//! For evidence that the search did not find, chunks and a deeper search show why. [`results::losses`](crate::results)
//! decides the step. No model is called. If something fails here, the run goes on, and the trial's questions have no
//! step.

mod held;
mod refined;
mod searched;

pub(super) use held::SearchedChunks;

use crate::{
    Error,
    engine::PlanOutcome,
    plan::{Outputs, Plan, TaskId, Trial, TrialKind, TrialTasks, trial::SYSTEM, work::Work},
    prepare::PreparedRun,
    results::{
        AnswerOutcome, EvidenceTrace, JudgedAnswer, LossStep, MetricResult, QuestionLoss, QuestionResult,
        SearchedEvidence, StagePassages, answer_metrics, judge_answer,
    },
    spec::EvaluateSpec,
    task::passages_by_question,
};
use eval::{MetricConfig, Question, Sample, metric::find_evidence};
use rag::{Axis, Choice, Component, PassagesWithRemarks};
use serde_json::json;
use std::{collections::HashMap, sync::Arc};

type PassagesByQuestion = Arc<HashMap<String, PassagesWithRemarks>>;

/// A trial whose evidence is traced, and the run's plan and outputs that are read for it.
#[derive(Clone, Copy)]
pub(super) struct TracedTrial<'a> {
    prepared: &'a PreparedRun,
    plan: &'a Plan,
    outcome: &'a PlanOutcome,
    trial: &'a Trial,
    tasks: &'a TrialTasks,
    /// The share of an evidence item's bytes that passages must hold for the item to count as held.
    min_overlap: f64,
    /// Whether only facts that earlier runs stored are used, without reading chunks or searching.
    only_stored: bool,
    /// The number of the parser that makes the trial's documents.
    parser: usize,
}

/// A stage whose output is passages.
struct TracedStage {
    step: LossStep,
    component: String,
    passages: PassagesByQuestion,
    /// The task of the stage.
    id: TaskId,
}

/// The `min_overlap` by which evidence counts as held: that of the first metric of the objective that has one, else of
/// the first metric that has one, else the default of `recall`.
pub(super) fn min_overlap(evaluate: &EvaluateSpec) -> f64 {
    let chosen = evaluate.metrics.iter().filter(|metric| evaluate.objective.contains(&metric.label()));
    let recall = MetricConfig::with_defaults("recall");
    chosen.chain(&evaluate.metrics).chain(&recall).find_map(MetricConfig::min_overlap).unwrap_or(0.5)
}

impl<'a> TracedTrial<'a> {
    pub(super) fn new(
        prepared: &'a PreparedRun,
        (plan, outcome): (&'a Plan, &'a PlanOutcome),
        (trial, tasks): (&'a Trial, &'a TrialTasks),
        only_stored: bool,
    ) -> Self {
        let experiment = &prepared.run_context.experiment;
        let min_overlap = min_overlap(&experiment.evaluate);
        let parser = trial.pipeline().map_or(0, |pipeline| experiment.space.parser_number(&pipeline.parse));
        Self { prepared, plan, outcome, trial, tasks, min_overlap, only_stored, parser }
    }

    /// The golden questions, with the places of their evidence in the trial's documents.
    fn questions(&self) -> &'a [Question] {
        self.prepared.sources.views.of(self.parser, &self.prepared.questions)
    }

    /// Sets the `loss` of each question of the trial. If that fails, logs the error and leaves them empty.
    pub(super) async fn trace(&self, metrics: &[MetricResult], questions: &mut [QuestionResult]) {
        match self.losses(metrics, questions).await {
            Ok(losses) => {
                for (question, loss) in questions.iter_mut().zip(losses) {
                    question.loss = self.was_asked(question).then_some(loss);
                }
            }
            Err(error) => {
                let fields = json!({ "trial": self.trial.id, "reason": crate::error_chain(&error) });
                self.prepared.run_context.log("losses_not_traced", fields);
            }
        }
    }

    /// Whether a question has results. A system has passages only for the questions that it was asked; a pipeline
    /// searches for all.
    fn was_asked(&self, found: &QuestionResult) -> bool {
        let has_results = found.answer.is_some() || found.error.is_some() || !found.remarks.is_empty();
        self.tasks.replies.is_none() || has_results || !found.passages.is_empty()
    }

    /// The loss of each question. Empty if only stored facts may be used and they do not cover all questions.
    async fn losses(&self, metrics: &[MetricResult], found: &[QuestionResult]) -> Result<Vec<QuestionLoss>, Error> {
        let questions = self.questions();
        let failed = |_: &Question| QuestionLoss {
            step: LossStep::FailedCall,
            component: None,
            rank: None,
            evidence: Vec::new(),
        };
        if self.outcome.failed.contains_key(&self.tasks.passages) {
            return Ok(questions.iter().map(failed).collect());
        }
        let stages = self.stages().await?;
        let searched = match stages.first() {
            // Nobody knows what a system searches.
            Some(_) if self.tasks.replies.is_some() => Some(HashMap::new()),
            Some(first) => searched::evidence(self, first.id, &first.passages).await?,
            None => Some(HashMap::new()),
        };
        let Some(searched) = searched else { return Ok(Vec::new()) };
        let answers = self.answers(metrics, found);
        let mut losses = Vec::with_capacity(questions.len());
        for ((question, answer), found) in questions.iter().zip(answers).zip(found) {
            if self.tasks.replies.is_some() && found.error.is_some() {
                losses.push(failed(question));
                continue;
            }
            let passages = stages.iter().map(|stage| StagePassages {
                step: stage.step,
                component: &stage.component,
                passages: stage.passages.get(&question.id).map_or(&[], |found| &found.passages),
            });
            let stages: Vec<StagePassages<'_>> = passages.collect();
            let searched: &[SearchedEvidence] = searched.get(&question.id).map_or(&[], Vec::as_slice);
            let min_overlap = self.min_overlap;
            let parser = self.trial.pipeline().map(|pipeline| pipeline.parse.name());
            losses.push(EvidenceTrace { question, min_overlap, parser, stages: &stages, searched, answer }.loss());
        }
        if !self.only_stored && self.tasks.replies.is_none() {
            refined::name_steps(self, &stages, &mut losses).await?;
        }
        Ok(losses)
    }

    /// The stages whose output is passages, from the search on. Empty if the trial reads no passages.
    async fn stages(&self) -> Result<Vec<TracedStage>, Error> {
        let generator = self.trial.pipeline().and_then(|pipeline| pipeline.generator.as_ref());
        let replies = self.tasks.replies;
        if generator.is_some_and(|generator| !generator.reads_passages())
            || replies.is_some_and(|replies| !replies.passages)
        {
            return Ok(Vec::new());
        }
        let mut stages = Vec::new();
        let mut next = Some(self.tasks.passages);
        while let Some(id) = next {
            let (step, component, before) = match &self.plan.tasks[id].work {
                Work::Retrieve(work) => (LossStep::RankedOut, work.retriever.name().to_owned(), None),
                Work::ApplyStage(work) => {
                    let step = if work.axis == Axis::Reranker { LossStep::RankedOut } else { LossStep::Dropped };
                    let name = work.stage().map(|stage| stage.name().to_owned()).unwrap_or_default();
                    (step, name, Some(work.passages))
                }
                Work::Anchor(_) => (LossStep::NotFound, self.trial.label_of(SYSTEM).to_owned(), None),
                _ => return Err(Error::table(format_args!("{} makes no passages", self.plan.tasks[id].label))),
            };
            let outputs = self.outputs([id]);
            let passages = passages_by_question(&self.prepared.run_context, &outputs, id).await?;
            stages.push(TracedStage { step, component, passages, id });
            next = before;
        }
        stages.reverse();
        Ok(stages)
    }

    /// The names of these tasks' outputs in the store.
    fn outputs(&self, ids: impl IntoIterator<Item = TaskId>) -> Outputs {
        let name = |id: TaskId| {
            let made = self.outcome.outputs.get(&id).cloned();
            (id, made.unwrap_or_else(|| self.plan.tasks[id].artifact()))
        };
        ids.into_iter().map(name).collect()
    }

    /// Each question's answer, and whether it is right.
    fn answers<'b>(&'b self, metrics: &'b [MetricResult], found: &'b [QuestionResult]) -> Vec<JudgedAnswer<'b>> {
        let (comparing, declining) = (answer_metrics(metrics), self.abstention(metrics));
        let generator = match &self.trial.kind {
            TrialKind::Pipeline(pipeline) => pipeline.generator.as_ref().map(Choice::name).unwrap_or_default(),
            TrialKind::System(system) => &system.system,
        };
        let of_question = |(question, found): (&'b Question, &'b QuestionResult)| {
            let answer = found.answer.as_ref();
            let declines = || Sample { question, passages: &found.passages, answer, columns: None }.declines();
            // If the documents do not hold the answer, declining is right, and only `abstention` judges that.
            let metrics = if question.answerable { &comparing } else { &declining };
            let verdict = match (&found.answer, &found.error) {
                (Some(_), _) => judge_answer(metrics, &found.scores, declines),
                (None, Some(_)) => AnswerOutcome::Failed,
                (None, None) => AnswerOutcome::None,
            };
            JudgedAnswer {
                verdict,
                generator,
                citations: answer.map_or(&[], |answer| &answer.citations),
                dropped_passages: answer.map_or(0, |answer| answer.dropped_passages as usize),
            }
        };
        self.questions().iter().zip(found).map(of_question).collect()
    }

    /// The metric `abstention`, which judges whether it was right to decline. Empty if it is not measured.
    fn abstention<'b>(&self, metrics: &'b [MetricResult]) -> Vec<&'b MetricResult> {
        let configs = &self.prepared.run_context.experiment.evaluate.metrics;
        let is_abstention = |config: &MetricConfig| matches!(config, MetricConfig::Abstention(_));
        let measured = configs.iter().zip(metrics).filter(|(config, _)| is_abstention(config));
        measured.map(|(_, metric)| metric).collect()
    }
}

/// Whether passages hold all evidence of a question.
fn holds_all(question: &Question, passages: &[rag::Passage], min_overlap: f64) -> bool {
    find_evidence(&question.evidence, passages, min_overlap).iter().all(|found| found.rank.is_some())
}

#[cfg(test)]
mod tests;
