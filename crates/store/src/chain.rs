//! The text of errors, for people.

use std::{error::Error, sync::OnceLock};

/// What to do about an error, if the program that people use knows something.
pub type Advice = fn(&(dyn Error + 'static)) -> Option<String>;

static ADVICE: OnceLock<Advice> = OnceLock::new();

/// Sets the function that says what to do about errors, for all texts of errors
/// from here on. Libraries do not know by which command they are called, so the
/// program sets it; only the first call counts.
pub fn set_advice(advice: Advice) {
    // A program may call this each time it begins something.
    let _ = ADVICE.set(advice);
}

/// An error with everything that caused it, and what to do about it, in one line.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut add = |separator: &str, more: &str| {
        if !text.contains(more) {
            text.push_str(separator);
            text.push_str(more);
        }
    };
    let mut source = error.source();
    while let Some(cause) = source {
        add(": ", &cause.to_string());
        source = cause.source();
    }
    if let Some(advice) = ADVICE.get().and_then(|advice| advice(error)) {
        add("; ", &advice);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn link(text: &'static str, source: Option<Link>) -> Link {
        Link { text, source: source.map(Box::new) }
    }

    #[test]
    fn every_cause_is_told_once() {
        let error = link("read a failed", Some(link("no such file", Some(link("no such file", None)))));
        assert_eq!(error_chain(&error), "read a failed: no such file");
        assert_eq!(error_chain(&link("alone", None)), "alone");
    }
}
