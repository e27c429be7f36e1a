//! Which worker gets which tasks, and what becomes of the tasks of workers that die or refuse.

use super::{
    super::{
        Remote, Runner,
        testing::{Bench, long_ago, reply, said, settle},
    },
    *,
};
use crate::{engine::unit::TaskError, task::CallTurn};
use models::{BudgetReport, Cap, Spending};

/// Tasks of less than this many seconds are sent together.
fn usually(bench: &Bench, operator: Operator, seconds: f64) {
    bench.driver.state().usual_seconds.insert(operator, seconds);
}

/// The worker of each unit and how many tasks it has.
fn sizes(units: Vec<(WorkerId, Vec<String>)>) -> Vec<(WorkerId, usize)> {
    units.into_iter().map(|(worker, tasks)| (worker, tasks.len())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_task_goes_to_the_worker_with_the_least_to_do_until_none_has_room() {
    let bench = Bench::new("");
    bench.worker(1, 2, None);
    bench.worker(2, 1, None);
    let _replies = bench.queue_loads(5);
    let units = bench.hand_out().await;
    let expected: [(WorkerId, &str); 3] = [(1, "load 0"), (2, "load 1"), (1, "load 2")];
    assert_eq!(units, expected.map(|(worker, task)| (worker, vec![task.to_owned()])));
    assert_eq!(bench.waiting(Operator::Load), ["load 3", "load 4"]);
    assert_eq!(bench.hand_out().await.len(), 3, "nobody is done, so nobody has room");
}

#[tokio::test(start_paused = true)]
async fn only_a_worker_that_is_ready_and_of_the_tasks_stage_gets_it() {
    let generate = Some(Operator::GENERATE);
    // (the worker's stage, whether it is ready, the task, whether it gets the task)
    let table = [
        (None, true, "load 0", true),
        (None, false, "load 0", false),
        (generate, true, "load 0", false),
        (None, true, "answer", false),
        (generate, true, "answer", true),
        (generate, false, "answer", false),
    ];
    for (stage, ready, task, expected) in table {
        let bench = Bench::new("[engine.ray.stages]\ngenerate = {}\n");
        bench.worker(1, 1, stage);
        bench.change(1, |worker| worker.ready = ready);
        let _reply = bench.queue(task);
        assert_eq!(!bench.hand_out().await.is_empty(), expected, "{stage:?} {ready} {task}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_takes_as_many_units_of_an_operator_as_that_runs_tasks_on_one_machine() {
    // A task that computes takes a core, and a task that waits for a model takes one of the 16 places for such tasks.
    for (task, cores, expected) in [("load 0", 3, 3), ("index", 1, 1), ("answer", 1, 16), ("score", 2, 2)] {
        let bench = Bench::new("");
        bench.worker(1, cores, None);
        let _replies: Vec<_> = (0..20).map(|_| bench.queue(task)).collect();
        assert_eq!(bench.hand_out().await.len(), expected, "{task}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_stage_of_the_pipeline_chooses_its_worker_first() {
    let bench = Bench::new("");
    bench.worker(1, 1, None);
    bench.worker(2, 1, None);
    let _replies = ["load 0", "index", "score"].map(|task| bench.queue(task));
    let units = bench.hand_out().await;
    let expected: [(WorkerId, &str); 3] = [(1, "score"), (2, "index"), (1, "load 0")];
    assert_eq!(units, expected.map(|(worker, task)| (worker, vec![task.to_owned()])));
}

#[tokio::test(start_paused = true)]
async fn short_tasks_are_sent_together_as_about_a_tenth_of_a_second() {
    let table = [(None, 1), (Some(1.0), 1), (Some(0.1), 1), (Some(0.03), 4), (Some(0.001), 64), (Some(0.0), 64)];
    for (seconds, expected) in table {
        let bench = Bench::new("");
        if let Some(seconds) = seconds {
            usually(&bench, Operator::Load, seconds);
        }
        assert_eq!(bench.driver.state().batch(Operator::Load), expected, "{seconds:?}");
        bench.worker(1, 2, None);
        let _replies = bench.queue_loads(150);
        assert_eq!(sizes(bench.hand_out().await), [(1, expected), (1, expected)], "{seconds:?}");
    }
    let bench = Bench::new("");
    usually(&bench, Operator::Load, 0.01);
    bench.worker(1, 3, None);
    let _replies = bench.queue_loads(12);
    assert_eq!(sizes(bench.hand_out().await), [(1, 10), (1, 2)], "the rest is a smaller unit");
}

#[tokio::test(start_paused = true)]
async fn a_unit_has_tasks_of_one_run_only() {
    let bench = Bench::new("");
    usually(&bench, Operator::Load, 0.01);
    bench.worker(1, 9, None);
    let other = bench.other_execution();
    let of_other = |assignment: &mut crate::engine::Assignment| assignment.run_context = other.clone();
    let _replies = [
        bench.queue("load 0"),
        bench.queue("load 1"),
        bench.queue_with("load 2", of_other),
        bench.queue("load 3"),
        bench.queue("load 4"),
    ];
    let units: Vec<Vec<String>> = bench.hand_out().await.into_iter().map(|(_, tasks)| tasks).collect();
    assert_eq!(units, [vec!["load 0", "load 1"], vec!["load 2"], vec!["load 3", "load 4"]]);
}

#[tokio::test(start_paused = true)]
async fn a_unit_says_all_that_a_worker_must_know_of_its_tasks() {
    let bench = Bench::new("");
    bench.worker(1, 1, None);
    let turn = CallTurn { priority: 1, group: 7 };
    let _reply = bench.queue_with("answer", |assignment| {
        assignment.inputs.insert(200, "artifacts/ab/index.bm25".to_owned());
        (assignment.partial, assignment.turn) = (true, turn);
    });
    bench.hand_out().await;
    let units = bench.cluster.units.lock().unwrap();
    let (_, unit) = &units[0];
    assert_eq!((unit.run.as_str(), unit.questions.as_str()), ("run", "questions/1.json"));
    let task = &unit.tasks[0];
    assert_eq!(task.inputs, [(200, "artifacts/ab/index.bm25".to_owned())].into());
    assert_eq!((task.partial, task.turn, task.task.label.as_str()), (true, turn, "answer"));
}

#[tokio::test(start_paused = true)]
async fn the_first_workers_wait_ten_seconds_for_each_other() {
    let mut bench = Bench::new("[engine.ray.stages]\ngenerate = {}\n");
    let began = |bench: &mut Bench, at: Instant| {
        // Nobody else has the driver while no unit is on its way.
        std::sync::Arc::get_mut(&mut bench.driver).unwrap().began = at;
    };
    began(&mut bench, Instant::now());
    bench.worker(1, 1, None);
    bench.worker(2, 1, None);
    bench.change(2, |worker| worker.ready = false);
    let mut _replies = bench.queue_loads(1);
    assert_eq!(bench.hand_out().await, [], "the second one opens");
    began(&mut bench, Instant::now().checked_sub(OPENING_WAIT).unwrap());
    assert_eq!(sizes(bench.hand_out().await), [(1, 1)], "ten seconds are enough");

    let mut bench = Bench::new("[engine.ray.stages]\ngenerate = {}\n");
    began(&mut bench, Instant::now());
    bench.worker(1, 1, None);
    bench.worker(2, 1, Some(Operator::GENERATE));
    bench.change(2, |worker| worker.ready = false);
    _replies = bench.queue_loads(1);
    assert_eq!(sizes(bench.hand_out().await), [(1, 1)], "a stage's worker may come much later");
}

#[tokio::test(start_paused = true)]
async fn each_task_gets_its_own_result_and_the_worker_has_room_again() {
    let bench = Bench::new("");
    usually(&bench, Operator::Load, 0.05);
    bench.worker(1, 1, None);
    bench.change(1, |worker| worker.idle_since = long_ago());
    let mut replies = bench.queue_loads(2);
    let failed = TaskError { reason: "no such file".to_owned(), function: None, ends_all: false };
    bench.next_reply(Ok(reply(vec![(Ok("a"), 0.05), (Err(failed), 0.05)])));
    assert_eq!(sizes(bench.hand_out().await), [(1, 2)]);
    assert_eq!(said(&mut replies[0]), Some(Ok("a".to_owned())));
    assert_eq!(said(&mut replies[1]), Some(Err("no such file".to_owned())));
    bench.change(1, |worker| {
        assert_eq!(worker.units[&Operator::Load], 0);
        assert!(worker.idle_since > long_ago() + Duration::from_secs(50), "it is idle from now on");
    });
    let state = bench.driver.state();
    assert_eq!((state.repeated, state.deaths), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_usual_time_of_a_task_is_an_average_in_which_a_new_one_counts_a_fifth() {
    let bench = Bench::new("");
    bench.worker(1, 1, None);
    // The first time counts whole; then 1.0 + (2.0 - 1.0) / 5, and 1.2 + (0.2 - 1.2) / 5.
    for (seconds, expected) in [(1.0, 1.0), (2.0, 1.2), (0.2, 1.0)] {
        let _reply = bench.queue("load 0");
        bench.next_reply(Ok(reply(vec![(Ok("a"), seconds)])));
        bench.hand_out().await;
        let usual = bench.driver.state().usual_seconds[&Operator::Load];
        assert!((usual - expected).abs() < 1e-12, "{seconds}: {usual}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_spent_counts_as_spent_by_the_run() {
    let bench = Bench::new("");
    bench.worker(1, 1, None);
    let _reply = bench.queue("load 0");
    let mut answer = reply(vec![(Ok("a"), 1.0)]);
    let spending = Spending { calls: 3, prompt_tokens: 40, ..Spending::default() };
    answer.spending.insert("gpt".to_owned(), spending);
    answer.budget = BudgetReport { paid_calls: 2, reached: Some(Cap::Calls), ..BudgetReport::default() };
    bench.next_reply(Ok(answer));
    bench.hand_out().await;
    let client = bench.run_context.models().client();
    assert_eq!(client.meter().by_model()["gpt"], spending);
    assert_eq!((client.budget().spent().paid_calls, client.budget().reached()), (2, Some(Cap::Calls)));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_a_reply_leaves_out_is_refused_and_the_others_end() {
    let bench = Bench::new("");
    usually(&bench, Operator::Load, 0.05);
    bench.worker(1, 1, None);
    let mut replies = bench.queue_loads(2);
    bench.next_reply(Ok(reply(vec![(Ok("a"), 0.1)])));
    bench.hand_out().await;
    let found: Vec<_> = replies.iter_mut().map(said).collect();
    let refused = "a worker's reply says nothing of this task: is the same version everywhere?".to_owned();
    assert_eq!(found, [Some(Ok("a".to_owned())), Some(Err(refused))]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_of_another_version_ends_its_tasks_with_advice() {
    let bench = Bench::new("");
    usually(&bench, Operator::Load, 0.05);
    bench.worker(1, 1, None);
    let mut replies = bench.queue_loads(2);
    bench.cluster.replies.lock().unwrap().push_back(Ok(b"{}".to_vec()));
    bench.hand_out().await;
    for reply in &mut replies {
        let said = said(reply).unwrap().unwrap_err();
        assert!(said.starts_with("a worker's reply cannot be read (missing field"), "{said}");
        assert!(said.ends_with("is the same version everywhere?"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_worker_gives_its_tasks_back_once_and_they_go_before_all_others() {
    let bench = Bench::new("");
    usually(&bench, Operator::Load, 0.05);
    for worker in 1..=2 {
        bench.worker(worker, 1, None);
    }
    let mut replies = bench.queue_loads(6);
    bench.next_reply(Err(CallError::Died("out of memory".to_owned())));
    bench.next_reply(Ok(reply(vec![(Ok("c"), 0.05), (Ok("d"), 0.05)])));
    assert_eq!(sizes(bench.hand_out().await), [(1, 2), (2, 2)]);
    assert_eq!(bench.waiting(Operator::Load), ["load 0", "load 1", "load 4", "load 5"]);
    {
        let state = bench.driver.state();
        assert_eq!((state.repeated, state.deaths), (2, 1));
        assert_eq!(state.last_problem.as_deref(), Some("out of memory"));
        assert_eq!(state.workers.iter().map(|worker| worker.id).collect::<Vec<_>>(), [2], "the dead one is gone");
    }
    assert_eq!(said(&mut replies[0]), None, "it is not over");
    bench.next_reply(Ok(reply(vec![(Ok("a"), 0.05), (Ok("b"), 0.05)])));
    assert_eq!(bench.hand_out().await.last().unwrap(), &(2, vec!["load 0".to_owned(), "load 1".to_owned()]));
    assert_eq!(said(&mut replies[0]), Some(Ok("a".to_owned())));
    assert_eq!(said(&mut replies[2]), Some(Ok("c".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn two_units_of_a_dead_worker_are_one_death() {
    let bench = Bench::new("");
    bench.worker(1, 2, None);
    let _replies = bench.queue_loads(2);
    for _ in 0..2 {
        bench.next_reply(Err(CallError::Died("killed".to_owned())));
    }
    bench.hand_out().await;
    let state = bench.driver.state();
    assert_eq!((state.repeated, state.deaths, state.workers.len()), (2, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_task_is_given_up_when_four_workers_died_with_it() {
    let bench = Bench::new("");
    let mut reply = bench.queue("load 0");
    for death in 1..=MOST_DEATHS as u64 {
        bench.worker(death, 1, None);
        bench.next_reply(Err(CallError::Died(format!("killed {death}"))));
        bench.hand_out().await;
        let expected: &[&str] = if death < 4 { &["load 0"] } else { &[] };
        assert_eq!(bench.waiting(Operator::Load), expected, "{death}");
    }
    let reason = "the workers that ran this task died 4 times, the last time because: killed 4";
    assert_eq!(said(&mut reply), Some(Err(reason.to_owned())));
    let state = bench.driver.state();
    assert_eq!((state.repeated, state.deaths), (3, 4), "it was handed out again three times");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_be_reached_for_a_while_keeps_its_place_and_kills_no_task() {
    let bench = Bench::new("");
    bench.worker(1, 1, None);
    let mut reply = bench.queue("load 0");
    for _ in 0..2 * MOST_DEATHS {
        bench.next_reply(Err(CallError::Unavailable("busy".to_owned())));
        bench.hand_out().await;
        assert_eq!(bench.waiting(Operator::Load), [""; 0], "it waits a second before it is tried again");
        tokio::time::sleep(Duration::from_millis(1001)).await;
        settle().await;
        assert_eq!(bench.waiting(Operator::Load), ["load 0"]);
    }
    assert_eq!(said(&mut reply), None);
    let state = bench.driver.state();
    assert_eq!((state.deaths, state.workers.len(), state.last_problem.as_deref()), (0, 1, None));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_refuses_a_unit_ends_its_tasks_and_stays() {
    let bench = Bench::new("");
    usually(&bench, Operator::Load, 0.05);
    bench.worker(1, 1, None);
    let mut replies = bench.queue_loads(2);
    bench.next_reply(Err(CallError::Failed("no such operator".to_owned())));
    bench.hand_out().await;
    for reply in &mut replies {
        assert_eq!(said(reply), Some(Err("no such operator".to_owned())));
    }
    let state = bench.driver.state();
    assert_eq!((state.repeated, state.deaths, state.workers.len()), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn only_workers_at_work_are_asked_what_they_do_and_each_once_at_a_time() {
    let bench = Bench::new("");
    for id in 1..=4 {
        bench.worker(id, 1, None);
        bench.change(id, |worker| _ = worker.units.insert(Operator::Load, 1));
    }
    bench.change(2, |worker| worker.ready = false);
    bench.change(3, |worker| worker.asked = true);
    bench.change(4, |worker| _ = worker.units.insert(Operator::Load, 0));
    bench.driver.ask_activity();
    bench.change(1, |worker| assert!(worker.asked));
    bench.driver.ask_activity();
    settle().await;
    assert_eq!(*bench.cluster.asked.lock().unwrap(), [1]);
    bench.change(1, |worker| assert!(!worker.asked, "it answered"));
}

#[tokio::test(start_paused = true)]
async fn the_schedule_may_hand_out_a_unit_more_than_the_ready_workers_take() {
    let bench = Bench::new("[engine.ray.stages]\ngenerate = {}\n");
    let remote = Remote { shared: bench.driver.clone() };
    assert_eq!(remote.limit(Operator::Load), 1, "without a worker");
    bench.worker(1, 2, None);
    bench.worker(2, 3, None);
    bench.worker(3, 8, None);
    bench.change(3, |worker| worker.ready = false);
    bench.worker(4, 1, Some(Operator::GENERATE));
    assert_eq!(remote.limit(Operator::Load), 2 + 3 + 1);
    assert_eq!(remote.limit(Operator::GENERATE), 16 + 1, "that of its own workers");
    usually(&bench, Operator::Load, 0.05);
    assert_eq!(remote.limit(Operator::Load), (2 + 3 + 1) * 2, "in units of two tasks");
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_run_has_ended_takes_its_result_to_nobody() {
    let bench = Bench::new("");
    bench.worker(1, 1, None);
    drop(bench.queue("load 0"));
    let mut second = bench.queue("load 1");
    bench.next_reply(Ok(reply(vec![(Ok("a"), 1.0)])));
    bench.hand_out().await;
    bench.next_reply(Ok(reply(vec![(Ok("b"), 1.0)])));
    bench.hand_out().await;
    assert_eq!(said(&mut second), Some(Ok("b".to_owned())));
}
