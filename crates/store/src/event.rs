//! The event log of a run: one JSON object per line, only ever appended to.
//!
//! Dashboards, progress bars, trackers and reports read it. A line is written
//! with one system call before `append` returns, so `kill -9` loses at most the
//! line being written; a power cut may lose the last lines.

use crate::Error;
use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Something that happened, written as `{"time_ms":…,"kind":"…",…fields}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in milliseconds since 1970 (UTC), as the caller's clock had it.
    pub time_ms: i64,
    /// What, such as `task_finished`.
    pub kind: String,
    /// The rest. Fields called `time_ms` or `kind` are not written: those
    /// names are the event's own.
    #[serde(flatten, serialize_with = "other_fields")]
    pub fields: Map<String, Value>,
}

impl Event {
    /// An event without fields.
    pub fn new(time_ms: i64, kind: impl Into<String>) -> Self {
        Self { time_ms, kind: kind.into(), fields: Map::new() }
    }

    /// Adds the fields of a struct or map; any other value becomes the field `value`.
    ///
    /// A log must not fail because of a value, so a value that JSON cannot hold
    /// becomes the field `unserialisable`, with the reason.
    #[must_use]
    pub fn with(mut self, fields: &impl Serialize) -> Self {
        match serde_json::to_value(fields) {
            Ok(Value::Object(fields)) => self.fields.extend(fields),
            Ok(value) => drop(self.fields.insert("value".to_owned(), value)),
            Err(error) => drop(self.fields.insert("unserialisable".to_owned(), Value::String(error.to_string()))),
        }
        self
    }

    /// The fields as a struct.
    ///
    /// # Errors
    /// If they are not those of this struct.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.fields)
    }
}

/// Leaves out the fields with the names of the event's own.
fn other_fields<S: Serializer>(fields: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().filter(|(name, _)| !["time_ms", "kind"].contains(&name.as_str())))
}

/// A log that is open for appending. Threads may share it, and so may
/// processes on one machine: each line is one write to the end of the file.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    writer: Mutex<EventWriter>,
}

#[derive(Debug)]
struct EventWriter {
    file: File,
    /// Whether the last write was cut off, so that the next event must begin with a line break.
    torn: bool,
    /// How many events could not be written, and why the first could not.
    lost: Option<(u64, String)>,
}

impl EventLog {
    /// Opens a log, and creates it and its folders where they are missing. If
    /// a killed process left half a line, the next event starts a new one.
    ///
    /// # Errors
    /// If the file cannot be made or opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
        }
        let open = || {
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
            let torn = !ends_with_newline(&mut file)?;
            Ok(EventWriter { file, torn, lost: None })
        };
        let writer = open().map_err(|source| Error::file("open", path, source))?;
        Ok(Self { path: path.to_owned(), writer: Mutex::new(writer) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If the line cannot be written. The log stays usable.
    pub fn append(&self, event: &Event) -> Result<(), Error> {
        let mut line = Vec::with_capacity(256);
        line.push(b'\n');
        serde_json::to_writer(&mut line, event).map_err(|error| Error::file("write", &self.path, error.into()))?;
        line.push(b'\n');
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::from(!writer.torn);
        // A write that fails half-way leaves this mark, so that the next event
        // starts on a new line. `write_all` is one system call unless the disk
        // is full.
        writer.torn = true;
        let written = writer.file.write_all(&line[start..]);
        writer.torn = written.is_err();
        if let Err(error) = &written {
            writer.lost.get_or_insert_with(|| (0, error.to_string())).0 += 1;
        }
        written.map_err(|source| Error::file("write", &self.path, source))
    }

    /// How many events could not be written, and why the first could not.
    pub fn lost(&self) -> Option<(u64, String)> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).lost.clone()
    }

    /// All events of a log, in the order in which they were written. Unreadable
    /// lines, as a killed process leaves them, are skipped;
    /// [`EventLog::inspect`] returns them.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(path: impl AsRef<Path>) -> Result<Vec<Event>, Error> {
        Ok(Self::inspect(path)?.events)
    }

    /// All events of a log, and the lines that are not events.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn inspect(path: impl AsRef<Path>) -> Result<EventLogContent, Error> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| Error::file("read", path, source))?;
        let mut content = EventLogContent::default();
        for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice(text) {
                Ok(event) => content.events.push(event),
                Err(error) => content.damaged.push(DamagedLine { line, reason: error.to_string() }),
            }
        }
        Ok(content)
    }
}

/// What a log holds.
#[derive(Debug, Default)]
pub struct EventLogContent {
    /// The events, in the order in which they were written.
    pub events: Vec<Event>,
    /// The lines that could not be read.
    pub damaged: Vec<DamagedLine>,
}

/// A line of a log that is not an event.
#[derive(Debug)]
pub struct DamagedLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Whether the file ends with a line break. Also true for an empty file: there is no line to end.
fn ends_with_newline(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    #[test]
    fn events_come_back_in_order_with_their_fields() -> TestResult {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Finished {
            rows: u64,
            seconds: f64,
        }
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("runs/1/events.jsonl");
        let log = EventLog::open(&path)?;
        let finished = Finished { rows: 3, seconds: 0.1 };
        log.append(&Event::new(5, "started"))?;
        log.append(&Event::new(7, "finished").with(&finished).with(&json!({"text": "a\nb"})))?;
        let events = EventLog::read(&path)?;
        assert_eq!(events[0], Event::new(5, "started"));
        assert_eq!(events[1].parse::<Finished>()?, finished);
        assert_eq!(events[1].fields["text"], "a\nb");
        let first_line = r#"{"time_ms":5,"kind":"started"}"#;
        assert_eq!(std::fs::read_to_string(&path)?.lines().next(), Some(first_line));
        Ok(())
    }

    #[test]
    fn the_events_own_names_win_over_fields() -> TestResult {
        let event = Event::new(1, "real").with(&json!({"kind": "fake", "time_ms": 2, "x": 3}));
        assert_eq!(serde_json::to_string(&event)?, r#"{"time_ms":1,"kind":"real","x":3}"#);
        Ok(())
    }

    #[test]
    fn half_a_last_line_is_passed_over_and_reported() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("events.jsonl");
        EventLog::open(&path)?.append(&Event::new(1, "whole"))?;
        let cut = |text: &[u8]| OpenOptions::new().append(true).open(&path)?.write_all(text);
        cut(b"{\"time_ms\":2,\"kind\":\"ha\xc3")?;
        let content = EventLog::inspect(&path)?;
        assert_eq!(content.events, [Event::new(1, "whole")]);
        assert_eq!(content.damaged.iter().map(|damaged| damaged.line).collect::<Vec<_>>(), [2]);

        // The next process starts on a fresh line and loses nothing of its own.
        EventLog::open(&path)?.append(&Event::new(3, "after"))?;
        let content = EventLog::inspect(&path)?;
        assert_eq!(content.events, [Event::new(1, "whole"), Event::new(3, "after")]);
        assert_eq!(content.damaged.len(), 1);
        Ok(())
    }

    #[test]
    fn a_line_that_only_lacks_its_end_is_kept() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("events.jsonl");
        std::fs::write(&path, r#"{"time_ms":1,"kind":"whole"}"#)?;
        EventLog::open(&path)?.append(&Event::new(2, "next"))?;
        assert_eq!(EventLog::read(&path)?, [Event::new(1, "whole"), Event::new(2, "next")]);
        Ok(())
    }

    #[test]
    fn threads_and_handles_never_mix_their_lines() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("events.jsonl");
        let logs = [EventLog::open(&path)?, EventLog::open(&path)?];
        std::thread::scope(|scope| {
            for (writer, log) in (0..8).zip(logs.iter().cycle()) {
                scope.spawn(move || {
                    for i in 0..50 {
                        let event = Event::new(i, "line").with(&json!({"writer": writer, "text": "x".repeat(2000)}));
                        assert!(log.append(&event).is_ok());
                    }
                });
            }
        });
        let content = EventLog::inspect(&path)?;
        assert!(content.damaged.is_empty());
        assert_eq!(content.events.len(), 400);
        for writer in 0..8 {
            let times =
                content.events.iter().filter(|event| event.fields["writer"] == writer).map(|event| event.time_ms);
            assert!(times.eq(0..50), "each writer's lines keep their order");
        }
        Ok(())
    }
}
