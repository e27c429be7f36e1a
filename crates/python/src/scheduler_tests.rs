//! Facts about [`Scheduler`], on a simulated clock.

use super::*;

type Simulated = TaskScheduler<u32, &'static str>;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn rules(concurrency: usize, max_retries: i64) -> RunRules {
    RunRules { concurrency, max_retries, timeout: seconds(60) }
}

fn scheduler(concurrency: usize, max_retries: i64, length: usize) -> Simulated {
    TaskScheduler::new(rules(concurrency, max_retries), Some(length))
}

/// Lets the worker claim a task and begin, and says which one. Its payload is
/// ten times its place.
fn start(scheduler: &mut Simulated, worker: WorkerNumber, target: usize, now: Duration) -> Option<usize> {
    let task = match scheduler.claim(worker, target)? {
        TaskClaim::Again(task) => task,
        TaskClaim::Fresh(index) => InputTask { index, attempts: 0, payload: 10 * index as u32 },
    };
    assert_eq!(task.payload, 10 * task.index as u32);
    let index = task.index;
    scheduler.begin(worker, task, now).then_some(index)
}

fn hire_all(scheduler: &mut Simulated, target: usize) -> Vec<WorkerNumber> {
    std::iter::from_fn(|| scheduler.hire(target)).collect()
}

#[test]
fn fresh_tasks_come_in_order_and_no_more_at_once_than_concurrency_and_target() {
    for (concurrency, target, expected) in [(3, 9, 3), (9, 3, 3), (0, 9, 1), (9, 0, 1), (9, 9, 5)] {
        let mut scheduler = scheduler(concurrency, 0, 5);
        let workers = hire_all(&mut scheduler, target);
        assert_eq!(workers.len(), expected);
        let started: Vec<_> =
            workers.iter().filter_map(|worker| start(&mut scheduler, *worker, target, seconds(0))).collect();
        assert_eq!(started, (0..expected).collect::<Vec<_>>());
        assert_eq!(scheduler.hire(target), None);
    }
}

#[test]
fn retries_go_before_fresh_tasks_the_most_tried_first_then_the_earlier_ones() {
    let mut scheduler = scheduler(4, 9, 20);
    let workers = hire_all(&mut scheduler, 4);
    for (worker, index) in workers.iter().zip(0..4) {
        assert_eq!(start(&mut scheduler, *worker, 4, seconds(0)), Some(index));
    }
    let fail = |scheduler: &mut Simulated, worker| scheduler.fail(worker, "no", true, seconds(0)).unwrap();
    for worker in [3, 2, 1, 0] {
        assert!(fail(&mut scheduler, workers[worker]).again);
    }
    // Task 0 fails once more, so it goes first; then 1 and 2 by their place.
    assert_eq!(start(&mut scheduler, workers[0], 4, seconds(0)), Some(0));
    assert_eq!(fail(&mut scheduler, workers[0]).attempts, 2);
    let order: Vec<_> = workers.iter().filter_map(|worker| start(&mut scheduler, *worker, 4, seconds(0))).collect();
    assert_eq!(order, [0, 1, 2, 3]);
    assert!(scheduler.complete(workers[3], seconds(0)).is_some());
    assert_eq!(start(&mut scheduler, workers[3], 4, seconds(0)), Some(4));
}

#[test]
fn a_task_has_one_attempt_more_than_retries_and_then_fails() {
    for (max_retries, attempts) in [(0, 1), (2, 3), (10, 11), (-1, 1)] {
        let mut scheduler = scheduler(1, max_retries, 1);
        let worker = scheduler.hire(1).unwrap();
        let mut verdicts = Vec::new();
        while start(&mut scheduler, worker, 1, seconds(0)).is_some() {
            verdicts.push(scheduler.fail(worker, "no", true, seconds(1)).unwrap());
        }
        assert_eq!(verdicts.len(), attempts as usize);
        assert_eq!(verdicts.last(), Some(&AttemptVerdict { index: 0, attempts, again: false }));
        assert!(scheduler.finished());
        let records = scheduler.take_records();
        assert_eq!((records[0].status, records[0].errors.len()), (InputStatus::Failed, attempts as usize));
        assert_eq!(records[0].spent, seconds(attempts.into()));
    }
}

#[test]
fn what_is_not_retryable_fails_at_its_first_attempt() {
    let mut scheduler = scheduler(1, 10, 1);
    let worker = scheduler.hire(1).unwrap();
    start(&mut scheduler, worker, 1, seconds(0));
    let verdict = scheduler.fail(worker, "never", false, seconds(0)).unwrap();
    assert_eq!(verdict, AttemptVerdict { index: 0, attempts: 1, again: false });
}

#[test]
fn a_result_after_a_failure_is_completed_with_retries() {
    let mut scheduler = scheduler(1, 10, 2);
    let worker = scheduler.hire(1).unwrap();
    start(&mut scheduler, worker, 1, seconds(0));
    scheduler.fail(worker, "no", true, seconds(2));
    assert_eq!(start(&mut scheduler, worker, 1, seconds(10)), Some(0));
    assert_eq!(scheduler.complete(worker, seconds(13)), Some((0, seconds(3))));
    assert_eq!(start(&mut scheduler, worker, 1, seconds(13)), Some(1));
    assert_eq!(scheduler.complete(worker, seconds(13)), Some((1, seconds(0))));
    let records = scheduler.take_records();
    let retried = InputRecord { status: InputStatus::CompletedWithRetries, spent: seconds(5), errors: vec!["no"] };
    assert_eq!(records, [retried, InputRecord { status: InputStatus::Completed, ..InputRecord::default() }]);
}

#[test]
fn workers_leave_when_the_target_falls_and_are_hired_when_it_rises() {
    let mut scheduler = scheduler(8, 0, 100);
    let workers = hire_all(&mut scheduler, 4);
    for worker in &workers {
        start(&mut scheduler, *worker, 4, seconds(0));
    }
    let done = |scheduler: &mut Simulated, worker| scheduler.complete(worker, seconds(1)).unwrap();
    done(&mut scheduler, workers[0]);
    assert_eq!(start(&mut scheduler, workers[0], 2, seconds(1)), None);
    done(&mut scheduler, workers[1]);
    assert_eq!(start(&mut scheduler, workers[1], 2, seconds(1)), None);
    done(&mut scheduler, workers[2]);
    assert_eq!(start(&mut scheduler, workers[2], 2, seconds(1)), Some(4));
    assert!(hire_all(&mut scheduler, 2).is_empty());
    assert_eq!(hire_all(&mut scheduler, 5).len(), 3);
}

#[test]
fn an_overdue_attempt_is_cut_once_and_its_result_is_not_wanted() {
    let mut scheduler = scheduler(2, 1, 2);
    let workers = hire_all(&mut scheduler, 2);
    start(&mut scheduler, workers[0], 2, seconds(0));
    assert_eq!(scheduler.next_deadline(seconds(0)), seconds(60));
    start(&mut scheduler, workers[1], 2, seconds(10));
    assert!(scheduler.cut_overdue(seconds(59)).is_empty());
    assert_eq!(scheduler.next_deadline(seconds(59)), seconds(1));
    assert_eq!(scheduler.cut_overdue(seconds(60)), [workers[0]]);
    assert!(scheduler.cut_overdue(seconds(61)).is_empty());
    assert_eq!(scheduler.next_deadline(seconds(61)), seconds(9));
    assert_eq!(scheduler.attempt(workers[0]), Some(Some(CutReason::TimedOut)));
    assert_eq!(scheduler.complete(workers[0], seconds(61)), None);
    let verdict = scheduler.fail(workers[0], "too slow", true, seconds(61)).unwrap();
    assert_eq!(verdict, AttemptVerdict { index: 0, attempts: 1, again: true });
    scheduler.let_go(workers[0]);
    assert_eq!(scheduler.attempt(workers[0]), None);
    let another = scheduler.hire(2).unwrap();
    assert_eq!(start(&mut scheduler, another, 2, seconds(61)), Some(0));
}

#[test]
fn after_a_stop_nothing_begins_and_cut_attempts_leave_no_trace() {
    let mut scheduler = scheduler(3, 5, 9);
    let workers = hire_all(&mut scheduler, 3);
    start(&mut scheduler, workers[0], 3, seconds(0));
    start(&mut scheduler, workers[1], 3, seconds(0));
    scheduler.fail(workers[0], "no", true, seconds(1));
    assert_eq!(scheduler.stop(), [workers[1]]);
    assert!(scheduler.stop().is_empty());
    assert_eq!(scheduler.complete(workers[1], seconds(2)), None);
    scheduler.let_go(workers[1]);
    assert_eq!(scheduler.hire(3), None);
    for worker in [workers[0], workers[2]] {
        assert!(!scheduler.finished());
        assert_eq!(start(&mut scheduler, worker, 3, seconds(2)), None);
    }
    assert!(scheduler.finished());
    let records = scheduler.take_records();
    assert_eq!(records[0], InputRecord { spent: seconds(1), errors: vec!["no"], ..InputRecord::default() });
    assert!(records[1..].iter().all(|record| *record == InputRecord::default()));
}

#[test]
fn an_attempt_that_timed_out_is_stopped_with_the_rest() {
    let mut scheduler = scheduler(1, 5, 1);
    let worker = scheduler.hire(1).unwrap();
    start(&mut scheduler, worker, 1, seconds(0));
    assert_eq!(scheduler.cut_overdue(seconds(60)), [worker]);
    assert_eq!(scheduler.stop(), [worker]);
    assert_eq!(scheduler.attempt(worker), Some(Some(CutReason::Stopped)));
}

#[test]
fn inputs_without_a_known_length_end_when_they_are_said_to() {
    let mut scheduler = Simulated::new(rules(2, 0), None);
    let workers = hire_all(&mut scheduler, 2);
    assert_eq!(workers.len(), 2);
    assert_eq!(start(&mut scheduler, workers[0], 2, seconds(0)), Some(0));
    assert_eq!(scheduler.claim(workers[1], 2), Some(TaskClaim::Fresh(1)));
    scheduler.exhaust();
    assert_eq!(scheduler.claim(workers[1], 2), None);
    assert!(!scheduler.finished());
    scheduler.complete(workers[0], seconds(1));
    assert_eq!(scheduler.claim(workers[0], 2), None);
    assert!(scheduler.finished());
    assert_eq!(scheduler.take_records().len(), 1);
}

#[test]
fn without_inputs_there_is_nothing_to_do() {
    let mut scheduler = scheduler(4, 10, 0);
    assert_eq!(scheduler.hire(4), None);
    assert!(scheduler.finished());
}

/// A linear congruential generator (Knuth's constants): repeatable noise.
struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn in_any_order_of_events_every_task_ends_exactly_once_and_never_too_many_run() {
    for seed in 0..300 {
        let mut noise = Noise(seed);
        let (concurrency, retries) = (1 + noise.below(6) as usize, noise.below(4) as i64);
        let mut scheduler = scheduler(concurrency, retries, 40);
        let (mut now, mut ended) = (seconds(0), [0; 40]);
        let (mut idle, mut flying): (Vec<WorkerNumber>, Vec<WorkerNumber>) = (Vec::new(), Vec::new());
        for step in 0.. {
            assert!(step < 100_000, "seed {seed} does not end");
            now += seconds(noise.below(20));
            let target = 1 + noise.below(8) as usize;
            for late in scheduler.cut_overdue(now) {
                flying.retain(|worker| *worker != late);
                let verdict = scheduler.fail(late, "late", true, now).unwrap();
                ended[verdict.index] += i32::from(!verdict.again);
                scheduler.let_go(late);
            }
            match noise.below(3) {
                0 => idle.extend(scheduler.hire(target)),
                1 if !idle.is_empty() => {
                    let worker = idle.swap_remove(noise.below(idle.len() as u64) as usize);
                    if start(&mut scheduler, worker, target, now).is_some() {
                        flying.push(worker);
                    }
                }
                _ if !flying.is_empty() => {
                    let worker = flying.swap_remove(noise.below(flying.len() as u64) as usize);
                    if noise.below(2) == 0 {
                        let verdict = scheduler.fail(worker, "no", noise.below(5) > 0, now).unwrap();
                        ended[verdict.index] += i32::from(!verdict.again);
                    } else {
                        ended[scheduler.complete(worker, now).unwrap().0] += 1;
                    }
                    idle.push(worker);
                }
                _ => {}
            }
            assert!(flying.len() <= concurrency);
            if scheduler.finished() {
                break;
            }
        }
        assert_eq!(ended, [1; 40], "seed {seed}");
        assert!(scheduler.take_records().iter().all(|record| record.status != InputStatus::DidNotRun));
    }
}

#[test]
fn a_refused_task_rests_and_is_tried_again_without_counting() {
    let mut scheduler = scheduler(2, 0, 2);
    let workers = hire_all(&mut scheduler, 2);
    for (worker, index) in workers.iter().zip(0..) {
        assert_eq!(start(&mut scheduler, *worker, 2, seconds(0)), Some(index));
    }
    assert_eq!(scheduler.attempt_load(workers[1], seconds(3)), Some((seconds(3), 2, 1)));
    let refused = scheduler.refuse(workers[0], "full", seconds(5), seconds(1));
    assert_eq!(refused, Some(AttemptVerdict { index: 0, attempts: 0, again: true }));
    assert_eq!(start(&mut scheduler, workers[0], 2, seconds(1)), None, "it rests");
    assert!(scheduler.complete(workers[1], seconds(2)).is_some());
    assert_eq!(start(&mut scheduler, workers[1], 2, seconds(2)), None);
    assert!(!scheduler.finished(), "one task rests");
    assert_eq!(scheduler.next_wake(seconds(2)), Some(seconds(4)));
    scheduler.wake(seconds(6));
    let worker = scheduler.hire(2).unwrap();
    assert_eq!(start(&mut scheduler, worker, 2, seconds(6)), Some(0));
    assert_eq!(scheduler.refusals(worker), Some((0, 1)));
    assert!(scheduler.complete(worker, seconds(7)).is_some());
    scheduler.let_go(worker);
    assert!(scheduler.finished());
    let records = scheduler.take_records();
    assert_eq!(
        (records[0].status, records[0].errors.as_slice()),
        (InputStatus::CompletedWithRetries, ["full"].as_slice())
    );
}
