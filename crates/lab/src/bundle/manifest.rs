//! The manifest of a bundle: what it is, and the digest of every other file.

use super::{PromotedIndex, STORE};
use crate::{
    Error,
    action::Action,
    corpus::CorpusState,
    layout::{self, RunFileName},
    write_whole,
};
use eval::statistics::Summary;
use models::Identity;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Component, Path, PathBuf},
};
use store::Key;
use walkdir::WalkDir;

/// Raise when earlier versions of Reverie cannot read the bundles of this one, so that they
/// refuse them.
pub(super) const FORMAT: u32 = 3;
pub(crate) const MANIFEST: &str = "manifest.json";

/// What a bundle is: `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BundleManifest {
    pub(super) format: u32,
    /// The version of Reverie that made it.
    pub reverie: String,
    /// The experiment's name, by which clients ask for it.
    pub name: String,
    /// The run's id.
    pub run: String,
    /// When that run finished, in milliseconds since 1970.
    pub run_time_ms: i64,
    /// The trial's id in that run.
    pub trial: String,
    /// Its value on each axis, with all settings.
    pub settings: BTreeMap<String, Value>,
    /// Its place among the run's trials, in a sentence.
    pub place: String,
    /// Its mean scores by metric, with intervals.
    pub scores: BTreeMap<String, Summary>,
    /// Which state of the corpus it searches. Older versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<CorpusState>,
    /// The digest of the golden questions.
    pub golden: String,
    /// The identities of the models by their names in the experiment.
    pub models: BTreeMap<String, Identity>,
    /// Where the vectors are, if they were promoted into a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<PromotedIndex>,
    /// When it was made, in milliseconds since 1970.
    pub made_ms: i64,
    /// Every other file of the bundle.
    pub(super) files: Vec<BundleFile>,
    /// The digest of all of the above.
    pub(super) digest: String,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BundleFile {
    /// Its path below the bundle.
    pub(super) name: String,
    pub(super) bytes: u64,
    /// The digest of its bytes.
    pub(super) blake3: String,
}

impl BundleManifest {
    /// The digest of the whole bundle.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How many bytes its files have.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn digest_of(&self) -> Result<String, Error> {
        let bare = Self { digest: String::new(), ..self.clone() };
        Ok(Key::of_bytes(&serde_json::to_vec(&bare).map_err(Error::table)?).hex())
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        write_whole(&folder.join(MANIFEST), &serde_json::to_vec_pretty(self).map_err(Error::table)?)
    }

    pub(super) fn read(bytes: &[u8], origin: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let refuse = |reason: String| Error::Unusable(format!("{origin} is no bundle that can be served: {reason}"));
        let again = format!("make it again with {}", Action::Promote(None));
        let damaged = |error: &dyn std::fmt::Display| refuse(format!("{MANIFEST} is damaged ({error}); {again}"));
        let Format { format } = serde_json::from_slice(bytes).map_err(|error| damaged(&error))?;
        if format > FORMAT {
            return Err(refuse(format!(
                "it has format {format}, and this version of reverie knows formats up to {FORMAT}; use a newer version \
                 of reverie, or {again} by this one"
            )));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|error| damaged(&error))?;
        if manifest.digest_of()? != manifest.digest {
            return Err(damaged(&"it is not what was written"));
        }
        // The run's name is used as a path, so it must not lead elsewhere.
        let mut parts = Path::new(&manifest.run).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(run)), None) if *run == *manifest.run) {
            return Err(damaged(&format!("`{}` is no name of a run", manifest.run)));
        }
        Ok(manifest)
    }

    /// A file of the bundle.
    pub(super) fn file(&self, name: &str, origin: &str) -> Result<&BundleFile, Error> {
        self.files.iter().find(|file| file.name == name).ok_or_else(|| {
            Error::Unusable(format!("{origin} has no {name}: make it again with {}", Action::Promote(None)))
        })
    }

    /// The name of a file of the run.
    pub(super) fn run_file(&self, file: RunFileName) -> String {
        format!("{STORE}/{}", layout::run_file(&self.run, file))
    }
}

/// All files below a folder with their digests, in the order of their names.
pub(super) fn files_below(folder: &Path) -> Result<Vec<BundleFile>, Error> {
    let mut files = Vec::new();
    for entry in WalkDir::new(folder) {
        let entry = entry.map_err(|error| Error::file("read", folder, error.into()))?;
        if entry.file_type().is_dir() {
            continue;
        }
        let opened = File::open(entry.path()).and_then(|file| Ok((file.metadata()?.len(), Key::of_reader(file)?)));
        let (bytes, key) = opened.map_err(|source| Error::file("read", entry.path(), source))?;
        let parts = entry.path().strip_prefix(folder).unwrap_or(entry.path()).components();
        let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        files.push(BundleFile { name: parts.join("/"), bytes, blake3: key.hex() });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

impl BundleFile {
    pub(super) fn refusal(&self, what: &str, origin: &str) -> Error {
        Error::Unusable(format!(
            "{origin}: {} {what}: fetch the bundle again, or make it again with {}",
            self.name,
            Action::Promote(None)
        ))
    }

    /// Refuses names with `..` and absolute paths.
    pub(super) fn check_name(&self, origin: &str) -> Result<(), Error> {
        if Path::new(&self.name).components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(self.refusal("is no name of a file in a bundle", origin));
        }
        Ok(())
    }

    /// The file's bytes, if they are what the manifest says.
    pub(super) fn check_bytes(&self, bytes: Option<Vec<u8>>, origin: &str) -> Result<Vec<u8>, Error> {
        self.check_name(origin)?;
        let bytes = bytes.ok_or_else(|| self.refusal("is missing", origin))?;
        if bytes.len() as u64 != self.bytes || Key::of_bytes(&bytes).hex() != self.blake3 {
            return Err(self.refusal("is not what was written", origin));
        }
        Ok(bytes)
    }
}

/// Whether a file of a bundle is what was written.
pub(super) fn check(folder: &Path, file: &BundleFile, origin: &str) -> Result<(), Error> {
    file.check_name(origin)?;
    let path = folder.join(&file.name);
    if let Some(link) = link_in(folder, &path) {
        return Err(file.refusal(&format!("leads through the link {}", link.display()), origin));
    }
    let opened = store::open_regular(&path).and_then(|found| Ok((found.metadata()?.len(), found)));
    // The size is compared first, because the file may be very large.
    let key = opened.and_then(|(bytes, found)| match bytes == file.bytes {
        true => Key::of_reader(found.take(bytes)).map(Some),
        false => Ok(None),
    });
    match key {
        Ok(Some(key)) if key.hex() == file.blake3 => Ok(()),
        Ok(_) => Err(file.refusal("is not what was written", origin)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(file.refusal("is missing", origin)),
        Err(source) => Err(Error::file("read", &path, source)),
    }
}

/// The first link on the way from a folder to a file in it.
fn link_in(folder: &Path, path: &Path) -> Option<PathBuf> {
    let inside = path.ancestors().take_while(|ancestor| *ancestor != folder);
    let is_link = |path: &&Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    inside.filter(is_link).last().map(Path::to_owned)
}

#[cfg(test)]
fn manifest_without_files() -> BundleManifest {
    let mut manifest = BundleManifest {
        format: FORMAT,
        reverie: "0".into(),
        name: "books".into(),
        run: "r".into(),
        run_time_ms: 0,
        trial: "t01".into(),
        settings: BTreeMap::new(),
        place: String::new(),
        scores: BTreeMap::new(),
        corpus: None,
        golden: String::new(),
        models: BTreeMap::new(),
        database: None,
        made_ms: 0,
        files: Vec::new(),
        digest: String::new(),
    };
    manifest.digest = manifest.digest_of().unwrap();
    manifest
}

/// Writes a bundle with some files, for tests.
#[cfg(test)]
pub(super) fn bundle_with_files(folder: &Path, files: &[(&str, &[u8])]) -> BundleManifest {
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let file = |(name, content): &(&str, &[u8])| BundleFile {
        name: (*name).to_owned(),
        bytes: content.len() as u64,
        blake3: Key::of_bytes(content).hex(),
    };
    let mut manifest = BundleManifest { files: files.iter().map(file).collect(), ..manifest_without_files() };
    manifest.digest = manifest.digest_of().unwrap();
    manifest.write(folder).unwrap();
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(manifest: &Value) -> String {
        BundleManifest::read(manifest.to_string().as_bytes(), "here").unwrap_err().to_string()
    }

    #[test]
    fn a_manifest_that_was_changed_or_is_of_a_newer_format_is_refused() {
        let good = serde_json::to_value(manifest_without_files()).unwrap();
        assert_eq!(BundleManifest::read(good.to_string().as_bytes(), "here").unwrap(), manifest_without_files());
        let mut other = good.clone();
        other["trial"] = "t02".into();
        assert!(reason(&other).contains("is not what was written"), "{}", reason(&other));
        let mut newer = good;
        newer["format"] = (FORMAT + 1).into();
        newer["unknown"] = 1.into();
        assert!(reason(&newer).contains("newer version"), "{}", reason(&newer));
        assert!(reason(&serde_json::json!([1])).contains("damaged"));
    }

    #[test]
    fn a_file_that_was_changed_is_missing_or_lies_elsewhere_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("store")).unwrap();
        std::fs::write(folder.path().join("store/a"), "abc").unwrap();
        let [file] = &files_below(folder.path()).unwrap()[..] else { panic!("one file") };
        assert_eq!(file.name, "store/a");
        check(folder.path(), file, "here").unwrap();
        std::fs::write(folder.path().join("store/a"), "abd").unwrap();
        assert!(
            check(folder.path(), file, "here").unwrap_err().to_string().contains("store/a is not what was written")
        );
        std::fs::remove_file(folder.path().join("store/a")).unwrap();
        assert!(check(folder.path(), file, "here").unwrap_err().to_string().contains("store/a is missing"));
        let outside = BundleFile { name: "../a".into(), ..file.clone() };
        assert!(check(folder.path(), &outside, "here").unwrap_err().to_string().contains("no name of a file"));
    }

    #[test]
    fn a_run_of_a_manifest_is_a_name_and_leads_nowhere_else() {
        for (run, is_name) in [
            ("r", true),
            ("x-0123", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("/r", false),
            ("r/", false),
            ("./r", false),
        ] {
            let mut manifest = BundleManifest { run: run.to_owned(), ..manifest_without_files() };
            manifest.digest = manifest.digest_of().unwrap();
            let read = BundleManifest::read(&serde_json::to_vec(&manifest).unwrap(), "here");
            assert_eq!(read.is_ok(), is_name, "{run}: {read:?}");
            if let Err(error) = read {
                assert!(error.to_string().contains(&format!("`{run}` is no name of a run")), "{error}");
            }
        }
    }

    #[test]
    fn the_bytes_of_a_file_are_those_that_the_manifest_names() {
        let file = BundleFile { name: "store/a".into(), bytes: 3, blake3: Key::of_bytes(b"abc").hex() };
        let refused =
            |bytes: Option<&[u8]>| file.check_bytes(bytes.map(<[u8]>::to_vec), "here").unwrap_err().to_string();
        assert_eq!(file.check_bytes(Some(b"abc".to_vec()), "here").unwrap(), b"abc");
        let again = "fetch the bundle again, or make it again with a promotion";
        assert_eq!(refused(None), format!("here: store/a is missing: {again}"));
        for bytes in [b"abd".as_slice(), b"ab", b"abcd", b""] {
            assert_eq!(refused(Some(bytes)), format!("here: store/a is not what was written: {again}"));
        }
        for name in ["../a", "/a", "a/../b", "./a"] {
            let outside = BundleFile { name: name.into(), ..file.clone() };
            let told = outside.check_bytes(Some(b"abc".to_vec()), "here").unwrap_err().to_string();
            assert_eq!(told, format!("here: {name} is no name of a file in a bundle: {again}"));
        }
    }

    #[test]
    fn a_manifest_knows_its_files_and_their_size() {
        let file = |name: &str, bytes| BundleFile { name: name.into(), bytes, blake3: String::new() };
        let manifest = BundleManifest {
            files: vec![file("a", 3), file("store/runs/r/frozen.json", 40)],
            ..manifest_without_files()
        };
        assert_eq!((manifest.bytes(), manifest_without_files().bytes()), (43, 0));
        let provenance = manifest.run_file(RunFileName::Frozen);
        assert_eq!(manifest.file(&provenance, "here").unwrap().bytes, 40);
        let missing = manifest.file("b", "here").unwrap_err().to_string();
        assert_eq!(missing, "here has no b: make it again with a promotion");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_behind_a_link_is_none_of_the_bundle() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, inside) = (folder.path().join("outside"), folder.path().join("bundle"));
        for folder in [&outside, &inside] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(outside.join("a"), "abc").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("store")).unwrap();
        let file = BundleFile { name: "store/a".into(), bytes: 3, blake3: Key::of_bytes(b"abc").hex() };
        let told = check(&inside, &file, "here").unwrap_err().to_string();
        assert!(
            told.starts_with(&format!("here: store/a leads through the link {}", inside.join("store").display())),
            "{told}"
        );
    }
}
