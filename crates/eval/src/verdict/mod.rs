//! Judge rules: the kinds of verdicts that a judge gives, one file each, and one
//! line below.
//!
//! A rule makes labelled cases from golden questions, and has the question that a
//! judge is asked about them. Some metrics of this kind ask in the same words, others
//! in words of their own: a judge is qualified for the kind of verdict. See
//! [`qualify`](crate::qualify).

use crate::Question;
use serde::{Deserialize, Serialize};

/// A labelled case, on which a judge is tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The kind of verdict.
    pub kind: VerdictKind,
    /// The question; for `relevant` and `correct`.
    #[serde(default)]
    pub question: String,
    /// The text that the item is compared with: the context, the answer, or the reference.
    pub against: String,
    /// The statement, the passage, or the answer.
    pub item: String,
    /// Whether the right verdict is yes.
    pub label: bool,
}

/// A question to the judge about each of some items.
pub(crate) struct Inquiry<'a> {
    /// The fenced text that all items share.
    pub(crate) shared: String,
    /// The tag of an item.
    pub(crate) tag: &'static str,
    /// The items.
    pub(crate) items: &'a [String],
    /// The yes-or-no question about an item.
    pub(crate) question: &'a str,
    /// The most items of one call, if there are no probabilities.
    pub(crate) per_call: usize,
}

impl<'a> Inquiry<'a> {
    /// A question about statements, which may all be in one call.
    pub(crate) fn of_statements(shared: String, statements: &'a [String], question: &'a str) -> Self {
        Self { shared, tag: "statement", items: statements, question, per_call: statements.len() }
    }
}

/// How a judge is asked and tried.
struct Rule {
    /// The question to the judge about a case; the list holds its item.
    inquiry: for<'a> fn(&Case, &'a [String]) -> Inquiry<'a>,
    /// Makes a true and a false case from a question and an unrelated one, both with
    /// evidence; `None` if something else is missing.
    planted: fn(&Question, &Question) -> Option<PlantedCases>,
}

/// The texts of a true and of a false case.
struct PlantedCases {
    /// The text that both items are compared with.
    against: String,
    /// The item of the true case.
    right: String,
    /// The item of the false case.
    wrong: String,
}

macro_rules! rules {
    ($( $(#[$doc:meta])* $Kind:ident => $module:ident ),+ $(,)?) => {
        $( pub(crate) mod $module; )+

        /// What a verdict is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum VerdictKind {
            $( $(#[$doc])* $Kind, )+
        }

        impl VerdictKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$( Self::$Kind ),+];

            /// Its name in files.
            pub fn name(self) -> &'static str {
                match self { $( Self::$Kind => stringify!($module), )+ }
            }

            fn rule(self) -> Rule {
                match self { $( Self::$Kind => $module::RULE, )+ }
            }
        }
    };
}

rules! {
    /// Does the context support the statement? For faithfulness.
    Supported => supported,
    /// Does the passage help to answer the question? For context precision.
    Relevant => relevant,
    /// Does the reference support the answer? For answer correctness.
    Correct => correct,
}

impl VerdictKind {
    /// The question to a judge about a case. `items` holds the case's item.
    pub(crate) fn inquiry<'a>(self, case: &Case, items: &'a [String]) -> Inquiry<'a> {
        (self.rule().inquiry)(case, items)
    }

    /// A true and a false case, from a question and an unrelated one.
    pub(crate) fn planted(self, own: &Question, other: &Question) -> Option<[Case; 2]> {
        let PlantedCases { against, right, wrong } = (self.rule().planted)(own, other)?;
        let case =
            |item, label| Case { kind: self, question: own.question.clone(), against: against.clone(), item, label };
        Some([case(right, true), case(wrong, false)])
    }
}

/// All quotes of a question's evidence.
pub(crate) fn quotes(question: &Question) -> String {
    question.evidence.iter().map(|evidence| evidence.quote.as_str()).collect::<Vec<_>>().join("\n")
}
