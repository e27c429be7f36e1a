//! Votes: what is on the disk, what is shown next, and what the votes say.

use super::*;
use std::{collections::BTreeMap, fs::OpenOptions, io::Write};

/// Answers of trials to questions `q0`, `q1`, …
fn answers(trials: &[(&str, Vec<Option<String>>)]) -> RunAnswers {
    let n = trials.first().map_or(0, |(_, texts)| texts.len());
    let question = |number: usize| VotedQuestion {
        id: format!("q{number}"),
        question: format!("Who is {number}?"),
        turns: Vec::new(),
        reference: None,
    };
    let by_trial: BTreeMap<&str, Vec<Option<&str>>> =
        trials.iter().map(|(trial, texts)| (*trial, texts.iter().map(Option::as_deref).collect())).collect();
    RunAnswers::new("zoo-1", (0..n).map(question).collect(), by_trial)
}

/// So many trials that all answer differently.
fn different(trials: &[&'static str], questions: usize) -> RunAnswers {
    let texts = |trial: &str| (0..questions).map(|number| Some(format!("{trial} on {number}"))).collect();
    let all: Vec<_> = trials.iter().map(|trial| (*trial, texts(trial))).collect();
    answers(&all)
}

fn digest(text: &str) -> Key {
    Key::of_bytes(text.as_bytes())
}

/// A vote on what was shown.
fn on_ballot(ballot: Ballot, verdict: VoteVerdict) -> VoteRequest {
    let (left, right) = (ballot.left.digest, ballot.right.digest);
    VoteRequest { by: None, question: ballot.question.id, left, right, verdict, seconds: 1.0 }
}

/// A vote between `t01`, on the left, and `t02`.
fn request(question: usize, verdict: VoteVerdict) -> VoteRequest {
    VoteRequest {
        by: None,
        question: format!("q{question}"),
        left: digest(&format!("t01 on {question}")),
        right: digest(&format!("t02 on {question}")),
        verdict,
        seconds: 2.5,
    }
}

fn desk(folder: &std::path::Path) -> VoteDesk {
    VoteDesk::new(folder.join("votes.jsonl"))
}

#[test]
fn a_vote_is_on_the_disk_before_it_is_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let answers = different(&["t01", "t02"], 3);
    let line = desk(folder.path()).vote(&answers, " Ann ", request(1, VoteVerdict::Right)).unwrap();
    let text = std::fs::read_to_string(folder.path().join("votes.jsonl")).unwrap();
    assert_eq!(serde_json::from_str::<VoteLine>(text.trim()).unwrap(), line);
    assert_eq!((line.number, line.by.as_str(), line.run.as_str()), (1, "Ann", "zoo-1"));
    assert_eq!((line.trial_a.as_str(), line.trial_b.as_str(), line.side_a), ("t01", "t02", Side::Left));
    assert_eq!((line.won_by(line.digest_a), line.won_by(line.digest_b)), (Some(0.0), Some(1.0)));
    // The same answers on the other sides.
    let VoteRequest { left, right, .. } = request(1, VoteVerdict::Right);
    let swapped = VoteRequest { left: right, right: left, ..request(1, VoteVerdict::Right) };
    let line = desk(folder.path()).vote(&answers, "Ben", swapped).unwrap();
    assert_eq!((line.number, line.trial_a.as_str(), line.side_a), (2, "t01", Side::Right));
    assert_eq!((line.won_by(line.digest_a), line.won_by(line.digest_b)), (Some(1.0), Some(0.0)));
}

#[test]
fn two_programs_at_once_lose_no_vote_and_half_a_line_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let answers = different(&["t01", "t02"], 40);
    let desks = [desk(folder.path()), desk(folder.path())];
    std::thread::scope(|scope| {
        for person in 0..4 {
            let (desk, answers) = (&desks[person % 2], &answers);
            scope.spawn(move || {
                for question in 0..40 {
                    desk.vote(answers, &format!("p{person}"), request(question, VoteVerdict::Left)).unwrap();
                }
            });
        }
    });
    let path = folder.path().join("votes.jsonl");
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"number\":999,\"ti").unwrap();
    desks[0].vote(&answers, "Eve", request(0, VoteVerdict::Left)).unwrap();
    let standing = desk(folder.path()).standing(&answers).unwrap();
    assert_eq!((standing.votes, standing.people.len(), standing.questions), (161, 5, 40));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut numbers: Vec<u64> =
        text.lines().filter_map(|line| serde_json::from_str::<VoteLine>(line).ok()).map(|line| line.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=161).collect::<Vec<_>>());
}

#[test]
fn the_last_vote_of_a_person_counts_and_a_skip_withdraws_it() {
    let folder = tempfile::tempdir().unwrap();
    let (desk, answers) = (desk(folder.path()), different(&["t01", "t02"], 3));
    for verdict in [VoteVerdict::Left, VoteVerdict::BothBad, VoteVerdict::Right] {
        desk.vote(&answers, "Ann", request(0, verdict)).unwrap();
    }
    let standing = desk.standing(&answers).unwrap();
    assert_eq!((standing.votes, standing.trials[0].won + standing.trials[1].won), (1, 1));
    let first = standing.trials.iter().find(|trial| trial.trial == "t01").unwrap();
    assert_eq!((first.won, first.lost, first.both_bad), (0, 1, 0));
    desk.vote(&answers, "Ann", request(0, VoteVerdict::Skip)).unwrap();
    let standing = desk.standing(&answers).unwrap();
    assert_eq!((standing.votes, standing.skipped, standing.trials.len()), (0, 1, 0));
}

#[test]
fn votes_that_cannot_be_right_are_refused_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (desk, answers) = (desk(folder.path()), different(&["t01", "t02"], 2));
    let vote = request(0, VoteVerdict::Left);
    for (by, request, said) in [
        (" \u{1b}", vote.clone(), "`by` is missing"),
        ("Ann", VoteRequest { question: "q9".to_owned(), ..vote.clone() }, "no question `q9`"),
        ("Ann", VoteRequest { left: digest("other"), ..vote.clone() }, "no such answers"),
        ("Ann", VoteRequest { left: vote.right, ..vote.clone() }, "same text"),
        ("Ann", VoteRequest { seconds: f64::NAN, ..vote.clone() }, "`seconds`"),
        ("Ann", VoteRequest { seconds: -1.0, ..vote }, "`seconds`"),
    ] {
        let error = desk.vote(&answers, by, request).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert!(!folder.path().join("votes.jsonl").exists());
}

#[test]
fn a_person_sees_each_pair_of_texts_once_and_equal_texts_never() {
    let folder = tempfile::tempdir().unwrap();
    let text = |texts: [&str; 3]| texts.map(|text| (!text.is_empty()).then(|| text.to_owned())).to_vec();
    // On q0 two trials say the same, on q1 all do, and on q2 one has no answer.
    let answers = answers(&[
        ("t01", text(["x", "same", "one"])),
        ("t02", text(["x ", "same", "two"])),
        ("t03", text(["y", "same", " "])),
        ("t04", text(["", "", ""])),
    ]);
    let desk = desk(folder.path());
    let mut random = Random::new(1);
    let next = desk.next(&answers, "Ann", &mut random).unwrap();
    assert_eq!((next.progress.trials, next.progress.left, next.progress.equal), (3, 2, 4));
    let mut shown = BTreeSet::new();
    while let Some(ballot) = desk.next(&answers, "Ann", &mut random).unwrap().ballot {
        assert_ne!(ballot.left.text, ballot.right.text);
        assert!(shown.insert(ballot.question.id.clone()), "{shown:?}");
        let verdict = if shown.len() == 1 { VoteVerdict::Skip } else { VoteVerdict::Left };
        desk.vote(&answers, "Ann", on_ballot(ballot, verdict)).unwrap();
    }
    assert_eq!(shown.iter().map(String::as_str).collect::<Vec<_>>(), ["q0", "q2"]);
    let next = desk.next(&answers, "Ann", &mut random).unwrap();
    assert_eq!((next.progress.left, next.progress.seen, next.progress.mine), (0, 2, 1));
    assert_eq!(desk.next(&answers, "Ben", &mut random).unwrap().progress.left, 2, "others have not seen them");
}

#[test]
fn pairs_of_trials_with_the_fewest_votes_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let (desk, answers) = (desk(folder.path()), different(&["t01", "t02", "t03"], 12));
    let mut random = Random::new(7);
    let mut votes: BTreeMap<(String, String), usize> = BTreeMap::new();
    for _ in 0..30 {
        let ballot = desk.next(&answers, "Ann", &mut random).unwrap().ballot.unwrap();
        let line = desk.vote(&answers, "Ann", on_ballot(ballot, VoteVerdict::Left)).unwrap();
        *votes.entry((line.trial_a, line.trial_b)).or_default() += 1;
        let most = votes.values().max().unwrap();
        let least = if votes.len() < 3 { 0 } else { *votes.values().min().unwrap() };
        assert!(most - least <= 1, "{votes:?}");
    }
    assert_eq!(votes.into_values().collect::<Vec<_>>(), [10, 10, 10]);
}

#[test]
fn sides_are_drawn_evenly_and_a_ballot_names_no_trial() {
    let folder = tempfile::tempdir().unwrap();
    let (desk, answers) = (desk(folder.path()), different(&["t01", "t02"], 5));
    let mut random = Random::new(5);
    let mut on_left = 0;
    for _ in 0..2000 {
        let next = desk.next(&answers, "Ann", &mut random).unwrap();
        on_left += usize::from(next.ballot.unwrap().left.text.starts_with("t01"));
    }
    // Four standard deviations of 2,000 fair draws are 89.
    assert!((911..=1089).contains(&on_left), "{on_left}");
    let named = answers_without_names();
    let next = desk.next(&named, "Ann", &mut random).unwrap();
    assert!(!serde_json::to_string(&next).unwrap().contains("t01"));
}

/// Two trials whose names are not in their answers.
fn answers_without_names() -> RunAnswers {
    answers(&[("t01", vec![Some("red".to_owned())]), ("t02", vec![Some("blue".to_owned())])])
}

/// The standing after so many people have voted on every question. `verdict` gets the numbers of the question and of the
/// person; its `Left` is a vote for the first trial, whatever its side.
fn standing_of(
    questions: usize,
    people: usize,
    verdict: impl Fn(usize, usize, &mut Random) -> VoteVerdict,
    seed: u64,
) -> VoteStanding {
    let answers = different(&["t01", "t02"], questions);
    let mut random = Random::new(seed);
    let mut book = VoteBook::default();
    for question in 0..questions {
        for person in 0..people {
            let on_left = random.below(2) == 0;
            let number = book.last + 1;
            let verdict = verdict(question, person, &mut random);
            book.take(VoteLine {
                number,
                time_ms: 0,
                by: format!("p{person}"),
                run: "zoo-1".to_owned(),
                question: format!("q{question}"),
                trial_a: "t01".to_owned(),
                trial_b: "t02".to_owned(),
                digest_a: digest(&format!("t01 on {question}")),
                digest_b: digest(&format!("t02 on {question}")),
                side_a: if on_left { Side::Left } else { Side::Right },
                verdict: match (verdict, on_left) {
                    (VoteVerdict::Left, false) => VoteVerdict::Right,
                    (VoteVerdict::Right, false) => VoteVerdict::Left,
                    (verdict, _) => verdict,
                },
                seconds: 1.0,
            });
        }
    }
    let votes: Vec<(usize, VoteLine)> = book.of_run(&answers).map(|(place, line)| (place, line.clone())).collect();
    VoteStanding::of(&answers, &votes, std::path::Path::new("votes.jsonl"))
}

#[test]
fn a_planted_preference_of_seven_in_ten_is_found_within_its_interval() {
    let standing = standing_of(
        80,
        3,
        |_, _, random| if random.open_unit() <= 0.7 { VoteVerdict::Left } else { VoteVerdict::Right },
        2,
    );
    let best = &standing.trials[0];
    assert_eq!((best.trial.as_str(), best.people, best.preference.votes), ("t01", 3, 240));
    let interval = best.preference.interval.unwrap();
    assert!((interval.low..=interval.high).contains(&0.7), "{interval:?}");
    assert_eq!(standing.pairs[0].differs, Some(true));
    assert_eq!(standing.pairs[0].first, "t01");
    let side = &standing.side;
    assert!(side.p_value.unwrap() > 0.05, "sides are drawn, so they do not matter: {side:?}");
    // Two people agree here as far as chance makes them.
    assert_eq!(standing.compared, 240);
    assert!(standing.agreement.unwrap().kappa.unwrap().abs() < 0.2);
}

#[test]
fn ties_count_half_and_too_few_votes_have_no_share() {
    let tie = |question: usize, _: usize, _: &mut Random| match question % 4 {
        0 => VoteVerdict::BothGood,
        1 => VoteVerdict::BothBad,
        2 => VoteVerdict::Left,
        _ => VoteVerdict::Right,
    };
    let standing = standing_of(12, 1, tie, 1);
    for trial in &standing.trials {
        assert_eq!((trial.won, trial.lost, trial.both_good, trial.both_bad), (3, 3, 3, 3));
        assert_eq!(trial.preference.share, Some(0.5));
    }
    assert_eq!(standing.pairs[0].differs, Some(false));
    let few = standing_of(9, 2, |_, _, _| VoteVerdict::Left, 1);
    assert_eq!((few.votes, few.trials[0].preference.share, few.pairs[0].differs), (18, None, None));
    assert_eq!((few.compared, few.agreement, few.side.share), (9, None, None));
}

#[test]
fn a_planted_bias_for_the_left_side_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (desk, answers) = (desk(folder.path()), different(&["t01", "t02"], 40));
    let mut random = Random::new(9);
    for question in 0..40 {
        let verdict = if random.open_unit() <= 0.85 { VoteVerdict::Left } else { VoteVerdict::Right };
        let vote = request(question, verdict);
        let vote = if random.below(2) == 0 { vote } else { VoteRequest { left: vote.right, right: vote.left, ..vote } };
        desk.vote(&answers, "Ann", vote).unwrap();
    }
    let standing = desk.standing(&answers).unwrap();
    let side = &standing.side;
    assert!(side.share.unwrap() > 0.7 && side.p_value.unwrap() < 0.01, "{side:?}");
    assert_eq!(standing.pairs[0].differs, Some(false), "it favors no trial: {:?}", standing.pairs[0]);
}

#[test]
fn people_who_vote_alike_agree_whatever_the_sides_were() {
    let alike = |question: usize, _: usize, _: &mut Random| {
        if question.is_multiple_of(2) { VoteVerdict::Left } else { VoteVerdict::BothBad }
    };
    let agreement = standing_of(12, 2, alike, 4).agreement.unwrap();
    assert_eq!((agreement.n, agreement.observed, agreement.kappa), (12, 1.0, Some(1.0)));
}

#[test]
fn a_vote_counts_for_every_run_and_trial_with_these_texts() {
    let folder = tempfile::tempdir().unwrap();
    let desk = desk(folder.path());
    desk.vote(&different(&["t01", "t02"], 2), "Ann", request(0, VoteVerdict::Left)).unwrap();
    // In another run, two trials give the first answer, and a third one gives the other.
    let texts = |trial: &str| vec![Some(format!("{trial} on 0")), Some("other".to_owned())];
    let other = answers(&[("t05", texts("t02")), ("t06", texts("t01")), ("t07", texts("t01"))]);
    let standing = desk.standing(&other).unwrap();
    assert_eq!(standing.votes, 1);
    let votes: Vec<(&str, usize, usize)> =
        standing.trials.iter().map(|trial| (trial.trial.as_str(), trial.won, trial.lost)).collect();
    assert_eq!(votes, [("t05", 0, 1), ("t06", 1, 0), ("t07", 1, 0)]);
    assert_eq!(standing.pairs.len(), 2, "the two with the same text are no pair");
    let mut random = Random::new(0);
    assert_eq!(desk.next(&other, "Ann", &mut random).unwrap().progress.left, 0, "she has seen these texts");
    assert_eq!(desk.standing(&different(&["t08", "t09"], 2)).unwrap().votes, 0);
}

#[test]
fn other_tools_get_the_texts_and_the_winner() {
    let folder = tempfile::tempdir().unwrap();
    let (desk, answers) = (desk(folder.path()), different(&["t01", "t02"], 5));
    let verdicts =
        [VoteVerdict::Left, VoteVerdict::Right, VoteVerdict::BothGood, VoteVerdict::BothBad, VoteVerdict::Skip];
    for (question, verdict) in verdicts.into_iter().enumerate() {
        desk.vote(&answers, "Ann", request(question, verdict)).unwrap();
    }
    let exported = desk.export(&answers).unwrap();
    let winners: Vec<VoteWinner> = exported.iter().map(|vote| vote.winner).collect();
    assert_eq!(winners, [VoteWinner::A, VoteWinner::B, VoteWinner::Tie, VoteWinner::BothBad]);
    let first = serde_json::to_value(&exported[0]).unwrap();
    let wanted = serde_json::json!({
        "question": "Who is 0?", "answer_a": "t01 on 0", "answer_b": "t02 on 0", "winner": "a", "by": "Ann",
    });
    assert_eq!(first, wanted);
}

#[test]
fn votes_lie_beside_the_questions_or_the_experiment() {
    let parse = |dataset: &str| {
        let text = format!(
            "name = \"zoo\"\n[corpus]\nsource = \"d\"\n{dataset}[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n"
        );
        Experiment::parse(&text, "base").unwrap()
    };
    let path = |dataset: &str| votes_path(&parse(dataset)).display().to_string();
    assert_eq!(path("[dataset]\npath = \"sets/golden.jsonl\"\n"), "base/sets/votes.jsonl");
    assert_eq!(path("[dataset]\npath = \"s3://bucket/golden.jsonl\"\n"), "base/votes.jsonl");
    assert_eq!(path(""), "base/votes.jsonl");
}
