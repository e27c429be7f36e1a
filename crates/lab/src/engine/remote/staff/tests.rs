//! Which workers are started and ended, on what, and what becomes of tasks that get none.

use super::{
    super::testing::{Bench, Reply, long_ago, node, said, settle},
    *,
};
use crate::progress::Progress;

const SECOND: Duration = Duration::from_secs(1);

fn of_cpus(cpus: f64) -> Resources {
    Resources { cpus, ..Resources::default() }
}

/// The nodes that got a worker of their own.
fn nodes(started: Vec<(Option<String>, Resources)>) -> Vec<String> {
    started.into_iter().filter_map(|(node, _)| node).collect()
}

fn set_nodes(bench: &Bench, nodes: &[(&'static str, f64)]) {
    *bench.cluster.nodes.lock().unwrap() = nodes.to_vec();
}

#[tokio::test(start_paused = true)]
async fn each_node_gets_one_worker_and_a_dead_one_is_replaced() {
    let bench = Bench::new("");
    assert!(bench.staff().await.is_empty(), "no node, no worker");
    set_nodes(&bench, &[("a", 4.0), ("b", 2.5)]);
    assert_eq!(nodes(bench.staff().await), ["a", "b"]);
    assert_eq!(bench.staff().await, [], "they are there");
    bench.driver.state().workers.retain(|worker| worker.node.as_ref().is_none_or(|node| node.id != "a"));
    assert_eq!(nodes(bench.staff().await), ["a"]);
    let state = bench.driver.state();
    let cores = |id: &str| {
        let is_there = |worker: &&WorkerState| worker.node.as_ref().is_some_and(|node| node.id == id);
        state.workers.iter().find(is_there).map(|worker| (worker.cores, worker.ready))
    };
    assert_eq!((cores("a"), cores("b")), (Some((4, true)), Some((2, true))));
}

#[test]
fn a_worker_has_the_whole_cores_of_its_node_and_at_least_one() {
    for (cpus, expected) in [(0.0, 1), (0.5, 1), (1.0, 1), (2.9, 2), (64.0, 64)] {
        assert_eq!(cores(&node("a", cpus)), expected, "{cpus}");
    }
}

#[tokio::test]
async fn a_nodes_worker_leaves_a_cpu_or_what_the_largest_stage_needs() {
    let none = "";
    let (small, large) =
        ("[engine.ray.stages]\nembed = { cpus = 0.5 }\n", "[engine.ray.stages]\nembed = { cpus = 3 }\njudge = {}\n");
    let table = [
        (none, 4.0, 3.0),
        (none, 1.5, 0.5),
        // Half of a node with one CPU.
        (none, 1.0, 0.5),
        (none, 0.5, 0.25),
        (small, 4.0, 3.0),
        (small, 1.0, 0.0),
        (large, 4.0, 1.0),
        (large, 3.0, 0.0),
        (large, 2.0, 0.0),
    ];
    for (engine, cpus, expected) in table {
        let bench = Bench::new(engine);
        assert_eq!(bench.driver.worker_cpus(&node("a", cpus)), expected, "{engine} {cpus}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_asked_is_the_last_problem_and_changes_nothing() {
    let bench = Bench::new("");
    set_nodes(&bench, &[("a", 4.0)]);
    *bench.cluster.closed.lock().unwrap() = Some("the head is away");
    assert_eq!(bench.staff().await, []);
    assert_eq!(bench.driver.state().last_problem.as_deref(), Some("the head is away"));
    *bench.cluster.closed.lock().unwrap() = None;
    assert_eq!(nodes(bench.staff().await), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_workers_do_not_start_is_left_alone_for_longer_after_the_third() {
    let bench = Bench::new("");
    set_nodes(&bench, &[("a", 4.0)]);
    for failed in 1..=4 {
        bench.cluster.failing_starts.lock().unwrap().push_back(CallError::Unavailable("full".to_owned()));
        let before = Instant::now();
        assert_eq!(nodes(bench.staff().await), ["a"]);
        assert_eq!(bench.staff().await, [], "not at once");
        let mut state = bench.driver.state();
        let attempts = state.starts.get_mut("a").unwrap();
        let pause = if failed < 3 { 2 * SECOND } else { 60 * SECOND };
        let not_before = attempts.not_before.unwrap();
        assert!(before + pause <= not_before && not_before <= Instant::now() + pause, "{failed}");
        assert_eq!(attempts.failed, failed);
        attempts.not_before = Some(long_ago());
    }
    assert_eq!(bench.driver.state().last_problem.as_deref(), Some("a worker did not start on a.lan: full"));
    assert_eq!(nodes(bench.staff().await), ["a"]);
    let state = bench.driver.state();
    assert_eq!((state.starts["a"].failed, state.starts["a"].not_before), (0, None), "a start that works begins anew");
}

#[tokio::test(start_paused = true)]
async fn tasks_fail_at_once_only_if_the_only_worker_refuses_to_start() {
    let refused = || CallError::Failed("another Python".to_owned());
    // (why the worker does not start, whether another one is there, whether the task fails)
    let table = [
        (refused(), false, true),
        (refused(), true, false),
        (CallError::Died("killed".to_owned()), false, false),
        (CallError::Unavailable("full".to_owned()), false, false),
    ];
    for (error, has_other, expected) in table {
        let bench = Bench::new("");
        if has_other {
            bench.worker(70, 1, None);
        }
        set_nodes(&bench, &[("a", 4.0)]);
        let mut reply = bench.queue("answer");
        bench.cluster.failing_starts.lock().unwrap().push_back(error.clone());
        bench.staff().await;
        let reason = "a worker did not start on a.lan: another Python";
        assert_eq!(said(&mut reply), expected.then(|| Err(reason.to_owned())), "{error:?} {has_other}");
    }
}

/// A bench with a stage `generate` of these settings, and as many of its workers as listed: whether each is ready, and
/// how many units it has.
fn stage(settings: &str, workers: &[(bool, usize)], queued: usize) -> (Bench, Vec<Reply>) {
    let bench = Bench::new(&format!("[engine.ray.stages]\ngenerate = {{ {settings} }}\n"));
    for (id, (ready, units)) in (100..).zip(workers) {
        bench.worker(id, 1, Some(Operator::GENERATE));
        bench.change(id, |worker| {
            worker.ready = *ready;
            worker.units.insert(Operator::GENERATE, *units);
        });
    }
    let replies = (0..queued).map(|_| bench.queue("answer")).collect();
    (bench, replies)
}

#[tokio::test(start_paused = true)]
async fn a_stage_has_its_least_workers_always_and_one_more_at_a_time_while_all_are_busy() {
    let (busy, idle, opens) = ((true, 1), (true, 0), (false, 0));
    /// Settings of the stage, its workers (whether ready, and their tasks), queued tasks, workers that are started.
    type Case<'a> = (&'a str, &'a [(bool, usize)], usize, usize);
    let table: [Case<'_>; 12] = [
        ("min = 0", &[], 0, 0),
        ("min = 0", &[], 5, 1),
        ("min = 2", &[], 0, 2),
        ("min = 2", &[idle], 5, 1),
        ("min = 2", &[opens, opens], 5, 0),
        ("max = 3", &[busy], 5, 1),
        ("max = 3", &[busy, busy], 1, 1),
        ("max = 3", &[busy, busy, busy], 5, 0),
        ("max = 3", &[busy, idle], 5, 0),
        ("max = 3", &[busy, opens], 5, 0),
        ("max = 3", &[busy, busy], 0, 0),
        ("min = 3, max = 3", &[busy], 5, 2),
    ];
    for (settings, workers, queued, expected) in table {
        let (bench, _replies) = stage(settings, workers, queued);
        assert_eq!(bench.staff().await.len(), expected, "{settings} {workers:?} {queued}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stages_worker_reserves_what_the_stage_says_on_any_node() {
    let settings = "cpus = 2.5, gpus = 0.5, memory_mib = 3, resources = { disk = 1.5 }";
    let (bench, _replies) = stage(settings, &[], 1);
    let custom = [("disk".to_owned(), 1.5)].into();
    let expected = Resources { cpus: 2.5, gpus: 0.5, memory: Some(3 << 20), custom };
    assert_eq!(bench.staff().await, [(None, expected)]);
    let state = bench.driver.state();
    assert_eq!((state.workers[0].stage, state.workers[0].cores), (Some(Operator::GENERATE), 2));
    assert!(state.workers[0].ready && state.workers[0].node.is_none(), "its node does not matter");
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_of_a_stage_is_ended_after_half_a_minute_unless_it_is_one_of_the_least() {
    // (the least workers, units of each of the two, seconds for which they were idle, workers that end)
    let table: [(&str, usize, u64, &[WorkerId]); 5] = [
        ("min = 1", 0, 31, &[100]),
        ("min = 0", 0, 31, &[100]),
        ("min = 2", 0, 31, &[]),
        ("min = 1", 0, 20, &[]),
        ("min = 1", 1, 31, &[]),
    ];
    for (settings, units, seconds, expected) in table {
        let (bench, _replies) = stage(settings, &[(true, units), (true, units)], 0);
        let since = Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        for id in 100..102 {
            bench.change(id, |worker| worker.idle_since = since);
        }
        bench.staff().await;
        assert_eq!(*bench.cluster.stopped.lock().unwrap(), expected, "{settings} {units} {seconds}");
        assert_eq!(bench.driver.state().workers.len(), 2 - expected.len(), "one at a time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_asked_for_a_node_while_tasks_compute_and_only_for_one() {
    // (nodes, the CPUs that no node has free)
    let table: [(&[(&str, f64)], f64); 3] =
        [(&[("a", 4.0)], 3.0), (&[("a", 2.0)], 2.0), (&[("a", 2.0), ("b", 8.0)], 7.0)];
    for (nodes_there, cpus) in table {
        let bench = Bench::new("");
        set_nodes(&bench, nodes_there);
        bench.staff().await;
        assert_eq!(bench.staff().await, [], "nothing waits");
        let _reply = bench.queue("load 0");
        bench.driver.staff().await;
        assert!(bench.driver.state().growth.worker.is_some());
        bench.driver.staff().await;
        settle().await;
        let started: Vec<_> = bench.cluster.started.lock().unwrap().drain(..).map(|(_, node, it)| (node, it)).collect();
        assert_eq!(started, [(None, of_cpus(cpus))], "{nodes_there:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_node_is_asked_for_where_one_would_not_help() {
    let generate = "[engine.ray.stages]\nindex = {}\n";
    // (the engine, the task that waits, whether the node's worker is ready, why not)
    let table = [
        ("", "answer", true, "it waits for a model"),
        (generate, "index", true, "it runs on workers of its stage"),
        ("", "load 0", false, "a worker is about to come"),
    ];
    for (engine, task, ready, why) in table {
        let bench = Bench::new(engine);
        set_nodes(&bench, &[("a", 4.0)]);
        bench.staff().await;
        for worker in bench.driver.state().workers.iter_mut().filter(|worker| worker.stage.is_none()) {
            worker.ready = ready;
        }
        let _reply = bench.queue(task);
        // A start would be on its way, and not be answered.
        bench.driver.staff().await;
        assert!(bench.driver.state().growth.worker.is_none(), "{why}");
    }
    let bench = Bench::new("");
    let _reply = bench.queue("load 0");
    assert_eq!(bench.staff().await, [], "a cluster without a node has no size of nodes");
}

#[tokio::test(start_paused = true)]
async fn a_new_node_is_left_to_the_worker_that_asked_for_it() {
    let bench = Bench::new("");
    set_nodes(&bench, &[("a", 4.0)]);
    bench.staff().await;
    let _reply = bench.queue("load 0");
    bench.driver.staff().await;
    set_nodes(&bench, &[("a", 4.0), ("new", 4.0)]);
    // The start is on its way, and has not been answered.
    bench.driver.staff().await;
    assert_eq!(bench.driver.state().workers.len(), 2);
    settle().await;
    {
        let state = bench.driver.state();
        let there: Vec<_> = state.workers.iter().filter_map(|worker| Some(worker.node.as_ref()?.id.clone())).collect();
        assert_eq!((there, state.growth.worker), (vec!["a".to_owned(), "new".to_owned()], None));
    }
    bench.driver.state().queues.clear();
    bench.cluster.started.lock().unwrap().clear();
    assert_eq!(bench.staff().await, [], "the new node has its worker");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_no_longer_needed_is_no_longer_waited_for() {
    let bench = Bench::new("");
    set_nodes(&bench, &[("a", 4.0)]);
    bench.staff().await;
    let _reply = bench.queue("load 0");
    bench.driver.staff().await;
    let wanted = bench.driver.state().growth.worker.unwrap();
    bench.driver.stop_growing().await;
    assert_eq!(*bench.cluster.stopped.lock().unwrap(), [wanted]);
    assert_eq!(bench.driver.state().workers.len(), 1, "that of the node");
    bench.driver.stop_growing().await;
    assert_eq!(bench.cluster.stopped.lock().unwrap().len(), 1, "there is nothing to stop");
}

#[tokio::test(start_paused = true)]
async fn tasks_fail_when_there_was_no_worker_for_three_minutes() {
    let problem = "no worker for 180 s: the cluster has no free resources";
    let known = "no worker for 180 s: the head is away";
    for (last_problem, seconds, expected) in
        [(None, 180, None), (None, 181, Some(problem)), (Some("the head is away"), 181, Some(known))]
    {
        let bench = Bench::new("");
        let mut reply = bench.queue("load 0");
        let mut state = bench.driver.state();
        state.last_problem = last_problem.map(str::to_owned);
        let begin = Instant::now();
        bench.driver.give_up(&mut state, begin);
        bench.driver.give_up(&mut state, begin + seconds * SECOND);
        drop(state);
        assert_eq!(said(&mut reply), expected.map(|reason| Err(reason.to_owned())), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_worker_begins_anew_where_one_was_there_or_nothing_waited() {
    let (begin, later) = (Instant::now(), Instant::now() + 150 * SECOND);
    for with_worker in [true, false] {
        let bench = Bench::new("");
        let mut reply = bench.queue("load 0");
        let mut state = bench.driver.state();
        bench.driver.give_up(&mut state, begin);
        assert_eq!(state.without_workers, Some(begin));
        drop(state);
        let queues = if with_worker {
            bench.worker(1, 1, None);
            None
        } else {
            Some(std::mem::take(&mut bench.driver.state().queues))
        };
        let mut state = bench.driver.state();
        bench.driver.give_up(&mut state, later);
        assert_eq!(state.without_workers, None);
        state.workers.clear();
        state.queues.extend(queues.into_iter().flatten());
        bench.driver.give_up(&mut state, later + SECOND);
        bench.driver.give_up(&mut state, later + 100 * SECOND);
        drop(state);
        assert_eq!(said(&mut reply), None, "250 s in all, and never 180 s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_without_workers_is_reported_after_twenty_seconds_and_fails_after_fifteen_minutes() {
    let settings = "cpus = 2, gpus = 0.5, memory_mib = 100, resources = { disk = 1 }";
    let wanted = "no node has 2 CPUs, 0.5 GPUs, 100 MiB, 1 disk free for a worker of this stage";
    let (bench, mut replies) = stage(settings, &[], 1);
    let mut load = bench.queue("load 0");
    // Others work, so that not all fails.
    bench.worker(1, 1, None);
    let progress = Progress::default();
    bench.driver.state().progress = Some(progress.clone());
    let begin = Instant::now();
    let at = |seconds: u32| {
        bench.driver.give_up(&mut bench.driver.state(), begin + seconds * SECOND);
        progress.problems().get("stage generate").cloned()
    };
    assert_eq!((at(0), at(20)), (None, None));
    assert_eq!(at(21).as_deref(), Some(wanted));
    assert_eq!((at(900).as_deref(), said(&mut replies[0])), (Some(wanted), None));
    at(901);
    let reason = format!("stage generate: {wanted}, for 900 s");
    assert_eq!((said(&mut replies[0]), said(&mut load)), (Some(Err(reason)), None));
    assert_eq!(at(902), None, "nothing waits any more");
}

#[tokio::test(start_paused = true)]
async fn a_stages_wait_is_told_only_in_what_it_wants_and_ends_with_its_first_worker() {
    let (bench, _replies) = stage("cpus = 0.5", &[], 1);
    let progress = Progress::default();
    bench.driver.state().progress = Some(progress.clone());
    let begin = Instant::now();
    let behind = || progress.problems().get("stage generate").cloned();
    bench.driver.give_up(&mut bench.driver.state(), begin);
    bench.driver.give_up(&mut bench.driver.state(), begin + 30 * SECOND);
    assert_eq!(behind().as_deref(), Some("no node has 0.5 CPUs free for a worker of this stage"));
    bench.worker(100, 1, Some(Operator::GENERATE));
    bench.driver.give_up(&mut bench.driver.state(), begin + 31 * SECOND);
    assert_eq!((behind(), bench.driver.state().unstaffed.len()), (None, 0));
}
