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
        CostEstimate, SystemTrial, TrialKind,
        model_load::{ModelLoad, of_item, score_of},
        trial::{SYSTEM, identity_name},
    },
    record::{experiment_of, latest_record},
    results::{QuestionResult, Results, TrialResult},
    session::used_models::priced_and_ready,
    settlement,
    spec::{EvaluateSpec, Experiment, SystemSpec},
    task::{
        ModelHandles,
        systems::{SystemHandle, SystemHandles},
    },
};
use eval::{
    MetricConfig, Question, Sample,
    statistics::{NoiseBudget, Random},
};
use futures::{StreamExt, stream};
use rag::{
    Answer, Component, Passage, PipelineConfig,
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
    /// Questions that were answered in more than one way, of those that were used; none if each was asked once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub varying: Option<usize>,
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
    let (results, experiment) =
        (record.results_with_rows_of(session, trial).await?, experiment_of(&session.experiment, &record)?);
    let NoiseCalls { found, repeated, config, order } =
        plan_calls(session, &results, &experiment, trial, metric, design).await?;
    let evaluate = &experiment.evaluate;
    let models = session.models_of(&experiment);
    let system = match &repeated {
        RepeatedCalls::System(system) => {
            let systems = SystemHandles::new(&experiment, session.context().clone(), models.client().clone());
            let version = found.replies.as_ref().map(|replies| replies.version.clone()).unwrap_or_default();
            Some((*system, systems.get(&system.system, &version)?))
        }
        RepeatedCalls::Generator(..) => None,
    };
    let repeats = Repeats { design, models, repeated: &repeated, system, config, evaluate };
    let one = |i: usize| repeats.scores(&results.questions[i], &found.questions[i]);
    // All calls are waited for, because they may have been paid.
    let scored: Vec<Result<_, Error>> = stream::iter(order.iter().copied()).map(one).buffered(4).collect().await;
    let (mut scores, mut failure, mut varying) = (Vec::new(), None, 0);
    for rows in scored {
        match rows {
            Ok(Some(RepeatedScores { rows, differ })) => {
                scores.push(rows);
                varying += usize::from(differ);
            }
            Ok(None) => {}
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
    let result = NoiseResult {
        trial: trial.to_owned(),
        metric: metric.to_owned(),
        noise,
        used: scores.len(),
        left_out,
        varying: (design.answers > 1).then_some(varying),
        n_questions: n,
        standard_errors: [
            noise.standard_error(n, 1, 1),
            noise.standard_error(2 * n, 1, 1),
            noise.standard_error(n, 3, 1),
            noise.standard_error(n, 1, 3),
        ],
    };
    settlement::settle(repeats.models.client(), &session.setup().control.progress, Ok(result)).await
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
    let (results, experiment) =
        (record.results_with_rows_of(session, trial).await?, experiment_of(&session.experiment, &record)?);
    let NoiseCalls { found, repeated, config, order } =
        plan_calls(session, &results, &experiment, trial, metric, design).await?;
    let models = session.models_of(&experiment);
    let called = identity_name(found.trial.label_of(SYSTEM));
    let count = |model: &str, text: &str| models.count_tokens(model, text);
    let loads = order.iter().flat_map(|&i| {
        let (question, asked) = (&results.questions[i], &found.questions[i]);
        let sample = Sample { question, passages: &asked.passages, answer: asked.answer.as_ref(), columns: None };
        let answer = match &repeated {
            RepeatedCalls::Generator(_, generator) => of_item(generator.as_ref(), question, &asked.passages, &count),
            RepeatedCalls::System(_) => vec![(called.as_str(), ModelLoad::calls(1))],
        };
        let answers = std::iter::repeat_n(answer, design.answers);
        let scores = score_of(&experiment.evaluate, config, &sample, &count);
        answers.flatten().chain(std::iter::repeat_n(scores, design.answers * design.judgements).flatten())
    });
    Ok(CostEstimate::with_systems((&experiment.models, &experiment.systems), session.budget().caps(), loads))
}

/// The calls that give the answers of a trial.
enum RepeatedCalls<'a> {
    /// Those of a pipeline's generator, for the passages that were retrieved.
    Generator(&'a PipelineConfig, Box<GeneratorConfig>),
    /// Those to a system, which finds passages anew.
    System(&'a SystemTrial),
}

/// The calls to repeat: the metric, its judges, and the generator or the system are those of the run.
struct NoiseCalls<'a> {
    found: &'a TrialResult,
    repeated: RepeatedCalls<'a>,
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
    let repeated = match &found.trial.kind {
        TrialKind::Pipeline(pipeline) => {
            pipeline.prompted_generator().map(|generator| RepeatedCalls::Generator(pipeline, Box::new(generator)))
        }
        TrialKind::System(system) => {
            let spec = experiment.systems.get(&system.system);
            spec.and_then(SystemSpec::asked).map(|_| RepeatedCalls::System(system))
        }
    };
    let Some(repeated) = repeated else {
        return Err(Error::Unusable(format!("trial `{trial}` generates no answers, so there is nothing to repeat")));
    };
    let generator = match &repeated {
        RepeatedCalls::Generator(_, generator) => generator.model(),
        RepeatedCalls::System(_) if config.needs().evidence => {
            return Err(Error::Unusable(format!(
                "`{metric}` compares places in documents, and repeated replies of a system get none: name a metric that \
                 reads answers"
            )));
        }
        RepeatedCalls::System(_) => None,
    };
    let used: BTreeSet<String> =
        generator.into_iter().map(str::to_owned).chain(evaluate.judges.iter().cloned()).collect();
    priced_and_ready(session, experiment, &used).await?;
    let mut order: Vec<usize> =
        (0..found.questions.len()).filter(|&i| config.applies(&results.questions[i]).is_ok()).collect();
    Random::new(SEED).shuffle(&mut order);
    order.truncate(design.questions);
    Ok(NoiseCalls { found, repeated, config, order })
}

/// What is needed to answer and score a question several times.
struct Repeats<'a> {
    design: NoiseDesign,
    models: ModelHandles,
    repeated: &'a RepeatedCalls<'a>,
    /// The system, if it is one that is repeated.
    system: Option<(&'a SystemTrial, SystemHandle)>,
    config: &'a MetricConfig,
    evaluate: &'a EvaluateSpec,
}

/// The scores of a question's repeated answers.
struct RepeatedScores {
    /// By answer and judgement.
    rows: Vec<Vec<f64>>,
    /// Whether the answers differ in their texts.
    differ: bool,
}

impl Repeats<'_> {
    /// An answer to a question, with its passages. As in the run, the generator gets a follow-up question reworded so
    /// that it needs no earlier messages.
    async fn answer(
        &self,
        question: &Question,
        found: &QuestionResult,
        repeat: u32,
    ) -> Result<(Answer, Vec<Passage>), Error> {
        match (self.repeated, &self.system) {
            (RepeatedCalls::Generator(pipeline, generator), _) => {
                let asked = AskedQuestion { text: &question.question, history: &question.turns, filter: None };
                let rewrites = pipeline.query.rewrites_question() && !found.queries.is_empty();
                let SearchableQuestion { standalone, .. } =
                    SearchableQuestion::new(rewrites, asked, found.queries.clone());
                let repeated = self.models.for_repeat(repeat);
                let generator = generator.build(&repeated.context(pipeline.embedder.as_deref()))?;
                let answer = generator.generate(&standalone, &found.passages).await?;
                Ok((answer, found.passages.clone()))
            }
            (RepeatedCalls::System(_), Some((trial, handle))) => {
                let (reply, _) = handle.ask(question, &trial.parameters, repeat).await?;
                let passages = reply.passages.unwrap_or_default().into_iter();
                let passages = passages.map(|passage| Passage { text: passage.text, ..Passage::default() }).collect();
                Ok((Answer { text: reply.answer.unwrap_or_default(), ..Answer::default() }, passages))
            }
            (RepeatedCalls::System(trial), None) => {
                Err(Error::NotFound(format!("there is no system `{}`", trial.system)))
            }
        }
    }

    /// The scores of a question's answers; none if one of them is missing.
    async fn scores(&self, question: &Question, found: &QuestionResult) -> Result<Option<RepeatedScores>, Error> {
        let repeat = |i: usize| u32::try_from(i).unwrap_or(u32::MAX);
        let (mut rows, mut texts) = (Vec::new(), BTreeSet::new());
        for a in 0..self.design.answers {
            let (answer, passages) = self.answer(question, found, repeat(a)).await?;
            texts.insert(answer.text.clone());
            let sample = Sample { question, passages: &passages, answer: Some(&answer), columns: None };
            let mut row = Vec::new();
            for j in 0..self.design.judgements {
                let built = self.config.build(&self.models.for_repeat(repeat(j)).metric_context(self.evaluate))?;
                row.push(self.config.score(built.as_ref(), &sample).await.score.value());
            }
            rows.push(row.into_iter().collect::<Option<Vec<f64>>>());
        }
        let rows: Option<Vec<Vec<f64>>> = rows.into_iter().collect();
        Ok(rows.map(|rows| RepeatedScores { rows, differ: texts.len() > 1 }))
    }
}

#[cfg(test)]
mod tests;
