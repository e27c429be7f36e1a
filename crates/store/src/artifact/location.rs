//! Where a store is.

use crate::Error;
use object_store::ObjectStoreScheme;
use std::{fmt, path::PathBuf};
use url::Url;

/// Whether an address is a URL, and no path of this machine.
pub fn is_url(address: &str) -> bool {
    address.contains("://")
}

/// An address as it may be written to a log: without user, password, query and
/// fragment, in which secrets may stand. A path stays as it is.
pub fn without_secrets(address: &str) -> String {
    let scheme = address.split(':').next().unwrap_or_default();
    let Ok(mut url) = Url::parse(address) else {
        // What cannot be parsed may still hold a password.
        return if is_url(address) { format!("{scheme}:…") } else { address.to_owned() };
    };
    if !is_url(address) {
        return address.to_owned();
    }
    let cleaned = url.set_username("").and_then(|()| url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    cleaned.map_or_else(|()| format!("{scheme}:…"), |()| url.to_string())
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A folder on this machine.
    Folder(PathBuf),
    /// A prefix on an object store.
    Url(Url),
}

impl Location {
    /// Reads an address: the path of a folder, or a URL such as
    /// `s3://bucket/prefix` or `file:///folder`.
    ///
    /// # Errors
    /// If the address is empty, has `://` but is no URL of a known kind, or holds
    /// a user name or password: secrets are passed as options, because addresses
    /// are written to logs.
    pub fn parse(address: &str) -> Result<Self, Error> {
        let refuse =
            |shown: &str, reason: &str| Error::Address { address: shown.to_owned(), reason: reason.to_owned() };
        let address = address.trim();
        if address.is_empty() {
            return Err(refuse(address, "it is empty"));
        }
        if !is_url(address) && !address.starts_with("file:") {
            return Ok(Self::Folder(PathBuf::from(address)));
        }
        // An address that cannot be parsed may still hold a password, so only
        // its scheme is shown.
        let scheme = address.split(':').next().unwrap_or_default();
        let mut url = Url::parse(address).map_err(|error| refuse(&format!("{scheme}:…"), &error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            let cleaned = url.set_username("").and_then(|()| url.set_password(None));
            let shown = cleaned.map_or_else(|()| format!("{scheme}:…"), |()| url.to_string());
            return Err(refuse(&shown, "a user name or password does not belong in an address"));
        }
        if url.scheme() == "file" {
            let folder = url.to_file_path().map_err(|()| refuse(address, "it names no folder of this machine"))?;
            return Ok(Self::Folder(folder));
        }
        // An unknown scheme is found here, before a run does any work.
        let known = ObjectStoreScheme::parse(&url);
        known.map_err(|_| refuse(address, "no object store has such a URL; S3's is s3://bucket/prefix"))?;
        Ok(Self::Url(url))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Url(url) => write!(f, "{url}"),
        }
    }
}
