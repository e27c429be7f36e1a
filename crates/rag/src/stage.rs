//! What stages have in common: the data that passes between them, the values of
//! their axes, and the steps that change passages.

use crate::{
    Choice, Context, Error, Passage,
    corpus::{Corpus, Query},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;

/// The data that passes from stage to stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Data {
    /// Files of a corpus.
    Files,
    /// Texts of files.
    Documents,
    /// Pieces of documents.
    Chunks,
    /// Vectors of chunks and of queries.
    Vectors,
    /// What a person asks.
    Questions,
    /// The searches that are made for a question.
    Queries,
    /// What was found, best first.
    Passages,
    /// What is answered.
    Answers,
}

/// Orders, cuts or changes the passages of one question. A step implements one of
/// the two methods.
#[async_trait]
pub trait PassageStep: Send + Sync {
    /// The passages, best first.
    ///
    /// # Errors
    /// If a model fails, or an index that the settings name is missing.
    async fn run(&self, query: Query<'_>, corpus: Corpus<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        Ok(self.run_with_remarks(query, corpus, passages).await?.passages)
    }

    /// [`run`](Self::run) with remarks. By default there are none.
    ///
    /// # Errors
    /// As of [`PassageStep::run`].
    async fn run_with_remarks(
        &self,
        query: Query<'_>,
        corpus: Corpus<'_>,
        passages: Vec<Passage>,
    ) -> Result<PassagesWithRemarks, Error> {
        Ok(self.run(query, corpus, passages).await?.into())
    }
}

/// The output of a step for one question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PassagesWithRemarks {
    /// The passages, best first.
    pub passages: Vec<Passage>,
    /// What the step did that the passages do not show: what it searched for
    /// again, or why it could not do its work.
    pub remarks: Vec<String>,
    /// Whether a model failed, so that another try may give more.
    pub failed: bool,
}

impl From<Vec<Passage>> for PassagesWithRemarks {
    fn from(passages: Vec<Passage>) -> Self {
        Self { passages, remarks: Vec::new(), failed: false }
    }
}

/// A stage whose input and output are passages.
pub trait PassageStage: Choice {
    /// Makes the component.
    ///
    /// # Errors
    /// Settings that cannot work, or a model that is missing.
    fn step(&self, cx: &Context<'_>) -> Result<Box<dyn PassageStep>, Error>;
}

/// A value of an axis, as the lists of the experiment file hold it.
pub trait AxisValue:
    Choice + Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + schemars::JsonSchema + 'static
{
    /// Whether values have settings: then a string in the list means the component
    /// with its default settings.
    const HAS_SETTINGS: bool = true;

    /// The value if the file does not list the axis; none if the axis must be
    /// listed, or a pipeline may have no value on it.
    fn unlisted() -> Option<Self> {
        None
    }

    /// The value that a pipeline without retrieval gets; none if it keeps the one that it has.
    fn unused() -> Option<Self> {
        Self::unlisted()
    }

    /// The same value as a stage between retrieval and answer, if it is one.
    fn as_passage_stage(&self) -> Option<&dyn PassageStage> {
        None
    }
}
