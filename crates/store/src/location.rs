//! Where a store is.

use crate::Error;
use object_store::ObjectStoreScheme;
use std::{fmt, path::PathBuf};
use url::Url;

/// Whether an address is a URL, and no path of this machine.
pub fn is_url(address: &str) -> bool {
    address.contains("://")
}

/// An address for a log: a URL without its user, password, query and fragment,
/// each of which may hold a secret. A path is not changed.
pub fn without_secrets(address: &str) -> String {
    let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
    // A single letter before the colon is a Windows drive.
    let has_scheme = scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if is_url(address) || address.starts_with("file:") {
        let cleaned = Url::parse(address).ok().and_then(|mut url| {
            url.set_username("").and_then(|()| url.set_password(None)).ok()?;
            url.set_query(None);
            url.set_fragment(None);
            Some(url.to_string())
        });
        // What cannot be parsed may still hold a password, so at most its scheme is shown.
        return cleaned.unwrap_or_else(|| if has_scheme { format!("{scheme}:…") } else { "…".to_owned() });
    }
    // A path, or a URL with a slash too few.
    let end = address.find(['?', '#', ',']).filter(|_| has_scheme);
    let shown = end.map_or_else(|| address.to_owned(), |end| format!("{}…", &address[..end]));
    match shown.rsplit_once('@') {
        Some((before, after)) if before.contains(':') => format!("…@{after}"),
        _ => shown,
    }
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
        let url = Url::parse(address).map_err(|error| refuse(&without_secrets(address), &error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse(&without_secrets(address), "a user name or password does not belong in an address"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_a_log_holds_no_secret_however_it_is_written() {
        for (address, shown) in [
            ("s3://bucket/x", "s3://bucket/x"),
            ("s3://u:secret@bucket/x?sig=secret#secret", "s3://bucket/x"),
            ("https:/u:secret@h", "…@h"),
            ("https:/u:secret@h?sig=secret", "…@h…"),
            ("u:secret@host:/p", "…@host:/p"),
            ("s3:/b/x?sig=secret", "s3:/b/x…"),
            ("token=secret@h://x", "…"),
            ("data:text,secret", "data:text…"),
            ("/folder/with:colon@home", "…@home"),
            ("/folder/x", "/folder/x"),
            ("C:\\folder", "C:\\folder"),
        ] {
            assert_eq!(without_secrets(address), shown, "{address}");
        }
    }
}
