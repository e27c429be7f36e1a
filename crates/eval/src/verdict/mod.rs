//! Judge rules: what a judge decides about an item, one file each, and one
//! line below.
//!
//! A rule holds the question to the judge, which metrics ask in the same
//! words, and makes cases whose truth is known, from golden questions. A judge
//! is qualified for each rule on its own; see [`qualify`](crate::qualify).

mod case;
mod inquiry;

pub use case::Case;
pub(crate) use inquiry::Inquiry;

use crate::Question;
use serde::{Deserialize, Serialize};

/// How a judge is asked by a rule, and tried.
struct Rule {
    /// The question to the judge about a case, whose item is in the list.
    inquiry: for<'a> fn(&Case, &'a [String]) -> Inquiry<'a>,
    /// A true and a false case from a question and one that has nothing to do
    /// with it; none if they lack something. Both questions have evidence.
    planted: fn(&Question, &Question) -> Option<PlantedCases>,
}

/// A case that is true and one that is false.
struct PlantedCases {
    /// What both items are held against.
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

            /// As it is written.
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
    /// Does the context support the statement? Faithfulness asks so.
    Supported => supported,
    /// Does the passage help to answer the question? Context precision asks so.
    Relevant => relevant,
    /// Does the reference support the answer? Answer correctness asks so.
    Correct => correct,
}

impl VerdictKind {
    /// The question to a judge about a case. `items` holds the case's item.
    pub(crate) fn inquiry<'a>(self, case: &Case, items: &'a [String]) -> Inquiry<'a> {
        (self.rule().inquiry)(case, items)
    }

    /// A true and a false case, from a question and one that has nothing to do with it.
    pub(crate) fn planted(self, own: &Question, other: &Question) -> Option<[Case; 2]> {
        let PlantedCases { against, right, wrong } = (self.rule().planted)(own, other)?;
        let case =
            |item, label| Case { kind: self, question: own.question.clone(), against: against.clone(), item, label };
        Some([case(right, true), case(wrong, false)])
    }
}

/// All that a question's evidence says.
pub(crate) fn quotes(question: &Question) -> String {
    question.evidence.iter().map(|evidence| evidence.quote.as_str()).collect::<Vec<_>>().join("\n")
}
