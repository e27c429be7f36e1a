//! Whether an answer declines to answer, told by its words.
//!
//! Shared by the metrics to which a refusal is something else than a wrong
//! answer. A fixed rule, for English. Each sentence either declines plainly
//! (`I don't know`, `The sources do not say …`, `N/A`), or has words that are
//! often said with it (`no information`, `unable to`), or neither.
//!
//! - All sentences decline plainly, and none goes on with `but` or the like:
//!   the answer abstains.
//! - No sentence has any such words: it answers.
//! - Anything between is unclear, and for a judge: `The sources do not name
//!   the year. The mill is older than the church.`

use crate::words::{self, Pattern, pattern};
use std::sync::LazyLock;

/// What the words of an answer say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wording {
    /// It says that it does not answer, and nothing else.
    Abstains,
    /// It says nothing of the kind.
    Answers,
    /// Some of it may.
    Unclear,
}

/// Sentences that decline.
static DECLINES: Pattern = LazyLock::new(|| {
    let sources = r"(?:sources?|contexts?|passages?|excerpts?|documents?|(?:provided|given|above|retrieved)\s+(?:text|documentation|material|information|data)s?)";
    let given = r"(?:\s+(?:above|given|provided|retrieved))?";
    let not = r"(?:do(?:es)?\s+not|don't|doesn't|did\s+not|didn't|cannot|can't|can\s+not|could\s+not|couldn't)";
    let say = r"(?:answer|say|mention|contain|hold|provide|specify|include|state|give|tell|indicate|describe|name|show|cover|address|explain|discuss|reveal|have)";
    let known =
        r"(?:mentioned|specified|stated|given|provided|available|known|found|contained|included|answered|described)";
    pattern(&format!(
        r"(?ix)
          \b(?:i|we)\s+(?:really\s+)?{not}\s+(?:have\s+(?:any|enough|the)\b|know\b|find\b|answer\b|determine\b|say\b|tell\b)
        | \b{sources}{given}\s+{not}\s+{say}\b
        | \b{sources}{given}\s+(?:has|have|contains?|holds?|gives?|provides?|offers?)\s+(?:no|not\s+enough|insufficient)\s+(?:information|answer|details?)\b
        | \b(?:is|are|was|were)\s+not\s+{known}\s+(?:in|by|within|anywhere\s+in)\s+(?:\w+\s+){{0,2}}{sources}\b
        | \bthere\s+is\s+(?:no|not\s+enough|insufficient)\s+(?:relevant\s+)?(?:information|answer)\b
        | ^\W*(?:there\s+is\s+)?(?:not\s+enough|insufficient|no(?:\s+relevant)?)\s+(?:information|context)\b
        | ^\W*(?:this|that|it|the\s+question)\s+(?:cannot|can't|can\s+not)\s+be\s+(?:answered|determined|known|told)\b
        | ^\W*(?:i\s+am|i'm|we\s+are|we're)?\s*unable\s+to\s+(?:answer|determine|find|say|tell)\b
        | ^\W*(?:i\s+am|i'm|we\s+are|we're)?\s*sorry\W*$
        | ^\W*(?:unknown|unanswerable|not\s+(?:known|answerable|available|applicable|specified|stated|mentioned|found)|n\s*/\s*a|no\s+(?:answer|idea)|none\s+given)\W*$
        "
    ))
});

/// Words that are often said when declining, and not only then.
static HINTS: Pattern = LazyLock::new(|| {
    pattern(
        r"(?ix)
          \b(?:not\s+enough|insufficient|no|without)\s+(?:\w+\s+)?(?:information|context|evidence|answer|mention|details?)\b
        | \b(?:not|n't|never)\s+(?:\w+\s+)?(?:mention|specif|stat|provid|available|known|clear|sure|certain|answer|determin|say|tell)
        | \b(?:cannot|can't|unable|impossible|unclear|unknown|unanswerable|sorry|apologi[sz]e)\b
        ",
    )
});

/// Words after which a sentence that declines may go on to answer.
static GOES_ON: Pattern =
    LazyLock::new(|| pattern(r"(?i)\b(?:but|however|although|though|except|nevertheless|still|yet|while)\b"));

/// What an answer's words say. An answer without a word declines nothing.
pub(super) fn wording(answer: &str) -> Wording {
    let plain = answer.replace(['’', '‘'], "'");
    let sentences = words::sentences(&plain);
    let plainly = |sentence: &&str| DECLINES.is_match(sentence) && !GOES_ON.is_match(sentence);
    let perhaps = |sentence: &&str| DECLINES.is_match(sentence) || HINTS.is_match(sentence);
    if !sentences.iter().any(perhaps) {
        Wording::Answers
    } else if sentences.iter().all(plainly) {
        Wording::Abstains
    } else {
        Wording::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_known_by_their_words() {
        for answer in [
            rag::generate::NO_ANSWER,
            "I don't know.",
            "I don’t know",
            "I'm sorry. I cannot answer this from the given context.",
            "The provided context does not mention the year.",
            "The documents contain no information about this.",
            "The price is not stated in the sources.",
            "There is not enough information to tell.",
            "Not enough information.",
            "Unable to determine the year.",
            "This cannot be determined.",
            "Unknown.",
            "N/A",
        ] {
            assert_eq!(wording(answer), Wording::Abstains, "{answer}");
        }
    }

    #[test]
    fn answers_that_deny_something_are_no_refusals() {
        for answer in [
            "The mill was built in 1712.",
            "No.",
            "Owls do not move their eyes.",
            "The package does not install documentation.",
            "The data does not fit into memory.",
            "It has no data.",
            "The blue whale does not fear anything.",
            "",
        ] {
            assert_eq!(wording(answer), Wording::Answers, "{answer}");
        }
    }

    #[test]
    fn what_may_be_either_is_unclear() {
        for answer in [
            "The sources do not name the year. The mill is older than the church.",
            "I don't know the year, but it is older than the church.",
            "The text does not say when, however 1712 is likely.",
            "The header carries no information about the length.",
            "It lies in the tomb of the unknown soldier.",
            "An owl cannot move its eyes.",
        ] {
            assert_eq!(wording(answer), Wording::Unclear, "{answer}");
        }
    }
}
