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
