//! Errors in words, for people.

use std::{error::Error, sync::OnceLock};

/// What to do about an error, if the program that people use knows.
pub type Advice = fn(&(dyn Error + 'static)) -> Option<String>;

static ADVICE: OnceLock<Advice> = OnceLock::new();

/// Says what to do about errors, from here on, wherever they are put into
/// words. Libraries do not know how people call them, so this is for the
/// program that they are in; the first one counts.
pub fn set_advice(advice: Advice) {
    // A program may set it as often as it begins something.
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
