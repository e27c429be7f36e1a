//! Warnings: what puts a trial at a disadvantage, or makes the results of a run less conclusive than they look.
//!
//! Each kind is a file with its [`WarningKind`], and one line in the list below. A kind looks at [`RunFacts`]: facts
//! from the settings and the documents before a run, and from its results after it. `plan`, the leaderboard, the
//! report, Python and trackers show the same sentences.

mod facts;
#[cfg(test)]
mod fixture;
mod language;

pub use facts::LostEvidence;
pub(crate) use facts::{
    BadlyReadDocuments, CorpusFacts, CutTextsFacts, EqualTrials, EvidenceFacts, FilterFacts, ModelFacts, NamedLanguage,
    ParserFacts, PromptFacts, QuestionFacts, ReplyFacts, RunFacts, TrialFacts, TrialFindings,
};

use crate::number::listed;
use serde::{Deserialize, Serialize};

/// The most trials that a sentence names. If there are more, it names one less and gives the number of the others.
const NAMED: usize = 6;

/// Declares the kinds of warnings: a module for each, and the enum of their codes.
macro_rules! kinds {
    ($( #[$about:meta] $Variant:ident => $module:ident ),+ $(,)?) => {
        $( mod $module; )+

        /// The code of a warning, such as `retrieves-nothing`.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum WarningCode {
            $( #[$about] $Variant, )+
        }

        impl WarningCode {
            /// All codes, the gravest first.
            pub const ALL: &'static [Self] = &[$( Self::$Variant ),+];

            /// The kind of warning with this code.
            pub fn kind(self) -> &'static WarningKind {
                match self { $( Self::$Variant => &$module::KIND, )+ }
            }
        }
    };
}

// The kinds, the gravest first. A new kind needs one line here, and a file in this folder with its `KIND`.
kinds! {
    /// Questions that retrieve nothing.
    RetrievesNothing => retrieves_nothing,
    /// Questions whose evidence is in no document any more.
    LostEvidence => lost_evidence,
    /// Passages of a system that are in no document of the corpus.
    UnanchoredPassages => unanchored_passages,
    /// Replies of a system that name another version than the run asked.
    SystemVersion => system_version,
    /// Questions to which a system gave no reply.
    UnmatchedAnswers => unmatched_answers,
    /// Questions that share no word with any chunk, in a search by words and vectors.
    NoSharedWords => no_shared_words,
    /// Chunks longer than the embedder or the reranker reads.
    LongTexts => long_texts,
    /// Evidence that the documents of one parser do not hold, and those of another do.
    LostByParser => lost_by_parser,
    /// Two values of an axis that gave the same passages and answers.
    SettingWithoutEffect => setting_without_effect,
    /// Trials that are equal on every question.
    EqualTrials => equal_trials,
    /// Files that are not read because of their type.
    UnreadTypes => unread_types,
    /// Files that hold no text.
    DocumentsWithoutText => documents_without_text,
    /// Pages without text inside PDF documents.
    PagesWithoutText => pages_without_text,
    /// Documents that were not read as they are: characters, tables, attachments.
    BadlyReadDocuments => badly_read_documents,
    /// Questions in another language than the documents.
    QuestionLanguage => question_language,
    /// Documents in several languages.
    MixedLanguages => mixed_languages,
    /// A setting for one language on documents in others.
    OtherLanguage => other_language,
    /// An embedder or a reranker for English, on texts in other languages.
    EnglishModel => english_model,
    /// Evidence of which no single chunk holds enough.
    EvidenceInNoChunk => evidence_in_no_chunk,
    /// A filter that leaves fewer chunks than `top_k`.
    FewPassages => few_passages,
    /// Passages that did not fit into the prompt.
    CutPrompt => cut_prompt,
    /// Prompts that are longer than the judge reads.
    JudgeWindow => judge_window,
}

/// A kind of warning: its texts, and the function that finds it.
#[derive(Debug, Serialize)]
pub struct WarningKind {
    /// The kind in a few words.
    pub title: &'static str,
    /// What it means, and how it is measured.
    pub meaning: &'static str,
    /// What to do.
    pub action: &'static str,
    /// When it can be found.
    pub found: WarningTime,
    /// Whether it is found with the chunks or indexes of a run, which on a cluster are on other machines.
    #[serde(skip)]
    needs_chunks: bool,
    #[serde(skip)]
    find: fn(&RunFacts) -> Vec<Finding>,
}

/// When a warning can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningTime {
    /// Before a run, from the settings and the documents.
    Before,
    /// Only after a run, from what it found.
    After,
    /// Before a run as an estimate, after a run in exact numbers.
    BeforeAndAfter,
}

impl WarningTime {
    /// The time in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Before => "before a run",
            Self::After => "after a run",
            Self::BeforeAndAfter => "before a run as an estimate, after a run in exact numbers",
        }
    }
}

impl WarningCode {
    /// The code as it is written in files, such as `retrieves-nothing`.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The code with this name; none if there is no such code.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

/// One warning: a statement that holds for some trials, or for the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Its code.
    pub code: WarningCode,
    /// The trials that it holds for; empty if it is about the documents or the questions.
    pub trials: Vec<String>,
    /// The sentence, with the trials that it holds for, and without a full stop.
    pub text: String,
    /// The number of questions, chunks, files or other things that it is about; none if they were not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// The number of all such things; none if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// What to do.
    pub action: String,
}

impl Warning {
    /// Whether it concerns a trial: it names the trial, or it is about the whole run.
    pub fn concerns(&self, trial: &str) -> bool {
        self.trials.is_empty() || self.trials.iter().any(|named| named == trial)
    }
}

/// What a kind found, for one trial or for the run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// The trials that it holds for.
    trials: Vec<String>,
    /// The statement, without the trials.
    text: String,
    count: Option<usize>,
    total: Option<usize>,
}

impl Finding {
    /// A finding about the run.
    fn of_run(text: String, count: usize, total: Option<usize>) -> Self {
        Self { trials: Vec::new(), text, count: Some(count), total }
    }

    /// A finding about a trial.
    fn of_trial(trial: &TrialFacts, text: String, count: usize, total: Option<usize>) -> Self {
        Self { trials: vec![trial.trial.clone()], text, count: Some(count), total }
    }

    /// A finding about several trials.
    fn of_trials(trials: Vec<String>, text: String, count: usize, total: Option<usize>) -> Self {
        Self { trials, text, count: Some(count), total }
    }

    /// A finding about a trial that has not run. It has no numbers.
    fn planned(trial: &TrialFacts, text: String) -> Self {
        Self { trials: vec![trial.trial.clone()], text, count: None, total: None }
    }
}

/// All warnings that follow from these facts, the gravest first, without the ignored codes. Trials with the same
/// statement share one warning. Each group of equal trials is a warning of its own.
pub(crate) fn find(facts: &RunFacts, ignored: &[WarningCode]) -> Vec<Warning> {
    let codes = WarningCode::ALL.iter().copied().filter(|code| !ignored.contains(code));
    codes.flat_map(|code| of_code(code, facts)).collect()
}

/// The codes that a finished run was checked for: all but the ignored ones. If chunks are not read, as on a cluster,
/// codes that need the chunks are left out too.
pub(crate) fn looked_for(ignored: &[WarningCode], reads_chunks: bool) -> Vec<WarningCode> {
    let codes = WarningCode::ALL.iter().copied();
    codes.filter(|code| !ignored.contains(code) && (reads_chunks || !code.kind().needs_chunks)).collect()
}

/// The warnings of one code.
fn of_code(code: WarningCode, facts: &RunFacts) -> Vec<Warning> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in (code.kind().find)(facts) {
        let same = |other: &&mut Finding| {
            // Findings about groups of trials, such as equal ones, are not merged.
            finding.trials.len() == 1
                && !other.trials.is_empty()
                && (&other.text, other.count, other.total) == (&finding.text, finding.count, finding.total)
        };
        match merged.iter_mut().find(same) {
            Some(other) => other.trials.extend(finding.trials),
            None => merged.push(finding),
        }
    }
    let warning = |finding: Finding| Warning {
        code,
        text: match named_trials(&finding.trials, facts.trials.len()) {
            Some(trials) => format!("{trials}: {}", finding.text),
            None => finding.text,
        },
        trials: finding.trials,
        count: finding.count,
        total: finding.total,
        action: code.kind().action.to_owned(),
    };
    merged.into_iter().map(warning).collect()
}

/// The names of a statement's trials for its sentence; none for a statement about the run.
fn named_trials(trials: &[String], all: usize) -> Option<String> {
    match trials.len() {
        0 => None,
        n if n == all && n > 1 => Some("all trials".to_owned()),
        n if n > NAMED => Some(format!("{} and {} more trials", trials[..NAMED - 1].join(", "), n - (NAMED - 1))),
        _ => Some(listed(trials)),
    }
}

#[cfg(test)]
mod tests;
