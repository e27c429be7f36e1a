//! Reasons for which passages and questions are rejected.

use crate::dataset::QuestionKind;
use rag::{Span, python::Failure};
use serde::{Deserialize, Serialize};

/// The reason for which a passage or a question was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "reason", content = "detail")]
#[non_exhaustive]
pub enum RejectionReason {
    /// The passage is too short.
    #[error("the passage is too short")]
    TooShort,
    /// A chunker wrote the passage anew, so no quote of it has a place in the document.
    #[error("the passage's text is not that of its place in the document")]
    OtherText,
    /// The passage is a table of contents, an index or a licence page.
    #[error("the passage is a list of contents or the like")]
    Contents,
    /// The passage is a table, code or a fragment.
    #[error("the passage is no prose")]
    NotProse,
    /// The model failed for this passage.
    #[error("the model failed: {0}")]
    Model(String),
    /// The user's function, in place of the model, failed.
    #[error("{0}")]
    Function(Box<Failure>),
    /// The model's reply is not what was asked for.
    #[error("the reply cannot be read: {0}")]
    Unreadable(String),
    /// The question speaks of the passage, which its reader does not see.
    #[error("the question speaks of the passage")]
    SpeaksOfPassage,
    /// The question does not name what it asks about.
    #[error("the question does not say what it is about")]
    NotSelfContained,
    /// The question is in another language than the passage.
    #[error("the passage is in {passage}, the question in {question}")]
    OtherLanguage {
        /// The passage's language, in English.
        passage: String,
        /// The question's language, in English.
        question: String,
    },
    /// A conditional question without a condition, or a comparison of one thing.
    #[error("not the kind of question that was asked for: {0}")]
    OtherKind(String),
    /// The question holds its answer.
    #[error("the question gives its answer away")]
    AnswerInQuestion,
    /// The passage does not hold the answer.
    #[error("the passage does not hold the answer")]
    AnswerNotInPassage,
    /// Neither the quote nor a sentence of the passage holds the answer.
    #[error("no sentence of the passage holds the answer")]
    NoEvidence,
    /// The model says that the evidence does not answer the question.
    #[error("the evidence does not answer the question")]
    NotAnswered,
    /// One of two passages answers the question, which was to need both.
    #[error("one passage alone answers the question")]
    OnePassageIsEnough,
    /// The question was to have no answer, but a passage answers it.
    #[error("a passage answers the question, which was to have no answer")]
    Answerable,
    /// The model answers the question without any passage.
    #[error("the question is answered without the documents")]
    KnownWithout,
    /// Another question asks nearly the same.
    #[error("nearly the same as another question")]
    Duplicate,
}

/// The stage name of a function that writes and checks questions.
pub(super) const WRITER: &str = "writer";

impl RejectionReason {
    /// The name of the reason, for counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::OtherText => "other_text",
            Self::Contents => "contents",
            Self::NotProse => "not_prose",
            Self::Model(_) => "model",
            Self::Function(_) => "function",
            Self::Unreadable(_) => "unreadable",
            Self::SpeaksOfPassage => "speaks_of_passage",
            Self::NotSelfContained => "not_self_contained",
            Self::OtherLanguage { .. } => "other_language",
            Self::OtherKind(_) => "other_kind",
            Self::AnswerInQuestion => "answer_in_question",
            Self::AnswerNotInPassage => "answer_not_in_passage",
            Self::NoEvidence => "no_evidence",
            Self::NotAnswered => "not_answered",
            Self::OnePassageIsEnough => "one_passage_is_enough",
            Self::Answerable => "answerable",
            Self::KnownWithout => "known_without",
            Self::Duplicate => "duplicate",
        }
    }
}

/// A passage that gave no golden question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejection {
    /// Why.
    #[serde(flatten)]
    pub reason: RejectionReason,
    /// The kind of question; `None` if the passage was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<QuestionKind>,
    /// The first passage's document.
    pub document: String,
    /// The first passage's span.
    pub span: Span,
    /// The question, if one was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}
