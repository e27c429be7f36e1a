//! Reviews of golden questions: what the log and the files hold after decisions, kills and other programs.

use super::{files::rejected_path, *};
use eval::dataset::Evidence;
use std::{fs::OpenOptions, io::Write};

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

fn new_question(id: &str, words: &str) -> Question {
    let evidence = vec![Evidence { document: "a.md".to_owned(), quote: "Nobody is.".to_owned(), span: None }];
    Question { id: id.to_owned(), question: words.to_owned(), evidence, ..Question::default() }
}

fn ids(desk: &ReviewDesk) -> Vec<String> {
    desk.questions().into_iter().map(|reviewed| reviewed.question.id).collect()
}

#[test]
fn a_question_is_added_once_and_survives_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 1);
    let before = text(&path);
    let desk = ReviewDesk::open(&path).unwrap();
    let line = desk.add("Ann", new_question("new", " Who is new? ")).unwrap();
    assert_eq!((line.number, line.question.as_str()), (1, "new"));
    assert_eq!(states(&desk), ["open", "open"]);
    assert_eq!(desk.question("new").unwrap().question.question, "Who is new?", "as the reader reads it");
    assert_eq!(text(&path), before);
    desk.decide("Ben", "new", Decision::Accept {}, Some(0)).unwrap();
    drop(desk);

    // Killed here: the next one puts it into the file.
    assert!(has_unwritten_decisions(&path).unwrap());
    let desk = ReviewDesk::open(&path).unwrap();
    assert_eq!(desk.write().unwrap(), 2);
    assert_eq!((text(&path).lines().count(), text(&path).matches("Who is new?").count()), (2, 1));

    // Killed after the file was written, and before the log says so: it is not added again.
    let log = text(&log_path(&path));
    let cut: String = log.lines().filter(|line| !line.contains("written")).flat_map(|line| [line, "\n"]).collect();
    std::fs::write(log_path(&path), cut).unwrap();
    let desk = ReviewDesk::open(&path).unwrap();
    assert_eq!(states(&desk), ["open", "accepted"]);
    desk.write().unwrap();
    assert_eq!(text(&path).lines().count(), 2);
    let decisions = desk.question("new").unwrap().decisions;
    assert_eq!(decisions.iter().map(|line| line.by.as_str()).collect::<Vec<_>>(), ["Ann", "Ben"]);
    assert_eq!(desk.agreement().questions, 0, "whoever adds a question has not decided about it");
}

#[test]
fn a_question_that_was_added_and_rejected_is_among_the_rejected_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 1);
    let desk = ReviewDesk::open(&path).unwrap();
    desk.add("Ann", new_question("new", "Who is new?")).unwrap();
    desk.decide("Ben", "new", Decision::Reject {}, None).unwrap();
    drop(desk);
    let desk = ReviewDesk::open(&path).unwrap();
    desk.write().unwrap();
    assert_eq!(text(&path).lines().count(), 1);
    assert!(text(&rejected_path(&path)).contains("Who is new?"));
    assert_eq!(states(&ReviewDesk::open(&path).unwrap()), ["open", "rejected"]);
    assert!(matches!(desk.add("Ann", new_question("new", "Who?")), Err(DecisionError::IdTaken(_))));
}

#[test]
fn two_desks_see_what_the_other_adds_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 1);
    let desks = [Arc::new(ReviewDesk::open(&path).unwrap()), Arc::new(ReviewDesk::open(&path).unwrap())];
    desks[0].add("Ann", new_question("shared", "Who?")).unwrap();
    assert!(desks[1].refresh().unwrap());
    desks[1].decide("Ben", "shared", Decision::Accept {}, None).unwrap();
    std::thread::scope(|scope| {
        for adder in 0..8 {
            let desk = desks[adder % 2].clone();
            scope.spawn(move || {
                for i in 0..5 {
                    desk.add(&format!("r{adder}"), new_question("", &format!("Who is {adder}/{i}?"))).unwrap();
                    desk.write().unwrap();
                }
            });
        }
    });
    let desk = ReviewDesk::open(&path).unwrap();
    assert_eq!(desk.questions().len(), 42);
    assert_eq!(ids(&desk).into_iter().collect::<BTreeSet<_>>().len(), 42);
    assert_eq!((text(&path).lines().count(), desk.last()), (42, 42));
}

#[test]
fn an_id_that_is_taken_is_refused_and_an_empty_one_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 1);
    let desk = ReviewDesk::open(&path).unwrap();
    let taken = desk.add("Ann", new_question(" q0 ", "Who?")).unwrap_err();
    assert!(matches!(&taken, DecisionError::IdTaken(id) if id == "q0"), "{taken}");
    let first = desk.add("Ann", new_question("", "Who?")).unwrap().question;
    let second = desk.add("Ann", new_question(" ", "Who?")).unwrap().question;
    assert!(first.starts_with("q-"), "{first}");
    assert_eq!(second, format!("{first}-2"));
    // Another program has written a question into the file.
    desk.write().unwrap();
    std::fs::write(&path, text(&path) + "{\"id\":\"late\",\"question\":\"Late?\"}\n").unwrap();
    assert!(matches!(desk.add("Ann", new_question("late", "Who?")), Err(DecisionError::IdTaken(_))));
}

#[test]
fn a_question_is_checked_as_the_reader_checks_it() {
    let folder = tempfile::tempdir().unwrap();
    let desk = ReviewDesk::open(&dataset(folder.path(), 1)).unwrap();
    let evidence = |quote: &str| vec![Evidence { document: String::new(), quote: quote.to_owned(), span: None }];
    for (question, said) in [
        (Question { question: " ".to_owned(), ..Question::default() }, "empty question"),
        (Question { answerable: false, ..new_question("", "Who?") }, "unanswerable"),
        (Question { evidence: evidence(" "), ..new_question("", "Who?") }, "evidence 1"),
        (Question { evidence: evidence(&"x".repeat(LONGEST_TEXT + 1)), ..new_question("", "Who?") }, "more than"),
    ] {
        let error = desk.add("Ann", question).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let hidden = Decision::Add { question: Box::new(new_question("other", "Who?")) };
    assert!(desk.decide("Ann", "q0", hidden, None).is_err(), "a decision adds no question");
    assert!(desk.add(" ", new_question("", "Who?")).is_err(), "nobody adds nothing");
    assert_eq!(desk.last(), 0);
}

#[test]
fn a_file_that_cannot_be_changed_takes_no_question() {
    let folder = tempfile::tempdir().unwrap();
    let desk = ReviewDesk::open_or_new(&folder.path().join("golden.parquet")).unwrap();
    let error = desk.add("Ann", new_question("", "Who?")).unwrap_err().to_string();
    assert!(error.contains("cannot be changed"), "{error}");
    assert_eq!(desk.last(), 0);
}

#[test]
fn the_first_question_makes_the_file() {
    for name in ["deep/golden.jsonl", "golden.csv"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        assert!(ReviewDesk::open(&path).is_err());
        assert!(!log_path(&path).exists(), "looking makes no file");
        let desk = ReviewDesk::open_or_new(&path).unwrap();
        let other = ReviewDesk::open_or_new(&path).unwrap();
        desk.add("Ann", new_question("first", "Who is first?")).unwrap();
        drop(desk);
        // Killed here.
        assert!(!path.exists());
        let desk = ReviewDesk::open(&path).unwrap();
        assert_eq!(desk.write().unwrap(), 1);
        other.add("Ben", new_question("second", "Who is second?")).unwrap();
        other.write().unwrap();
        assert_eq!(ids(&ReviewDesk::open(&path).unwrap()), ["first", "second"], "{name}");
    }
}

#[test]
fn a_file_that_is_gone_is_not_made_anew_with_fewer_questions() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 2);
    let desk = ReviewDesk::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(desk.add("Ann", new_question("", "Who?")).is_err());
    desk.decide("Ann", "q0", Decision::Accept {}, None).unwrap();
    assert!(desk.write().is_err());
    assert!(!path.exists());
}

#[test]
fn an_import_adds_what_is_new_and_refuses_lines_with_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 2);
    let desk = ReviewDesk::open(&path).unwrap();
    desk.decide("Ann", "q0", Decision::Accept {}, None).unwrap();
    let file = concat!(
        "{\"id\":\"q0\",\"question\":\"Who is 0?\",\"reference\":\"Nobody.\"}\n",
        "{\"id\":\"q1\",\"question\":\"Who is another?\"}\n",
        "{\"id\":\"n1\",\"question\":\"New?\",\"review\":\"accepted\"}\n",
        "{\"id\":\"n2\",\"question\":\n",
        "{\"question\":\"Also new?\"}\n",
    );
    let read = dataset::import_readable("more.jsonl", file.as_bytes()).unwrap();
    assert_eq!(read.faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [4]);
    let questions = read.questions.clone();
    let outcome = desk.import("Ben", read.questions).unwrap();
    assert_eq!((outcome.added.len(), &outcome.skipped[..]), (2, &[1][..]));
    assert_eq!(outcome.refused.len(), 1);
    let (line, reason) = &outcome.refused[0];
    assert!(*line == 2 && reason.contains("other content"), "{reason}");
    assert_eq!(states(&desk), ["accepted", "open", "accepted", "open"]);
    let lines = text(&log_path(&path)).lines().filter(|line| line.contains("\"add\"")).count();
    assert_eq!(lines, 2, "one line each");

    // The same file again adds nothing, also after a restart.
    let desk = ReviewDesk::open(&path).unwrap();
    desk.write().unwrap();
    let again = desk.import("Ben", questions).unwrap();
    assert_eq!((again.added.len(), again.skipped, again.refused.len()), (0, vec![1, 3, 5], 1));
    assert_eq!(text(&path).lines().count(), 4);
}

#[test]
fn a_reopened_question_waits_for_a_decision_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = dataset(folder.path(), 3);
    let desk = ReviewDesk::open(&path).unwrap();
    desk.decide("Ann", "q0", Decision::Accept {}, None).unwrap();
    desk.write().unwrap();
    assert!(text(&path).contains("accepted"));
    let seen = desk.last();
    desk.decide("Ben", "q0", Decision::Reopen {}, Some(seen)).unwrap();
    assert_eq!(states(&desk), ["open", "open", "open"]);
    drop(desk);

    let desk = ReviewDesk::open(&path).unwrap();
    desk.write().unwrap();
    assert!(!text(&path).contains("accepted"), "{}", text(&path));
    assert_eq!(states(&ReviewDesk::open(&path).unwrap()), ["open", "open", "open"]);
    let overtaken = desk.decide("Ann", "q0", Decision::Reject {}, Some(seen)).unwrap_err();
    assert!(matches!(overtaken, DecisionError::Overtaken(_)), "{overtaken}");
    let error = desk.decide("Ann", "q0", Decision::Reopen {}, None).unwrap_err().to_string();
    assert!(error.contains("already"), "{error}");

    // A rejected question comes back, and waits for a decision.
    desk.decide("Ann", "q1", Decision::Accept {}, None).unwrap();
    desk.decide("Ann", "q1", Decision::Reject {}, None).unwrap();
    desk.decide("Ann", "q1", Decision::Reopen {}, None).unwrap();
    assert_eq!(desk.questions().iter().map(review_state).filter(|state| *state == "open").count(), 3);
}
