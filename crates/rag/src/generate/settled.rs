//! How much of an answer is sure while its reply is still being written. The
//! answer may differ from the reply at its end: a forgotten citation goes in
//! front of the last full stop, a citation of nothing is removed, and a
//! reply that only says that there is no answer becomes `no_answer`.

use super::citation;
use crate::prompt::no_answers;

/// A beginning of replies that is removed from answers.
const LABEL: &str = "Answer:";
/// Full stops. A missing citation is inserted before those at the end of an answer.
const FULL_STOPS: [char; 5] = ['.', '。', '．', '।', '۔'];
/// An open bracket with more than this in it is no citation.
const LONGEST_CITATION: usize = 40;

/// A reply without white space around it and without its label.
pub(super) fn plain(reply: &str) -> &str {
    let text = reply.trim();
    text.strip_prefix(LABEL).unwrap_or(text).trim()
}

/// Whether a reply is empty or only says that the sources have no answer.
pub(super) fn says_nothing(reply: &str) -> bool {
    let (text, _) = citation::resolve(reply, 0);
    let said = words(&text);
    text.is_empty() || no_answers().any(|sentence| said == words(sentence))
}

/// The beginning of the answer that is final, whatever is added to the
/// reply. `n_sources` may be cited; 0 if an answer names no sources.
pub(super) fn final_beginning(reply: &str, n_sources: u32) -> String {
    let text = reply.trim_start();
    if LABEL.starts_with(text.trim_end()) {
        return String::new();
    }
    let text = without_open_citation(plain(text));
    let (said, _) = citation::resolve(text, 0);
    let said = words(&said);
    if no_answers().any(|sentence| words(sentence).starts_with(&said)) {
        return String::new();
    }
    let (mut text, citations) = citation::resolve(text, n_sources);
    if n_sources > 0 && citations.is_empty() {
        text.truncate(text.trim_end_matches(|c: char| FULL_STOPS.contains(&c) || c.is_whitespace()).len());
    }
    text
}

/// A text without the full stops at its end.
pub(super) fn without_full_stop(text: &str) -> &str {
    text.trim_end_matches(FULL_STOPS)
}

/// The text up to a bracket at its end that may become a citation.
fn without_open_citation(text: &str) -> &str {
    let may_be_citation = |inside: &str| {
        inside.len() <= LONGEST_CITATION
            && inside.chars().all(|c| match c {
                '】' | '］' => false,
                ',' | ';' => true,
                c => c.is_alphanumeric() || c.is_whitespace() || !c.is_ascii(),
            })
    };
    match text.rfind(citation::OPENING) {
        Some(at) if may_be_citation(text[at..].trim_start_matches(citation::OPENING)) => &text[..at],
        _ => text,
    }
}

fn words(text: &str) -> String {
    text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_says_nothing_is_recognised() {
        for reply in
            ["", "  ", "the sources do not answer this question", "The sources do not answer this question. [1]", "[1]"]
        {
            assert!(says_nothing(reply), "{reply}");
        }
        assert!(no_answers().all(says_nothing));
        assert!(says_nothing("资料没有回答这个问题"));
        assert!(!says_nothing("The sources do not answer this question, but the mill is old."));
    }

    #[test]
    fn what_may_still_change_is_not_settled() {
        for (reply, expected) in [
            (" Ans", ""),
            ("Answer: Bl", "Bl"),
            ("The mill is old.", "The mill is old"),
            ("The mill is old. It ", "The mill is old. It"),
            ("The mill is old [", "The mill is old"),
            ("The mill is old [1, 2", "The mill is old"),
            ("The mill is old [1].", "The mill is old [1]."),
            ("The mill is old [9] and", "The mill is old and"),
            ("Use argv[i + 1", "Use argv[i + 1"),
            ("The sources do not answer this quest", ""),
            ("The sources do not answer this question", ""),
            ("The sources do not answer this question, but", "The sources do not answer this question, but"),
            ("the sources do not answer this question [1", ""),
            ("[1]", ""),
        ] {
            assert_eq!(final_beginning(reply, 3), expected, "{reply}");
        }
        for (reply, expected) in [
            ("Die Quellen beantw", ""),
            ("Die Quellen sagen", "Die Quellen sagen"),
            ("水车很老。", "水车很老"),
            ("水车很老【1", "水车很老"),
            ("水车很老【1】", "水车很老[1]"),
        ] {
            assert_eq!(final_beginning(reply, 3), expected, "{reply}");
        }
        assert_eq!(final_beginning("It is old.", 0), "It is old.", "no citation can be added");
        assert_eq!(final_beginning("It is old [1", 0), "It is old");
    }
}
