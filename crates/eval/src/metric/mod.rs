//! Metrics: one file each, and one line below.
//!
//! A metric is a function of one [`Sample`]: a golden question, what was
//! retrieved for it and what was answered. It gives a number in its range or
//! a typed reason why there is none, never a NaN, and shows its work in
//! [`Scored::detail`].

mod evidence;
pub(crate) mod judge;
mod retrieval;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod words;

use crate::{Missing, Question, Scored};
use async_trait::async_trait;
use models::{Chat, Embedder};
use rag::{Answer, Passage};

/// The registry of metrics, and what can be told of each from its settings.
macro_rules! metrics {
    ($( $Variant:ident => $module:ident ),+ $(,)?) => {
        store::registry! {
            /// Which metric, and its settings.
            pub enum MetricConfig builds Box<dyn Metric>, from &Context, or crate::metric::Error {
                $( #[doc = concat!("`", stringify!($module), "`: see its file.")] $Variant => $module ),+
            }
        }

        impl MetricConfig {
            fn description(&self) -> &dyn Describe {
                match self { $( Self::$Variant(config) => config ),+ }
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
    ExactMatch => exact_match,
    TokenF1 => token_f1,
    RougeL => rouge_l,
    AnswerSimilarity => answer_similarity,
    Faithfulness => faithfulness,
    AnswerRelevancy => answer_relevancy,
    ContextPrecision => context_precision,
    ContextRecall => context_recall,
    AnswerCorrectness => answer_correctness,
}

impl MetricConfig {
    /// A metric with its default settings, by name.
    pub fn named(name: &str) -> Option<Self> {
        Self::defaults().into_iter().find(|metric| metric.name() == name)
    }

    /// What it looks at.
    pub fn needs(&self) -> Needs {
        self.description().needs()
    }

    /// Whether a judge's opinion is part of it.
    pub fn judged(&self) -> bool {
        self.needs().judge
    }

    /// Whether an answer has to be generated first.
    pub fn needs_answer(&self) -> bool {
        self.needs().answer
    }

    /// The lowest and the highest score that it can give.
    pub fn range(&self) -> (f64, f64) {
        self.description().range()
    }

    /// Whether more of it is better.
    pub fn higher_is_better(&self) -> bool {
        self.description().higher_is_better()
    }
}

/// What can be told of a metric from its settings alone, before it is built.
trait Describe {
    fn needs(&self) -> Needs;

    fn range(&self) -> (f64, f64) {
        (0.0, 1.0)
    }

    fn higher_is_better(&self) -> bool {
        true
    }
}

/// What a metric cannot work without.
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
    /// Settings that cannot work.
    #[error("metric {metric}: {reason}")]
    Config {
        /// The metric.
        metric: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// The models that metrics may use.
#[derive(Clone, Default)]
pub struct Context {
    /// The judge.
    pub judge: Option<Chat>,
    /// The embedder for similarities: the same one for all trials.
    pub embedder: Option<Embedder>,
}

impl Context {
    fn judge(&self, metric: &'static str) -> Result<Chat, Error> {
        self.judge.clone().ok_or(Error::Needs { metric, part: "a judge" })
    }

    fn embedder(&self, metric: &'static str) -> Result<Embedder, Error> {
        self.embedder.clone().ok_or(Error::Needs { metric, part: "an embedder" })
    }
}

/// What a metric looks at, and so what must be there before it can run.
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
}

impl Needs {
    const NOTHING: Self =
        Self { evidence: false, reference: false, answer: false, passages: false, judge: false, embedder: false };
}

/// One question with what a trial made of it.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The golden question.
    pub question: &'a Question,
    /// What was retrieved, best first. Empty means that retrieval ran and
    /// found nothing.
    pub passages: &'a [Passage],
    /// What was answered, if anything.
    pub answer: Option<&'a Answer>,
}

impl<'a> Sample<'a> {
    /// The reference answer. A question without one is no failure of a trial.
    fn reference(&self) -> Result<&'a str, Missing> {
        match self.question.reference.as_deref().map(str::trim) {
            Some(reference) if !reference.is_empty() => Ok(reference),
            _ => Err(Missing::NotApplicable("the question has no reference answer".into())),
        }
    }

    /// The answer without its citations; may be empty.
    fn answer_text(&self) -> Result<String, Missing> {
        match self.answer {
            Some(answer) => Ok(words::without_citations(&answer.text, &answer.citations)),
            None => Err(Missing::EmptyInput("there is no answer".into())),
        }
    }

    /// The answer without its citations, which must say something.
    fn answer_with_words(&self) -> Result<String, Missing> {
        match self.answer_text()? {
            text if text.is_empty() => Err(Missing::EmptyInput("the answer is empty".into())),
            text => Ok(text),
        }
    }
}

/// Gives one number, or the reason why there is none, for one sample.
#[async_trait]
pub trait Metric: Send + Sync {
    /// What it looks at.
    fn needs(&self) -> Needs;
    /// The score. Never NaN.
    async fn score(&self, sample: &Sample<'_>) -> Scored;
}

#[cfg(test)]
mod conformance;
