//! Actions that messages advise. Only the program that uses this crate knows
//! by which commands people call them, so it names them.

use std::{fmt, sync::OnceLock};

/// An action that a message advises. It is displayed as a noun: a command, or
/// without [`set_action_names`] a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// Running the experiment.
    Run,
    /// Making a bundle of a trial: in this folder, or wherever the user wants.
    Promote(Option<&'a str>),
    /// Qualifying this judge, or any.
    Judge(Option<&'a str>),
    /// Scoring answers of another system.
    Score,
    /// Writing the generated golden questions into this file.
    ExportGolden(&'a str),
    /// Sending runs to the trackers.
    Track,
    /// Reading every artifact of the store.
    VerifyStore,
    /// Removing artifacts that no run needs.
    CollectGarbage,
    /// Downloading the PDF library.
    PullPdfLibrary,
}

/// Names an action by a command.
pub type ActionNames = fn(Action<'_>) -> String;

static NAMES: OnceLock<ActionNames> = OnceLock::new();

/// Sets the names of actions, for all messages from here on; only the first call counts.
pub fn set_action_names(names: ActionNames) {
    // A program may call this each time it begins something.
    let _ = NAMES.set(names);
}

impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(names) = NAMES.get() {
            return f.write_str(&names(*self));
        }
        match self {
            Self::Run => f.write_str("the next run"),
            Self::Promote(None) => f.write_str("a promotion"),
            Self::Promote(Some(output)) => write!(f, "a promotion to {output}"),
            Self::Judge(None) => f.write_str("the qualification of judges"),
            Self::Judge(Some(judge)) => write!(f, "the qualification of `{judge}`"),
            Self::Score => f.write_str("the scoring of rows"),
            Self::ExportGolden(output) => write!(f, "an export of the questions to {output}"),
            Self::Track => f.write_str("a synchronization of the trackers"),
            Self::VerifyStore => f.write_str("a verification of the store"),
            Self::CollectGarbage => f.write_str("a garbage collection of the store"),
            Self::PullPdfLibrary => f.write_str("a download of the PDF library"),
        }
    }
}
