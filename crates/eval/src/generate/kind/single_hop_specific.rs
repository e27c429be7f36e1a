//! One fact of one passage: the question that users ask most.

use super::{Recipe, no_rule};

pub(super) const RECIPE: Recipe = Recipe {
    task: "Write one question that this passage answers, for a reader who does not see the passage: name the thing \
           that is asked about, and do not mention a passage, text or section. Ask for one fact; do not ask a question \
           that yes or no would answer. Then give the answer, as short as it can be, in the words of the passage, and \
           copy the one sentence of the passage that holds the answer.",
    example_passages: &["The lighthouse at Varda Point was lit for the first time in 1871. Its lamp burned rape oil \
                         until 1902, when it was changed to paraffin, and it could be seen from 18 miles away. The \
                         keeper lived with his family in the small house beside the tower."],
    example_reply: r#"{"question": "What fuel did the lamp of the Varda Point lighthouse burn before 1902?", "answer": "rape oil", "quote": "Its lamp burned rape oil until 1902, when it was changed to paraffin, and it could be seen from 18 miles away."}"#,
    answer_share: 0.6,
    rule: no_rule,
};
