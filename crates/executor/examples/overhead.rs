//! What a task costs beyond itself: tasks that do nothing, through the
//! executor, on one thread; and the most memory that this process ever had.
//! Prints one line of JSON.
//!
//! `cargo run --release -p executor --example overhead -- [TASKS] [CONCURRENCY]`
#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so and end")]

use executor::{Executor, Limiter};
use futures::{StreamExt, stream};
use std::{convert::Infallible, time::Instant};

/// The peak of resident memory in bytes; 0 where the system does not tell.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() * 1024
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<usize>().expect("a number"));
    let (tasks, concurrency) = (numbers.next().unwrap_or(1_000_000), numbers.next().unwrap_or(64));
    let executor = Executor::builder(Limiter::fixed(concurrency)).build();

    let started = Instant::now();
    let mut results = executor.run(stream::iter(0..tasks), |number| async move { Ok::<_, Infallible>(number) });
    let (mut completed, mut sum) = (0, 0);
    while let Some(result) = results.next().await {
        if let Ok(number) = result.output {
            completed += 1;
            sum += number;
        }
    }
    let seconds = started.elapsed().as_secs_f64();

    assert_eq!((completed, sum), (tasks, tasks * tasks.saturating_sub(1) / 2), "each task ran once");
    println!(
        r#"{{"tasks":{tasks},"concurrency":{concurrency},"seconds":{seconds:.6},"tasks_per_second":{:.0},"peak_memory_bytes":{}}}"#,
        tasks as f64 / seconds,
        peak_memory()
    );
}
