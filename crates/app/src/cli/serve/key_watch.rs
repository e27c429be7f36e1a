//! The file of keys, read again when it changes: a key is revoked or added
//! without a restart.

use super::{KeyFile, read_key_file};
use crate::audit::Audit;
use ::serve::Keys;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How often the file is looked at. A mounted secret changes by a link, which no
/// notice of the file itself would tell.
const EVERY: Duration = Duration::from_secs(2);

/// What a change of the file changes.
#[derive(PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    path: Option<PathBuf>,
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp { modified: metadata.modified().ok(), bytes: metadata.len(), path: std::fs::canonicalize(path).ok() })
}

/// Reads the keys again whenever their file has changed, until it is dropped. A
/// file that cannot be read leaves the keys as they were; the audit says so.
pub(super) async fn watch_keys(path: PathBuf, keys: Keys, audit: Audit) {
    let mut read = stamp(&path);
    loop {
        tokio::time::sleep(EVERY).await;
        let now = stamp(&path);
        if now == read {
            continue;
        }
        let replaced = read_key_file(&path).and_then(|file: KeyFile| keys.replace(file));
        let told = match &replaced {
            Ok(count) => json!({ "action": "keys", "keys": count, "outcome": "done" }),
            Err(reason) => json!({ "action": "keys", "outcome": format!("the keys of before hold: {reason}") }),
        };
        audit.tell(&told);
        read = now;
    }
}
