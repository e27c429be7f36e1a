//! Why, how or what for: the answer is a sentence and not a name.

use super::super::{QuestionDraft, RejectionReason};
use super::Recipe;
use crate::words::content_stems;
use whatlang::Lang;

/// A shorter answer is a fact.
const FEWEST_STEMS: usize = 3;

pub(super) const RECIPE: Recipe = Recipe {
    task: "Write one question that asks why, how or what for, and that this passage answers, for a reader who does not \
           see the passage: name the thing that is asked about, and do not mention a passage, text or section. Then \
           give the answer as one full sentence, close to the words of the passage, and copy the one sentence of the \
           passage that says most of it.",
    example_passages: &["Bees that have found food dance on the comb. The angle of the dance tells the direction of \
                         the flowers against the sun, and its length tells how far away they are. In this way the \
                         other bees fly straight to the flowers and lose no time with searching."],
    example_reply: r#"{"question": "Why do bees dance on the comb after finding food?", "answer": "So that the other bees fly straight to the flowers and lose no time with searching.", "quote": "In this way the other bees fly straight to the flowers and lose no time with searching."}"#,
    answer_share: 0.5,
    rule,
};

fn rule(draft: &QuestionDraft, _: &[&str], language: Lang) -> Result<(), RejectionReason> {
    if content_stems(&draft.answer, language).len() < FEWEST_STEMS {
        return Err(RejectionReason::OtherKind("the answer is one fact".into()));
    }
    Ok(())
}
