//! Where bundles may come from that somebody names over HTTP.

use super::Failure;
use std::path::{Component, Path, PathBuf};

/// The folders and URLs at or below which bundles may be opened; all places if
/// there are none.
#[derive(Debug, Clone)]
pub(super) struct BundlePlaces(Vec<Place>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Without links and `..`.
    Folder(PathBuf),
    Url(String),
}

impl BundlePlaces {
    pub(super) fn new(prefixes: &[String]) -> Result<Self, Failure> {
        let place = |prefix: &String| {
            let wrong = |reason: String| Failure::usage(format!("--bundles-from {prefix}: {reason}"));
            Place::of(prefix).map_err(wrong)
        };
        Ok(Self(prefixes.iter().map(place).collect::<Result<_, _>>()?))
    }

    /// Whether a bundle may be opened from here.
    ///
    /// # Errors
    /// The places that it may be opened from. What is or is not elsewhere stays
    /// unsaid.
    pub(super) fn check(&self, address: &str) -> Result<(), String> {
        let allowed = self.0.is_empty()
            || match (store::is_url(address), Place::of(address)) {
                (true, Ok(Place::Url(url))) => {
                    self.0.iter().any(|place| matches!(place, Place::Url(prefix) if is_below(&url, prefix)))
                }
                (false, Ok(Place::Folder(folder))) => {
                    self.0.iter().any(|place| matches!(place, Place::Folder(prefix) if folder.starts_with(prefix)))
                }
                _ => false,
            };
        let names = || {
            self.0.iter().map(|place| match place {
                Place::Folder(folder) => folder.display().to_string(),
                Place::Url(url) => url.clone(),
            })
        };
        if allowed {
            Ok(())
        } else {
            Err(format!("bundles are opened from {} only", names().collect::<Vec<_>>().join(", ")))
        }
    }
}

impl Place {
    fn of(text: &str) -> Result<Self, String> {
        if !store::is_url(text) {
            return std::fs::canonicalize(text).map(Self::Folder).map_err(|error| error.to_string());
        }
        let steps = Path::new(text).components().any(|part| part == Component::ParentDir);
        if steps || text.contains('%') || text.contains('?') || text.contains('#') {
            return Err("write the URL without `..`, `%`, `?` and `#`".to_owned());
        }
        Ok(Self::Url(text.trim_end_matches('/').to_owned()))
    }
}

/// Whether a URL is a prefix, or continues it after a `/`.
fn is_below(url: &str, prefix: &str) -> bool {
    url.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
            assert_eq!(places.check(&address), Ok(()), "{address}");
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
        ] {
            let refused = places.check(&address).unwrap_err();
            assert!(refused.starts_with("bundles are opened from"), "{address}: {refused}");
        }
        assert_eq!(BundlePlaces::new(&[]).unwrap().check("/etc"), Ok(()));
        assert!(BundlePlaces::new(&[path("nothing")]).is_err());
    }
}
