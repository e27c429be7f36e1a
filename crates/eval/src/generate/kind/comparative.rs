//! Two things side by side: how they differ, or what they share.

use super::super::check::needs_both;
use super::Recipe;

pub(super) const RECIPE: Recipe = Recipe {
    task: "Write one question that compares a thing of the first passage with a thing of the second: how they differ, \
           which is the greater, or what they share. Name both things, for a reader who does not see the passages, and \
           do not mention a passage, text or section. Then give the answer in one sentence, in the words of the \
           passages, and copy one sentence of each passage that is needed for the answer.",
    example_passages: &[
        "The grey heron stands still in shallow water and waits for fish. It nests in colonies high in trees.",
        "The kingfisher watches from a branch and dives for small fish. It digs its nest into a steep bank of earth.",
    ],
    example_reply: r#"{"question": "How do the grey heron and the kingfisher differ in where they nest?", "answer": "The grey heron nests in colonies high in trees, while the kingfisher digs its nest into a steep bank of earth.", "quote": "It nests in colonies high in trees.", "second_quote": "It digs its nest into a steep bank of earth."}"#,
    answer_share: 0.5,
    rule: needs_both,
};
