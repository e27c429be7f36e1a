//! API keys with scopes and rate limits. A key is shown once, when it is created;
//! the file of keys holds only digests.
//!
//! A key is 256 random bits, so its plain SHA-256 cannot be guessed, unlike that of
//! a password.

use crate::error::ApiError;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};
use subtle::ConstantTimeEq;

/// What a key allows its holder to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// Asking, searching, and opening sources.
    Ask,
    /// Reading `/metrics`.
    Metrics,
    /// Changing what is served, and steering runs.
    Admin,
    /// Deciding about golden questions.
    Review,
}

/// A key as its file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// The name of its holder, for logs.
    pub name: String,
    /// The SHA-256 of the key in hexadecimal digits.
    pub sha256: String,
    /// What it allows.
    pub scopes: Vec<KeyScope>,
    /// The rate limit, in requests per minute; `None` means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
}

/// Why a file of keys cannot be used. No message shows a line of the file, which
/// may be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The file is not TOML of this form.
    #[error("line {line} cannot be read: the file holds a table `[[key]]` for each key and nothing else")]
    Unreadable {
        /// The number of the line, from 1.
        line: usize,
    },
    /// A digest is not SHA-256 in hexadecimal digits.
    #[error("key `{name}`: sha256 must be 64 hexadecimal digits")]
    Digest {
        /// The name of the key.
        name: String,
    },
    /// A key has no scope.
    #[error("key `{name}`: scopes must hold at least one of ask, metrics, review, admin")]
    NoScope {
        /// The name of the key.
        name: String,
    },
    /// The file has no key.
    #[error("there is no key in it, so nobody could ask")]
    Empty,
}

/// The content of a file of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// The keys.
    #[serde(default)]
    pub key: Vec<KeyEntry>,
}

impl KeyFile {
    /// Reads a file of keys.
    ///
    /// # Errors
    /// If it is not such a file.
    pub fn read(text: &str) -> Result<Self, KeyFileError> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or(text));
            KeyFileError::Unreadable { line: before.matches('\n').count() + 1 }
        })
    }
}

/// The keys of a service. Clones share the keys.
#[derive(Clone)]
pub struct ApiKeys {
    keys: Arc<RwLock<Arc<[ActiveKey]>>>,
}

/// A key that is accepted, with what is left of its rate limit.
#[derive(Clone)]
struct ActiveKey {
    name: Arc<str>,
    digest: [u8; 32],
    scopes: Vec<KeyScope>,
    limit: Option<Arc<Mutex<RequestBucket>>>,
}

/// A token bucket that holds the requests of one minute. The token bucket of the executor
/// is not used: it is adaptive, and queues calls instead of refusing them.
struct RequestBucket {
    per_minute: f64,
    left: f64,
    updated: Instant,
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.active().iter().map(|key| &key.name)).finish()
    }
}

/// Creates a key from random bytes. Returns the key, which is stored nowhere else, and
/// its entry for the file of keys.
pub fn create_key(
    name: &str,
    scopes: Vec<KeyScope>,
    requests_per_minute: Option<u32>,
    random: [u8; 32],
) -> (String, KeyEntry) {
    let key = format!("rv-{}", URL_SAFE_NO_PAD.encode(random));
    let sha256 = digest(&key).iter().map(|byte| format!("{byte:02x}")).collect();
    (key, KeyEntry { name: name.to_owned(), sha256, scopes, requests_per_minute })
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

fn decode_hex(text: &str) -> Option<[u8; 32]> {
    store::Key::from_hex(text).map(|digest| *digest.bytes())
}

impl ApiKeys {
    /// The keys of a file.
    ///
    /// # Errors
    /// If an entry has no valid digest, or no scope.
    pub fn new(file: KeyFile) -> Result<Self, KeyFileError> {
        Ok(Self { keys: Arc::new(RwLock::new(activate(file, &[])?)) })
    }

    /// Replaces the keys by those of another file. A key that is not in it is
    /// revoked from the next request on; a key that stays keeps what is left of its
    /// rate limit. Returns the number of keys.
    ///
    /// # Errors
    /// As [`Self::new`], or if the file has no key. The keys then stay as they are.
    pub fn replace(&self, file: KeyFile) -> Result<usize, KeyFileError> {
        if file.key.is_empty() {
            return Err(KeyFileError::Empty);
        }
        let next = activate(file, &self.active())?;
        let count = next.len();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(count)
    }

    fn active(&self) -> Arc<[ActiveKey]> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that the key in a request's `Authorization` has this scope and requests
    /// left. Returns the name of the key.
    pub(crate) fn admit(&self, authorization: Option<&str>, scope: KeyScope) -> Result<Arc<str>, ApiError> {
        let given = authorization.and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        });
        let Some(given) = given.filter(|key| !key.is_empty()) else {
            return Err(ApiError::unauthorized("no API key came with the request: send `Authorization: Bearer KEY`"));
        };
        let given = digest(given);
        // All keys are compared, so that the response time reveals nothing about them.
        let mut found = None;
        let active = self.active();
        for key in active.iter() {
            if bool::from(key.digest.ct_eq(&given)) {
                found = Some(key);
            }
        }
        let key = found.ok_or_else(|| ApiError::unauthorized("the API key is not known here"))?;
        if !key.scopes.contains(&scope) {
            let scope = serde_json::to_value(scope).unwrap_or_default();
            let scope = scope.as_str().unwrap_or_default().to_owned();
            return Err(ApiError::forbidden(format!("the key `{}` lacks the scope `{scope}`", key.name)));
        }
        if let Some(limit) = &key.limit {
            limit.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now()).map_err(|wait| {
                ApiError::too_many(format!("the key `{}` has used up its requests of this minute", key.name), wait)
            })?;
        }
        Ok(key.name.clone())
    }
}

/// Reads the keys of a file. Keys that were active before keep what is left of their
/// rate limits.
fn activate(file: KeyFile, before: &[ActiveKey]) -> Result<Arc<[ActiveKey]>, KeyFileError> {
    let active = file.key.into_iter().map(|entry| {
        let Some(digest) = decode_hex(&entry.sha256) else {
            return Err(KeyFileError::Digest { name: entry.name });
        };
        if entry.scopes.is_empty() {
            return Err(KeyFileError::NoScope { name: entry.name });
        }
        let limit = entry.requests_per_minute.map(|limit| {
            let per_minute = f64::from(limit);
            let is_same_key = |other: &&ActiveKey| other.digest == digest;
            let kept = before.iter().find(is_same_key).and_then(|other| other.limit.clone());
            let is_same = |bucket: &Arc<Mutex<RequestBucket>>| {
                bucket.lock().unwrap_or_else(PoisonError::into_inner).per_minute == per_minute
            };
            kept.filter(is_same).unwrap_or_else(|| {
                Arc::new(Mutex::new(RequestBucket { per_minute, left: per_minute, updated: Instant::now() }))
            })
        });
        Ok(ActiveKey { name: entry.name.into(), digest, scopes: entry.scopes, limit })
    });
    active.collect()
}

impl RequestBucket {
    /// Takes one request from the bucket.
    ///
    /// # Errors
    /// How long to wait if the bucket is empty.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let per_second = self.per_minute / 60.0;
        self.left = (self.left + now.duration_since(self.updated).as_secs_f64() * per_second).min(self.per_minute);
        self.updated = now;
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64(((1.0 - self.left) / per_second).min(60.0)));
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(limit: Option<u32>) -> (String, ApiKeys) {
        let (key, entry) = create_key("ci", vec![KeyScope::Ask], limit, [7; 32]);
        (key, ApiKeys::new(KeyFile { key: vec![entry] }).unwrap())
    }

    #[test]
    fn a_mistake_in_the_file_is_told_by_its_line_and_shows_no_key() {
        for text in
            ["key = \"rv-secret\"", "[[key]]\nname = \"a\"\nrv-secret = 1", "[[key]]\nname = rv-secret", "rv-secret"]
        {
            let reason = KeyFile::read(text).unwrap_err();
            let reason = reason.to_string();
            assert!(reason.contains("line ") && !reason.contains("rv-secret"), "{text}: {reason}");
        }
        assert_eq!(KeyFile::read("[[key]]\nname = 1"), Err(KeyFileError::Unreadable { line: 2 }));
    }

    #[test]
    fn a_known_key_is_admitted_and_its_file_does_not_hold_it() {
        let (key, keys) = keys(None);
        assert_eq!(&*keys.admit(Some(&format!("Bearer {key}")), KeyScope::Ask).unwrap(), "ci");
        assert_eq!(&*keys.admit(Some(&format!("bearer  {key} ")), KeyScope::Ask).unwrap(), "ci");
        let (_, entry) = create_key("ci", vec![KeyScope::Ask], None, [7; 32]);
        assert!(!serde_json::to_string(&entry).unwrap().contains(&key));
        assert!(!format!("{keys:?}").contains(&key));
    }

    #[test]
    fn no_key_a_wrong_one_and_one_without_the_scope_are_told_apart() {
        let (key, keys) = keys(None);
        let status = |authorization: Option<&str>, scope| keys.admit(authorization, scope).unwrap_err().status.as_u16();
        for nothing in [None, Some(""), Some("Bearer"), Some("Bearer "), Some("Basic abc"), Some("Bearer rv-other")] {
            assert_eq!(status(nothing, KeyScope::Ask), 401, "{nothing:?}");
        }
        assert_eq!(status(Some(&format!("Bearer {key}")), KeyScope::Admin), 403);
    }

    #[test]
    fn a_key_gets_its_requests_of_a_minute_and_is_told_when_there_are_more() {
        let mut bucket = RequestBucket { per_minute: 2.0, left: 2.0, updated: Instant::now() };
        let start = bucket.updated;
        assert!(bucket.take(start).is_ok() && bucket.take(start).is_ok());
        assert_eq!(bucket.take(start).unwrap_err().as_secs(), 30);
        assert!(bucket.take(start + Duration::from_secs(31)).is_ok());
        let (key, keys) = keys(Some(1));
        let authorization = format!("Bearer {key}");
        assert!(keys.admit(Some(&authorization), KeyScope::Ask).is_ok());
        assert_eq!(keys.admit(Some(&authorization), KeyScope::Ask).unwrap_err().status.as_u16(), 429);
    }

    #[test]
    fn keys_that_are_read_again_are_revoked_added_and_go_on_with_their_limits() {
        let (key, keys) = keys(Some(1));
        let status = |key: &str| match keys.admit(Some(&format!("Bearer {key}")), KeyScope::Ask) {
            Ok(_) => 200,
            Err(refused) => refused.status.as_u16(),
        };
        assert_eq!((status(&key), status(&key)), (200, 429));
        let (_, old) = create_key("ci", vec![KeyScope::Ask], Some(1), [7; 32]);
        let (added, new) = create_key("new", vec![KeyScope::Ask], None, [8; 32]);
        assert_eq!(keys.replace(KeyFile { key: vec![old, new.clone()] }), Ok(2));
        assert_eq!((status(&key), status(&added)), (429, 200), "its minute goes on");
        assert!(keys.replace(KeyFile::default()).is_err());
        assert_eq!(status(&added), 200, "an empty file changes nothing");
        keys.replace(KeyFile { key: vec![new] }).unwrap();
        assert_eq!((status(&key), status(&added)), (401, 200));
    }

    #[test]
    fn a_file_with_a_digest_that_is_none_is_refused_by_name() {
        let (_, mut entry) = create_key("ci", vec![KeyScope::Ask], None, [7; 32]);
        let short = entry.sha256[1..].to_owned();
        for digest in [short, "+f".repeat(32), "é".repeat(32)] {
            entry.sha256 = digest;
            let name = "ci".to_owned();
            assert_eq!(ApiKeys::new(KeyFile { key: vec![entry.clone()] }).unwrap_err(), KeyFileError::Digest { name });
        }
        entry.scopes.clear();
        assert!(ApiKeys::new(KeyFile { key: vec![entry] }).is_err());
    }
}
