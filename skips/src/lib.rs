//! Lets a test report that it was skipped because a server, a library or a
//! model is not there: it prints the reason, and writes it to a file for the
//! end of `make test`. `cargo xtask skips` counts and names the skipped tests.

use std::{fs::OpenOptions, io::Write};

/// Reports why the calling test ends without having tested anything. If
/// `REVERIE_TEST_SKIPS` names a file, a line with the test and the reason is
/// appended to it.
///
/// # Panics
/// If that file cannot be written.
#[expect(clippy::print_stdout, reason = "tests print why they are skipped")]
#[expect(clippy::panic, reason = "a skip that is not counted would look like a test that passed")]
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
    let Some(path) = std::env::var_os("REVERIE_TEST_SKIPS") else { return };
    let thread = std::thread::current();
    let line = format!("{}: {}\n", thread.name().unwrap_or("a test"), reason.replace('\n', " "));
    let written =
        OpenOptions::new().create(true).append(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("{}: {error}", path.display());
    }
}
