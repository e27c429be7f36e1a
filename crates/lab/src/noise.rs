//! Tells how much of a metric's noise comes from the questions, the generator
//! and the judge.
//!
//! When to use it: before paying for more questions, more repeats or a better
//! judge. A few questions of a finished trial are answered several times from
//! the passages that were retrieved for them, and each answer is scored several
//! times. Each repeat is a call of its own, behind the same journal and budget,
//! so measuring again costs nothing.

use crate::{
    Error, Session, model_error,
    plan::{
        CostEstimate,
        model_load::{of_item, score_of},
    },
    record::{experiment_of, latest_record},
    results::{QuestionResult, Results, TrialResult},
    session::used_models::priced_and_ready,
    settlement,
    spec::{EvaluateSpec, Experiment},
    task::ModelHandles,
};
use eval::{
    MetricConfig, Question, Sample,
    statistics::{NoiseBudget, Random},
};
use futures::{StreamExt, stream};
use rag::{
    Component, PipelineConfig,
    generate::GeneratorConfig,
    pipeline::{AskedQuestion, SearchableQuestion},
};
use serde::Serialize;
use std::collections::BTreeSet;

const SEED: u64 = 0x5EED;

/// How often questions, answers and scores are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NoiseDesign {
    /// Questions, drawn at random.
    pub questions: usize,
    /// Answers to each.
    pub answers: usize,
    /// Scores of each answer.
    pub judgements: usize,
}

/// A design that measures no noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("at least 2 questions, 1 answer and 1 judgement are needed")]
pub struct NoiseDesignError;

impl NoiseDesign {
    /// Checks that the numbers are large enough.
    ///
    /// # Errors
    /// The mistake, and what is needed.
    pub fn check(&self) -> Result<(), NoiseDesignError> {
        let is_enough = self.questions >= 2 && self.answers >= 1 && self.judgements >= 1;
        if is_enough { Ok(()) } else { Err(NoiseDesignError) }
    }
}

/// A metric's noise, and the standard errors that more effort would give.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseResult {
    /// The trial.
    pub trial: String,
    /// The metric.
    pub metric: String,
    /// The variances.
    pub noise: NoiseBudget,
    /// Questions that had a score for every repeat.
    pub used: usize,
    /// Questions that were left out because a score was missing or a call failed.
    pub left_out: usize,
    /// Questions of the run.
    pub n_questions: usize,
    /// The standard error of the run's mean as it is, with twice the questions,
    /// with three answers per question, and with three judgements per answer.
    pub standard_errors: [f64; 4],
}

/// Measures the sources of the noise of a trial's metric in the last run.
///
/// # Errors
/// There is no such trial or metric, the trial generates nothing, a model
/// failed, or fewer than two questions have all their scores.
pub async fn noise(session: &Session, trial: &str, metric: &str, design: NoiseDesign) -> Result<NoiseResult, Error> {
    let record = latest_record(session).await?;
    let (results, experiment) = (record.results(session).await?, experiment_of(&session.experiment, &record)?);
    let NoiseCalls { found, generator, config, order } =
        plan_calls(session, &results, &experiment, trial, metric, design).await?;
    let evaluate = &experiment.evaluate;
    let models = session.models_of(&experiment);
    let repeats = Repeats { design, models, generator: &generator, pipeline: &found.trial.pipeline, config, evaluate };
    let one = |i: usize| repeats.scores(&results.questions[i], &found.questions[i]);
    // All calls are waited for, because they may have been paid.
    let scored: Vec<Result<_, Error>> = stream::iter(order.iter().copied()).map(one).buffered(4).collect().await;
    let (mut scores, mut failure) = (Vec::new(), None);
    for rows in scored {
        match rows {
            Ok(rows) => scores.extend(rows),
            Err(error) if model_error(&error).is_some_and(models::Error::ends_work) => {
                let ended = Err(settlement::cause(repeats.models.client(), Error::Interrupted));
                return settlement::settle(repeats.models.client(), &session.setup().control.progress, ended).await;
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let left_out = order.len() - scores.len();
    let Some(noise) = NoiseBudget::of(&scores) else {
        return Err(failure.unwrap_or(Error::TooFewScores { scored: scores.len(), asked: order.len() }));
    };
    let n = found.questions.len();
    Ok(NoiseResult {
        trial: trial.to_owned(),
        metric: metric.to_owned(),
        noise,
        used: scores.len(),
        left_out,
        n_questions: n,
        standard_errors: [
            noise.standard_error(n, 1, 1),
            noise.standard_error(2 * n, 1, 1),
            noise.standard_error(n, 3, 1),
            noise.standard_error(n, 1, 3),
        ],
    })
}

/// What [`noise`] should cost. Calls that are in the journal already are not
/// subtracted.
///
/// # Errors
/// Those of [`noise`] that are found before any call.
pub async fn noise_cost(
    session: &Session,
    trial: &str,
    metric: &str,
    design: NoiseDesign,
) -> Result<CostEstimate, Error> {
    let record = latest_record(session).await?;
    let (results, experiment) = (record.results(session).await?, experiment_of(&session.experiment, &record)?);
    let NoiseCalls { found, generator, config, order } =
        plan_calls(session, &results, &experiment, trial, metric, design).await?;
    let models = session.models_of(&experiment);
    let count = |model: &str, text: &str| models.count_tokens(model, text);
    let loads = order.iter().flat_map(|&i| {
        let (question, asked) = (&results.questions[i], &found.questions[i]);
        let sample = Sample { question, passages: &asked.passages, answer: asked.answer.as_ref(), columns: None };
        let answers = std::iter::repeat_n(of_item(&generator, question, &asked.passages, &count), design.answers);
        let scores = score_of(&experiment.evaluate, config, &sample, &count);
        answers.flatten().chain(std::iter::repeat_n(scores, design.answers * design.judgements).flatten())
    });
    Ok(CostEstimate::sum(&experiment.models, session.budget().caps(), loads))
}

/// The calls to repeat: the metric, its judges and the generator are those of the run.
struct NoiseCalls<'a> {
    found: &'a TrialResult,
    generator: GeneratorConfig,
    config: &'a MetricConfig,
    /// The questions, by their places.
    order: Vec<usize>,
}

async fn plan_calls<'a>(
    session: &Session,
    results: &'a Results,
    experiment: &'a Experiment,
    trial: &str,
    metric: &str,
    design: NoiseDesign,
) -> Result<NoiseCalls<'a>, Error> {
    let evaluate = &experiment.evaluate;
    let config = evaluate.metrics.iter().find(|known| known.label() == metric).ok_or_else(|| {
        let known: Vec<String> = evaluate.metrics.iter().map(MetricConfig::label).collect();
        Error::NotFound(format!("there is no metric `{metric}`; there are {}", known.join(", ")))
    })?;
    let found = results.trial(trial)?;
    let Some(generator) = found.trial.pipeline.prompted_generator() else {
        return Err(Error::Unusable(format!("trial `{trial}` generates no answers, so there is nothing to repeat")));
    };
    let used: BTreeSet<String> =
        generator.model().into_iter().map(str::to_owned).chain(evaluate.judges.iter().cloned()).collect();
    priced_and_ready(session, experiment, &used).await?;
    let mut order: Vec<usize> =
        (0..found.questions.len()).filter(|&i| config.applies(&results.questions[i]).is_ok()).collect();
    Random::new(SEED).shuffle(&mut order);
    order.truncate(design.questions);
    Ok(NoiseCalls { found, generator, config, order })
}

/// What is needed to answer and score a question several times.
struct Repeats<'a> {
    design: NoiseDesign,
    models: ModelHandles,
    generator: &'a GeneratorConfig,
    pipeline: &'a PipelineConfig,
    config: &'a MetricConfig,
    evaluate: &'a EvaluateSpec,
}

impl Repeats<'_> {
    /// The scores of a question's answers (answer × judgement); none if one of
    /// them is missing. The generator is asked the question as it stands alone,
    /// as in the run.
    async fn scores(&self, question: &Question, found: &QuestionResult) -> Result<Option<Vec<Vec<f64>>>, Error> {
        let asked = AskedQuestion { text: &question.question, history: &question.turns, filter: None };
        let rewrites = self.pipeline.query.rewrites_question() && !found.queries.is_empty();
        let SearchableQuestion { standalone, .. } = SearchableQuestion::new(rewrites, asked, found.queries.clone());
        let passages = found.passages.as_slice();
        let repeat = |i: usize| u32::try_from(i).unwrap_or(u32::MAX);
        let mut rows = Vec::new();
        for a in 0..self.design.answers {
            let repeated = self.models.for_repeat(repeat(a));
            let generator = self.generator.build(&repeated.context(self.pipeline.embedder.as_deref()))?;
            let answer = generator.generate(&standalone, passages).await?;
            let sample = Sample { question, passages, answer: Some(&answer), columns: None };
            let mut row = Vec::new();
            for j in 0..self.design.judgements {
                let built = self.config.build(&self.models.for_repeat(repeat(j)).metric_context(self.evaluate))?;
                row.push(self.config.score(built.as_ref(), &sample).await.score.value());
            }
            rows.push(row.into_iter().collect::<Option<Vec<f64>>>());
        }
        Ok(rows.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
