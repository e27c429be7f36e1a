//! Reviews of golden questions: what the log and the files hold after decisions, kills and other programs.

use super::*;
use std::sync::Arc;

fn dataset(folder: &Path, questions: usize) -> PathBuf {
    let path = folder.join("golden.jsonl");
    let line = |number: usize| {
        format!(
            "{{\"id\":\"q{number}\",\"question\":\"Who is {number}?\",\"reference\":\"Nobody.\",\"note\":\"kept\"}}\n"
        )
    };
    std::fs::write(&path, (0..questions).map(line).collect::<String>()).unwrap();
    path
}

fn states(desk: &ReviewDesk) -> Vec<&'static str> {
    desk.questions().iter().map(review_state).collect()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn decisions_are_in_the_log_at_once_and_in_the_file_after_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 4);
    let before = text(&path);
    let desk = ReviewDesk::open(&path).unwrap();
    desk.decide("Ann", "q0", Decision::Accept {}, None).unwrap();
    let edit = Decision::Edit {
        question: Some("Who was one?".to_owned()),
        reference: None,
        evidence: None,
        tags: Some(vec!["hard".to_owned()]),
    };
    desk.decide("Ann", "q1", edit, None).unwrap();
    desk.decide("Ben", "q2", Decision::Reject {}, None).unwrap();
    desk.decide("Ben", "q3", Decision::Comment { text: "is that so?".to_owned() }, None).unwrap();
    assert_eq!(states(&desk), ["accepted", "edited", "rejected", "open"]);
    assert_eq!(text(&path), before);
    assert!(has_unwritten_decisions(&path).unwrap());

    // Killed here: the next one finds all of it.
    let desk = ReviewDesk::open(&path).unwrap();
    assert_eq!(states(&desk), ["accepted", "edited", "rejected", "open"]);
    assert_eq!(desk.write().unwrap(), 4);
    assert_eq!(desk.write().unwrap(), 0);
    assert!(!has_unwritten_decisions(&path).unwrap());
    let after = text(&path);
    assert_eq!(after.lines().count(), 3);
    assert!(after.contains("Who was one?") && after.contains("\"hard\"") && after.matches("\"kept\"").count() == 3);
    assert!(text(&rejected_path(&path)).contains("\"q2\""));

    // A rejected question can come back, with what was decided about it.
    let desk = ReviewDesk::open(&path).unwrap();
    assert_eq!(states(&desk), ["accepted", "edited", "open", "rejected"], "it stands behind the others");
    desk.decide("Ann", "q2", Decision::Restore {}, None).unwrap();
    desk.write().unwrap();
    assert_eq!(text(&path).lines().count(), 4);
    assert!(!text(&rejected_path(&path)).contains("\"q2\""));
    let decisions = ReviewDesk::open(&path).unwrap().question("q2").unwrap().decisions;
    assert_eq!(decisions.iter().map(|line| line.by.as_str()).collect::<Vec<_>>(), ["Ben", "Ann"]);
}

#[test]
fn ten_reviewers_at_two_desks_lose_no_decision() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 200);
    let desks = [Arc::new(ReviewDesk::open(&path).unwrap()), Arc::new(ReviewDesk::open(&path).unwrap())];
    std::thread::scope(|scope| {
        for reviewer in 0..10 {
            let desk = desks[reviewer % 2].clone();
            scope.spawn(move || {
                for i in 0..20 {
                    let id = format!("q{}", reviewer * 20 + i);
                    let decision = if i % 5 == 0 { Decision::Reject {} } else { Decision::Accept {} };
                    desk.decide(&format!("r{reviewer}"), &id, decision, Some(0)).unwrap();
                    if i % 7 == 0 {
                        desk.write().unwrap();
                    }
                }
            });
        }
    });
    for desk in &desks {
        desk.refresh().unwrap();
        desk.write().unwrap();
    }
    let desk = ReviewDesk::open(&path).unwrap();
    let all = desk.questions();
    assert_eq!(all.iter().filter(|it| it.is_rejected).count(), 40);
    assert_eq!(all.iter().filter(|it| it.question.review == Some(Review::Accepted)).count(), 160);
    assert!(all.iter().all(|it| it.decisions.len() == 1));
    assert_eq!(desk.last(), 200);
    assert_eq!(text(&path).lines().count(), 160);
}

#[test]
fn whoever_was_overtaken_is_told_what_was_decided() {
    let folder = tempfile::tempdir().unwrap();
    let desk = ReviewDesk::open(&dataset(folder.path(), 2)).unwrap();
    let first = desk.decide("Ann", "q0", Decision::Accept {}, Some(0)).unwrap();
    let overtaken = desk.decide("Ben", "q0", Decision::Reject {}, Some(0)).unwrap_err();
    let DecisionError::Overtaken(line) = overtaken else { panic!("{overtaken}") };
    assert_eq!(*line, first);
    desk.decide("Ben", "q0", Decision::Comment { text: "why?".to_owned() }, Some(0)).unwrap();
    desk.decide("Ann", "q0", Decision::Reject {}, Some(0)).unwrap();
    let last = desk.last();
    desk.decide("Ben", "q0", Decision::Accept {}, Some(last)).unwrap();
    assert_eq!(desk.agreement().conflicts, [""; 0], "of each, the first decision counts");
    for (id, decision, said) in [
        ("q9", Decision::Accept {}, "no question `q9`"),
        ("q1", Decision::Comment { text: " ".to_owned() }, "empty"),
        ("q1", Decision::Comment { text: "x".repeat(LONGEST_TEXT + 1) }, "more than"),
    ] {
        let error = desk.decide("Ann", id, decision, None).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert!(desk.decide(" \u{1b} ", "q1", Decision::Accept {}, None).is_err(), "nobody is no reviewer");
    desk.decide("Ann", "q0", Decision::Reject {}, None).unwrap();
    assert!(desk.decide("Ann", "q1", Decision::Reject {}, None).is_err(), "one question must be left");
}

#[test]
fn agreement_is_that_of_the_first_decision_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let desk = ReviewDesk::open(&dataset(folder.path(), 8)).unwrap();
    for number in 0..6 {
        desk.decide("Ann", &format!("q{number}"), Decision::Accept {}, None).unwrap();
        let second = if number == 0 { Decision::Reject {} } else { Decision::Accept {} };
        desk.decide("Ben", &format!("q{number}"), second, None).unwrap();
    }
    desk.decide("Ann", "q7", Decision::Reject {}, None).unwrap();
    let found = desk.agreement();
    assert_eq!((found.questions, found.conflicts), (6, vec!["q0".to_owned()]));
    assert!((found.agreement.unwrap().observed - 5.0 / 6.0).abs() < 1e-12);
}

#[test]
fn what_another_program_changes_in_the_file_stays_and_half_a_line_of_the_log_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 3);
    let desk = ReviewDesk::open(&path).unwrap();
    desk.decide("Ann", "q0", Decision::Accept {}, None).unwrap();
    let changed = text(&path).replace("Who is 1?", "Who else?");
    std::fs::write(&path, format!("{changed}{{\"id\":\"q9\",\"question\":\"New?\"}}\n")).unwrap();
    OpenOptions::new().append(true).open(log_path(&path)).unwrap().write_all(b"{\"number\":7,\"ti").unwrap();
    desk.decide("Ann", "q2", Decision::Accept {}, None).unwrap();
    desk.write().unwrap();
    let after = text(&path);
    assert!(after.contains("Who else?") && after.contains("q9"), "{after}");
    assert_eq!(after.matches("accepted").count(), 2);
    assert_eq!(states(&ReviewDesk::open(&path).unwrap()), ["accepted", "open", "accepted", "open"]);
}
