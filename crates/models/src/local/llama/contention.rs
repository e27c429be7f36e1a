//! Detects whether other programs use the same cores. llama.cpp's threads wait
//! for each other by spinning, hundreds of times per token: if one core is
//! taken away, two threads decode ten times slower than one
//! (measured in tokens/s: two threads 54, next to a compiler 2; one thread 28).

use std::time::{Duration, Instant};

/// Measures how long the owning thread was ready to run and had to wait.
#[derive(Debug)]
pub(super) struct Contention {
    seen: Option<Times>,
    crowded_since: Option<Instant>,
    /// How long the cores count as crowded before all threads are tried again.
    retry_after: Duration,
}

/// A thread's time on a core, and its time waiting for one.
#[derive(Debug, Clone, Copy)]
struct Times {
    running: Duration,
    waiting: Duration,
}

/// The shortest time over which waiting is measured.
const WINDOW: Duration = Duration::from_millis(300);
/// If the thread waited for this share of a window, another program is using the cores.
const CROWDED: f64 = 0.15;
const FIRST_RETRY: Duration = Duration::from_secs(10);
const LONGEST_RETRY: Duration = Duration::from_secs(160);

impl Contention {
    pub(super) fn new() -> Self {
        Self { seen: None, crowded_since: None, retry_after: FIRST_RETRY }
    }

    /// Whether other programs use the cores. Must be called before each step, on the thread that
    /// computes. Only Linux measures this; elsewhere the answer is no.
    pub(super) fn crowded(&mut self) -> bool {
        times().is_some_and(|now| self.judge(now, Instant::now()))
    }

    fn judge(&mut self, now: Times, clock: Instant) -> bool {
        let seen = *self.seen.get_or_insert(now);
        let running = now.running.saturating_sub(seen.running);
        let waiting = now.waiting.saturating_sub(seen.waiting);
        if running + waiting >= WINDOW {
            self.seen = Some(now);
            let waited = waiting.as_secs_f64() > CROWDED * (running + waiting).as_secs_f64();
            match self.crowded_since {
                None if waited => self.crowded_since = Some(clock),
                // One thread beside one other program never waits, so the only
                // way to learn whether the core is free is to try; each try
                // makes the next one rarer.
                Some(since) if !waited && clock.duration_since(since) >= self.retry_after => {
                    self.crowded_since = None;
                    self.retry_after = (self.retry_after * 2).min(LONGEST_RETRY);
                }
                _ => {}
            }
        }
        self.crowded_since.is_some()
    }
}

fn times() -> Option<Times> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse().map(Duration::from_nanos));
    Some(Times { running: fields.next()?.ok()?, waiting: fields.next()?.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds windows of one second each, given by the share of waiting.
    fn crowded(shares: &[f64]) -> Vec<bool> {
        let (mut contention, start) = (Contention::new(), Instant::now());
        let mut now = Times { running: Duration::ZERO, waiting: Duration::ZERO };
        contention.judge(now, start);
        shares
            .iter()
            .enumerate()
            .map(|(second, share)| {
                now.waiting += Duration::from_secs_f64(*share);
                now.running += Duration::from_secs_f64(1.0 - share);
                contention.judge(now, start + Duration::from_secs(second as u64))
            })
            .collect()
    }

    #[test]
    fn a_quiet_machine_is_not_crowded() {
        assert_eq!(crowded(&[0.0, 0.05, 0.1]), [false; 3]);
    }

    #[test]
    fn a_crowded_machine_stays_so_for_a_while() {
        assert_eq!(crowded(&[0.0, 0.4, 0.0, 0.0]), [false, true, true, true]);
    }

    #[test]
    fn all_threads_are_tried_again_ever_more_rarely() {
        let mut shares = vec![0.0; 40];
        (shares[0], shares[11]) = (0.5, 0.5);
        let crowded = crowded(&shares);
        assert_eq!(crowded.iter().filter(|crowded| !**crowded).count(), 1 + 9);
        assert!(!crowded[10] && crowded[11] && crowded[30] && !crowded[31]);
    }
}
