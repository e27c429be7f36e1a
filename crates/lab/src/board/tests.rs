//! What a board says of results made by hand.

use super::*;
use crate::{
    results::{
        JudgeResult, Winner,
        fixture::{choose, results, score},
    },
    search::{SearchResult, Stop, StopKind},
};
use eval::{dataset::Split, statistics::Summary};
use rag::load::Unread;
use serde_json::json;

/// Three trials by their recall: the first two cannot be told apart, the third is worse.
fn chosen() -> Results {
    let mut results = results(3);
    let scores = [vec![Some(1.0); 5], vec![Some(1.0), Some(1.0), Some(1.0), Some(1.0), Some(0.5)], vec![Some(0.0); 5]];
    score(&mut results, "recall", &scores);
    choose(&mut results, "recall", &[1, 1, 2]);
    results.verdict = vec!["t01 is best or tied with t02".to_owned()];
    results
}

fn standings(results: &Results) -> Vec<(TrialStanding, String)> {
    Board::of(results).rows.into_iter().map(|row| (row.standing, row.label)).collect()
}

fn told(board: &Board, about: About) -> Vec<&str> {
    board.notes.iter().filter(|note| note.about == about).map(|note| note.text.as_str()).collect()
}

#[test]
fn one_truth_about_the_winner_stands_in_the_board_and_in_each_row() {
    let mut results = chosen();
    let board = Board::of(&results);
    assert_eq!((board.winner, board.leads.as_deref()), (None, Some("t01")), "t02 may be as good");
    assert_eq!(board.no_winner.as_deref(), Some("t01 is best or tied with t02"));
    choose(&mut results, "recall", &[1, 2, 3]);
    let board = Board::of(&results);
    assert_eq!((board.winner.as_deref(), board.leads.as_deref()), (Some("t01"), Some("t01")));
    assert_eq!((board.no_winner, board.rows[0].standing), (None, TrialStanding::Winner));
    let winners = board.rows.iter().filter(|row| row.standing == TrialStanding::Winner).count();
    assert_eq!(winners, 1);
    results.trials.truncate(1);
    choose(&mut results, "recall", &[1]);
    assert_eq!(Board::of(&results).rows[0].standing, TrialStanding::Leads, "it was compared with nothing");
}

#[test]
fn an_amount_of_text_is_told_in_a_unit_that_shows_it() {
    assert_eq!([0, 999, 1000, 4_321, 2_500_000].map(size), ["0 bytes", "999 bytes", "1.0 KB", "4.3 KB", "2.50 MB"]);
}

#[test]
fn a_p_value_that_rounds_to_zero_is_told_as_less_than_a_thousandth() {
    let mut results = chosen();
    results.trials[2].p_value = Some(0.0002);
    assert_eq!(Board::of(&results).rows[2].place, "in group 2: worse than the best (p < 0.001)");
}

#[test]
fn trials_stand_as_the_one_that_leads_those_tied_with_it_and_those_behind() {
    let results = chosen();
    let all = standings(&results);
    assert_eq!(all[0], (TrialStanding::Leads, "leads".to_owned()));
    assert_eq!(all[1], (TrialStanding::Tied, "tied".to_owned()));
    assert_eq!(all[2], (TrialStanding::Behind, "group 2".to_owned()));
    let places: Vec<String> = Board::of(&results).rows.into_iter().map(|row| row.place).collect();
    assert_eq!(places[0], "leads, in the group that holds the best trial with 95 % confidence");
    assert_eq!(places[1], "in the group that holds the best trial with 95 % confidence (p = 0.250)");
    assert_eq!(places[2], "in group 2: worse than the best (p = 0.250)");
}

#[test]
fn where_nothing_is_worse_the_first_trial_leads_and_wins_nothing() {
    let mut results = chosen();
    choose(&mut results, "recall", &[1, 1, 1]);
    let all = standings(&results);
    assert_eq!(all[0], (TrialStanding::Leads, "leads".to_owned()));
    assert_eq!(all[0].0.mark(), all[1].0.mark());
    assert!(Board::of(&results).groups.is_empty(), "one group says nothing");
}

#[test]
fn without_a_winner_nobody_stands_anywhere_and_no_group_is_better() {
    let mut results = chosen();
    results.winner = Winner::Refused("scores are missing".to_owned());
    let board = Board::of(&results);
    assert!(board.rows.iter().all(|row| row.standing == TrialStanding::NotRanked && row.label.is_empty()));
    assert_eq!((board.winner, board.no_winner.as_deref()), (None, Some("scores are missing")));
    assert_eq!(board.answering.map(|answering| answering.trial).as_deref(), Some("t01"));
    assert!(board.groups.is_empty() && board.front.is_empty());
}

#[test]
fn groups_and_the_front_are_told_in_data_and_in_words() {
    let mut results = chosen();
    for trial in &mut results.trials[1..] {
        trial.front = true;
    }
    let board = Board::of(&results);
    assert_eq!(board.groups, [vec!["t01", "t02"], vec!["t03"]]);
    assert_eq!(told(&board, About::Groups), ["groups, each better than the next: t01 = t02  >  t03"]);
    assert_eq!(told(&board, About::Front), ["none beats t02, t03 on quality, cost and latency together"]);
    choose(&mut results, "recall", &[1, 2, 3]);
    assert!(Board::of(&results).groups.is_empty(), "a group for each trial is the order of the rows");
}

#[test]
fn a_search_tells_why_it_stopped_trials() {
    let mut results = chosen();
    let stop = |kind| Some(Stop { kind, questions: 2, reason: "behind".to_owned() });
    results.trials[1].stopped = stop(StopKind::OutOfCalls);
    results.trials[2].stopped = stop(StopKind::Eliminated);
    let stops = results.trials.iter().filter_map(|found| Some((found.trial.id.clone(), found.stopped.clone()?)));
    let stops = stops.collect();
    results.search = Some(SearchResult { strategy: "race".to_owned(), answers: 1500, all_answers: 6000, stops });
    let board = Board::of(&results);
    assert_eq!(board.rows[1].standing, TrialStanding::OutOfCalls);
    assert_eq!((board.rows[2].label.as_str(), board.rows[2].standing.mark()), ("eliminated", "×"));
    assert_eq!(board.rows[2].place, "stopped by the search: behind");
    let text = "search by race: 1,500 of 6,000 answers asked for (25 %); 1 × eliminated, another one is better; 1 … out of \
                calls, not shown to be worse";
    assert_eq!(told(&board, About::Search), [text]);
}

#[test]
fn columns_are_shown_where_they_tell_something() {
    let mut results = chosen();
    let shown = |results: &Results| {
        let columns = Board::of(results).columns.into_iter();
        columns.filter(|column| column.shown).map(|column| column.name).collect::<Vec<_>>()
    };
    assert_eq!(shown(&results), ["retriever", "objective", "recall"]);
    let trial = &mut results.trials[2];
    (trial.latency_p50, trial.latency_p95, trial.tokens, trial.cost_usd) =
        (Some(0.5), Some(0.9), Some(120.0), Some(0.25));
    trial.test = Some(Summary::of(&[], (0.0, 1.0), 0));
    let all = ["retriever", "objective", "test", "recall", "latency_p50", "latency_p95", "tokens", "cost_usd"];
    assert_eq!(shown(&results), all);
    let board = Board::of(&results);
    let n_hidden = ["index_tokens", "index_cost_usd", "index_recall"].len();
    let n_columns = rag::Axis::ALL.len() - 1 + all.len() + n_hidden;
    assert_eq!(board.columns.len(), n_columns, "tables for programs have all axes, and the price of the index");
    let row = board.row("t03").unwrap();
    assert_eq!(board.cell(row, ColumnKind::Seconds, "latency_p95"), Some(&Cell::Number(0.9)));
    assert_eq!(board.cell(row, ColumnKind::Axis, "retriever").and_then(Cell::text), Some("bm25(top_k=3)"));
    assert_eq!(board.cell(board.row("t01").unwrap(), ColumnKind::Seconds, "latency_p95"), Some(&Cell::Empty));
    assert_eq!(row.settings["retriever"]["bm25"]["top_k"], 3);
}

#[test]
fn a_model_without_a_price_is_named_where_other_costs_are_known() {
    let mut results = chosen();
    for trial in &mut results.trials {
        (trial.cost_usd, trial.usage.unpriced) = (None, vec!["gpt".to_owned()]);
    }
    let shown = |board: &Board| board.columns.iter().any(|column| column.name == "cost_usd" && column.shown);
    let board = Board::of(&results);
    assert!(told(&board, About::Price).is_empty() && !shown(&board), "nothing has a price");
    (results.trials[0].cost_usd, results.trials[0].usage.unpriced) = (Some(0.25), Vec::new());
    let board = Board::of(&results);
    let text = "t02, t03: the cost is unknown and counts as the highest, because `gpt` has no price: give its `price` \
                under [models.gpt], 0 where it is free";
    assert_eq!(told(&board, About::Price), [text]);
    assert!(shown(&board));
    results.trials[1].usage.unpriced = vec!["systems.app".to_owned()];
    assert!(told(&Board::of(&results), About::Price).iter().any(|text| text.contains("under [systems.app], 0")));
    let cell = |id| board.cell(board.row(id).unwrap(), ColumnKind::Money, "cost_usd").unwrap();
    assert_eq!((cell("t01"), cell("t02")), (&Cell::Number(0.25), &Cell::Empty));
}

#[test]
fn outputs_of_an_earlier_version_leave_the_cost_open_unless_it_is_known_to_be_nothing() {
    let mut results = chosen();
    for trial in &mut results.trials[..2] {
        trial.usage.unknown = vec!["embed".to_owned()];
    }
    results.trials[1].index_cost_usd = None;
    let text = "tokens and seconds lack the calls of embed, whose outputs an earlier version made";
    let expected = [format!("t01: {text}"), format!("t02: {text}, and the cost is unknown")];
    assert_eq!(told(&Board::of(&results), About::Price), expected);
}

#[test]
fn missing_scores_are_counted_by_reason_where_there_should_be_some() {
    let mut results = results(1);
    score(&mut results, "recall", &[vec![Some(1.0), None, None, Some(0.0), Some(1.0)]]);
    score(&mut results, "ndcg", &[vec![Some(1.0); 5]]);
    let board = Board::of(&results);
    let missing = |name| match board.cell(&board.rows[0], ColumnKind::Metric, name) {
        Some(Cell::Scores(scores)) => scores.missing.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(missing("recall").as_deref(), Some("questions without a score: provider_error 2"));
    assert_eq!(missing("ndcg"), None);
}

#[test]
fn what_is_missing_or_left_out_is_told_in_order() {
    let mut results = chosen();
    results.trials[1].failures = vec!["retrieve bm25: down".to_owned()];
    results.metrics[0].judged = true;
    results.judges = vec![JudgeResult { judge: "gpt".to_owned(), record: None }];
    results.provider_errors = 2;
    results.unread = vec![Unread { path: "a.pdf".to_owned(), reason: "no permission".to_owned() }];
    results.left_out = vec!["q1".to_owned()];
    results.function_errors = 1000;
    results.repeated = 1;
    results.damaged_entries = 3;
    let board = Board::of(&results);
    let texts: Vec<&str> = board.notes.iter().map(|note| note.text.as_str()).collect();
    let expected = [
        "groups, each better than the next: t01 = t02  >  t03",
        "judged by gpt, never tried on labelled cases",
        "t02: retrieve bm25: down",
        "2 answers or verdicts are missing because a model failed: run again to ask for them",
        "a.pdf could not be read, so these results are without it: no permission; run again",
        "1 question was left out because of unread files",
        "1,000 stages, answers or scores are missing because a function of your own failed",
        "1,200 tasks executed, 34 taken from the store, 1 repeated because a worker died",
        "3 answers in the journal were damaged and were asked for again",
    ];
    assert_eq!(texts, expected);
    assert_eq!(board.notes[1].subject.as_deref(), Some("gpt"));
}

#[test]
fn a_split_dataset_tells_how_much_better_the_winner_looks_where_it_was_chosen() {
    let mut results = chosen();
    results.questions[4].split = Some(Split::Test);
    results.trials[0].test = Some(Summary { mean: Some(0.75), ..Summary::of(&[], (0.0, 1.0), 0) });
    let text = "chosen on 4 questions: 1.000; on the 1 held-out questions: 0.750, a gap of +0.250";
    assert_eq!(told(&Board::of(&results), About::Gap), [text]);
}

#[test]
fn without_questions_it_says_what_is_indexed() {
    let mut results = results(2);
    assert_eq!(Board::of(&results).unscored, None);
    results.questions.clear();
    let board = Board::of(&results);
    let text = "everything is indexed by t01, t02; without golden questions there is nothing to score";
    assert_eq!(board.unscored.as_deref(), Some(text));
    assert_eq!(board.corpus, "1,234 documents (5.68 MB of text), 0 questions, 2 trials");
}

#[test]
fn a_board_is_the_same_after_it_was_written_as_json() {
    let mut results = chosen();
    results.trials[0].latency_p50 = Some(1.0);
    let board = Board::of(&results);
    let text = serde_json::to_string(&board).unwrap();
    assert_eq!(serde_json::from_str::<Board>(&text).unwrap(), board);
}

#[test]
fn numbers_have_a_comma_after_every_three_digits() {
    assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
}

#[test]
fn finalists_are_the_space_of_an_experiment_that_has_just_these_trials() {
    let mut results = chosen();
    // A text with everything that TOML could take for its own.
    let settings =
        json!({ "python": { "function": "cut", "source": "# \"x\" \\ [t]\ndef cut(text):\n    return [text]\n" } });
    results.trials[1].trial.pipeline_mut().chunker = serde_json::from_value(settings).unwrap();
    let board = Board::of(&results);
    let more = [(Axis::Generator, json!({ "compact": { "model": "gpt" } }))];
    let text = board.finalists(2, &more).unwrap();
    let model = "[models.gpt]\nchat.openai = { model = \"m\", base_url = \"http://127.0.0.1:1\" }";
    let file = format!("name = \"next\"\n[corpus]\nsource = \"d\"\n{model}\n{text}");
    let next = crate::Experiment::parse(&file, ".").map_err(|errors| format!("{errors:#?}\n{file}")).unwrap();
    let pipelines: Vec<_> = next.space.combinations().collect();
    assert_eq!(pipelines.len(), 2, "{file}");
    assert_eq!(pipelines[0].chunker, results.trials[0].trial.pipeline().unwrap().chunker);
    assert_eq!(pipelines[1].chunker, results.trials[1].trial.pipeline().unwrap().chunker);
    assert_eq!(pipelines[1].retriever, results.trials[1].trial.pipeline().unwrap().retriever);
    assert!(pipelines.iter().all(|pipeline| pipeline.models() == ["gpt"]));
    assert_eq!(board.finalists(9, &[]).unwrap().matches("[[space]]").count(), 3);
}

#[test]
fn trials_that_were_stopped_or_never_scored_are_no_finalists() {
    let mut results = chosen();
    results.trials[1].stopped = Some(Stop { kind: StopKind::OutOfCalls, questions: 2, reason: "late".to_owned() });
    assert_eq!(Board::of(&results).finalists(9, &[]).unwrap().matches("[[space]]").count(), 2);
    results.questions.clear();
    assert!(Board::of(&results).finalists(9, &[]).is_err());
}

#[test]
fn queries_that_were_not_written_are_counted_for_the_trials_that_share_them() {
    let mut results = chosen();
    assert!(told(&Board::of(&results), About::Queries).is_empty());
    for (trial, reasons) in
        results.trials.iter_mut().zip([vec!["down", "cut", "cut"], vec!["down", "cut", "cut"], vec!["down"]])
    {
        trial.trial.pipeline_mut().query = serde_json::from_value(json!({ "hyde": { "model": "m" } })).unwrap();
        for (question, reason) in trial.questions.iter_mut().zip(reasons) {
            question.query_fallback = Some(reason.to_owned());
        }
    }
    let board = Board::of(&results);
    let expected = [
        "t01, t02: hyde fell back for 3 of 5 questions, most often because: cut (2 times)",
        "t03: hyde fell back for 1 of 5 questions, most often because: down",
    ];
    assert_eq!(told(&board, About::Queries), expected);
    let subjects: Vec<_> =
        board.notes.iter().filter(|note| note.about == About::Queries).map(|note| note.subject.as_deref()).collect();
    assert_eq!(subjects, [None, Some("t03")]);
}

#[test]
fn warnings_of_the_results_stand_in_the_board_and_take_the_place_of_the_note_about_cut_texts() {
    let mut results = chosen();
    let used = models::ModelUsage { model: "small".to_owned(), cut_texts: 3, ..models::ModelUsage::default() };
    results.trials[0].usage.index.add("a", &used);
    let board = Board::of(&results);
    assert!(board.warnings.is_empty());
    assert_eq!(told(&board, About::Queries).len(), 1, "results of an earlier version have no warnings");
    results.looked_for = Some(vec![crate::WarningCode::EqualTrials]);
    assert!(told(&Board::of(&results), About::Queries).is_empty(), "what is ignored is not told in other words");
    results.looked_for = Some(vec![crate::WarningCode::LongTexts]);
    results.warnings = vec![Warning {
        code: crate::WarningCode::LongTexts,
        trials: vec!["t01".to_owned()],
        text: "t01: 3 chunks were longer than `small` reads, and were cut".to_owned(),
        count: Some(3),
        total: None,
        action: "use smaller chunks".to_owned(),
    }];
    let board = Board::of(&results);
    assert_eq!((board.warnings.as_slice(), told(&board, About::Queries).len()), (results.warnings.as_slice(), 0));
    let mut written = serde_json::to_value(&board).unwrap();
    written.as_object_mut().unwrap().remove("warnings");
    assert!(serde_json::from_value::<Board>(written).unwrap().warnings.is_empty(), "of an earlier version");
}
