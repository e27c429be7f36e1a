//! Golden questions: what is asked, what the answer should be, and where in
//! the documents the evidence stands.
//!
//! Evidence is a quote and its byte span in a document's extracted text, never
//! a chunk's id, so that it survives re-chunking. Where a document was parsed
//! anew, the quote finds the new span: see [`Dataset::anchoring`].

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
mod format;
mod import;
mod kind;
mod literal;
mod metadata;
mod places;
mod rows;
mod split;
mod statistics;
mod style;
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
pub use import::{RowQuestions, import, read_questions};
pub use kind::QuestionKind;
pub(crate) use kind::every_kind;
pub use metadata::{MetadataRow, read_metadata};
pub use split::{SplitCounts, SplitError};
pub use statistics::DatasetStatistics;
pub use style::{Length, QuestionStyle};
pub use traffic::{BadLine, TrafficChoice, TrafficQuestions, TrafficReport, UserVerdict, import_traffic};

/// Where the answer stands: a span of a document's extracted text, and the
/// words there, so that it survives re-chunking and re-parsing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The document's path below the corpus' root; empty if it is not known,
    /// and then the first document (by path) that holds the quote.
    #[serde(default)]
    pub document: String,
    /// The words, as they stand in the document but for white space.
    pub quote: String,
    /// Where the quote was found. Checked against the quote, and found anew
    /// where it does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
}

/// A golden question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Unique in its dataset.
    pub id: String,
    /// What is asked.
    pub question: String,
    /// What was said before it, oldest first; empty where it stands alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Message>,
    /// The reference answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What a system answered, for the person who reviews the question. It is
    /// compared with nothing until that person makes it the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// Where it stands. Every item is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Free words for grouping.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether the documents hold an answer. Where they do not, a system
    /// should say so; such a question has no evidence.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub answerable: bool,
    /// How it was generated; none for one that somebody wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Which part of the dataset it belongs to, where the dataset is split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// What a person said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// Which chunks are searched for it, whatever the pipeline; all if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<rag::Filter>,
    /// How it is attacked by a planted document; none for an honest question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<Attack>,
}

impl Question {
    /// A person takes it as it stands; where there is no reference, the draft is
    /// one from now on.
    pub fn accept(&mut self) {
        self.settle_draft();
        self.review = Some(Review::Accepted);
    }

    fn settle_draft(&mut self) {
        let draft = self.draft.take();
        self.reference = self.reference.take().or(draft);
    }

    /// A person changes its words; what is blank stays as it was. The id stays:
    /// it is still the same question.
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

    /// The record of a person's rejection, for the file of rejected questions.
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
    /// What it asks for.
    pub kind: QuestionKind,
    /// Whose voice it has, by the persona's name.
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
    /// To choose by.
    Tune,
    /// To report by: no choice was made on it.
    Test,
}

/// What a person said of a question. Rejected ones leave the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// Taken as it stands.
    Accepted,
    /// Changed, and then taken.
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
    /// None that a dataset can cause; the writer's type has one.
    pub fn to_jsonl(&self) -> Result<String, serde_json::Error> {
        let mut out = String::new();
        for question in &self.questions {
            out.push_str(&serde_json::to_string(question)?);
            out.push('\n');
        }
        Ok(out)
    }

    /// Begins to look for the evidence in documents, which are shown one after
    /// the other, in any order.
    pub fn anchoring(&mut self) -> Anchoring<'_> {
        Anchoring::new(self)
    }

    /// Looks for the evidence in (path, text) pairs. What is returned was not
    /// found: the question's retrieval cannot be scored.
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

/// The id of a question that has none: by its words, so that it stays the same
/// where other questions are added or the file is sorted.
pub(crate) fn question_id(prefix: char, question: &str) -> String {
    format!("{prefix}-{}", store::Key::of_bytes(question.as_bytes()).short())
}
