//! What is known of operators while tasks run: their rows, their state and the time that is left.

use super::*;

fn table(progress: &Progress) -> OperatorProgress {
    progress.snapshot().remove(0)
}

#[test]
fn rows_that_a_running_task_tells_are_the_estimate_from_its_first_second() {
    let progress = Progress::default();
    progress.begin_tasks([(Operator::EMBED, 0), (Operator::EMBED, 0)]);
    progress.lock().get_mut(&Operator::EMBED).unwrap().known_rows = None;
    assert_eq!(table(&progress).rows_estimated, None);
    progress.start(Operator::EMBED);
    progress.expect(Operator::EMBED, 300);
    assert_eq!((table(&progress).rows_done, table(&progress).rows_estimated), (0, Some(600)));
    progress.rows(Operator::EMBED, 300);
    progress.finish(Operator::EMBED, 300, 0);
    progress.start(Operator::EMBED);
    progress.expect(Operator::EMBED, 100);
    assert_eq!((table(&progress).rows_done, table(&progress).rows_estimated), (300, Some(400)));
    let told = progress.take_expected();
    assert_eq!(told[&Operator::EMBED], ExpectedRows { tasks: 2, rows: 400 });
    assert!(progress.take_expected().is_empty());
}

#[test]
fn an_operator_without_a_running_task_waits_for_the_one_before_it_and_has_no_time_left() {
    let progress = Progress::default();
    progress.begin_tasks([(Operator::EMBED, 100), (Operator::Index, 50), (Operator::Index, 100)]);
    assert_eq!(progress.snapshot()[1].waits_for, None, "nothing is at work");
    progress.start(Operator::Index);
    progress.rows(Operator::Index, 50);
    progress.finish(Operator::Index, 50, 0);
    progress.start(Operator::EMBED);
    progress.rows(Operator::EMBED, 10);
    let table = progress.snapshot();
    let [embed, index] = &table[..] else { unreachable!() };
    assert_eq!((embed.waits_for, index.waits_for), (None, Some(Operator::EMBED)));
    assert_eq!(index.seconds_left, None);
    assert!(embed.seconds_left.is_some());
    assert_eq!(seconds_left(&table), embed.seconds_left, "that of the run");
}

#[test]
fn rows_that_do_not_come_have_no_estimate() {
    let progress = Progress::default();
    progress.begin_tasks([(Operator::Score, 90)]);
    progress.start(Operator::Score);
    progress.rows(Operator::Score, 87);
    let begin = Instant::now().checked_sub(Duration::from_secs(30)).unwrap();
    let at = |last: u64| {
        let mut states = progress.lock();
        let state = states.get_mut(&Operator::Score).unwrap();
        (state.started, state.last) = (Some(begin), Some(begin + Duration::from_secs(last)));
    };
    at(30);
    assert!(table(&progress).seconds_left.is_some());
    at(10);
    assert_eq!(table(&progress).seconds_left, None, "the last three are slow");
}

#[test]
fn what_another_run_does_is_told_and_then_counts_as_stored() {
    let progress = Progress::default();
    progress.begin_tasks([(Operator::Load, 5), (Operator::Load, 7)]);
    progress.start(Operator::Load);
    progress.set_holder(Operator::Load, Some("another run".to_owned()));
    assert_eq!(table(&progress).held_by.as_deref(), Some("another run"));
    progress.set_holder(Operator::Load, None);
    progress.share(Operator::Load, Some(5));
    let seen = table(&progress);
    assert_eq!((seen.held_by, seen.reused, seen.queued, seen.rows_estimated), (None, 1, 1, Some(7)));
}

/// The row of a table with these calls.
fn row(calls: impl FnOnce(&Progress)) -> OperatorProgress {
    let progress = Progress::default();
    calls(&progress);
    table(&progress)
}

const LOAD: Operator = Operator::Load;

#[test]
fn an_operator_is_at_work_from_its_first_task_to_its_last() {
    use OperatorStatus::{Failed, Finished, Pending, Running};
    type Calls = fn(&Progress);
    fn finish_both(progress: &Progress, without_result: usize) {
        for _ in 0..2 {
            progress.start(LOAD);
            progress.finish(LOAD, 5, without_result);
        }
    }
    // Each begins with two tasks.
    let table: [(&str, Calls, OperatorStatus); 9] = [
        ("nothing has started", |_| {}, Pending),
        ("one runs", |it| it.start(LOAD), Running),
        (
            "one is done",
            |it| {
                it.start(LOAD);
                it.finish(LOAD, 5, 0);
            },
            Running,
        ),
        (
            "one is done by another run",
            |it| {
                it.start(LOAD);
                it.share(LOAD, Some(5));
            },
            Running,
        ),
        ("one could not run", |it| it.fail(LOAD, false), Running),
        ("both are done", |it| finish_both(it, 0), Finished),
        ("both are done, with rows that have no result", |it| finish_both(it, 5), Finished),
        (
            "one is done and one failed",
            |it| {
                it.start(LOAD);
                it.start(LOAD);
                it.finish(LOAD, 5, 0);
                it.fail(LOAD, true);
            },
            Failed,
        ),
        (
            "none could run",
            |it| {
                it.fail(LOAD, false);
                it.fail(LOAD, false);
            },
            Failed,
        ),
    ];
    for (case, calls, expected) in table {
        let row = row(|progress| {
            progress.begin_tasks([(LOAD, 5), (LOAD, 7)]);
            calls(progress);
        });
        assert_eq!(row.status, expected, "{case}");
        let all = row.queued + row.active + row.finished + row.failed + row.reused;
        assert_eq!(all, 2, "{case}: no task is lost or counted twice");
    }
}

#[test]
fn rows_are_estimated_by_the_plan_else_by_announcements_else_by_finished_tasks() {
    let unknown = |progress: &Progress| progress.lock().get_mut(&LOAD).unwrap().known_rows = None;
    let begin = |tasks: usize| {
        let progress = Progress::default();
        progress.begin_tasks((0..tasks).map(|_| (LOAD, 10)));
        progress
    };
    let estimated = |progress: &Progress| table(progress).rows_estimated;
    let known = begin(3);
    assert_eq!(estimated(&known), Some(30));
    known.start(LOAD);
    known.rows(LOAD, 31);
    assert_eq!(estimated(&known), Some(31), "more were made than were known");

    let finished = begin(4);
    unknown(&finished);
    assert_eq!(estimated(&finished), None);
    for rows in [6, 9] {
        finished.start(LOAD);
        finished.rows(LOAD, rows);
        finished.finish(LOAD, rows, 0);
    }
    assert_eq!(estimated(&finished), Some(15 * 4 / 2), "the average of two of four");

    let announced = begin(4);
    unknown(&announced);
    announced.expect(LOAD, 7);
    announced.expect(LOAD, 8);
    assert_eq!(estimated(&announced), Some(15 * 4 / 2));
    announced.rows(LOAD, 40);
    assert_eq!(estimated(&announced), Some(40));

    let over = begin(1);
    unknown(&over);
    over.start(LOAD);
    over.rows(LOAD, 3);
    over.finish(LOAD, 3, 0);
    assert_eq!(estimated(&over), Some(3), "what was made, where nothing is open");
}

#[test]
fn rows_of_a_plan_are_known_only_where_each_of_its_tasks_knows_them() {
    let fixture = crate::plan::tests::Fixture::new("chunker = \"sentence\"\nretriever = \"bm25\"\n");
    let plan = fixture.plan();
    let progress = Progress::default();
    let (to_run, reused): (Vec<TaskId>, Vec<TaskId>) = (0..plan.tasks.len()).partition(|&id| id != 0);
    progress.begin(&plan, &to_run, &reused);
    let of = |name: &str| {
        let table = progress.snapshot();
        let row = table.into_iter().find(|row| row.operator.name() == name).unwrap();
        (row.queued, row.reused, row.rows_estimated)
    };
    assert_eq!(of("load"), (2, 1, Some(2)), "a file for each of the two that are left");
    assert_eq!(of("chunk"), (3, 0, None), "nobody knows how many chunks there will be");
    assert_eq!(of("retrieve"), (1, 0, Some(20)));
    progress.begin_tasks([]);
    assert!(progress.snapshot().is_empty(), "a new table begins empty");
}

#[test]
fn only_what_was_not_taken_before_is_taken() {
    let progress = Progress::default();
    assert!(progress.take_rows().is_empty());
    progress.rows(LOAD, 2);
    progress.rows(LOAD, 3);
    progress.rows(Operator::Score, 0);
    assert_eq!(progress.take_rows(), [(LOAD, 5)].into(), "none of an operator that made none");
    assert!(progress.take_rows().is_empty());
    progress.rows(LOAD, 1);
    assert_eq!(progress.take_rows(), [(LOAD, 1)].into());
    assert_eq!(table(&progress).rows_done, 6, "the table keeps them all");
}

#[test]
fn the_rate_of_now_is_that_of_the_last_three_seconds_and_of_the_average_since_the_start() {
    let begin = Instant::now();
    let at = |seconds: f64| begin + Duration::from_secs_f64(seconds);
    let state = |queued: usize, last: f64| ProgressState {
        queued,
        rows: 100,
        known_rows: Some(150),
        started: Some(begin),
        last: Some(at(last)),
        samples: [(at(1.0), 10), (at(8.0), 60), (at(9.5), 30)].into(),
        ..ProgressState::default()
    };
    let seen = state(1, 9.5).progress(LOAD, at(10.0));
    assert_eq!((seen.rate_now, seen.rate_average), ((60.0 + 30.0) / 3.0, 10.0));
    assert_eq!(seen.seconds_left, Some(5.0), "50 rows at ten a second");
    let done = state(0, 5.0).progress(LOAD, at(10.0));
    assert_eq!((done.rate_now, done.rate_average, done.seconds_left), (0.0, 20.0, None), "it ended after five seconds");
    // In its first second, the window is as long as the work.
    let first = ProgressState { samples: [(at(0.5), 5)].into(), rows: 5, ..state(1, 0.5) }.progress(LOAD, at(0.5));
    assert_eq!((first.rate_now, first.rate_average), (10.0, 10.0));
    let never = ProgressState { queued: 1, ..ProgressState::default() }.progress(LOAD, at(1.0));
    assert_eq!((never.rate_now, never.rate_average, never.seconds_left), (0.0, 0.0, None));
}

#[test]
fn an_estimate_holds_as_long_as_no_row_is_overdue_by_it() {
    let begin = Instant::now();
    // 80 of 100 rows in the seconds up to now: 20 rows are left.
    let left = |now: u64, last: u64| {
        let state = ProgressState {
            active: 1,
            rows: 80,
            known_rows: Some(100),
            started: Some(begin),
            last: Some(begin + Duration::from_secs(last)),
            ..ProgressState::default()
        };
        state.progress(LOAD, begin + Duration::from_secs(now)).seconds_left
    };
    assert_eq!(left(40, 40), Some(10.0));
    assert_eq!(left(40, 30), Some(10.0), "the next row may come now");
    assert_eq!(left(40, 29), None);
    assert_eq!(left(2, 1), Some(0.5), "a second is never too long");
}

#[test]
fn the_time_of_a_run_is_that_of_its_slowest_operator() {
    let of = |seconds: &[Option<f64>]| {
        let row = row(|progress| progress.begin_tasks([(LOAD, 1)]));
        let rows: Vec<_> =
            seconds.iter().map(|&seconds_left| OperatorProgress { seconds_left, ..row.clone() }).collect();
        seconds_left(&rows)
    };
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[None, None]), None);
    assert_eq!(of(&[Some(1.0), None, Some(3.0), Some(2.0)]), Some(3.0));
}

#[test]
fn a_warning_is_told_once_and_a_tracker_is_behind_until_it_is_not() {
    let progress = Progress::default();
    for text in ["b", "a", "b"] {
        progress.warn(text.to_owned());
    }
    assert_eq!(progress.warnings(), ["b", "a"], "in the order in which they came");
    progress.set_problem("MLflow", Some("away".to_owned()));
    progress.set_problem("MLflow", Some("still away".to_owned()));
    assert_eq!(progress.problems(), [("MLflow".to_owned(), "still away".to_owned())].into());
    progress.set_problem("MLflow", None);
    progress.set_problem("other", None);
    assert!(progress.problems().is_empty());
}

#[test]
fn models_of_workers_are_added_up_until_a_worker_has_none() {
    let progress = Progress::default();
    let traffic = |answered| ModelTraffic {
        name: "chat gpt".to_owned(),
        in_flight: 1,
        target: 2,
        waiting: 0,
        answered,
        goodput: 1.0,
        tokens_per_second: 1.0,
        refused_share: 0.0,
    };
    let answered = || progress.models().iter().map(|model| model.answered).collect::<Vec<_>>();
    assert!(answered().is_empty());
    progress.set_remote_traffic(1, vec![traffic(3)]);
    progress.set_remote_traffic(2, vec![traffic(4)]);
    assert_eq!(answered(), [7]);
    progress.set_remote_traffic(1, vec![traffic(5)]);
    assert_eq!(answered(), [9], "its newest numbers are in place of the earlier ones");
    progress.set_remote_traffic(2, Vec::new());
    assert_eq!(answered(), [5], "it is gone");
}
