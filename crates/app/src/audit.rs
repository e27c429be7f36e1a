//! The audit of a service: a line of JSON for each event, on standard error.
//!
//! A thread of its own writes the lines, so that no answer waits for whoever
//! reads them. Lines that come while a thousand others wait are lost, and their
//! number is told in the next line that is written.

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

/// How many lines may wait.
const WAITING: usize = 1000;
/// How long the last lines may take at the end.
const AT_THE_END: Duration = Duration::from_secs(1);

enum Message {
    Line(String),
    /// All lines before this are written; sends that they are.
    End(SyncSender<()>),
}

/// Lines that are written by another thread.
#[derive(Clone)]
pub struct Audit {
    lines: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Audit {
    /// Writes to `out`, until the last clone is gone.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn begin(out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = lost.clone();
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || write(out, &waiting, &counted))?;
        Ok(Self { lines, lost })
    }

    /// Has an event written, without waiting for it.
    pub fn tell(&self, event: &Value) {
        let line = crate::render::visible_json(&event.to_string()).into_owned();
        if self.lines.try_send(Message::Line(line)).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Waits until all is written, for a second at most.
    pub fn end(self) {
        let (done, written) = sync_channel(1);
        // The queue may be full until a line is written. A separate thread waits, so that this one has a time limit.
        let send = move || drop(self.lines.send(Message::End(done)));
        if std::thread::Builder::new().name("audit end".to_owned()).spawn(send).is_ok() {
            let _ = written.recv_timeout(AT_THE_END);
        }
    }
}

/// Nobody can be told of a line that cannot be written.
fn write(mut out: impl Write, waiting: &Receiver<Message>, lost: &AtomicU64) {
    for message in waiting {
        match message {
            Message::Line(line) => {
                let _ = writeln!(out, "{line}");
                let lost = lost.swap(0, Relaxed);
                if lost > 0 {
                    let _ = writeln!(out, "{}", json!({ "lines_lost": lost }));
                }
            }
            Message::End(done) => {
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

    /// Writes nothing before it may.
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
    fn a_reader_that_does_not_read_stops_nobody_and_learns_how_much_it_missed() {
        let (open, opened) = channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let audit = Audit::begin(Gate { opened, is_open: false, written: written.clone() }).unwrap();
        let told = WAITING as u64 + 500;
        (0..told).for_each(|number| audit.tell(&json!({ "number": number })));
        open.send(()).unwrap();
        audit.end();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let lost: u64 = lines.iter().filter_map(|line| line["lines_lost"].as_u64()).sum();
        let whole = lines.iter().filter(|line| line.get("number").is_some()).count() as u64;
        assert_eq!((lines[0]["number"].as_u64(), lost + whole), (Some(0), told));
        assert!(lost >= 499, "{lost}");
    }
}
