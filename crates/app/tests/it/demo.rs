//! `reverie demo`: a winner in seconds, from what the program carries.

use crate::workspace::Workspace;

#[test]
fn the_demo_names_a_winner_explains_a_lost_question_and_answers_with_a_source() {
    let workspace = Workspace::new();
    let demo = workspace.run(&["demo", "--folder", "demo"]).succeeds();
    for expected in [
        "heron: 6 documents (15.1 KB of text), 72 questions, 6 trials",
        "winner: t06",
        "one question that t05 loses: ",
        "what differs between the two: enrich heading (t06), none (t05)",
        "Hail damage is covered up to grains of three centimetres [1].",
        "[1] heron-roof.md",
    ] {
        assert!(demo.out.contains(expected), "{expected}\n{}", demo.out);
    }
    let again = workspace.run(&["demo", "--folder", "demo"]).succeeds();
    assert!(again.out.contains("winner: t06") && again.out.contains("0 tasks executed"), "{}", again.out);
    let whole = workspace.run(&["demo", "--folder", "demo", "--json"]).succeeds().json();
    assert_eq!(whole["answered"]["answer"]["citations"], serde_json::json!([1]));
}
