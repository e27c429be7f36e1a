//! Whether other programs want the same cores. llama.cpp's threads wait for
//! each other by spinning, hundreds of times per token: with one core taken
//! away, two threads decode ten times slower than one thread alone (measured:
//! 48 tokens/s alone, 2 to 6 beside a compiler, and 33 with one thread).

use std::time::{Duration, Instant};

/// Decides how many threads are worth using, from how long the owning thread
/// was ready to run and was not let.
#[derive(Debug)]
pub(super) struct Contention {
    seen: Option<Times>,
    narrow_since: Option<Instant>,
    patience: Duration,
}

/// A thread's time on a core, and its time waiting for one.
#[derive(Debug, Clone, Copy)]
struct Times {
    running: Duration,
    waiting: Duration,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    /// Go on.
    Stay,
    /// One thread is faster now.
    Narrow,
    /// Try all threads again.
    Widen,
}

/// Long enough to be no accident, short enough to lose little.
const WINDOW: Duration = Duration::from_millis(300);
/// The share of a window spent waiting that means "somebody else is here".
const CROWDED: f64 = 0.15;
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_PATIENCE: Duration = Duration::from_secs(160);

impl Contention {
    pub(super) fn new() -> Self {
        Self { seen: None, narrow_since: None, patience: FIRST_PATIENCE }
    }

    /// To be asked after each step, on the thread that decodes. Where the
    /// system does not tell (anything but Linux) the advice is to stay.
    pub(super) fn advice(&mut self) -> Advice {
        match times() {
            Some(now) => self.judge(now, Instant::now()),
            None => Advice::Stay,
        }
    }

    fn judge(&mut self, now: Times, clock: Instant) -> Advice {
        let Some(seen) = self.seen else {
            self.seen = Some(now);
            return Advice::Stay;
        };
        let running = now.running.saturating_sub(seen.running);
        let waiting = now.waiting.saturating_sub(seen.waiting);
        if running + waiting < WINDOW {
            return Advice::Stay;
        }
        self.seen = Some(now);
        let crowded = waiting.as_secs_f64() > CROWDED * (running + waiting).as_secs_f64();
        match self.narrow_since {
            None if crowded => {
                self.narrow_since = Some(clock);
                Advice::Narrow
            }
            // One thread beside one other program waits for nothing, so the
            // only way to learn whether the core is free is to try; each
            // failure makes the next try rarer.
            Some(since) if !crowded && clock.duration_since(since) >= self.patience => {
                self.narrow_since = None;
                self.patience = (self.patience * 2).min(LONGEST_PATIENCE);
                Advice::Widen
            }
            _ => Advice::Stay,
        }
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
    fn advices(shares: &[f64]) -> Vec<Advice> {
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
    fn a_quiet_machine_is_left_alone() {
        assert!(advices(&[0.0, 0.05, 0.1]).iter().all(|advice| *advice == Advice::Stay));
    }

    #[test]
    fn a_crowded_machine_gets_one_thread_once() {
        assert_eq!(advices(&[0.4, 0.4, 0.0]), [Advice::Narrow, Advice::Stay, Advice::Stay]);
    }

    #[test]
    fn all_threads_are_tried_again_ever_more_rarely() {
        let mut shares = vec![0.0; 40];
        (shares[0], shares[11]) = (0.5, 0.5);
        let advices = advices(&shares);
        assert_eq!(advices[10], Advice::Widen);
        assert_eq!(advices[11], Advice::Narrow);
        assert_eq!(advices.iter().rposition(|advice| *advice == Advice::Widen), Some(31));
    }
}
