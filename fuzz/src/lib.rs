//! Tests that feed a reader with bytes that are nearly right: no panic, and no
//! input that takes longer than a person waits.
//!
//! `REVERIE_TEST_FUZZ_SECONDS` (2 for each target) fuzzes for longer, and
//! `REVERIE_TEST_SEED` with other bytes. What failed once stands as a seed in
//! `corpus/TARGET`.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::{Duration, Instant},
};

/// Words of HTML and XML.
pub const MARKUP: [&[u8]; 16] = [
    b"<",
    b">",
    b"</",
    b"/>",
    b"&",
    b"&#x110000;",
    b"&amp;amp;",
    b"<!--",
    b"<![CDATA[",
    b"<p>",
    b"</p>",
    b"<table><tr><td>",
    b"<script>",
    b"\xff",
    b"\xe2\x80\xa8",
    b"<?xml version='1.1' encoding='utf-16'?>",
];

/// The longest that one input may take, in time of the processor: a busy machine
/// is no fault of the reader.
const LONGEST: Duration = Duration::from_secs(5);
/// The longest that one input may take, in any case.
const HANGS: Duration = Duration::from_secs(300);

thread_local! {
    /// Panics of this thread, also those that a reader caught.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// A number that an environment variable holds.
pub fn setting(name: &str) -> Option<f64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// How long to fuzz, unless `REVERIE_TEST_FUZZ_SECONDS` says something else.
pub fn seconds(default: f64) -> Duration {
    Duration::from_secs_f64(setting("REVERIE_TEST_FUZZ_SECONDS").unwrap_or(default))
}

/// Numbers that are the same for the same seed. Source: Marsaglia, "Xorshift RNGs", 2003.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// The numbers of one worker, other ones for another `REVERIE_TEST_SEED`.
    pub fn new(worker: u64) -> Self {
        let seed = setting("REVERIE_TEST_SEED").map_or(1, |seed| seed as u64);
        // Zero would stay zero.
        Self((seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ worker) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    /// One of these.
    pub fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// The time of the processor that this thread has taken, where the system says it.
fn computed() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// A seed with up to five changes; `words` are what the format has of its own.
pub fn mutated(draw: &mut Draw, seeds: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seeds[draw.below(seeds.len())].clone();
    for _ in 0..draw.below(6) {
        let at = draw.below(bytes.len() + 1);
        let end = (at + draw.below(24)).min(bytes.len());
        match draw.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << draw.below(8),
            1 => _ = bytes.drain(at..end),
            2 => {
                let again = bytes[at..end].repeat(1 + draw.below(40));
                _ = bytes.splice(at..at, again);
            }
            3 => bytes.truncate(at),
            4 => {
                let other = &seeds[draw.below(seeds.len())];
                bytes.truncate(at);
                bytes.extend(&other[draw.below(other.len())..]);
            }
            5 => {
                let noise: Vec<u8> = (0..draw.below(64)).map(|_| draw.number() as u8).collect();
                _ = bytes.splice(at..end, noise);
            }
            // Where it matters: what stands before a line's end.
            6 => {
                let ends: Vec<usize> =
                    bytes.windows(2).enumerate().filter(|(_, two)| two == b"\r\n").map(|(at, _)| at).collect();
                if let Some(end) = ends.get(draw.below(ends.len())) {
                    let word = draw.of(words);
                    _ = bytes.splice(end + 2..end + 2, word.iter().copied());
                }
            }
            _ => {
                let word = draw.of(words);
                _ = bytes.splice(at..at, word.iter().copied());
            }
        }
    }
    bytes
}

/// Feeds a reader with the seeds, then with changed ones.
///
/// # Panics
/// If the reader panics or takes too long. The input is kept, and named.
#[expect(clippy::print_stdout, reason = "a long run tells what it tried")]
#[expect(clippy::panic, reason = "it fails the test that called it")]
pub fn run(target: &str, seeds: &[&[u8]], words: &[&[u8]], mut read: impl FnMut(&[u8])) {
    let (mut draw, seconds) = (Draw::new(0), seconds(2.0));
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.set(PANICS.get() + 1);
        before(info);
    }));
    let mut seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let found = std::fs::read_dir(&kept).into_iter().flatten().flatten();
    seeds.extend(found.filter_map(|entry| std::fs::read(entry.path()).ok()));
    let begun = Instant::now();
    let mut inputs: usize = 0;
    let mut slowest = Duration::ZERO;
    while inputs < seeds.len() || begun.elapsed() < seconds {
        let bytes = match seeds.get(inputs) {
            Some(seed) => seed.clone(),
            None => mutated(&mut draw, &seeds, words),
        };
        let (panics, asked, before) = (PANICS.get(), Instant::now(), computed());
        let done = catch_unwind(AssertUnwindSafe(|| read(&bytes)));
        let waited = asked.elapsed();
        let took = before.zip(computed()).map_or(waited, |(before, after)| after.saturating_sub(before));
        slowest = slowest.max(took);
        if done.is_err() || PANICS.get() > panics || took > LONGEST || waited > HANGS {
            let path = std::env::temp_dir().join(format!("reverie-fuzz-{target}-{inputs}"));
            let kept = match std::fs::write(&path, &bytes) {
                Ok(()) => format!("it is kept in {}", path.display()),
                Err(error) => format!("it could not be kept: {error}"),
            };
            panic!("{target}: input {inputs} panicked or took {took:?}; {kept}");
        }
        inputs += 1;
    }
    println!("{target}: {inputs} inputs, the slowest {slowest:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_inputs() {
        let inputs = || {
            let (mut draw, seeds) = (Draw::new(7), [b"GET / HTTP/1.1\r\n\r\n".to_vec(), b"abc".to_vec()]);
            (0..100).map(|_| mutated(&mut draw, &seeds, &[b"\xff"])).collect::<Vec<_>>()
        };
        assert_eq!(inputs(), inputs());
        assert!(inputs().iter().any(|input| input.contains(&0xff)));
    }

    #[test]
    #[should_panic(expected = "panicked or took")]
    fn a_panic_that_a_reader_caught_is_found() {
        run("caught", &[b"ab"], &[b"!"], |bytes| {
            let caught = || assert!(bytes.len() < 3, "too long");
            drop(catch_unwind(AssertUnwindSafe(caught)));
        });
    }
}
