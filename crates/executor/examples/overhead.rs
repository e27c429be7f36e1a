//! The overhead of a call: calls that do nothing, through a limiter as
//! `models::Client` makes them, on one thread; and the most memory that this
//! process ever had. Prints one line of JSON.
//!
//! `adaptive` is the limiter of a remote model, which learns its limits;
//! `fixed` is that of a model in this process.
//!
//! `cargo run --release -p executor --example overhead -- [CALLS] [CONCURRENCY] [adaptive|fixed]`
#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]
#![expect(clippy::expect_used, clippy::panic, reason = "a benchmark that cannot run should say so and end")]

use executor::{AdaptiveController, AdaptiveSettings, Call, Limiter};
use futures::{StreamExt, stream};
use std::{convert::Infallible, sync::Arc, time::Instant};
use tokio_util::sync::CancellationToken;

/// The tokens that a call is estimated to cost, as the client tells the limiter.
const COST: u64 = 100;

/// The peak of resident memory in bytes; 0 where the system does not tell.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() * 1024
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(default, |number| number.parse::<usize>().expect("a number"));
    let (calls, concurrency) = (number(1_000_000), number(64));
    let kind = arguments.next().unwrap_or_else(|| "adaptive".to_owned());
    let limiter = match kind.as_str() {
        "fixed" => Limiter::fixed(concurrency),
        "adaptive" => Limiter::new(Arc::new(AdaptiveController::new(AdaptiveSettings {
            initial: concurrency,
            maximum: concurrency,
            ..AdaptiveSettings::default()
        }))),
        other => panic!("`{other}` is no limiter: adaptive or fixed"),
    };
    let cancel = CancellationToken::new();
    let call = Call::default().with_cost(COST);

    let started = Instant::now();
    let made = stream::iter(0..calls).map(|number| {
        let task = move || std::future::ready(Ok::<_, Infallible>(number));
        limiter.call(call, &cancel, task)
    });
    let outputs = made.buffer_unordered(concurrency).filter_map(|output| std::future::ready(output.ok()));
    let (completed, sum) = outputs.fold((0, 0), |(n, sum), number| std::future::ready((n + 1, sum + number))).await;
    let seconds = started.elapsed().as_secs_f64();

    assert_eq!((completed, sum), (calls, calls * calls.saturating_sub(1) / 2), "each call was made once");
    assert_eq!(limiter.status().completed, calls as u64, "and passed the limiter");
    println!(
        r#"{{"limiter":"{kind}","calls":{calls},"concurrency":{concurrency},"seconds":{seconds:.6},"calls_per_second":{:.0},"peak_memory_bytes":{}}}"#,
        calls as f64 / seconds,
        peak_memory()
    );
}
