//! Where bundles may come from that somebody names over HTTP.

use super::Failure;
use std::path::PathBuf;
use store::Location;

/// The folders and URLs at or below which bundles may be opened; all places if
/// there are none.
#[derive(Debug, Clone)]
pub(super) struct BundlePlaces(Vec<Location>);

impl BundlePlaces {
    pub(super) fn new(prefixes: &[String]) -> Result<Self, Failure> {
        let place = |prefix: &String| {
            let wrong = |reason: String| Failure::usage(format!("--bundles-from {prefix}: {reason}"));
            read(prefix).map_err(wrong)
        };
        Ok(Self(prefixes.iter().map(place).collect::<Result<_, _>>()?))
    }

    /// The address to open for this one, if a bundle may be opened from there:
    /// what was compared with the places, and no text that is read once more.
    ///
    /// # Errors
    /// The places that it may be opened from. What is or is not elsewhere stays
    /// unsaid.
    pub(super) fn resolve(&self, address: &str) -> Result<String, String> {
        if self.0.is_empty() {
            return Ok(address.to_owned());
        }
        let resolved = read(address).ok().filter(|location| self.0.iter().any(|place| is_below(location, place)));
        resolved.map(|location| location.to_string()).ok_or_else(|| {
            let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
            format!("bundles are opened from {} only", names.join(", "))
        })
    }
}

/// Reads an address: a folder without links and `..`, or a URL.
fn read(text: &str) -> Result<Location, String> {
    match Location::parse(text).map_err(|error| error.to_string())? {
        Location::Folder(folder) => {
            let folder = std::fs::canonicalize::<PathBuf>(folder).map_err(|error| error.to_string())?;
            // It is opened by its text, which must be the same name.
            let is_text = folder.to_str().is_some();
            is_text.then_some(Location::Folder(folder)).ok_or_else(|| "its name is no text".to_owned())
        }
        Location::Url(url) => {
            // A store may read these in its own way.
            if text.contains(['%', '\\']) || text.contains("..") || url.query().is_some() || url.fragment().is_some() {
                return Err("write the URL without `..`, `%`, `\\`, `?` and `#`".to_owned());
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
            let refused = places.resolve(&address).unwrap_err();
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
