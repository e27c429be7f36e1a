//! What reviewers decide about questions.

use crate::Error;
use eval::{Question, dataset::Evidence};
use serde::{Deserialize, Serialize};

/// The longest text of a decision, in bytes.
pub(super) const LONGEST_TEXT: usize = 64 << 10;

/// What a reviewer decides about a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// It stays as it is.
    Accept {},
    /// It stays, with changes. A field that is left out stays as it is.
    Edit {
        /// The question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// The reference answer; an empty text removes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// The evidence, all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Vec<Evidence>>,
        /// The labels.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tags: Option<Vec<String>>,
    },
    /// It leaves the dataset, and is kept among the rejected questions.
    Reject {},
    /// A rejected question comes back.
    Restore {},
    /// An accepted or edited question waits for a decision again.
    Reopen {},
    /// The question is new: see [`ReviewDesk::add`](super::ReviewDesk::add).
    Add {
        /// The question.
        question: Box<Question>,
    },
    /// A remark, which changes nothing.
    Comment {
        /// The remark.
        text: String,
    },
}

impl Decision {
    /// Whether it says that the question is good or not, so that reviewers can agree about it.
    pub(super) fn verdict(&self) -> Option<&'static str> {
        match self {
            Self::Accept {} | Self::Edit { .. } => Some("keep"),
            Self::Reject {} => Some("reject"),
            Self::Restore {} | Self::Reopen {} | Self::Add { .. } | Self::Comment { .. } => None,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let texts: Vec<&String> = match self {
            Self::Edit { question, reference, .. } => question.iter().chain(reference).collect(),
            Self::Comment { text } => vec![text],
            _ => Vec::new(),
        };
        if texts.iter().any(|text| text.len() > LONGEST_TEXT) {
            return Err(format!("a text has more than {LONGEST_TEXT} bytes"));
        }
        match self {
            Self::Add { .. } => Err("`add` does not decide about a question that is there".to_owned()),
            Self::Edit { question: Some(question), .. } if question.trim().is_empty() => {
                Err("the question is empty".to_owned())
            }
            Self::Comment { text } if text.trim().is_empty() => Err("the remark is empty".to_owned()),
            _ => Ok(()),
        }
    }

    pub(super) fn apply(&self, question: &mut Question) {
        match self {
            Self::Accept {} => question.accept(),
            Self::Edit { question: text, reference, evidence, tags } => {
                question.edit(text.as_deref().unwrap_or_default(), reference.as_deref().unwrap_or_default());
                if reference.as_ref().is_some_and(|reference| reference.trim().is_empty()) {
                    question.reference = None;
                }
                if let Some(evidence) = evidence {
                    question.evidence.clone_from(evidence);
                }
                if let Some(tags) = tags {
                    question.tags.clone_from(tags);
                }
            }
            Self::Reopen {} => question.reopen(),
            Self::Reject {} | Self::Restore {} | Self::Add { .. } | Self::Comment { .. } => {}
        }
    }

    /// Whether it says something about the question, so that others have to know it before they decide.
    pub(super) fn is_news(&self) -> bool {
        !matches!(self, Self::Comment { .. } | Self::Add { .. })
    }
}

/// A decision in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewLine {
    /// Its number in the log, from 1.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who decided.
    pub by: String,
    /// The question's id.
    pub question: String,
    /// What was decided.
    pub decision: Decision,
}

/// Why a decision was not made.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// There is no such question.
    #[error("there is no question `{0}`")]
    NoQuestion(String),
    /// A new question has the id of another one.
    #[error("there is a question with the id `{0}` already")]
    IdTaken(String),
    /// Somebody else has decided since the reviewer looked.
    #[error("{} has decided about `{}` in the meantime", .0.by, .0.question)]
    Overtaken(Box<ReviewLine>),
    /// What is decided cannot be.
    #[error("{0}")]
    Invalid(String),
    /// The file or the log cannot be written.
    #[error(transparent)]
    Failed(#[from] Error),
}
