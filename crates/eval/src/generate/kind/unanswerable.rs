//! What the documents do not answer, though they speak of it: a system should
//! say that it does not know.

use super::{Recipe, no_rule};

pub(super) const RECIPE: Recipe = Recipe {
    task: "Write one question about the thing that this passage speaks of, which a reader might well ask next, but to \
           which the passage gives no answer. Ask for one precise fact, such as a number, a date, a name or a place. \
           Name the thing that is asked about, for a reader who does not see the passage, and do not mention a \
           passage, text or section.",
    example_passages: &["The bridge over the Saale at Kamen has three arches of red sandstone. It carried the post \
                         road until 1934 and is closed to cars today."],
    example_reply: r#"{"question": "How long is the bridge over the Saale at Kamen?"}"#,
    answer_share: 0.0,
    rule: no_rule,
};
