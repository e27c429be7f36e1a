//! Golden questions: what is asked, what the answer should be, and where in
//! the documents the evidence stands.
//!
//! Evidence is a quote and its byte span in a document's extracted text, never
//! a chunk's id, so that it survives re-chunking. Where a document was parsed
//! anew, the quote finds the new span: see [`Dataset::anchoring`].

use rag::Span;
use serde::{Deserialize, Serialize};

mod anchor;
mod answers;
mod cells;
mod import;
mod literal;
mod rows;

pub use anchor::{Anchoring, Unanchored, Unfound, anchor};
pub use answers::{AnsweredRow, import_answers};
pub use import::{ImportError, import};

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
    /// The reference answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
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
    ) -> Vec<Unanchored> {
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
