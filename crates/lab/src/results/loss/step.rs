//! The steps at which golden evidence can be lost, and the ways in which a question can end if no evidence was lost.

use serde::{Deserialize, Serialize};

macro_rules! steps {
    ($( $(#[doc = $meaning:literal])+ $Step:ident, $name:literal, $title:literal; )+) => {
        /// The step at which a question's evidence was lost, or how the question ended. The order is that of the
        /// pipeline. Each question of a trial has exactly one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum LossStep {
            $( $(#[doc = $meaning])+ $Step, )+
        }

        impl LossStep {
            /// All steps, in the order of the pipeline.
            pub const ALL: &'static [Self] = &[$( Self::$Step ),+];

            /// Its name in files and in JSON.
            pub fn name(self) -> &'static str {
                match self { $( Self::$Step => $name, )+ }
            }

            /// Its name for people.
            pub fn title(self) -> &'static str {
                match self { $( Self::$Step => $title, )+ }
            }

            /// What it means for the question, in sentences.
            pub fn meaning(self) -> &'static str {
                match self { $( Self::$Step => concat!($( $meaning ),+).trim_ascii(), )+ }
            }
        }
    };
}

steps! {
    /// The file of the evidence was not read, or its text does not hold the quote.
    NotRead, "not_read", "not read";
    /// No chunk of the trial's chunker holds enough of the evidence.
    CutApart, "cut_apart", "cut apart";
    /// A chunk holds the evidence, and is not among the passages that the search returned.
    NotFound, "not_found", "not found";
    /// The evidence was among the candidates, and the retriever or the reranker ranked it too low to be kept.
    RankedOut, "ranked_out", "ranked out";
    /// A step of refine removed the evidence, or shortened it to less than counts.
    Dropped, "dropped", "dropped by refine";
    /// The evidence was in the passages, and the budget of the prompt ended before it.
    CutFromPrompt, "cut_from_prompt", "cut from the prompt";
    /// The evidence was in the prompt. The answer is wrong: it declines, or cites other passages only.
    NotUsed, "not_used", "not used";
    /// The evidence was in the prompt, and the answer does not decline. Its score is below 0.5.
    AnsweredWrong, "answered_wrong", "answered wrong";
    /// A call failed: there are no passages, no answer or no score.
    FailedCall, "failed_call", "failed call";
    /// The trial answers without passages, and the answer is not right.
    NotSearched, "not_searched", "not searched";
    /// The question has no golden evidence. Its answer is wrong, or there is no answer or no score.
    NoEvidence, "no_evidence", "no evidence";
    /// The passages hold the evidence. There is no answer, or no score that compares it with a reference.
    InPassages, "in_passages", "in the passages";
    /// The answer is right although its evidence was lost: another passage says it, or the model knows it.
    RightWithoutEvidence, "right_without_evidence", "right without it";
    /// The answer is right: its score is at least 0.5.
    AnsweredRight, "answered_right", "answered right";
}

impl LossStep {
    /// Whether the question counts as lost: its evidence was lost, or it was in the prompt and the answer is wrong.
    pub fn is_loss(self) -> bool {
        self <= Self::AnsweredWrong
    }
}
