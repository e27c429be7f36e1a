//! How a question is written, and how long it is.

use serde::{Deserialize, Serialize};

/// How a question is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Style")]
pub enum QuestionStyle {
    /// A whole, correct sentence.
    Plain,
    /// Key words, as typed into a search box.
    WebSearch,
    /// With typing errors.
    Misspelled,
    /// With the grammar mistakes of a language learner.
    PoorGrammar,
}

impl QuestionStyle {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::WebSearch => "web_search",
            Self::Misspelled => "misspelled",
            Self::PoorGrammar => "poor_grammar",
        }
    }

    pub(crate) fn instruction(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::WebSearch => "Write the question as a few key words, as people type them into a search box.",
            Self::Misspelled => "Misspell one or two words of the question, as people do who type fast.",
            Self::PoorGrammar => "Write the question with the mistakes of somebody who is learning the language.",
        }
    }
}

/// How long a question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Up to 10 words.
    Short,
    /// 10 to 20 words.
    Medium,
    /// More than 20 words.
    Long,
}

impl Length {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
        }
    }

    pub(crate) fn instruction(self) -> &'static str {
        match self {
            Self::Short => "The question has at most 10 words.",
            Self::Medium => "",
            Self::Long => "The question has more than 20 words, because it tells why it is asked.",
        }
    }
}
