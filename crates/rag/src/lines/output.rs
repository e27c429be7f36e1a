//! What a process writes: replies of a limited length, and lines for people.

use super::lock;
use std::{
    collections::VecDeque,
    io::{self, BufRead},
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// A printed line is cut after this many bytes.
const LINE_BYTES: usize = 16 << 10;
/// This many printed lines are kept for messages, each up to this many characters.
const TAIL_LINES: usize = 5;
/// The first characters of a text that messages repeat.
const BEGINNING: usize = 200;

/// Appends a line to `line`, with its end; of a longer line than `most` bytes only the first `most` + 1. Returns how
/// many bytes were read: 0 at the end of the stream.
pub(super) fn read_bounded(stream: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    let mut read = 0;
    loop {
        let new = match stream.fill_buf() {
            Ok(new) => new,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = memchr::memchr(b'\n', new).map(|at| at + 1);
        let count = end.unwrap_or(new.len());
        line.extend_from_slice(new.get(..count).unwrap_or_default());
        stream.consume(count);
        read += count;
        // The end of the line is no part of its length.
        let length = line.len() - usize::from(end.is_some());
        if length > most {
            line.truncate(most + 1);
            return Ok(read);
        }
        if end.is_some() || count == 0 {
            return Ok(read);
        }
    }
}

/// The last lines that a process printed.
#[derive(Default)]
pub(super) struct PrintedTail {
    state: Mutex<TailState>,
    closed: Condvar,
}

#[derive(Default)]
struct TailState {
    lines: VecDeque<String>,
    is_closed: bool,
}

impl PrintedTail {
    pub(super) fn add(&self, line: &str) {
        let mut state = lock(&self.state);
        if state.lines.len() == TAIL_LINES {
            state.lines.pop_front();
        }
        state.lines.push_back(beginning(line));
    }

    /// There are no more lines.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.closed.notify_all();
    }

    /// The lines, once there are no more, or after this time.
    pub(super) fn text(&self, wait: Duration) -> String {
        let state = lock(&self.state);
        let waited = self.closed.wait_timeout_while(state, wait, |state| !state.is_closed);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// The lines of a stream, as they come, including those of a progress bar.
pub(super) fn printed_lines(mut stream: impl BufRead, mut line: impl FnMut(&str)) {
    let mut text: Vec<u8> = Vec::new();
    let mut show = |text: &mut Vec<u8>| {
        if !text.is_empty() {
            line(&String::from_utf8_lossy(text));
            text.clear();
        }
    };
    while let Ok(new) = stream.fill_buf() {
        let count = new.len();
        if count == 0 {
            break;
        }
        for &byte in new {
            if matches!(byte, b'\n' | b'\r') || text.len() >= LINE_BYTES {
                show(&mut text);
            }
            if !matches!(byte, b'\n' | b'\r') {
                text.push(byte);
            }
        }
        stream.consume(count);
    }
    show(&mut text);
}

/// The first characters of a text that may be long.
pub(crate) fn beginning(text: &str) -> String {
    match text.char_indices().nth(BEGINNING) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_longest_length_is_read_and_a_longer_one_is_seen_by_its_length() {
        let read = |text: &str, most| {
            let (mut stream, mut lines) = (io::BufReader::with_capacity(3, text.as_bytes()), Vec::new());
            let mut line = Vec::new();
            while read_bounded(&mut stream, &mut line, most).unwrap() > 0 {
                lines.push(String::from_utf8(std::mem::take(&mut line)).unwrap());
            }
            lines
        };
        assert_eq!(read("abcd\n\nef\n", 4), ["abcd\n", "\n", "ef\n"]);
        assert_eq!(read("no end", 9), ["no end"]);
        let long = read(&"x".repeat(100), 4);
        assert!(long[0].len() > 4 && long[0].len() <= 7, "{long:?}");
    }

    #[test]
    fn the_last_lines_are_there_as_soon_as_the_stream_closes() {
        let tail = PrintedTail::default();
        (0..9).for_each(|number| tail.add(&format!("line {number}")));
        tail.add(&"x".repeat(BEGINNING + 1));
        tail.close();
        let text = tail.text(Duration::from_secs(600));
        assert!(text.starts_with("line 5\n") && text.ends_with("x…"), "{text}");
    }
}
