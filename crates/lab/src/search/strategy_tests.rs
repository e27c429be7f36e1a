//! What each strategy asks, step by step, of scores that a table gives.

use super::{testing::Grid, *};
use serde_json::json;

fn labels(names: &[(&str, &str)]) -> BTreeMap<String, String> {
    names.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect()
}

/// Trials that score the same at every question; nothing where they have no score.
fn grid(means: &[Option<f64>], questions: usize) -> Grid {
    let labels = (0..means.len()).map(|i| labels(&[("chunker", &i.to_string())])).collect();
    Grid { labels, scores: means.iter().map(|mean| vec![*mean; questions]).collect() }
}

fn build(search: serde_json::Value, grid: &Grid) -> Result<Box<dyn Strategy>, String> {
    let search: SearchConfig = serde_json::from_value(search).unwrap();
    search.build(&grid.problem()).map_err(|error| error.to_string())
}

/// The questions that each trial was asked after each step, until nothing changes.
fn steps(strategy: &mut dyn Strategy, grid: &Grid) -> Vec<Vec<usize>> {
    let mut seen: Vec<TrialScores> = vec![Vec::new(); grid.scores.len()];
    let mut steps = Vec::new();
    loop {
        let asked = strategy.next(&seen);
        if asked == seen.iter().map(Vec::len).collect::<Vec<_>>() {
            return steps;
        }
        for ((seen, scores), n) in seen.iter_mut().zip(&grid.scores).zip(&asked) {
            *seen = scores[..*n].to_vec();
        }
        steps.push(asked);
    }
}

#[test]
fn halving_asks_the_best_third_three_times_as_much() {
    let grid = grid(&[0.1, 0.2, 0.9, 0.4, 0.5, 0.8, 0.3, 0.6, 0.7].map(Some), 90);
    let mut halving = build(json!({ "successive_halving": {} }), &grid).unwrap();
    let expected = [
        [10, 10, 10, 10, 10, 10, 10, 10, 10],
        // 0.9, 0.8 and 0.7 go on, and then 0.9.
        [10, 10, 30, 10, 10, 30, 10, 10, 30],
        [10, 10, 90, 10, 10, 30, 10, 10, 30],
    ];
    assert_eq!(steps(&mut *halving, &grid), expected);
    let stops = halving.stops(&[]);
    let reasons: Vec<(usize, &str)> = stops.iter().map(|(trial, stop)| (*trial, stop.reason.as_str())).collect();
    let expected = [
        (0, "place 9 of 9 after 10 questions"),
        (1, "place 8 of 9 after 10 questions"),
        (3, "place 6 of 9 after 10 questions"),
        (4, "place 5 of 9 after 10 questions"),
        (5, "place 2 of 3 after 30 questions"),
        (6, "place 7 of 9 after 10 questions"),
        (7, "place 4 of 9 after 10 questions"),
        (8, "place 3 of 3 after 30 questions"),
    ];
    assert_eq!(reasons, expected);
    assert!(stops.values().all(|stop| stop.kind == StopKind::OutOfCalls));
}

#[test]
fn halving_has_as_many_rungs_as_questions_and_trials_allow() {
    let rungs = |trials: usize, questions: usize, settings: serde_json::Value| {
        let grid = grid(&(0..trials).map(|i| Some(i as f64 / 100.0)).collect::<Vec<_>>(), questions);
        let mut halving = build(json!({ "successive_halving": settings }), &grid).unwrap();
        steps(&mut *halving, &grid).into_iter().map(|asked| asked.into_iter().max().unwrap()).collect::<Vec<_>>()
    };
    // Trials, questions, settings and the questions of each rung.
    let table = [
        (9, 90, json!({}), vec![10, 30, 90]),
        // Nine of a rung below would be too few to judge by.
        (9, 89, json!({}), vec![29, 89]),
        (9, 29, json!({}), vec![29]),
        // Eight trials are a third of fewer than nine.
        (8, 90, json!({}), vec![30, 90]),
        (2, 90, json!({}), vec![90]),
        (9, 90, json!({ "least": 31 }), vec![90]),
        (8, 80, json!({ "reduction": 2 }), vec![10, 20, 40, 80]),
        (1, 5, json!({ "least": 1 }), vec![5]),
    ];
    for (trials, questions, settings, expected) in table {
        assert_eq!(rungs(trials, questions, settings.clone()), expected, "{trials} trials, {questions}, {settings}");
    }
}

#[test]
fn halving_keeps_a_trial_without_scores_and_of_equal_ones_the_first() {
    let mut means = vec![Some(0.5); 9];
    means[7] = None;
    let grid = grid(&means, 90);
    let mut halving = build(json!({ "successive_halving": {} }), &grid).unwrap();
    let last = steps(&mut *halving, &grid).pop().unwrap();
    // It may be the best: it goes on as the first, with the two first of the others.
    assert_eq!(last, [30, 30, 10, 10, 10, 10, 10, 90, 10]);
}

#[test]
fn models_come_first_and_the_best_value_of_each_axis_is_kept() {
    let trial = |chunker, embedder| labels(&[("chunker", chunker), ("embedder", embedder)]);
    let labels = vec![trial("x", "a"), trial("x", "b"), trial("y", "a"), trial("y", "b"), trial("z", "b")];
    let scores = [0.1, 0.9, 1.0, 0.2, 0.8].map(|mean| vec![Some(mean); 7]).to_vec();
    let grid = Grid { labels, scores };
    let mut search = build(json!({ "models_first": {} }), &grid).unwrap();
    // The embedders with the first chunker, of which `b` is better; then the other chunkers with `b`.
    let expected = [[7, 7, 0, 0, 0], [7, 7, 0, 7, 7]];
    assert_eq!(steps(&mut *search, &grid), expected);
    let seen: Vec<TrialScores> = [7, 7, 0, 7, 7].map(|n| vec![Some(0.5); n]).to_vec();
    let stops = search.stops(&seen);
    assert_eq!(stops.keys().copied().collect::<Vec<_>>(), [2], "which would have been the best");
    assert_eq!((stops[&2].kind, stops[&2].questions), (StopKind::NotTried, 0));
}

#[test]
fn a_random_search_asks_its_share_of_the_trials_everything_and_draws_by_its_seed() {
    let grid = grid(&[Some(0.5); 20], 6);
    let drawn = |share: f64, seed: u64| {
        let mut search = build(json!({ "random": { "share": share, "seed": seed } }), &grid).unwrap();
        let steps = steps(&mut *search, &grid);
        assert_eq!(steps.len(), 1);
        (0..20).filter(|&trial| steps[0][trial] == 6).collect::<Vec<_>>()
    };
    for (share, n) in [(0.01, 1), (0.35, 7), (0.5, 10), (0.524, 10), (0.526, 11), (1.0, 20)] {
        assert_eq!(drawn(share, 0).len(), n, "{share}");
    }
    assert_eq!(drawn(0.5, 0), drawn(0.5, 0));
    assert_ne!(drawn(0.5, 0), drawn(0.5, 1));
    let search = build(json!({ "random": { "share": 0.5 } }), &grid).unwrap();
    let seen: Vec<TrialScores> = (0..20).map(|i| vec![Some(0.5); if i == 3 { 0 } else { 6 }]).collect();
    assert_eq!(search.stops(&seen).keys().copied().collect::<Vec<_>>(), [3]);
}

#[test]
fn a_grid_asks_everything_at_once_and_stops_nobody() {
    let grid = grid(&[Some(0.1), None, Some(0.9)], 6);
    let mut search = build(json!({ "grid": {} }), &grid).unwrap();
    assert_eq!(steps(&mut *search, &grid), [[6, 6, 6]]);
    assert!(search.stops(&[vec![], vec![], vec![]]).is_empty());
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let grid = grid(&[Some(0.5); 4], 6);
    for (settings, part) in [
        (json!({ "successive_halving": { "reduction": 1 } }), "`reduction` must be at least 2"),
        (json!({ "successive_halving": { "least": 0 } }), "`least` at least 1"),
        (json!({ "random": { "share": 0.0 } }), "`share` must be above 0 and at most 1, not 0"),
        (json!({ "random": { "share": 1.01 } }), "not 1.01"),
        (json!({ "random": { "share": -0.5 } }), "not -0.5"),
    ] {
        let reason = build(settings.clone(), &grid).err().unwrap_or_else(|| panic!("{settings}"));
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn the_leader_is_the_highest_mean_of_those_that_were_asked_most() {
    let some = |values: &[f64]| values.iter().copied().map(Some).collect::<TrialScores>();
    let table: [(Vec<TrialScores>, Option<usize>); 7] = [
        (vec![], None),
        (vec![vec![], vec![]], None),
        (vec![some(&[0.1, 0.1]), some(&[0.9])], Some(0)),
        (vec![some(&[0.1, 0.1]), some(&[0.9, 0.0])], Some(1)),
        (vec![some(&[0.5]), some(&[0.5])], Some(0)),
        (vec![vec![None, None], some(&[0.0, 0.0])], Some(1)),
        (vec![vec![None, None], some(&[0.9])], None),
    ];
    for (seen, expected) in table {
        assert_eq!(leader(&seen), expected, "{seen:?}");
    }
}

#[test]
fn a_trial_stands_as_far_above_the_others_as_at_the_questions_that_it_answered() {
    // The second lost its answer to the hard question, where all are bad: its mean is higher, it is not better.
    let seen = [vec![Some(0.9), Some(0.3)], vec![Some(0.8), None], vec![Some(0.7), Some(0.1)], vec![None, None]];
    let standing = standing(&[0, 1, 2, 3], &seen);
    // Means of the questions: 0.8 and 0.2.
    for (trial, expected) in [(0, (0.1 + 0.1) / 2.0), (1, 0.0), (2, (-0.1 - 0.1) / 2.0)] {
        assert!((standing[&trial] - expected).abs() < 1e-12, "{trial}: {}", standing[&trial]);
    }
    assert_eq!(standing[&3], f64::INFINITY, "it may be the best");
}

#[test]
fn halving_goes_on_with_a_third_rounded_up() {
    // Ten trials: four go on, and of these two. The last rung is asked everything.
    let means: Vec<Option<f64>> = (0..10).map(|i| Some(1.0 - f64::from(i) / 20.0)).collect();
    let grid = grid(&means, 90);
    let mut halving = build(json!({ "successive_halving": {} }), &grid).unwrap();
    let expected = [[10; 10], [30, 30, 30, 30, 10, 10, 10, 10, 10, 10], [90, 90, 30, 30, 10, 10, 10, 10, 10, 10]];
    assert_eq!(steps(&mut *halving, &grid), expected);
}

#[test]
fn halving_waits_until_all_of_a_rung_were_asked_and_takes_nothing_back() {
    let grid = grid(&[0.1, 0.9, 0.5].map(Some), 30);
    let mut halving = build(json!({ "successive_halving": {} }), &grid).unwrap();
    let some = |n: usize, mean: f64| vec![Some(mean); n];
    // The third was interrupted after four of ten questions; nobody is stopped meanwhile.
    let seen = [some(10, 0.1), some(10, 0.9), some(4, 0.5)];
    assert_eq!(halving.next(&seen), [10, 10, 10]);
    assert!(halving.stops(&seen).is_empty());
    // Whoever was asked more by an earlier run keeps its answers.
    let seen = [some(12, 0.1), some(10, 0.9), some(10, 0.5)];
    assert_eq!(halving.next(&seen), [12, 30, 10]);
}

#[test]
fn models_first_looks_at_embedder_and_generator_before_all_other_axes() {
    let trial = |axes: [&str; 4]| {
        let names = ["chunker", "embedder", "generator", "retriever"];
        labels(&names.into_iter().zip(axes).collect::<Vec<_>>())
    };
    // The first trial, and one that differs from it on each axis.
    let labels = vec![
        trial(["a", "a", "a", "a"]),
        trial(["a", "a", "a", "b"]),
        trial(["b", "a", "a", "a"]),
        trial(["a", "a", "b", "a"]),
        trial(["a", "b", "a", "a"]),
    ];
    let scores = vec![vec![Some(0.5)]; 5];
    let grid = Grid { labels, scores };
    let mut search = build(json!({ "models_first": {} }), &grid).unwrap();
    let expected = [[1, 0, 0, 0, 1], [1, 0, 0, 1, 1], [1, 0, 1, 1, 1], [1, 1, 1, 1, 1]];
    assert_eq!(steps(&mut *search, &grid), expected, "embedder, generator, chunker, retriever");
}

#[test]
fn models_first_keeps_the_first_of_equal_values_and_never_one_without_scores() {
    let trial = |embedder, chunker| labels(&[("chunker", chunker), ("embedder", embedder)]);
    let labels = || vec![trial("a", "x"), trial("b", "x"), trial("a", "y"), trial("b", "y")];
    let none: Option<f64> = None;
    // The means of the four, and the trials that are asked when all is done.
    for (case, means, expected) in [
        ("the first of equals", [Some(0.5), Some(0.5), Some(0.1), Some(0.9)], [1, 1, 1, 0]),
        ("a trial without scores is not kept", [Some(0.1), none, Some(0.2), Some(0.9)], [1, 1, 1, 0]),
        ("where no trial has scores the first value stays", [none, none, Some(0.2), Some(0.9)], [1, 1, 1, 0]),
        ("the second is better", [Some(0.1), Some(0.2), Some(0.9), Some(0.0)], [1, 1, 0, 1]),
    ] {
        let grid = Grid { labels: labels(), scores: means.map(|mean| vec![mean]).to_vec() };
        let mut search = build(json!({ "models_first": {} }), &grid).unwrap();
        assert_eq!(steps(&mut *search, &grid).pop().unwrap(), expected, "{case}");
    }
}

#[test]
fn models_first_of_no_trials_asks_nothing() {
    let problem = SearchProblem { trials: vec![], choices: vec![], questions: 5, width: 1.0 };
    let search: SearchConfig = serde_json::from_value(json!({ "models_first": {} })).unwrap();
    assert!(search.build(&problem).unwrap().next(&[]).is_empty());
}

#[test]
fn a_race_asks_blocks_of_questions_and_then_the_rest() {
    let grid = grid(&[Some(0.5); 2], 12);
    let mut race = build(json!({ "race": { "share": 1.0 } }), &grid).unwrap();
    assert_eq!(steps(&mut *race, &grid), [[5, 5], [10, 10], [12, 12]]);
    assert!(race.stops(&[]).is_empty(), "equal trials are not told apart");
}

#[test]
fn a_race_that_has_spent_its_share_goes_on_with_the_finalists() {
    // Five questions of four trials are all 20 calls of one half.
    let grid = grid(&[0.1, 0.4, 0.3, 0.2].map(Some), 10);
    let settings = json!({ "share": 0.5, "finalists": 1 });
    let mut race = build(json!({ "race": settings }), &grid).unwrap();
    assert_eq!(steps(&mut *race, &grid), [[5, 5, 5, 5], [5, 10, 5, 5]]);
    let stops = race.stops(&[]);
    let reason =
        |place: usize| format!("place {place} of 4 after 5 questions, with calls left for 1; not shown to be worse");
    let expected = [(0, reason(4)), (2, reason(2)), (3, reason(3))];
    assert_eq!(stops.iter().map(|(trial, stop)| (*trial, stop.reason.clone())).collect::<Vec<_>>(), expected);
    assert!(stops.values().all(|stop| (stop.kind, stop.questions) == (StopKind::OutOfCalls, 5)));
}

#[test]
fn of_equal_trials_a_race_goes_on_with_the_first_and_with_any_that_has_no_score() {
    let asked = |means: &[Option<f64>]| {
        let grid = grid(means, 10);
        let mut race = build(json!({ "race": { "share": 0.1 } }), &grid).unwrap();
        steps(&mut *race, &grid).pop().unwrap()
    };
    assert_eq!(asked(&[Some(0.5); 4]), [10, 10, 5, 5]);
    assert_eq!(asked(&[Some(0.5), Some(0.5), Some(0.5), None]), [10, 5, 5, 10], "it may be the best");
}

#[test]
fn more_finalists_than_trials_are_all_asked_everything_whatever_the_share() {
    let grid = grid(&[0.1, 0.2, 0.3].map(Some), 10);
    let mut race = build(json!({ "race": { "share": 0.01, "finalists": 5 } }), &grid).unwrap();
    assert_eq!(steps(&mut *race, &grid), [[5, 5, 5], [10, 10, 10]]);
}

#[test]
fn a_sure_loser_is_eliminated_and_the_last_one_is_asked_the_rest_at_once() {
    for (means, winner, loser) in [([1.0, 0.0], 0, 1), ([0.0, 1.0], 1, 0)] {
        let grid = grid(&means.map(Some), 60);
        let mut race = build(json!({ "race": { "share": 1.0 } }), &grid).unwrap();
        let steps = steps(&mut *race, &grid);
        let stops = race.stops(&[]);
        let stop = &stops[&loser];
        assert_eq!((stops.len(), stop.kind), (1, StopKind::Eliminated));
        // At most a doubling for each question: 20 times needs five questions or more.
        assert!((5..=20).contains(&stop.questions) && stop.questions % 5 == 0, "{stop:?}");
        let expected = format!(
            "trial number {} is better, by 1.000 over {} questions that both have scores for (error rate 0.05)",
            winner + 1,
            stop.questions
        );
        assert_eq!(stop.reason, expected);
        let last = steps.last().unwrap();
        assert_eq!((last[winner], last[loser]), (60, stop.questions));
        assert_eq!(steps.len(), stop.questions / 5 + 1);
    }
}

#[test]
fn a_stricter_race_eliminates_no_sooner() {
    let mut before = 0;
    for error_rate in [0.5, 0.05, 0.005, 0.000_05] {
        let grid = grid(&[Some(1.0), Some(0.0)], 200);
        let mut race = build(json!({ "race": { "share": 1.0, "error_rate": error_rate } }), &grid).unwrap();
        steps(&mut *race, &grid);
        let questions = race.stops(&[])[&1].questions;
        assert!(questions >= before, "{error_rate}: {questions} after {before}");
        before = questions;
    }
    assert!(before > 10, "one in 20,000 needs more than ten questions: {before}");
}

#[test]
fn trials_that_share_no_scored_question_eliminate_nobody() {
    let labels = (0..2).map(|i| labels(&[("chunker", &i.to_string())])).collect();
    let even = |value: f64, rest: usize| (0..60).map(|i| (i % 2 == rest).then_some(value)).collect::<TrialScores>();
    let grid = Grid { labels, scores: vec![even(1.0, 0), even(0.0, 1)] };
    let mut race = build(json!({ "race": { "share": 1.0 } }), &grid).unwrap();
    assert_eq!(steps(&mut *race, &grid).pop().unwrap(), [60, 60]);
    assert!(race.stops(&[]).is_empty());
}

#[test]
fn settings_of_a_race_and_of_tpe_that_mean_nothing_are_refused() {
    let grid = grid(&[Some(0.5); 4], 6);
    for (settings, expected) in [
        (json!({ "race": { "error_rate": 0.0 } }), "`error_rate` must be between 0 and 1, not 0"),
        (json!({ "race": { "error_rate": 1.0 } }), "`error_rate` must be between 0 and 1, not 1"),
        (json!({ "race": { "error_rate": -0.1 } }), "`error_rate` must be between 0 and 1, not -0.1"),
        (json!({ "race": { "block": 0 } }), "`block` and `finalists` must be at least 1"),
        (json!({ "race": { "finalists": 0 } }), "`block` and `finalists` must be at least 1"),
        (json!({ "race": { "share": 0.0 } }), "`share` must be above 0 and at most 1, not 0"),
        (json!({ "tpe": { "share": 1.5 } }), "`share` must be above 0 and at most 1, not 1.5"),
        (json!({ "tpe": { "startup": 0.0 } }), "`startup` must be above 0 and at most 1, not 0"),
    ] {
        assert_eq!(build(settings.clone(), &grid).err().as_deref(), Some(expected), "{settings}");
    }
    for settings in [json!({ "race": { "error_rate": 0.999 } }), json!({ "tpe": { "share": 1.0, "startup": 1.0 } })] {
        assert!(build(settings.clone(), &grid).is_ok(), "{settings}");
    }
}

#[test]
fn tpe_draws_its_start_at_once_and_then_tries_one_trial_after_the_other() {
    // The shares that are tried and drawn, and how many of twelve trials were asked after each step.
    for (share, startup, expected) in [
        (0.5, 0.25, vec![3, 4, 5, 6]),
        (1.0, 0.5, vec![6, 7, 8, 9, 10, 11, 12]),
        (0.25, 0.5, vec![3]),
        (0.01, 0.01, vec![1]),
    ] {
        let grid = grid(&(0..12).map(|i| Some(f64::from(i) / 12.0)).collect::<Vec<_>>(), 4);
        let mut tpe = build(json!({ "tpe": { "share": share, "startup": startup } }), &grid).unwrap();
        let steps = steps(&mut *tpe, &grid);
        let tried = |asked: &Vec<usize>| asked.iter().filter(|&&n| n == 4).count();
        assert_eq!(steps.iter().map(tried).collect::<Vec<_>>(), expected, "{share} and {startup}");
        assert!(steps.iter().flatten().all(|n| [0, 4].contains(n)), "everything or nothing");
    }
}

#[test]
fn a_part_is_the_nearest_number_and_never_none() {
    for (share, all, expected) in
        [(0.5, 4, 2), (0.5, 5, 3), (0.1, 4, 1), (0.0, 4, 1), (1.0, 4, 4), (0.35, 20, 7), (0.5, 0, 1), (0.5, 1, 1)]
    {
        assert_eq!(part(share, all), expected, "{share} of {all}");
    }
}

#[test]
fn a_share_is_above_zero_and_at_most_one() {
    for (share, holds) in [
        (1e-9, true),
        (0.5, true),
        (1.0, true),
        (0.0, false),
        (-0.0, false),
        (-1.0, false),
        (1.000_001, false),
        (f64::INFINITY, false),
        (f64::NAN, false),
    ] {
        assert_eq!(check_share("share", share).is_ok(), holds, "{share}");
    }
}

#[test]
fn only_trials_without_any_answer_were_not_tried() {
    let stops = not_tried(&[vec![], vec![None], vec![Some(0.5)], vec![]], "why");
    let expected = Stop { kind: StopKind::NotTried, questions: 0, reason: "why".to_owned() };
    assert_eq!(stops, BTreeMap::from([(0, expected.clone()), (3, expected)]));
}

#[test]
fn a_standing_is_among_the_named_trials_alone() {
    let seen = [vec![Some(1.0), Some(1.0)], vec![Some(0.0)], vec![Some(0.5), Some(0.5)], vec![]];
    let of = |trials: &[usize]| standing(trials, &seen).into_iter().collect::<Vec<_>>();
    assert_eq!(of(&[]), []);
    assert_eq!(of(&[1]), [(1, 0.0)], "alone it is its own mean");
    assert_eq!(of(&[3]), [(3, f64::INFINITY)]);
    // At the first question the mean is 0.5; at the second only the first has a score.
    assert_eq!(of(&[0, 1]), [(0, 0.25), (1, -0.5)]);
    assert_eq!(of(&[1, 0]), of(&[0, 1]), "in any order");
    assert_eq!(of(&[0, 2]), [(0, 0.25), (2, -0.25)]);
}

#[test]
fn a_grid_is_the_only_search_that_decides_nothing_and_the_default() {
    assert_eq!(SearchConfig::default().name(), "grid");
    let exhaustive: Vec<&str> =
        SearchConfig::defaults().iter().filter(|search| search.is_exhaustive()).map(SearchConfig::name).collect();
    assert_eq!(exhaustive, ["grid"]);
    assert_eq!(grid(&[Some(0.5); 4], 6).problem().answers(), 24);
}
