//! The versions of a pipeline that follows its corpus: bundles below one place, and which of them is served.
//!
//! ```text
//! current.json          the version that is served
//! 20261128-161500-…/    a bundle for each state of the corpus
//! ```
//!
//! The place is a folder or a prefix of an object store. A bundle is whole before it is named in `current.json`, which is
//! replaced as a whole, so whoever reads the place finds a version that can be served, also after a kill.

use crate::{
    Error, Setup,
    bundle::{Bundle, BundleManifest, MANIFEST, remove_bundle_files},
    clock::{compact_utc, now_ms},
    corpus::CorpusState,
    layout::LAYOUT,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::Path};
use store::ArtifactStore;

const CURRENT: &str = "current.json";
/// The most bytes of [`CURRENT`].
const MOST_BYTES: u64 = 64 << 10;

/// Which version is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentVersion {
    /// The name of its bundle below the place.
    pub version: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
    /// Whether somebody chose it by name: then newer versions are made, and not served.
    #[serde(default)]
    pub is_pinned: bool,
}

/// A version of a pipeline.
#[derive(Debug, Clone, Serialize)]
pub struct PipelineVersion {
    /// Its name.
    pub version: String,
    /// The state of the corpus that it searches.
    pub corpus: Option<CorpusState>,
    /// The run and the trial whose pipeline it is.
    pub run: String,
    /// The trial in that run.
    pub trial: String,
    /// When it was made, in milliseconds since 1970.
    pub made_ms: i64,
    /// How many bytes it has.
    pub bytes: u64,
    /// Whether it is the one that is served.
    pub is_current: bool,
    /// Whether it is served because somebody chose it by name.
    pub is_pinned: bool,
}

/// The place of the versions of a pipeline.
#[derive(Clone)]
pub struct VersionPlace {
    address: String,
    store: ArtifactStore,
    setup: Setup,
}

impl VersionPlace {
    /// The versions at an address: a folder, or a URL such as `s3://bucket/manuals`.
    ///
    /// # Errors
    /// If there can be no store at this address.
    pub fn open(address: &str, setup: &Setup) -> Result<Self, Error> {
        let address = address.trim_end_matches('/').to_owned();
        let store = match store::is_url(&address) {
            true => ArtifactStore::open(&address, &setup.store_options, LAYOUT)?,
            false => {
                let folder = Path::new(&address);
                std::fs::create_dir_all(folder).map_err(|source| Error::file("create", folder, source))?;
                ArtifactStore::open(&address, &setup.store_options, LAYOUT)?
            }
        };
        Ok(Self { address, store, setup: setup.clone() })
    }

    /// The versions at an address, to be read, and the one that is served; none if no version is served there.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub async fn open_to_read(address: &str, setup: &Setup) -> Result<Option<(Self, CurrentVersion)>, Error> {
        let address = address.trim_end_matches('/').to_owned();
        if !store::is_url(&address) && !Path::new(&address).join(CURRENT).is_file() {
            return Ok(None);
        }
        let store = ArtifactStore::open_to_read(&address, &setup.store_options, LAYOUT)?;
        let place = Self { address, store, setup: setup.clone() };
        Ok(place.current().await?.map(|current| (place, current)))
    }

    /// The address, without secrets.
    pub fn address(&self) -> String {
        store::without_secrets(&self.address)
    }

    /// The address of the bundle of a version.
    pub fn bundle(&self, version: &str) -> String {
        format!("{}/{version}", self.address)
    }

    /// Whether the place is on an object store, where each look is a request.
    pub fn is_remote(&self) -> bool {
        self.store.is_remote()
    }

    /// The version that is served; none if there is none yet.
    ///
    /// # Errors
    /// If the place cannot be read, or what is there is not what was written.
    pub async fn current(&self) -> Result<Option<CurrentVersion>, Error> {
        let Some(bytes) = self.store.get_at_most(CURRENT, MOST_BYTES).await? else { return Ok(None) };
        let current: CurrentVersion = serde_json::from_slice(&bytes).map_err(|error| {
            let place = self.address();
            Error::Unusable(format!("{place}/{CURRENT} is damaged ({error}): choose a version of {place} anew"))
        })?;
        // It becomes a part of a path.
        check_name(&current.version)?;
        Ok(Some(current))
    }

    /// The versions, the newest first.
    ///
    /// # Errors
    /// If the place cannot be read. A bundle that cannot be read is left out.
    pub async fn list(&self) -> Result<Vec<PipelineVersion>, Error> {
        let current = self.current().await?;
        let mut versions = Vec::new();
        for version in self.names().await? {
            let Ok(manifest) = Bundle::manifest_at(&self.bundle(&version), &self.setup).await else { continue };
            let current = current.as_ref().filter(|current| current.version == version);
            versions.push(PipelineVersion {
                version,
                corpus: manifest.corpus.clone(),
                run: manifest.run.clone(),
                trial: manifest.trial.clone(),
                made_ms: manifest.made_ms,
                bytes: manifest.bytes(),
                is_current: current.is_some(),
                is_pinned: current.is_some_and(|current| current.is_pinned),
            });
        }
        versions.sort_by(|a, b| (b.made_ms, &b.version).cmp(&(a.made_ms, &a.version)));
        Ok(versions)
    }

    /// Serves a version by name, until another one is chosen; without a name, the newest one and those that follow.
    ///
    /// # Errors
    /// If there is no such version, or the place cannot be written.
    pub async fn choose(&self, version: Option<&str>) -> Result<CurrentVersion, Error> {
        let versions = self.list().await?;
        let found = match version {
            Some(name) => versions.iter().find(|found| found.version == name),
            None => versions.first(),
        };
        let Some(found) = found else {
            let names: Vec<&str> = versions.iter().map(|found| found.version.as_str()).collect();
            let there = match names.as_slice() {
                [] => "there is none".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            let asked = version.map_or_else(|| "a version".to_owned(), |name| format!("the version {name}"));
            return Err(Error::Unusable(format!("{} does not hold {asked}; {there}", self.address())));
        };
        self.serve(&found.version, version.is_some()).await
    }

    /// A name for the version of a state of the corpus that begins now.
    pub(crate) fn name_of(state: &CorpusState) -> String {
        format!("{}-{}", compact_utc(now_ms()), state.version)
    }

    /// Serves a version from now on.
    pub(crate) async fn serve(&self, version: &str, is_pinned: bool) -> Result<CurrentVersion, Error> {
        let current = CurrentVersion { version: version.to_owned(), since_ms: now_ms(), is_pinned };
        let bytes = serde_json::to_vec_pretty(&current).map_err(Error::table)?;
        self.store.replace(CURRENT, bytes).await?;
        Ok(current)
    }

    /// The manifest of the newest version; none if there is none.
    pub(crate) async fn newest(&self) -> Result<Option<BundleManifest>, Error> {
        for version in self.names().await?.into_iter().rev() {
            // One that is not whole is made again.
            if let Ok(manifest) = Bundle::manifest_at(&self.bundle(&version), &self.setup).await {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// Removes all versions but the newest `keep`, the served one, and those that were made less than `grace_ms` ago, which
    /// a service may be opening. Returns the names of those that were removed.
    pub(crate) async fn remove_old(&self, keep: usize, grace_ms: i64) -> Result<Vec<String>, Error> {
        let versions = self.list().await?;
        let is_old = |version: &&PipelineVersion| !version.is_current && version.made_ms < now_ms() - grace_ms;
        let old = versions.iter().skip(keep.max(1)).filter(is_old);
        let mut removed = Vec::new();
        for PipelineVersion { version, .. } in old {
            if self.is_remote() {
                remove_bundle_files(&self.bundle(version), &self.setup).await?;
            } else {
                let folder = Path::new(&self.address).join(version);
                let gone = store::staged_path(&folder);
                std::fs::rename(&folder, &gone).map_err(|source| Error::file("remove", &folder, source))?;
                std::fs::remove_dir_all(&gone).map_err(|source| Error::file("remove", &folder, source))?;
            }
            removed.push(version.clone());
        }
        Ok(removed)
    }

    /// Removes what killed processes left in a folder: bundles that were being made or removed.
    pub(crate) fn remove_drafts(&self) {
        let entries = std::fs::read_dir(&self.address).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| store::is_staged(&entry.path())) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }

    /// The names of versions, the oldest first.
    async fn names(&self) -> Result<BTreeSet<String>, Error> {
        if self.is_remote() {
            let names = self.store.list("").await?;
            let version = |name: &String| name.strip_suffix(MANIFEST)?.strip_suffix('/').map(str::to_owned);
            return Ok(names.iter().filter_map(version).filter(|name| check_name(name).is_ok()).collect());
        }
        let folder = Path::new(&self.address);
        let entries = std::fs::read_dir(folder).map_err(|source| Error::file("read", folder, source))?;
        let names = entries.flatten().filter(|entry| Bundle::is_at(&entry.path()));
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter(|name| check_name(name).is_ok() && !store::is_staged(&folder.join(name))).collect())
    }
}

/// Refuses a name that is not a single part of a path.
fn check_name(version: &str) -> Result<(), Error> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    match !version.is_empty() && !version.starts_with('.') && version.chars().all(is_part) {
        true => Ok(()),
        false => {
            Err(Error::Unusable(format!("`{version}` is no name of a version: letters, digits, `-`, `_` and `.` are")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_named_by_one_part_of_a_path() {
        assert!(check_name("20261128-161500-0123456789ab").is_ok());
        for name in ["", ".", "..", "a/b", "../a", ".hidden", "a b", "a\\b", "ä"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn versions_are_in_the_order_of_their_names() {
        let state = CorpusState { version: "ffff".to_owned(), files: 1, read_ms: 0 };
        let first = VersionPlace::name_of(&state);
        let begun = now_ms();
        while now_ms() == begun {}
        let second = VersionPlace::name_of(&CorpusState { version: "0000".to_owned(), ..state });
        assert!(first < second, "{first} {second}");
    }
}
