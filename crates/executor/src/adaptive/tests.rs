//! The controller against a simulated provider, on tokio's paused clock:
//! whole runs in virtual time, with the goodput as a share of what the
//! provider's limits allow.

use super::*;
use crate::{Call, Limiter, RateHint, RetryPolicy, Retryable};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const TASKS: usize = 600;
const MEDIAN: f64 = 0.3;

/// A provider with a limit on calls in flight and token buckets.
struct Provider {
    state: Mutex<Limits>,
    /// Whether answers tell the limits.
    tells: bool,
}

struct Limits {
    concurrency: usize,
    in_flight: usize,
    /// Per second, level, capacity.
    requests: (f64, f64, f64),
    tokens: (f64, f64, f64),
    filled: Instant,
    began: Instant,
    seen: usize,
    refused: usize,
    refused_late: usize,
    seed: u64,
    /// The share of calls that is refused for no reason.
    whims: f64,
    /// What refusals say, whatever is true.
    claim: Option<Claim>,
}

/// What a refusal says of the limit on calls, and when to come back.
#[derive(Clone, Copy)]
struct Claim {
    hint: RateHint,
    retry_after: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused(Option<Duration>);

impl Retryable for Refused {
    fn class(&self) -> ErrorClass {
        ErrorClass::RateLimited
    }
    fn retry_after(&self) -> Option<Duration> {
        self.0
    }
}

/// The next latency: log-normal, its logarithm by the sum of twelve even draws.
fn latency(seed: &mut u64) -> f64 {
    let mut normal = -6.0;
    for _ in 0..12 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        normal += (*seed >> 11) as f64 / (1u64 << 53) as f64;
    }
    MEDIAN * (0.3 * normal).exp()
}

/// When the last call would end if each started as soon as the limit allows,
/// at `start(number)`, and took as long as the provider makes it take.
fn optimum(start: impl Fn(f64) -> f64) -> f64 {
    let mut seed = 1;
    (0..TASKS).map(|number| start(number as f64 + 1.0).max(0.0) + latency(&mut seed)).fold(0.0, f64::max)
}

impl Provider {
    fn new(concurrency: usize, requests: f64, tokens: f64, tells: bool) -> Arc<Self> {
        let now = Instant::now();
        let bucket = |rate: f64, least: f64| (rate, (rate / 4.0).max(least), (rate / 4.0).max(least));
        let state = Limits {
            concurrency,
            in_flight: 0,
            requests: bucket(requests, 1.0),
            tokens: bucket(tokens, 200.0),
            filled: now,
            began: now,
            seen: 0,
            refused: 0,
            refused_late: 0,
            seed: 1,
            whims: 0.0,
            claim: None,
        };
        Arc::new(Self { state: Mutex::new(state), tells })
    }

    fn state(&self) -> MutexGuard<'_, Limits> {
        self.state.lock().unwrap()
    }

    /// Decides about a call that arrives, and what to say.
    fn arrive(&self, cost: f64) -> (Result<f64, Option<Duration>>, [RateHint; 2]) {
        let mut state = self.state();
        let now = Instant::now();
        let since = (now - state.filled).as_secs_f64();
        state.filled = now;
        for bucket in [0, 1] {
            let bucket = if bucket == 0 { &mut state.requests } else { &mut state.tokens };
            bucket.1 = (bucket.1 + bucket.0 * since).min(bucket.2);
        }
        state.seen += 1;
        let wait = f64::max((1.0 - state.requests.1) / state.requests.0, (cost - state.tokens.1) / state.tokens.0);
        let whim = state.whims > 0.0 && (state.seen as f64 * state.whims).fract() < state.whims;
        let decision = if state.in_flight >= state.concurrency || whim {
            Err(None)
        } else if wait > 0.0 {
            Err(self.tells.then(|| Duration::from_secs_f64(wait)))
        } else {
            state.in_flight += 1;
            state.requests.1 -= 1.0;
            state.tokens.1 -= cost;
            Ok(latency(&mut state.seed))
        };
        if decision.is_err() {
            state.refused += 1;
            state.refused_late += usize::from(now - state.began > Duration::from_secs(5));
            if let Some(Claim { hint, retry_after }) = state.claim {
                return (Err(retry_after), [hint, RateHint::default()]);
            }
        }
        let hint = |bucket: (f64, f64, f64)| RateHint {
            per_minute: bucket.0.is_finite().then_some(bucket.0 * 60.0),
            remaining: bucket.0.is_finite().then_some(bucket.1.floor()),
            reset: None,
        };
        let said = if self.tells { [hint(state.requests), hint(state.tokens)] } else { [RateHint::default(); 2] };
        (decision, said)
    }

    async fn call(&self, cost: f64, hear: impl Fn([RateHint; 2])) -> Result<(), Refused> {
        sleep(Duration::from_millis(1)).await;
        let (decision, said) = self.arrive(cost);
        if let Ok(seconds) = decision {
            sleep(Duration::from_secs_f64(seconds)).await;
            self.state().in_flight -= 1;
        }
        sleep(Duration::from_millis(1)).await;
        hear(said);
        decision.map(|_| ()).map_err(Refused)
    }
}

/// Seconds of a run, and of late refusals the share of all calls.
async fn run(provider: &Arc<Provider>, cost: u64) -> (f64, f64) {
    run_estimated(provider, cost, cost).await
}

/// The same, with calls that are said to cost another number.
async fn run_estimated(provider: &Arc<Provider>, cost: u64, said: u64) -> (f64, f64) {
    let limiter = Limiter::new(Arc::new(AdaptiveController::new(AdaptiveSettings::default())))
        .with_retry(RetryPolicy { max_attempts: 100, ..RetryPolicy::default() });
    let began = Instant::now();
    let (call, cancel) = (Call::default().with_cost(said), CancellationToken::new());
    let task = || async {
        let sent = Instant::now();
        let hear = |[requests, tokens]: [RateHint; 2]| limiter.apply_hints(&RateHints { sent, requests, tokens });
        provider.call(cost as f64, hear).await
    };
    let done = futures::future::join_all((0..TASKS).map(|_| limiter.call(call, &cancel, task))).await;
    assert!(done.iter().all(Result::is_ok), "no call is lost");
    let state = provider.state();
    (began.elapsed().as_secs_f64(), state.refused_late as f64 / state.seen as f64)
}

fn check(name: &str, optimum: f64, (seconds, refused): (f64, f64), least: f64, most_refused: f64) {
    let share = optimum / seconds;
    println!("{name}: {share:.3} of the optimum, {:.2} % refused late", refused * 100.0);
    assert!(share >= least, "{name}: {share:.3} of the optimum ({seconds:.1} s, {optimum:.1} s possible)");
    assert!(refused <= most_refused, "{name}: {:.1} % of the calls were refused late", refused * 100.0);
}

const NONE: f64 = f64::INFINITY;
/// The mean of the latencies.
const MEAN: f64 = 0.314;

#[tokio::test(start_paused = true)]
async fn told_limits_on_calls_are_used_up() {
    let slow = Provider::new(usize::MAX, 20.0, NONE, true);
    check("20 a second", optimum(|n| (n - 5.0) / 20.0), run(&slow, 10).await, 0.95, 0.01);
    let quick = Provider::new(usize::MAX, 200.0, NONE, true);
    check("200 a second", optimum(|n| (n - 50.0) / 200.0), run(&quick, 10).await, 0.95, 0.01);
}

#[tokio::test(start_paused = true)]
async fn a_told_limit_on_tokens_is_used_up() {
    let provider = Provider::new(usize::MAX, NONE, 5000.0, true);
    check("tokens", optimum(|n| (n * 200.0 - 1250.0) / 5000.0), run(&provider, 200).await, 0.95, 0.01);
}

#[tokio::test(start_paused = true)]
async fn a_limit_on_tokens_is_used_up_by_calls_whose_cost_is_only_estimated() {
    // Callers say the most that a call could cost, so too much is the usual case.
    for (said, least) in [(400, 0.95), (250, 0.95), (100, 0.75)] {
        let provider = Provider::new(usize::MAX, NONE, 5000.0, true);
        let name = format!("tokens, {said} said of 200");
        let best = optimum(|n| (n * 200.0 - 1250.0) / 5000.0);
        check(&name, best, run_estimated(&provider, 200, said).await, least, 0.02);
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_bucket_of_tokens_is_used_up_without_refusals() {
    for said in [40, 60, 86, 120] {
        let provider = Provider::new(usize::MAX, NONE, 1000.0, true);
        let best = optimum(|n| (n * 50.0 - 250.0) / 1000.0);
        check(&format!("tokens, {said} said of 50"), best, run_estimated(&provider, 50, said).await, 0.94, 0.02);
    }
}

#[tokio::test(start_paused = true)]
async fn an_untold_limit_on_concurrency_is_found() {
    let provider = Provider::new(8, NONE, NONE, false);
    check("8 at once", 600.0 * MEAN / 8.0, run(&provider, 10).await, 0.95, 0.01);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_halved_and_doubled_is_followed() {
    let provider = Provider::new(usize::MAX, 40.0, NONE, true);
    let change = async {
        for (after, rate) in [(4.0, 20.0), (8.0, 40.0)] {
            sleep(Duration::from_secs_f64(after)).await;
            provider.state().requests.0 = rate;
        }
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! { biased; outcome = run(&provider, 10) => outcome, () = change => unreachable!() };
    // 10 + 40·4 + 20·8 = 330 in 12 s, and the rest at 40.
    check("halved, doubled", 12.0 + 270.0 / 40.0 + MEDIAN, outcome, 0.95, 0.01);
}

#[tokio::test(start_paused = true)]
async fn a_limit_on_concurrency_that_is_halved_and_doubled_is_followed() {
    let provider = Provider::new(8, NONE, NONE, false);
    let change = async {
        for (after, limit) in [(5.0, 4), (5.0, 8)] {
            sleep(Duration::from_secs_f64(after)).await;
            provider.state().concurrency = limit;
        }
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! { biased; outcome = run(&provider, 10) => outcome, () = change => unreachable!() };
    let done = 5.0 * 8.0 / MEAN + 5.0 * 4.0 / MEAN;
    check("8, 4, 8 at once", 10.0 + (600.0 - done) * MEAN / 8.0, outcome, 0.75, 0.03);
}

#[tokio::test(start_paused = true)]
async fn an_untold_limit_on_calls_is_learned() {
    let provider = Provider::new(usize::MAX, 20.0, NONE, false);
    check("20 a second, untold", optimum(|n| (n - 5.0) / 20.0), run(&provider, 10).await, 0.7, 0.05);
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_limits_gets_all_that_is_allowed() {
    let provider = Provider::new(usize::MAX, NONE, NONE, false);
    let (seconds, _) = run(&provider, 10).await;
    assert!(seconds < 2.5, "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn refusals_at_random_do_not_slow_a_provider_without_limits() {
    let provider = Provider::new(usize::MAX, NONE, NONE, false);
    provider.state().whims = 0.01;
    let (seconds, _) = run(&provider, 10).await;
    assert!(seconds < 5.0, "{seconds}");
}

/// Claims of refusals at a provider that takes 12 at once, whatever it says.
fn claims() -> Vec<(&'static str, Claim)> {
    let claim = |per_minute, remaining, reset: Option<u64>, retry_after: Option<u64>| Claim {
        hint: RateHint { per_minute, remaining, reset: reset.map(Duration::from_secs) },
        retry_after: retry_after.map(Duration::from_millis),
    };
    vec![
        ("a limit of 0", claim(Some(0.0), Some(0.0), None, Some(50))),
        ("a limit of 0, for a day", claim(Some(0.0), Some(0.0), Some(86_400), Some(86_400_000))),
        ("a limit of 1", claim(Some(1.0), Some(0.0), None, Some(50))),
        ("a limit of 6000", claim(Some(6000.0), Some(0.0), None, Some(50))),
        ("a limit of 60,000, no wish", claim(Some(60_000.0), Some(0.0), None, None)),
        ("nothing left of no limit", claim(None, Some(0.0), None, Some(50))),
        ("no number", claim(Some(f64::NAN), Some(f64::INFINITY), None, Some(50))),
        ("below nothing", claim(Some(-5.0), Some(-1.0), None, Some(50))),
        ("more than there is", claim(Some(1e308), Some(1e308), None, Some(50))),
    ]
}

#[tokio::test(start_paused = true)]
async fn what_refusals_claim_loses_against_what_gets_through() {
    for (name, claim) in claims() {
        let provider = Provider::new(12, NONE, NONE, false);
        provider.state().claim = Some(claim);
        let (seconds, refused) = run(&provider, 10).await;
        check(name, TASKS as f64 * MEAN / 12.0, (seconds, refused), 0.8, 0.08);
        let state = provider.state();
        assert!(state.refused < TASKS, "{name}: {} refusals for {TASKS} calls", state.refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_is_blamed_pauses_for_a_minute_at_most() {
    let controller = AdaptiveController::new(AdaptiveSettings::default());
    let told = RateHint { per_minute: Some(600.0), remaining: Some(0.0), reset: None };
    let refused = |retry_after| Outcome {
        retry_after: Some(retry_after),
        ..Outcome::new(OutcomeKind::Failed(ErrorClass::RateLimited), Duration::from_millis(1))
    };
    for wish in [Duration::from_secs(200), Duration::from_secs(86_400), Duration::MAX] {
        controller.apply_hints(&RateHints { requests: told, ..RateHints::new(Instant::now()) });
        controller.record(&refused(wish));
        let now = Instant::now();
        let until = controller.admit(1, now).expect_err("the bucket is empty");
        assert!(until - now <= Duration::from_secs(60), "{wish:?}: {:?}", until - now);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_declarations_the_smaller_holds() {
    let controller = AdaptiveController::new(AdaptiveSettings { maximum: 64, ..AdaptiveSettings::default() });
    let known = AdaptiveSettings { maximum: 5, requests_per_minute: Some(600.0), ..AdaptiveSettings::default() };
    controller.restrict(&known);
    assert_eq!((controller.maximum(), controller.target(), controller.rates().0), (5, 5, Some(10.0)));
    controller.restrict(&AdaptiveSettings { requests_per_minute: Some(60.0), ..AdaptiveSettings::default() });
    controller.restrict(&AdaptiveSettings { requests_per_minute: Some(6000.0), ..AdaptiveSettings::default() });
    assert_eq!((controller.maximum(), controller.target(), controller.rates().0), (5, 5, Some(1.0)));
}
