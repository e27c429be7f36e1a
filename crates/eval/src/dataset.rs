//! Golden questions: the question, the right answer, and the evidence for it in
//! the documents.
//!
//! Evidence is a quote and its byte span in a document's extracted text, never
//! a chunk's id, so that it survives re-chunking. After a document is parsed
//! again, the quote finds the new span: see [`Dataset::anchoring`].

use models::Message;
use rag::Span;
use serde::{Deserialize, Serialize};

mod anchor;
mod answers;
mod attack;
mod cells;
mod columns;
mod difference;
mod export;
mod fault;
mod file;
mod fold;
mod format;
mod import;
mod kind;
mod literal;
mod metadata;
mod passages;
mod places;
mod rows;
mod split;
mod statistics;
mod style;
mod traced;
mod traffic;
mod turns;

pub use anchor::{AnchorError, AnchorErrorKind, Anchoring, anchor};
pub use answers::{AnsweredRow, import_answers, is_numbered_id, read_answers};
pub use attack::{Attack, AttackKind};
pub use columns::{DatasetReport, IgnoredColumn};
pub use difference::{ChangedQuestion, DatasetDifference};
pub use export::{ColumnSet, ExportError};
pub use fault::{ImportError, RowError};
pub use file::{DatasetFile, UnwritableFile};
pub use format::{DatasetFormat, DatasetFormats, WriteError};
pub use import::{ReadableQuestions, RowQuestions, import, import_readable, read_questions};
pub use kind::QuestionKind;
pub(crate) use kind::every_kind;
pub use metadata::{MetadataRow, import_metadata};
pub use passages::{PassageAnchoring, PassagePlace, PassageQuery};
pub use split::{SplitCounts, SplitError};
pub use statistics::DatasetStatistics;
pub use style::{Length, QuestionStyle};
pub use traffic::{BadLine, TrafficChoice, TrafficQuestions, TrafficReport, UserVerdict, import_traffic};

/// A place in a document that holds the answer: a span of the extracted text, and
/// the words there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The document's path below the corpus' root. If empty, it is the first
    /// document by path that holds the quote.
    #[serde(default)]
    pub document: String,
    /// The words of the document; white space may differ.
    pub quote: String,
    /// Where the quote was found, in bytes. It is searched again if the text there
    /// is not the quote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
}

/// The place of evidence that a text does not hold: behind every text, so no passage holds it.
const NOWHERE: Span = Span { start: usize::MAX - 1, end: usize::MAX };

impl Evidence {
    /// The same evidence in a text that does not hold it: it counts as evidence that was not found.
    #[must_use]
    pub fn nowhere(&self) -> Self {
        Self { span: Some(NOWHERE), ..self.clone() }
    }

    /// Whether the text does not hold it.
    pub fn is_nowhere(&self) -> bool {
        self.span == Some(NOWHERE)
    }
}

/// A golden question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Unique in its dataset.
    pub id: String,
    /// The words of the question.
    pub question: String,
    /// The earlier messages of the conversation, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Message>,
    /// The reference answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The answer of a system, for the reviewer of the question. No metric uses it
    /// until the reviewer makes it the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// The evidence for the answer. All items are needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Labels for grouping.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether the documents hold an answer. If they do not, a system should say
    /// so, and the question has no evidence.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub answerable: bool,
    /// How it was generated; `None` for a question that a person wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Its part of the dataset, if the dataset is split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// The decision of a reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// The chunks that are searched for it, in every pipeline; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<rag::Filter>,
    /// The attack by a planted document; `None` for an ordinary question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<Attack>,
}

impl Question {
    /// Accepts the question unchanged. The draft becomes the reference if there is
    /// none.
    pub fn accept(&mut self) {
        self.settle_draft();
        self.review = Some(Review::Accepted);
    }

    fn settle_draft(&mut self) {
        let draft = self.draft.take();
        self.reference = self.reference.take().or(draft);
    }

    /// Changes question and reference; a blank text changes nothing. The id stays
    /// the same.
    pub fn edit(&mut self, question: &str, reference: &str) {
        if !question.trim().is_empty() {
            question.trim().clone_into(&mut self.question);
        }
        if !reference.trim().is_empty() {
            self.reference = Some(reference.trim().to_owned());
        }
        self.settle_draft();
        self.review = Some(Review::Edited);
    }

    /// Forgets the decision of a reviewer, so that the question waits for one. A draft that became the reference stays it.
    pub fn reopen(&mut self) {
        self.review = None;
    }

    /// The record of a reviewer's rejection, for the file of rejected questions.
    pub fn rejection(&self) -> serde_json::Value {
        serde_json::json!({ "reason": "review", "question": self.question, "removed": self })
    }
}

impl Default for Question {
    fn default() -> Self {
        Self {
            id: String::new(),
            question: String::new(),
            turns: Vec::new(),
            reference: None,
            draft: None,
            evidence: Vec::new(),
            tags: Vec::new(),
            answerable: true,
            origin: None,
            split: None,
            review: None,
            filter: None,
            attack: None,
        }
    }
}

/// How a question was generated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The kind of question.
    pub kind: QuestionKind,
    /// The name of the persona that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// How it is written.
    pub style: QuestionStyle,
    /// How long it is.
    pub length: Length,
    /// The model that wrote it.
    pub model: String,
}

/// A part of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Trials are chosen by these questions.
    Tune,
    /// Results are reported on these questions; nothing is chosen by them.
    Test,
}

/// The decision of a reviewer. Rejected questions leave the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// Accepted unchanged.
    Accepted,
    /// Accepted with changes.
    Edited,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

/// Questions in a fixed order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    /// The questions.
    pub questions: Vec<Question>,
}

impl Dataset {
    /// One line of JSON per question: what [`import`] reads.
    ///
    /// # Errors
    /// Never for a dataset; the signature of the JSON writer allows one.
    pub fn to_jsonl(&self) -> Result<String, serde_json::Error> {
        let mut out = String::new();
        for question in &self.questions {
            out.push_str(&serde_json::to_string(question)?);
            out.push('\n');
        }
        Ok(out)
    }

    /// Starts a search for the evidence in documents, which are visited one by one,
    /// in any order.
    pub fn anchoring(&mut self) -> Anchoring<'_> {
        Anchoring::new(self)
    }

    /// Searches the evidence in documents (path, text). Returns the evidence that
    /// was not found, for which retrieval cannot be scored.
    pub fn anchor<P: AsRef<str>, T: AsRef<str>>(
        &mut self,
        documents: impl IntoIterator<Item = (P, T)>,
    ) -> Vec<AnchorError> {
        let mut anchoring = self.anchoring();
        for (path, text) in documents {
            anchoring.visit(path.as_ref(), text.as_ref());
        }
        anchoring.finish()
    }
}

/// The id of a question without one: a hash of its words, so that it does not
/// change when the file is sorted or grows.
pub(crate) fn question_id(prefix: char, question: &str) -> String {
    format!("{prefix}-{}", store::Key::of_bytes(question.as_bytes()).short())
}
