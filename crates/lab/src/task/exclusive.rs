//! Two runs that need the same task at the same time: one run does it, the
//! other waits and takes the output.
//!
//! The run that does a task holds a lock on a file beside the store's scratch files.
//! The system releases the lock when the process ends, however it ends. This works
//! among the processes of one folder; machines that share an object store only find
//! what others have finished.

use super::{RunContext, Task};
use crate::{operator::Operator, progress::Progress};
use serde_json::json;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// The pause between two tries for a lock that another run holds.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The right to do a task alone, released on drop.
pub(super) struct Exclusive {
    /// Holds the lock.
    _file: File,
    path: PathBuf,
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        // The file is removed while the lock is held, so a process that opened
        // it before notices that it is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The result of one try.
enum LockAttempt {
    Taken(Exclusive),
    /// Another run holds the lock; the text names that run.
    Held(String),
    /// This file system has no locks.
    Impossible,
}

/// Waits until no other run does this task. `None` if the file system has no locks: then two runs
/// may both do it.
pub(super) async fn acquire(task: &Task, cx: &RunContext, progress: &Progress) -> Option<Exclusive> {
    let path = cx.scratch.join("tasks").join(format!("{}.lock", task.key.hex()));
    let mut waits = LockWait { progress, operator: task.operator(), is_reported: false };
    loop {
        match attempt(&path) {
            LockAttempt::Taken(right) => return Some(right),
            LockAttempt::Impossible => return None,
            LockAttempt::Held(holder) => {
                if !waits.is_reported {
                    cx.log("task_held", json!({ "task": task.key, "label": task.label, "by": holder }));
                    waits.is_reported = true;
                    progress.set_holder(task.operator(), Some(holder));
                }
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Clears the note in the live table when the waiting ends, for whatever reason.
struct LockWait<'a> {
    progress: &'a Progress,
    operator: Operator,
    is_reported: bool,
}

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        if self.is_reported {
            self.progress.set_holder(self.operator, None);
        }
    }
}

fn attempt(path: &Path) -> LockAttempt {
    let open = || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
    };
    loop {
        let Ok(mut file) = open() else { return LockAttempt::Impossible };
        match file.try_lock() {
            // The holder removed the file after it was opened here.
            Ok(()) if !is_at(&file, path) => {}
            Ok(()) => {
                let _ = file.set_len(0).and_then(|()| file.write_all(holder().as_bytes()));
                return LockAttempt::Taken(Exclusive { _file: file, path: path.to_owned() });
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.rewind().and_then(|()| file.read_to_string(&mut holder));
                let who = if holder.is_empty() { String::new() } else { format!(" ({holder})") };
                return LockAttempt::Held(format!("another run{who}"));
            }
            Err(TryLockError::Error(_)) => return LockAttempt::Impossible,
        }
    }
}

/// Whether the path still leads to this file: the holder of a lock removes the file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(opened), Ok(named)) => of(opened) == of(named),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

/// Who this process is, for people.
fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => format!("process {}", std::process::id()),
        host => format!("process {} on {host}", std::process::id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_and_the_next_gets_it_when_it_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks/task.lock");
        let LockAttempt::Taken(first) = attempt(&path) else { panic!("nobody has it") };
        let LockAttempt::Held(by) = attempt(&path) else { panic!("it is held") };
        assert!(by.contains(&format!("process {}", std::process::id())), "{by}");
        drop(first);
        assert!(!path.exists());
        let LockAttempt::Taken(_second) = attempt(&path) else { panic!("it was given back") };
    }

    #[test]
    fn what_a_dead_process_left_is_free_and_a_file_that_was_removed_gives_no_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("task.lock");
        std::fs::write(&path, "process 1 on nowhere").unwrap();
        let LockAttempt::Taken(first) = attempt(&path) else { panic!("nobody holds the lock") };
        // Another process opened the file before it was given back.
        let opened = File::open(&path).unwrap();
        drop(first);
        opened.try_lock().unwrap();
        assert!(!is_at(&opened, &path), "another may hold the file of that name");
        let LockAttempt::Taken(_) = attempt(&path) else { panic!("a new file is free") };
    }
}
