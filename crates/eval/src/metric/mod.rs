//! Metrics: one file each, and one line below.
//!
//! A metric is a function of one [`Sample`]: a golden question, what was
//! retrieved for it and what was answered. It gives a number in its range or
//! a typed reason why there is none, never a NaN, and shows its work in
//! [`Scored::detail`].

mod citation;
mod describe;
mod evidence;
pub(crate) mod judge;
mod judged;
mod labelled;
mod refusal;
mod retrieval;
#[cfg(test)]
pub(crate) mod testing;
mod text_overlap;
mod two_ratings;

pub use describe::ObjectiveRole;
pub use evidence::{EvidenceShare, find_evidence};
pub use judge::{JudgeCalls, PROBE, VerdictForm};
pub use labelled::JudgedItem;
pub use personal_data::redact;

use crate::verdict::VerdictKind;
use crate::{Missing, Question, Score, Scored};
use async_trait::async_trait;
use describe::{Describe, Description, reference, unanswerable};
use models::{Chat, Embedder};
use rag::{Answer, Models, Passage};
use serde_json::{Map, Value};
use store::registry::ReadSettingsFile;

/// The registry of metrics, with the description of each.
macro_rules! metrics {
    ($( $Variant:ident => $module:ident ),+ $(,)?) => {
        store::registry! {
            /// Which metric, and its settings.
            #[derive(schemars::JsonSchema)]
            pub enum MetricConfig builds Box<dyn Metric>, from &crate::metric::MetricContext<'_>, or crate::metric::Error {
                $( #[doc = concat!("`", stringify!($module), "`: see its file.")] $Variant => $module ),+
            }
        }

        impl MetricConfig {
            fn settings(&self) -> &dyn Describe {
                match self { $( Self::$Variant(config) => config ),+ }
            }

            fn settings_mut(&mut self) -> &mut dyn Describe {
                match self { $( Self::$Variant(config) => config ),+ }
            }

            /// Every metric with settings that work, also if its default
            /// settings do not.
            #[cfg(test)]
            pub(crate) fn examples() -> Vec<Self> {
                vec![ $( Self::$Variant($module::Config::example()) ),+ ]
            }
        }
    };
}

metrics! {
    Recall => recall,
    Precision => precision,
    Mrr => mrr,
    Ndcg => ndcg,
    HitRate => hit_rate,
    TokenRecall => token_recall,
    TokenPrecision => token_precision,
    TokenIou => token_iou,
    ContextTokens => context_tokens,
    ExactMatch => exact_match,
    TokenF1 => token_f1,
    RougeL => rouge_l,
    AnswerSimilarity => answer_similarity,
    Faithfulness => faithfulness,
    AnswerRelevancy => answer_relevancy,
    ContextPrecision => context_precision,
    ContextRecall => context_recall,
    AnswerCorrectness => answer_correctness,
    FactualCorrectness => factual_correctness,
    NoiseSensitivity => noise_sensitivity,
    ContextEntityRecall => context_entity_recall,
    ContextRelevance => context_relevance,
    ResponseGroundedness => response_groundedness,
    AnswerAccuracy => answer_accuracy,
    CitationPrecision => citation_precision,
    CitationRecall => citation_recall,
    Abstention => abstention,
    AttackSuccess => attack_success,
    PersonalData => personal_data,
    Rubric => rubric,
    Criteria => criteria,
    Prompt => prompt,
    Python => python,
}

impl MetricConfig {
    fn describe(&self) -> Description {
        self.settings().describe()
    }

    /// The JSON Schema (draft 2020-12) of all metrics and their settings.
    pub fn schema() -> serde_json::Value {
        rag::schema_of::<Self>()
    }

    /// A metric with its default settings, by name.
    pub fn with_defaults(name: &str) -> Option<Self> {
        Self::defaults().into_iter().find(|metric| metric.name() == name)
    }

    /// The metrics that are measured if an experiment names none.
    pub fn default_metrics() -> impl Iterator<Item = Self> {
        Self::defaults().into_iter().filter(|metric| metric.describe().is_default)
    }

    /// Its label, unique in an experiment: the name in its settings if it has one,
    /// else its own name, with its mode, kind or limit of tokens if that is set.
    pub fn label(&self) -> String {
        self.describe().label.unwrap_or_else(|| self.name().to_owned())
    }

    /// Whether its settings may give it a name.
    pub fn can_be_named(&self) -> bool {
        self.describe().can_be_named
    }

    /// Reads the files that the settings name. Their contents are part of the
    /// settings from then on, and of every key. `read` gets each path as the
    /// settings write it.
    ///
    /// # Errors
    /// What `read` says, with the metric's name.
    pub fn load(&mut self, read: ReadSettingsFile<'_>) -> Result<(), Error> {
        self.settings_mut().read_files(read)
    }

    /// Checks the settings, as far as possible without models.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), Error> {
        // `build` checks the settings before it asks for models.
        match self.build(&MetricContext::default()) {
            Ok(_) | Err(Error::Needs { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Name and settings for keys, without settings that do not affect its scores.
    pub fn key_settings(&self) -> serde_json::Value {
        let value = serde_json::to_value(self).unwrap_or_default();
        rag::without_settings(value, self.name(), self.describe().settings_outside_key)
    }

    /// The share of an evidence item's bytes that passages must hold for the item to count as found. `None` if the
    /// metric has no such setting.
    pub fn min_overlap(&self) -> Option<f64> {
        self.key_settings().get(self.name())?.get("min_overlap")?.as_f64()
    }

    /// Whether it calls a user's function.
    pub fn runs_function(&self) -> bool {
        self.functions_at_once() > 0
    }

    /// How many calls of a user's function may run at once; 0 if it calls none.
    pub fn functions_at_once(&self) -> usize {
        self.settings().functions_at_once()
    }

    /// What it needs of a sample and of an evaluation.
    pub fn needs(&self) -> Needs {
        self.describe().needs
    }

    /// Whether a judge is part of it.
    pub fn needs_judge(&self) -> bool {
        self.needs().judge
    }

    /// The kind of verdict that its judges give, and the probability of yes from which on a verdict is yes;
    /// `None` if it has no judge, or if labelled cases cannot be made for its verdicts.
    pub fn verdict(&self) -> Option<(VerdictKind, f64)> {
        self.describe().verdict.filter(|_| self.needs_judge())
    }

    /// Whether an answer has to be generated first.
    pub fn needs_answer(&self) -> bool {
        self.needs().answer
    }

    /// The lowest and the highest score that it can give.
    pub fn range(&self) -> (f64, f64) {
        self.describe().range.unwrap_or((0.0, 1.0))
    }

    /// Its part in the objective if the experiment names none.
    pub fn objective_role(&self) -> ObjectiveRole {
        self.describe().objective_role
    }

    /// Whether more of it is better.
    pub fn higher_is_better(&self) -> bool {
        !self.describe().lower_is_better
    }

    /// The estimated calls for a sample with this number of passages: `writing` calls
    /// of the first judge, and `voting` calls of each judge.
    pub fn judge_calls(&self, passages: u64) -> JudgeCalls {
        let Description { needs, writing, voting, voting_per_passage, .. } = self.describe();
        let voting = voting + voting_per_passage * passages;
        if needs.judge { JudgeCalls { writing, voting } } else { JudgeCalls::default() }
    }

    /// Whether each question to a judge shows one passage, and not all of them.
    pub fn reads_one_passage(&self) -> bool {
        self.describe().reads_one_passage
    }

    /// Whether the metric applies to a question, whatever the trial.
    ///
    /// # Errors
    /// [`Missing::NotApplicable`], with the reason.
    pub fn applies(&self, question: &Question) -> Result<(), Missing> {
        let Description { needs, needs_answerable, .. } = self.describe();
        if !question.answerable && (needs_answerable || needs.reference || needs.evidence) {
            return Err(unanswerable());
        }
        if needs.reference {
            reference(question)?;
        }
        Ok(())
    }

    /// The score of a sample by the metric built from these settings. No model is
    /// asked if the metric does not apply to the question.
    ///
    /// If there is nothing to score (a refusal under `faithfulness`), the score is the
    /// metric's worst value, and the detail says why (`nothing_to_score`): a system
    /// must not look better because it answers less. The exception is an answer that
    /// rightly declines an unanswerable question: the metric does not apply to it.
    pub async fn score(&self, metric: &dyn Metric, sample: &Sample<'_>) -> Scored {
        if let Some(scored) = self.compute(metric, sample) {
            return scored;
        }
        self.worst_if_empty(metric.score(sample).await, sample)
    }

    /// The same score without waiting; `None` if the metric asks a model or a function
    /// for it.
    pub fn compute(&self, metric: &dyn Metric, sample: &Sample<'_>) -> Option<Scored> {
        match self.applies(sample.question) {
            Err(missing) => Some(Scored::missing(missing)),
            Ok(()) => metric.compute(sample).map(|scored| self.worst_if_empty(scored, sample)),
        }
    }

    /// The score, or the worst value if there was nothing to score.
    fn worst_if_empty(&self, mut scored: Scored, sample: &Sample<'_>) -> Scored {
        let is_answered = sample.answer.is_some() || !self.needs().answer;
        if let Score::Missing(Missing::EmptyInput(reason)) = &scored.score
            && is_answered
        {
            if !sample.question.answerable && sample.declines() {
                let reason = format!("the question is unanswerable, and the answer declines it: {reason}");
                scored.score = Score::Missing(Missing::NotApplicable(reason));
            } else {
                match &mut scored.detail {
                    serde_json::Value::Object(detail) => {
                        detail.insert("nothing_to_score".to_owned(), reason.clone().into());
                    }
                    detail => *detail = serde_json::json!({ "nothing_to_score": reason }),
                }
                scored.score = Score::Value(self.worst());
            }
        }
        scored
    }

    /// The worst value that it can give.
    fn worst(&self) -> f64 {
        let (low, high) = self.range();
        if self.higher_is_better() { low } else { high }
    }
}

/// Why a metric cannot be built.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model is missing.
    #[error("metric {metric} needs {part}: name it under [evaluate]")]
    Needs {
        /// The metric.
        metric: &'static str,
        /// The missing part.
        part: &'static str,
    },
    /// A model that is named under `[evaluate]` is not available.
    #[error("metric {metric}: {source}")]
    Model {
        /// The metric.
        metric: &'static str,
        /// What is wrong.
        source: rag::Error,
    },
    /// Settings that cannot work.
    #[error("metric {metric}: {reason}")]
    Config {
        /// The metric.
        metric: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// Refuses settings that cannot work.
fn refuse<T>(metric: &'static str, reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Config { metric, reason: reason.into() })
}

/// The models that metrics are built from. Without models, settings can still be
/// checked.
#[derive(Clone, Copy, Default)]
pub struct MetricContext<'a> {
    /// All models of the experiment.
    pub models: Option<&'a dyn Models>,
    /// The name of the embedder for similarities.
    pub embedder: Option<&'a str>,
    /// The names of the judges.
    pub judges: &'a [String],
}

/// The judges of a metric. Each says yes from this probability on; of several,
/// the majority decides.
fn judge(cx: &MetricContext<'_>, metric: &'static str, threshold: f64) -> Result<judge::Judge, Error> {
    judge::check_threshold(metric, threshold)?;
    let missing = Error::Needs { metric, part: "a judge" };
    let Some(models) = cx.models else { return Err(missing) };
    let judges = cx.judges.iter().map(|name| models.chat(name)).collect::<Result<Vec<Chat>, _>>();
    let judges = judges.map_err(|source| Error::Model { metric, source })?;
    let (first, others) = judges.split_first().ok_or(missing)?;
    Ok(judge::Judge::new(first, others, threshold))
}

/// The embedder for similarities: the same one for all trials.
fn embedder(cx: &MetricContext<'_>, metric: &'static str) -> Result<Embedder, Error> {
    let (Some(models), Some(name)) = (cx.models, cx.embedder) else {
        return Err(Error::Needs { metric, part: "an embedder" });
    };
    models.embedder(name).map_err(|source| Error::Model { metric, source })
}

/// What a metric needs before it can run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Golden evidence.
    pub evidence: bool,
    /// A reference answer.
    pub reference: bool,
    /// A generated answer.
    pub answer: bool,
    /// Retrieved passages.
    pub passages: bool,
    /// A judge.
    pub judge: bool,
    /// An embedder.
    pub embedder: bool,
    /// The columns of a row of answers; questions of an experiment have none.
    pub columns: bool,
}

/// One question with the passages and the answer of a trial.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The golden question.
    pub question: &'a Question,
    /// The retrieved passages, best first. Empty if retrieval found nothing.
    pub passages: &'a [Passage],
    /// The answer, if there is one.
    pub answer: Option<&'a Answer>,
    /// The other columns of its row, by name; none for questions of an
    /// experiment, which are no rows.
    pub columns: Option<&'a Map<String, Value>>,
}

impl<'a> Sample<'a> {
    /// The reference answer.
    fn reference(&self) -> Result<&'a str, Missing> {
        reference(self.question)
    }

    /// The language of question and reference. Its rules apply when answer and passages are compared with the
    /// reference.
    fn language(&self) -> whatlang::Lang {
        let question = self.question.question.as_str();
        match self.reference() {
            Ok(reference) => crate::words::language_of(&[question, reference]),
            Err(_) => crate::words::language_of(&[question]),
        }
    }

    /// Whether an answer in which a metric found nothing to score
    /// ([`Missing::EmptyInput`]) declines, by its wording. Where the words leave it
    /// unclear (see [`refusal`]), passages decide: without any, the input was empty
    /// because nothing was retrieved; with some, because the answer states nothing, which
    /// counts as declining.
    pub fn declines(&self) -> bool {
        let Ok(answer) = self.answer_with_words() else { return false };
        match refusal::wording(&answer) {
            refusal::Wording::Abstains => true,
            refusal::Wording::Unclear => !self.passages.is_empty(),
            refusal::Wording::Answers => false,
        }
    }

    /// The answer without its citations; may be empty.
    fn answer_text(&self) -> Result<String, Missing> {
        match self.answer {
            Some(answer) => Ok(crate::words::without_citations(&answer.text, &answer.citations)),
            None => Err(Missing::EmptyInput("there is no answer".into())),
        }
    }

    /// The answer without its citations; an error if it is empty.
    fn answer_with_words(&self) -> Result<String, Missing> {
        match self.answer_text()? {
            text if text.is_empty() => Err(Missing::EmptyInput("the answer is empty".into())),
            text => Ok(text),
        }
    }

    /// The texts of the passages.
    fn texts(&self) -> impl Iterator<Item = &'a str> {
        self.passages.iter().map(|passage| passage.text.as_str())
    }

    /// The passages for judges: numbered and fenced.
    fn fenced_context(&self) -> String {
        crate::prompt::fence_all("context", "passage", self.texts())
    }

    /// The question for judges: fenced, after the earlier messages of its
    /// conversation.
    fn fenced_question(&self) -> String {
        let Question { question, turns, .. } = self.question;
        if turns.is_empty() {
            return crate::prompt::fence("question", question);
        }
        let said = |message: &models::Message| {
            let who = match message.role {
                models::Role::System => "instructions",
                models::Role::User => "user",
                models::Role::Assistant => "assistant",
            };
            format!("{who}: {}\n", message.content)
        };
        let earlier: String = turns.iter().map(said).collect();
        crate::prompt::fence("question", &format!("{earlier}user: {question}"))
    }

    /// The fenced texts for a judge of the user's own criteria, apart from the answer:
    /// the question, and the reference and the passages if wanted.
    fn fenced_texts(&self, reference: bool, passages: bool) -> Result<String, Missing> {
        let mut shown = Vec::new();
        if passages {
            shown.push(self.fenced_context());
        }
        shown.push(self.fenced_question());
        if reference {
            shown.push(crate::prompt::fence("reference", self.reference()?));
        }
        Ok(shown.join("\n\n"))
    }
}

/// Refuses a metric name that has other characters than letters, digits, `-`
/// and `_`, or is another metric's.
fn check_name(metric: &'static str, name: Option<&str>) -> Result<(), Error> {
    let Some(name) = name else { return Ok(()) };
    let usable = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || !name.chars().all(usable) {
        return refuse(metric, "`name`: use letters, digits, `-` and `_` only");
    }
    if name != metric && MetricConfig::NAMES.contains(&name) {
        return refuse(metric, format!("`name`: `{name}` is another metric"));
    }
    Ok(())
}

/// Gives one number, or the reason why there is none, for one sample.
#[async_trait]
pub trait Metric: Send + Sync {
    /// The score. Never NaN.
    async fn score(&self, sample: &Sample<'_>) -> Scored;

    /// The same score without waiting. None, if a model or a function has to be
    /// asked.
    fn compute(&self, _: &Sample<'_>) -> Option<Scored> {
        None
    }
}

/// A metric that asks no model: a function of the sample.
struct FormulaMetric<F>(F);

#[async_trait]
impl<F: Fn(&Sample<'_>) -> Result<Scored, Missing> + Send + Sync> Metric for FormulaMetric<F> {
    async fn score(&self, sample: &Sample<'_>) -> Scored {
        (self.0)(sample).unwrap_or_else(Scored::missing)
    }

    fn compute(&self, sample: &Sample<'_>) -> Option<Scored> {
        Some((self.0)(sample).unwrap_or_else(Scored::missing))
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod injection;
#[cfg(test)]
mod pins_tests;
