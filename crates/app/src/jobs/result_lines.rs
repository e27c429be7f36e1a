//! Results in the log of a job. The log is all that a cluster returns of a job,
//! and it contains everything that the job prints. So the job writes its result
//! in lines that begin with a mark, and the program that follows the job extracts
//! these lines.

use crate::environment;
use std::io::Write;

/// The variable that holds the mark; the submitting program sets it.
pub const RESULT_MARK: &str = "REVERIE_RESULT_MARK";
/// The most characters of a result in one line. A line of this length is written at
/// once, so other output does not split it.
const LINE_CHARACTERS: usize = 1000;

/// Prints results as marked lines.
pub struct ResultLines(String);

impl ResultLines {
    /// The printer, in a job whose log is followed.
    pub fn from_environment() -> Option<Self> {
        environment::environment_variable(RESULT_MARK).map(Self)
    }

    /// Prints a part of the result.
    pub fn print(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        for line in lines(&self.0, text) {
            // A closed log is not an error.
            let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        }
    }
}

/// The marked lines of a text. Each begins with a line break, which ends an incomplete
/// line of other output.
fn lines(mark: &str, text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let piece = |piece: &[char]| {
        let text = serde_json::Value::from(piece.iter().collect::<String>());
        format!("\n{mark} {text}\n")
    };
    characters.chunks(LINE_CHARACTERS).map(piece).collect()
}

/// Takes the results out of a log while it grows.
pub struct JobLogReader {
    mark: String,
    /// Whether the last line was empty and is held back: it may be the line
    /// break before a marked line.
    held: bool,
}

/// A part of a log.
#[derive(Debug, PartialEq)]
pub enum LogPart {
    /// A part of the result.
    Result(String),
    /// Anything else.
    Log(String),
}

impl JobLogReader {
    /// A reader for a job that was given this mark.
    pub fn new(mark: String) -> Self {
        Self { mark, held: false }
    }

    /// Reads complete lines of the log, and returns their parts.
    pub fn read(&mut self, text: &str) -> Vec<LogPart> {
        let mut parts = Vec::new();
        for line in text.lines() {
            let piece = line.strip_prefix(&self.mark).and_then(|piece| serde_json::from_str(piece).ok());
            if let Some(piece) = piece {
                self.held = false;
                parts.push(LogPart::Result(piece));
                continue;
            }
            if std::mem::take(&mut self.held) {
                parts.push(LogPart::Log(String::new()));
            }
            if line.is_empty() {
                self.held = true;
            } else {
                parts.push(LogPart::Log(line.to_owned()));
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_comes_out_of_the_log_as_it_was_whatever_stands_around_it() {
        let result = format!("{{\n  \"text\": \"é {}\"\n}}\n\nend", "0123456789".repeat(300));
        let marked = lines("mark-7", &result);
        assert!(marked.len() > 3 && marked.iter().all(|line| line.matches('\n').count() == 2));
        let mut log = String::from("Ray says\nhalf a line");
        for line in &marked {
            log.push_str(line);
            log.push_str("a worker says {\n");
        }
        // The log is read as it grows, in whole lines.
        let mut reader = JobLogReader::new("mark-7".to_owned());
        let (mut found, mut rest) = (String::new(), Vec::new());
        for line in log.split_inclusive('\n') {
            for said in reader.read(line) {
                match said {
                    LogPart::Result(piece) => found.push_str(&piece),
                    LogPart::Log(line) => rest.push(line),
                }
            }
        }
        assert_eq!(found, result);
        assert_eq!(rest[..2], ["Ray says", "half a line"]);
        assert_eq!(rest.iter().filter(|line| *line == "a worker says {").count(), marked.len());
        assert_eq!(rest.len(), 2 + marked.len(), "no line that is empty for the mark's sake: {rest:?}");
    }

    #[test]
    fn empty_lines_of_the_log_stay() {
        let mut reader = JobLogReader::new("m".to_owned());
        let log = |text: &str| LogPart::Log(text.to_owned());
        assert_eq!(reader.read("a\n\nb\n"), [log("a"), log(""), log("b")]);
    }
}
