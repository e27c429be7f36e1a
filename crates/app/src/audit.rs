//! The audit log of a service: a line of JSON for each event, on standard error. It gets
//! all lines of the service for the operator (failures, refusals, drift, changes by
//! administrators), and changes of the file of keys.
//!
//! A separate thread writes the lines, so that no answer waits for a slow
//! reader. Lines that arrive while a thousand others wait are dropped; a line of
//! its own (`lines_lost`) says how many.

use serde_json::{Value, json};
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

/// The most lines that wait.
const QUEUE_LINES: usize = 1000;
/// How long the last lines may take to be written at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

enum AuditMessage {
    Line(String),
    /// Sends a message once all lines before this one are written.
    End(SyncSender<()>),
}

/// A log whose lines are written by another thread.
#[derive(Clone)]
pub struct AuditLog {
    lines: SyncSender<AuditMessage>,
    lost: Arc<AtomicU64>,
}

impl AuditLog {
    /// Starts a log that writes to `out` until the last clone is dropped.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn begin(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel(QUEUE_LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || write(out, &waiting, &counted))?;
        Ok(Self { lines, lost })
    }

    /// Queues an event to be written, without waiting.
    pub fn record(&self, event: &Value) {
        let line = crate::render::visible_json(&event.to_string()).into_owned();
        if self.lines.try_send(AuditMessage::Line(line)).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Waits until all events are written, for a second at most.
    pub fn end(self) {
        let (done, written) = sync_channel(1);
        // The queue may be full until a line is written. A separate thread waits, so that this one has a time limit.
        let send = move || drop(self.lines.send(AuditMessage::End(done)));
        if std::thread::Builder::new().name("audit end".to_owned()).spawn(send).is_ok() {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Writes queued lines; a line that cannot be written is lost.
fn write(mut out: impl Write, waiting: &Receiver<AuditMessage>, lost: &AtomicU64) {
    for message in waiting {
        match message {
            AuditMessage::Line(line) => {
                let _ = writeln!(out, "{line}");
                let lost = lost.swap(0, Relaxed);
                if lost > 0 {
                    let _ = writeln!(out, "{}", json!({ "lines_lost": lost }));
                }
            }
            AuditMessage::End(done) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io,
        sync::{Mutex, mpsc::channel},
    };

    /// Writes nothing until it is opened.
    struct Gate {
        opened: Receiver<()>,
        is_open: bool,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.is_open {
                self.opened.recv().map_err(io::Error::other)?;
                self.is_open = true;
            }
            self.written.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_does_not_read_blocks_no_writer_and_learns_how_much_it_missed() {
        let (open, opened) = channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let audit = AuditLog::begin(Gate { opened, is_open: false, written: written.clone() }).unwrap();
        let n_events = QUEUE_LINES as u64 + 500;
        (0..n_events).for_each(|number| audit.record(&json!({ "number": number })));
        open.send(()).unwrap();
        audit.end();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let lost: u64 = lines.iter().filter_map(|line| line["lines_lost"].as_u64()).sum();
        let whole = lines.iter().filter(|line| line.get("number").is_some()).count() as u64;
        assert_eq!((lines[0]["number"].as_u64(), lost + whole), (Some(0), n_events));
        assert!(lost >= 499, "{lost}");
    }
}
