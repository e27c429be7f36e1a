//! API keys: who may ask. A key is shown once, when it is made; its file holds
//! only digests.
//!
//! Keys are 256 random bits, so that a plain SHA-256 of one cannot be undone by
//! guessing, unlike that of a password.

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

/// What a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Asking, searching and looking at sources.
    Ask,
    /// Reading `/metrics`.
    Metrics,
    /// Changing what is served.
    Admin,
}

/// A key as its file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Whose it is, for logs.
    pub name: String,
    /// The SHA-256 of the key in hexadecimal digits.
    pub sha256: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// The most requests in a minute; without a limit if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
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
    /// If it is no such file: the number of the line, without its text, which may
    /// be a key.
    pub fn read(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or(text));
            format!(
                "line {} cannot be read: the file holds a table `[[key]]` for each key, as `reverie keys new` writes it, \
                 and nothing else",
                before.matches('\n').count() + 1
            )
        })
    }
}

/// The keys of a service. Clones are the same keys.
#[derive(Clone)]
pub struct Keys {
    keys: Arc<RwLock<Arc<[Known]>>>,
}

#[derive(Clone)]
struct Known {
    name: Arc<str>,
    digest: [u8; 32],
    scopes: Vec<Scope>,
    limit: Option<Arc<Mutex<Bucket>>>,
}

/// A token bucket that holds a minute's requests.
struct Bucket {
    each_minute: f64,
    left: f64,
    at: Instant,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known().iter().map(|key| &key.name)).finish()
    }
}

/// A new key and its entry. The key is nowhere else: whoever needs it must note it now.
pub fn new_key(
    name: &str,
    scopes: Vec<Scope>,
    requests_per_minute: Option<u32>,
    random: [u8; 32],
) -> (String, KeyEntry) {
    let key = format!("rv-{}", URL_SAFE_NO_PAD.encode(random));
    let sha256 = hex(&digest(&key));
    (key, KeyEntry { name: name.to_owned(), sha256, scopes, requests_per_minute })
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

impl Keys {
    /// The keys of a file.
    ///
    /// # Errors
    /// An entry whose digest is none, or that allows nothing, by its name.
    pub fn new(file: KeyFile) -> Result<Self, String> {
        Ok(Self { keys: Arc::new(RwLock::new(known(file, &[])?)) })
    }

    /// Takes the keys of another file in place of these: a key that is not in it
    /// is revoked from the next request on. Keys that stay keep what is left of
    /// their requests of this minute. Gives the number of keys.
    ///
    /// # Errors
    /// As [`Self::new`], or a file without a key; then the keys stay as they are.
    pub fn replace(&self, file: KeyFile) -> Result<usize, String> {
        if file.key.is_empty() {
            return Err("there is no key in it, so nobody could ask".to_owned());
        }
        let next = known(file, &self.known())?;
        let count = next.len();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(count)
    }

    fn known(&self) -> Arc<[Known]> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whose key came with a request, if it allows this.
    pub(crate) fn admit(&self, authorization: Option<&str>, scope: Scope) -> Result<Arc<str>, ApiError> {
        let given = authorization.and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        });
        let Some(given) = given.filter(|key| !key.is_empty()) else {
            return Err(ApiError::unauthorized("no API key came with the request: send `Authorization: Bearer KEY`"));
        };
        let given = digest(given);
        // All are compared, so that the time says nothing about which one it is.
        let mut found = None;
        let known = self.known();
        for key in known.iter() {
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

/// The keys of a file; those that were known before go on with their limits.
fn known(file: KeyFile, before: &[Known]) -> Result<Arc<[Known]>, String> {
    let known = file.key.into_iter().map(|entry| {
        let digest = unhex(&entry.sha256)
            .ok_or_else(|| format!("key `{}`: sha256 must be 64 hexadecimal digits", entry.name))?;
        if entry.scopes.is_empty() {
            return Err(format!("key `{}`: scopes must hold one of ask, metrics, admin", entry.name));
        }
        let limit = entry.requests_per_minute.map(|limit| {
            let each_minute = f64::from(limit);
            let same = |known: &&Known| known.digest == digest;
            let kept = before.iter().find(same).and_then(|known| known.limit.clone());
            let is_same = |bucket: &Arc<Mutex<Bucket>>| {
                bucket.lock().unwrap_or_else(PoisonError::into_inner).each_minute == each_minute
            };
            kept.filter(is_same)
                .unwrap_or_else(|| Arc::new(Mutex::new(Bucket { each_minute, left: each_minute, at: Instant::now() })))
        });
        Ok(Known { name: entry.name.into(), digest, scopes: entry.scopes, limit })
    });
    known.collect()
}

impl Bucket {
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let each_second = self.each_minute / 60.0;
        self.left = (self.left + now.duration_since(self.at).as_secs_f64() * each_second).min(self.each_minute);
        self.at = now;
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64(((1.0 - self.left) / each_second).min(60.0)));
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(limit: Option<u32>) -> (String, Keys) {
        let (key, entry) = new_key("ci", vec![Scope::Ask], limit, [7; 32]);
        (key, Keys::new(KeyFile { key: vec![entry] }).unwrap())
    }

    #[test]
    fn a_mistake_in_the_file_is_told_by_its_line_and_shows_no_key() {
        for text in
            ["key = \"rv-secret\"", "[[key]]\nname = \"a\"\nrv-secret = 1", "[[key]]\nname = rv-secret", "rv-secret"]
        {
            let reason = KeyFile::read(text).unwrap_err();
            assert!(reason.contains("line ") && !reason.contains("rv-secret"), "{text}: {reason}");
        }
        assert!(KeyFile::read("[[key]]\nname = 1").unwrap_err().starts_with("line 2 "));
    }

    #[test]
    fn a_known_key_is_admitted_and_its_file_does_not_hold_it() {
        let (key, keys) = keys(None);
        assert_eq!(&*keys.admit(Some(&format!("Bearer {key}")), Scope::Ask).unwrap(), "ci");
        assert_eq!(&*keys.admit(Some(&format!("bearer  {key} ")), Scope::Ask).unwrap(), "ci");
        let (_, entry) = new_key("ci", vec![Scope::Ask], None, [7; 32]);
        assert!(!serde_json::to_string(&entry).unwrap().contains(&key));
        assert!(!format!("{keys:?}").contains(&key));
    }

    #[test]
    fn no_key_a_wrong_one_and_one_without_the_scope_are_told_apart() {
        let (key, keys) = keys(None);
        let status = |authorization: Option<&str>, scope| keys.admit(authorization, scope).unwrap_err().status.as_u16();
        for nothing in [None, Some(""), Some("Bearer"), Some("Bearer "), Some("Basic abc"), Some("Bearer rv-other")] {
            assert_eq!(status(nothing, Scope::Ask), 401, "{nothing:?}");
        }
        assert_eq!(status(Some(&format!("Bearer {key}")), Scope::Admin), 403);
    }

    #[test]
    fn a_key_gets_its_requests_of_a_minute_and_is_told_when_there_are_more() {
        let mut bucket = Bucket { each_minute: 2.0, left: 2.0, at: Instant::now() };
        let start = bucket.at;
        assert!(bucket.take(start).is_ok() && bucket.take(start).is_ok());
        assert_eq!(bucket.take(start).unwrap_err().as_secs(), 30);
        assert!(bucket.take(start + Duration::from_secs(31)).is_ok());
        let (key, keys) = keys(Some(1));
        let authorization = format!("Bearer {key}");
        assert!(keys.admit(Some(&authorization), Scope::Ask).is_ok());
        assert_eq!(keys.admit(Some(&authorization), Scope::Ask).unwrap_err().status.as_u16(), 429);
    }

    #[test]
    fn keys_that_are_read_again_are_revoked_added_and_go_on_with_their_limits() {
        let (key, keys) = keys(Some(1));
        let status = |key: &str| match keys.admit(Some(&format!("Bearer {key}")), Scope::Ask) {
            Ok(_) => 200,
            Err(refused) => refused.status.as_u16(),
        };
        assert_eq!((status(&key), status(&key)), (200, 429));
        let (_, old) = new_key("ci", vec![Scope::Ask], Some(1), [7; 32]);
        let (added, new) = new_key("new", vec![Scope::Ask], None, [8; 32]);
        assert_eq!(keys.replace(KeyFile { key: vec![old, new.clone()] }), Ok(2));
        assert_eq!((status(&key), status(&added)), (429, 200), "its minute goes on");
        assert!(keys.replace(KeyFile::default()).is_err());
        assert_eq!(status(&added), 200, "an empty file changes nothing");
        keys.replace(KeyFile { key: vec![new] }).unwrap();
        assert_eq!((status(&key), status(&added)), (401, 200));
    }

    #[test]
    fn a_file_with_a_digest_that_is_none_is_refused_by_name() {
        let (_, mut entry) = new_key("ci", vec![Scope::Ask], None, [7; 32]);
        entry.sha256.pop();
        assert!(Keys::new(KeyFile { key: vec![entry.clone()] }).unwrap_err().contains("`ci`"));
        entry.scopes.clear();
        assert!(Keys::new(KeyFile { key: vec![entry] }).is_err());
    }
}
