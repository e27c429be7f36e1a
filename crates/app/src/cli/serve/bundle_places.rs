//! The places from which `/admin` may open bundles.

use crate::failure::CommandFailure;
use std::path::PathBuf;
use store::Location;

/// Why a bundle is not opened from an address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BundlePlaceError {
    /// An address outside of the allowed places, which are named.
    #[error("bundles are opened from {0} only")]
    Outside(String),
    /// A folder that cannot be read, or a text that is no address.
    #[error("{0}")]
    Unreadable(String),
    /// A folder whose name is not UTF-8.
    #[error("its name is not UTF-8")]
    NotText,
    /// A URL that a store may read in its own way.
    #[error("write the URL without `..`, `%`, `\\`, `?` and `#`")]
    AmbiguousUrl,
}

/// The folders and URLs at or below which bundles may be opened; all places if
/// there are none.
#[derive(Debug, Clone)]
pub(super) struct BundlePlaces(Vec<Location>);

impl BundlePlaces {
    pub(super) fn new(prefixes: &[String]) -> Result<Self, CommandFailure> {
        let place = |prefix: &String| {
            read(prefix).map_err(|error| CommandFailure::usage(format!("--bundles-from {prefix}: {error}")))
        };
        Ok(Self(prefixes.iter().map(place).collect::<Result<_, _>>()?))
    }

    /// Resolves an address from which a bundle may be opened. The result is the location
    /// that was compared with the allowed places, so that nothing is resolved twice.
    ///
    /// # Errors
    /// If it may not. The message names the allowed places only, so that it does not
    /// reveal what exists elsewhere.
    pub(super) fn resolve(&self, address: &str) -> Result<String, BundlePlaceError> {
        if self.0.is_empty() {
            return Ok(address.to_owned());
        }
        let resolved = read(address).ok().filter(|location| self.0.iter().any(|place| is_below(location, place)));
        resolved.map(|location| location.to_string()).ok_or_else(|| {
            let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
            BundlePlaceError::Outside(names.join(", "))
        })
    }
}

/// Reads an address: a folder, of which links and `..` are resolved, or a URL.
fn read(text: &str) -> Result<Location, BundlePlaceError> {
    let unreadable = |error: &dyn std::fmt::Display| BundlePlaceError::Unreadable(error.to_string());
    match Location::parse(text).map_err(|error| unreadable(&error))? {
        Location::Folder(folder) => {
            let folder = std::fs::canonicalize::<PathBuf>(folder).map_err(|error| unreadable(&error))?;
            // The folder is opened by its name as text, so the name must be UTF-8.
            let is_text = folder.to_str().is_some();
            is_text.then_some(Location::Folder(folder)).ok_or(BundlePlaceError::NotText)
        }
        Location::Url(url) => {
            // A store may read these in its own way.
            if text.contains(['%', '\\']) || text.contains("..") || url.query().is_some() || url.fragment().is_some() {
                return Err(BundlePlaceError::AmbiguousUrl);
            }
            Ok(Location::Url(url))
        }
    }
}

/// Whether a location is a place, or below it.
fn is_below(location: &Location, place: &Location) -> bool {
    match (location, place) {
        (Location::Folder(folder), Location::Folder(place)) => folder.starts_with(place),
        (Location::Url(url), Location::Url(place)) => {
            let authority =
                |url: &reqwest::Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port());
            let rest = url.path().strip_prefix(place.path().trim_end_matches('/'));
            authority(url) == authority(place) && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_a_place_is_opened_whatever_its_name_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["bundles/a", "bundles-of-others/a", "secret"] {
            std::fs::create_dir_all(path(name)).unwrap();
        }
        std::os::unix::fs::symlink(path("secret"), path("bundles/link")).unwrap();
        let places = BundlePlaces::new(&[path("bundles"), "s3://ours/bundles/".into()]).unwrap();
        for address in
            [path("bundles/a"), path("secret/../bundles/a"), "s3://ours/bundles/a".into(), "s3://ours/bundles".into()]
        {
            assert!(places.resolve(&address).is_ok(), "{address}");
        }
        for address in [
            path("bundles-of-others/a"),
            path("bundles/../secret"),
            path("bundles/link"),
            path("bundles/nothing"),
            "/etc".into(),
            "s3://ours/bundles-of-others/a".into(),
            "s3://ours/bundles/../secret".into(),
            "s3://ours/bundles/%2e%2e/secret".into(),
            "https://ours/bundles/a".into(),
            // A parser of URLs leaves these characters out, or takes them for a slash.
            "s3://ours/bundles/.\t./secret".into(),
            "s3://ours/bundles/\t../secret".into(),
            "s3://ours/bundles/.\n./secret".into(),
            "s3://ours/bundles/.\r./secret".into(),
            "s3://ours/bundles/..\\..\\secret".into(),
            "s3://ours:99/bundles/a".into(),
            format!("file://{}", path("secret")),
        ] {
            let refused = places.resolve(&address).unwrap_err().to_string();
            assert!(refused.starts_with("bundles are opened from"), "{address}: {refused}");
        }
        assert_eq!(BundlePlaces::new(&[]).unwrap().resolve("/etc"), Ok("/etc".to_owned()));
        // The link is resolved once: changing it afterwards has no effect.
        std::os::unix::fs::symlink(path("bundles/a"), path("bundles/inside")).unwrap();
        assert_eq!(places.resolve(&path("bundles/inside")).unwrap(), path("bundles/a"));
        assert_eq!(places.resolve("S3://ours/bundles/a").unwrap(), "s3://ours/bundles/a");
        assert!(BundlePlaces::new(&[path("nothing")]).is_err());
    }
}
