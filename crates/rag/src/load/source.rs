//! `load::source`: where a corpus is: one address, which names a folder, a glob, a
//! single file or an object-store URL. Files are listed once, in a fixed order,
//! and read one at a time, so that a corpus never has to fit in memory.

use super::filter::{FileFilter, PatternError, split_pattern};
use super::walk::{self, SeenFile, WalkError, WalkResult};
use super::{FileState, Links, ParseLimits, ReadError, Rejected, Unread, sniff};
use crate::Error;
use bytes::Bytes;
use futures::TryStreamExt;
use glob::Pattern;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many extensions of other files an error names.
const KINDS_NAMED: usize = 8;

/// A parsed address of a corpus.
#[derive(Debug, Clone)]
pub struct Source {
    address: String,
    place: CorpusPlace,
    filter: FileFilter,
    links: Links,
    /// Files that are no documents, by their paths below the root.
    no_documents: BTreeSet<String>,
}

/// A file of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// The path below the corpus' root, with `/`: the document's name everywhere.
    pub path: String,
    /// Its size when it was listed.
    pub bytes: u64,
    /// Its state when it was listed; none if the place does not tell. Tasks do not need it.
    #[serde(skip)]
    pub state: Option<FileState>,
    /// Where it is read, if that is not its path: the whole key in an object store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<Box<str>>,
}

impl SourceFile {
    fn location(&self) -> &str {
        self.location.as_deref().unwrap_or(&self.path)
    }
}

/// The content of a corpus' address.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The files that are part of the corpus, by path.
    pub files: Vec<SourceFile>,
    /// How many other files were seen, by extension (`.png`, or nothing).
    pub skipped: BTreeMap<String, u64>,
    /// How many of the skipped files were left out only because their type is unknown, by extension.
    pub unread_types: BTreeMap<String, u64>,
    /// Links that leave the corpus or lead nowhere, and unusable names.
    pub rejected: Vec<Rejected>,
    /// Files and folders that could not be looked at now.
    pub unread: Vec<Unread>,
}

/// Why an address cannot be used.
#[derive(Debug, thiserror::Error)]
enum AddressError {
    #[error("no address is given")]
    Empty,
    #[error("there is no such file or folder")]
    Missing,
    #[error("there is no folder {}", .0.display())]
    NoFolder(PathBuf),
    #[error("not a URL: {0}")]
    Url(#[from] url::ParseError),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Store(#[from] object_store::Error),
    #[error(transparent)]
    Walk(#[from] WalkError),
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
}

#[derive(Debug, Clone)]
enum CorpusPlace {
    Folder(PathBuf),
    File(PathBuf),
    Glob { root: PathBuf, pattern: Pattern },
    Remote { store: Arc<dyn ObjectStore>, prefix: ObjectPath, pattern: Option<Pattern> },
}

impl Source {
    /// Understands an address: a folder, a file, a pattern such as
    /// `books/**/*.pdf`, or a URL (`s3://…`, `http://…`, `file://…`).
    ///
    /// Without `include`, files with a known extension are taken (with a
    /// pattern in the address: whatever it matches). A pattern without `/`
    /// matches names in any folder; one that ends in `/` everything below.
    /// `options` go to the object store (`aws_access_key_id`, `endpoint`, …).
    ///
    /// # Errors
    /// No such folder or file, an unknown kind of URL, a bad pattern.
    pub fn parse(
        address: &str,
        include: &[String],
        exclude: &[String],
        options: &[(String, String)],
    ) -> Result<Self, Error> {
        Self::of_place(address, CorpusPlace::parse(address, options), include, exclude)
    }

    /// The objects of a store below a prefix, as one address; for tests of how
    /// a store's failures are handled.
    ///
    /// # Errors
    /// A bad pattern.
    pub fn of_store(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        include: &[String],
        exclude: &[String],
    ) -> Result<Self, Error> {
        let place = CorpusPlace::Remote { store, prefix: ObjectPath::from(prefix), pattern: None };
        Self::of_place(prefix, Ok(place), include, exclude)
    }

    fn of_place(
        address: &str,
        place: Result<CorpusPlace, AddressError>,
        include: &[String],
        exclude: &[String],
    ) -> Result<Self, Error> {
        let parsed = place.and_then(|place| Ok((place, FileFilter::parse(include, exclude)?)));
        let address = address.to_owned();
        match parsed {
            Ok((place, filter)) => {
                Ok(Self { address, place, filter, links: Links::default(), no_documents: BTreeSet::new() })
            }
            Err(error) => Err(Error::Source { source_address: address, reason: error.to_string() }),
        }
    }

    /// Sets which links are followed; by default links that stay inside.
    #[must_use]
    pub fn with_links(self, links: Links) -> Self {
        Self { links, ..self }
    }

    /// Leaves out files that are no documents, by their paths below the root of the corpus.
    #[must_use]
    pub fn without(self, no_documents: BTreeSet<String>) -> Self {
        Self { no_documents, ..self }
    }

    /// The files of the corpus, by path.
    ///
    /// # Errors
    /// As [`survey`](Self::survey).
    pub async fn list(&self) -> Result<Vec<SourceFile>, Error> {
        Ok(self.survey().await?.files)
    }

    /// The files of the corpus, and the other files that were seen.
    ///
    /// # Errors
    /// The address cannot be listed, or no file there belongs to the corpus.
    pub async fn survey(&self) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        let seen = self.place.list(self.links).await.map_err(|error| self.error(error.to_string()))?;
        self.sort_out(seen, &mut listing);
        listing.files.sort_by(|one, other| one.path.cmp(&other.path));
        once_each(&mut listing.files);
        if listing.files.is_empty() && listing.rejected.is_empty() && listing.unread.is_empty() {
            return Err(self.error(nothing_found(&listing.skipped)));
        }
        Ok(listing)
    }

    /// Reads one file.
    ///
    /// # Errors
    /// The file is larger than the limit or leaves the corpus by a link
    /// ([`ReadError::Rejected`]), or it cannot be read now.
    pub async fn read(&self, file: &SourceFile, limits: &ParseLimits) -> Result<Bytes, ReadError> {
        let CorpusPlace::Remote { store, .. } = &self.place else {
            let (source, file, limits) = (self.clone(), file.clone(), limits.clone());
            let read = tokio::task::spawn_blocking(move || source.read_local(&file, &limits)).await;
            return read
                .unwrap_or_else(|error| Err(ReadError::Failed { reason: error.to_string(), is_temporary: false }));
        };
        limits.check_file(file.bytes).map_err(ReadError::Rejected)?;
        let found = store.get(&ObjectPath::from(file.location())).await.map_err(failed)?;
        // The file may have grown since it was listed.
        limits.check_file(found.meta.size).map_err(ReadError::Rejected)?;
        found.bytes().await.map_err(failed)
    }

    /// The file at a path below the root, which may not be there: a corpus need not be listed to read one file.
    pub fn file(&self, path: &str) -> SourceFile {
        let location = match &self.place {
            CorpusPlace::Remote { prefix, .. } if !prefix.as_ref().is_empty() && prefix.filename() != Some(path) => {
                Some(format!("{prefix}/{path}").into())
            }
            CorpusPlace::Remote { prefix, .. } if prefix.filename() == Some(path) => Some(prefix.as_ref().into()),
            _ => None,
        };
        SourceFile { path: path.to_owned(), bytes: 0, state: None, location }
    }

    /// Reads one file on this thread; none if the corpus is in an object store.
    pub fn read_now(&self, file: &SourceFile, limits: &ParseLimits) -> Option<Result<Bytes, ReadError>> {
        let is_remote = matches!(self.place, CorpusPlace::Remote { .. });
        (!is_remote).then(|| self.read_local(file, limits))
    }

    fn read_local(&self, file: &SourceFile, limits: &ParseLimits) -> Result<Bytes, ReadError> {
        limits.check_file(file.bytes).map_err(ReadError::Rejected)?;
        let bytes = match &self.place {
            CorpusPlace::Folder(root) | CorpusPlace::Glob { root, .. } => {
                walk::read_below(root, file.location(), self.links, limits.file_bytes)
            }
            CorpusPlace::File(path) if path.file_name().is_some_and(|name| name.to_string_lossy() == *file.path) => {
                walk::read(path, limits.file_bytes)
            }
            CorpusPlace::File(_) => {
                Err(ReadError::Failed { reason: "the corpus is another file".to_owned(), is_temporary: false })
            }
            CorpusPlace::Remote { .. } => {
                Err(ReadError::Failed { reason: "it is in an object store".to_owned(), is_temporary: false })
            }
        }?;
        limits.check_file(bytes.len() as u64).map_err(ReadError::Rejected)?;
        Ok(Bytes::from(bytes))
    }

    fn error(&self, reason: String) -> Error {
        Error::Source { source_address: self.address.clone(), reason }
    }

    /// Puts what was seen into the listing.
    fn sort_out(&self, seen: WalkResult, listing: &mut Listing) {
        for SeenFile { location, bytes, state } in seen.files {
            let below = self.place.path_below(&location);
            // A file that is named explicitly is taken, whatever its extension.
            let is_named = matches!(self.place, CorpusPlace::File(_));
            if !is_named && self.no_documents.contains(below) {
                continue;
            }
            if is_named || self.filter.takes(below, self.place.pattern()) {
                let path = below.to_owned();
                let location = (path != location).then(|| location.into());
                listing.files.push(SourceFile { path, bytes, state, location });
            } else {
                if self.filter.lacks_type(below, self.place.pattern()) {
                    *listing.unread_types.entry(ending(below)).or_default() += 1;
                }
                *listing.skipped.entry(ending(below)).or_default() += 1;
            }
        }
        listing.rejected = seen.rejected;
        listing.unread = seen.unread;
    }
}

/// The extension of a file's name, with its dot; empty if there is none.
fn ending(path: &str) -> String {
    sniff::extension(path).map(|extension| format!(".{extension}")).unwrap_or_default()
}

impl CorpusPlace {
    fn parse(address: &str, options: &[(String, String)]) -> Result<Self, AddressError> {
        if address.trim().is_empty() {
            return Err(AddressError::Empty);
        }
        match address.split_once("://") {
            Some(("file", path)) => Self::local(path),
            Some(_) => Self::remote(address, options),
            None => Self::local(address),
        }
    }

    fn local(address: &str) -> Result<Self, AddressError> {
        let path = Path::new(address);
        // A folder whose name contains a bracket is a folder, not a pattern.
        if let Ok(metadata) = std::fs::metadata(path) {
            let path = path.to_owned();
            return Ok(if metadata.is_dir() { Self::Folder(path) } else { Self::File(path) });
        }
        let (root, Some(pattern)) = split_pattern(address)? else {
            return Err(AddressError::Missing);
        };
        let root = PathBuf::from(match root {
            "" if address.starts_with('/') => "/",
            "" => ".",
            root => root,
        });
        match root.is_dir() {
            true => Ok(Self::Glob { root, pattern }),
            false => Err(AddressError::NoFolder(root)),
        }
    }

    fn remote(address: &str, options: &[(String, String)]) -> Result<Self, AddressError> {
        let (root, pattern) = split_pattern(address)?;
        let url = url::Url::parse(root)?;
        store::choose_cryptography();
        let (store, prefix) = object_store::parse_url_opts(&url, options.iter().map(|(key, value)| (key, value)))?;
        Ok(Self::Remote { store: Arc::from(store), prefix, pattern })
    }

    async fn list(&self, links: Links) -> Result<WalkResult, AddressError> {
        let (root, is_file) = match self {
            Self::Remote { store, prefix, .. } => return list_remote(store.as_ref(), prefix).await,
            Self::Folder(root) | Self::Glob { root, .. } => (root.clone(), false),
            Self::File(path) => (path.clone(), true),
        };
        let walk = move || if is_file { walk::single(&root) } else { walk::folder(&root, links) };
        Ok(tokio::task::spawn_blocking(walk).await??)
    }

    /// The path below the root: object stores list whole keys.
    fn path_below<'l>(&self, location: &'l str) -> &'l str {
        let Self::Remote { prefix, .. } = self else { return location };
        let below = location.strip_prefix(prefix.as_ref()).unwrap_or(location).trim_start_matches('/');
        if below.is_empty() { location.rsplit('/').next().unwrap_or(location) } else { below }
    }

    fn pattern(&self) -> Option<&Pattern> {
        match self {
            Self::Glob { pattern, .. } => Some(pattern),
            Self::Remote { pattern, .. } => pattern.as_ref(),
            Self::Folder(_) | Self::File(_) => None,
        }
    }
}

async fn list_remote(store: &dyn ObjectStore, prefix: &ObjectPath) -> Result<WalkResult, AddressError> {
    let mut seen = WalkResult::default();
    // A key with an extension is usually a file; listing it as a folder gives nothing.
    if prefix.extension().is_some()
        && let Ok(object) = store.head(prefix).await
    {
        seen.files.push(SeenFile::of_object(&object));
        return Ok(seen);
    }
    let mut objects = store.list(Some(prefix));
    while let Some(object) = objects.try_next().await? {
        seen.files.push(SeenFile::of_object(&object));
    }
    Ok(seen)
}

/// Leaves each file of a sorted list once. An object store that changes while it is listed may list an object on two pages;
/// what it says later is newer.
fn once_each(files: &mut Vec<SourceFile>) {
    files.dedup_by(|later, kept| {
        let is_same = later.path == kept.path;
        if is_same {
            std::mem::swap(later, kept);
        }
        is_same
    });
}

fn nothing_found(skipped: &BTreeMap<String, u64>) -> String {
    let total: u64 = skipped.values().sum();
    if total == 0 {
        return "there are no files".to_owned();
    }
    let mut kinds: Vec<(&String, &u64)> = skipped.iter().collect();
    kinds.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    let name =
        |extension: &str| if extension.is_empty() { "without extension".to_owned() } else { extension.to_owned() };
    let named: Vec<String> =
        kinds.iter().take(KINDS_NAMED).map(|(extension, count)| format!("{count} {}", name(extension))).collect();
    let more = if kinds.len() > KINDS_NAMED { ", …" } else { "" };
    format!("no file matches; {total} other files were seen ({}{more}); set `include` to take them", named.join(", "))
}

fn failed(error: object_store::Error) -> ReadError {
    use object_store::Error;
    let is_temporary = !matches!(
        error,
        Error::NotFound { .. }
            | Error::PermissionDenied { .. }
            | Error::Unauthenticated { .. }
            | Error::InvalidPath { .. }
    );
    // Some causes are contained in the error's text already.
    let mut reason = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        let words = error.to_string();
        if !reason.contains(&words) {
            reason = format!("{reason}: {words}");
        }
        cause = error.source();
    }
    ReadError::Failed { reason, is_temporary }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LoadError;
    use object_store::memory::InMemory;
    use std::fs;

    fn corpus() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.txt", "A.PDF", "deep/er/c.md", "deep/style.css", "deep/d.png", ".hidden/x.txt", ".y.txt"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        folder
    }

    fn source(address: &str, include: &[&str], exclude: &[&str]) -> Result<Source, Error> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Source::parse(address, &owned(include), &owned(exclude), &[])
    }

    async fn paths(source: &Source) -> Vec<String> {
        source.list().await.unwrap().into_iter().map(|file| file.path).collect()
    }

    #[tokio::test]
    async fn a_folder_gives_known_files_in_order_and_counts_the_rest() {
        let folder = corpus();
        let source = source(folder.path().to_str().unwrap(), &[], &[]).unwrap();
        assert_eq!(paths(&source).await, ["A.PDF", "b.txt", "deep/er/c.md"]);
        let listing = source.survey().await.unwrap();
        assert_eq!(listing.skipped, BTreeMap::from([(".css".to_owned(), 1), (".png".to_owned(), 1)]));
        assert_eq!(listing.unread_types, listing.skipped);
        let bytes = source.read(&listing.files[2], &ParseLimits::default()).await.unwrap();
        assert_eq!(&bytes[..], b"deep/er/c.md");
    }

    #[test]
    fn a_file_that_is_listed_twice_is_there_once_as_it_was_listed_last() {
        let file = |path: &str, bytes| SourceFile { path: path.to_owned(), bytes, state: None, location: None };
        let mut files = vec![file("a", 1), file("b", 1), file("b", 2), file("b", 3), file("c", 1), file("c", 1)];
        once_each(&mut files);
        assert_eq!(files, [file("a", 1), file("b", 3), file("c", 1)]);
    }

    #[tokio::test]
    async fn patterns_choose_and_leave_out() {
        let folder = corpus();
        let root = folder.path().to_str().unwrap();
        assert_eq!(paths(&source(root, &["**/*.css", "*.md"], &[]).unwrap()).await, ["deep/er/c.md", "deep/style.css"]);
        assert_eq!(paths(&source(root, &[], &["deep/"]).unwrap()).await, ["A.PDF", "b.txt"]);
        assert_eq!(
            paths(&source(&format!("{root}/deep/**/*.*"), &[], &["*.png"]).unwrap()).await,
            ["er/c.md", "style.css"]
        );
        assert!(matches!(source(root, &["[x"], &[]), Err(Error::Source { .. })));
    }

    #[tokio::test]
    async fn a_file_is_a_corpus_too() {
        let folder = corpus();
        let root = folder.path().display();
        let style = source(&format!("{root}/deep/style.css"), &[], &[]).unwrap();
        assert_eq!(paths(&style).await, ["style.css"]);
        assert_eq!(
            &style.read(&style.list().await.unwrap()[0], &ParseLimits::default()).await.unwrap()[..],
            b"deep/style.css"
        );
    }

    #[tokio::test]
    async fn an_object_store_is_listed_and_read_like_a_folder() {
        let store = InMemory::new();
        for key in ["books/a.txt", "books/deep/b.md", "books/c.png", "other/d.txt"] {
            store.put(&ObjectPath::from(key), Bytes::from(key).into()).await.unwrap();
        }
        let place = |prefix: &str| CorpusPlace::Remote {
            store: Arc::new(store.fork()),
            prefix: ObjectPath::from(prefix),
            pattern: None,
        };
        let remote = |prefix: &str| Source {
            address: "memory".to_owned(),
            place: place(prefix),
            filter: FileFilter::parse(&[], &[]).unwrap(),
            links: Links::Inside,
            no_documents: BTreeSet::new(),
        };
        assert_eq!(paths(&remote("books")).await, ["a.txt", "deep/b.md"]);
        let listing = remote("books").survey().await.unwrap();
        assert_eq!(listing.unread_types, BTreeMap::from([(".png".to_owned(), 1)]));
        assert_eq!(paths(&remote("books/a.txt")).await, ["a.txt"]);
        let source = remote("books");
        let file = &source.list().await.unwrap()[1];
        assert_eq!(&source.read(file, &ParseLimits::default()).await.unwrap()[..], b"books/deep/b.md");
        let small = ParseLimits { file_bytes: 3, ..ParseLimits::default() };
        assert!(matches!(source.read(file, &small).await, Err(ReadError::Rejected(LoadError::OverLimit(_)))));
    }

    #[tokio::test]
    async fn what_is_not_there_is_said_plainly() {
        let reason = |error: Error| error.to_string();
        assert!(reason(source("/no/such/folder", &[], &[]).unwrap_err()).contains("no such file or folder"));
        assert!(reason(source("/no/such/*.pdf", &[], &[]).unwrap_err()).contains("no folder /no/such"));
        assert!(reason(source("gopher://x/y", &[], &[]).unwrap_err()).contains("gopher"));
        let folder = corpus();
        let nothing = source(folder.path().to_str().unwrap(), &["*.epub"], &[]).unwrap();
        let text = reason(nothing.list().await.unwrap_err());
        assert!(text.contains("5 other files were seen") && text.contains("1 .css"), "{text}");
    }

    #[tokio::test]
    async fn large_and_vanished_files_are_refused_by_themselves() {
        let folder = corpus();
        let source = source(folder.path().to_str().unwrap(), &[], &[]).unwrap();
        let files = source.list().await.unwrap();
        let small = ParseLimits { file_bytes: 5, ..ParseLimits::default() };
        assert!(matches!(source.read(&files[2], &small).await, Err(ReadError::Rejected(LoadError::OverLimit(_)))));
        fs::write(folder.path().join("b.txt"), "it grew after it was listed").unwrap();
        assert!(matches!(source.read(&files[1], &small).await, Err(ReadError::Rejected(LoadError::OverLimit(_)))));
        fs::remove_file(folder.path().join("A.PDF")).unwrap();
        assert!(matches!(source.read(&files[0], &small).await, Err(ReadError::Failed { is_temporary: false, .. })));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_in_a_circle_end() {
        let folder = corpus();
        let link = |to: &str, from: &str| std::os::unix::fs::symlink(to, folder.path().join(from)).unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("deep/back")).unwrap();
        link("nowhere", "dangling.txt");
        link("self.txt", "self.txt");
        let listing = source(folder.path().to_str().unwrap(), &[], &[]).unwrap().survey().await.unwrap();
        assert_eq!(listing.files.len(), 3);
        let rejected: Vec<&str> = listing.rejected.iter().map(|rejected| rejected.path.as_str()).collect();
        assert_eq!((rejected.as_slice(), listing.unread.len()), (&["dangling.txt", "self.txt"][..], 0));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_that_leave_the_corpus_are_refused_and_named_and_others_work() {
        use std::os::unix::fs::symlink;
        let home = tempfile::tempdir().unwrap();
        let (root, other) = (home.path().join("docs"), home.path().join("other"));
        for folder in [&root.join("deep"), &other] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(root.join("deep/a.txt"), "inside").unwrap();
        fs::write(other.join("secret.txt"), "outside").unwrap();
        symlink("deep/a.txt", root.join("inside.txt")).unwrap();
        symlink(root.join("deep"), root.join("whole")).unwrap();
        symlink(other.join("secret.txt"), root.join("absolute.txt")).unwrap();
        symlink("../../other/secret.txt", root.join("deep/relative.txt")).unwrap();
        symlink(&other, root.join("folder")).unwrap();
        symlink("absolute.txt", root.join("twice.txt")).unwrap();
        // A folder whose name begins like the corpus' is another one.
        fs::create_dir_all(home.path().join("docs2")).unwrap();
        fs::write(home.path().join("docs2/b.txt"), "outside").unwrap();
        symlink("../docs2/b.txt", root.join("near.txt")).unwrap();
        // The corpus itself may be reached by a link: the person named it.
        symlink(&root, home.path().join("corpus")).unwrap();

        let address = home.path().join("corpus");
        let strict = source(address.to_str().unwrap(), &[], &[]).unwrap();
        let listing = strict.survey().await.unwrap();
        let files: Vec<&str> = listing.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(files, ["deep/a.txt", "inside.txt", "whole/a.txt"]);
        let mut refused: Vec<&str> = listing
            .rejected
            .iter()
            .filter(|rejected| matches!(rejected.reason, LoadError::OutsideLink { .. }))
            .map(|rejected| rejected.path.as_str())
            .collect();
        refused.sort_unstable();
        let expected = ["absolute.txt", "deep/relative.txt", "folder", "near.txt", "twice.txt", "whole/relative.txt"];
        assert_eq!(refused, expected);
        for file in &listing.files {
            assert_eq!(&strict.read(file, &ParseLimits::default()).await.unwrap()[..], b"inside");
        }
        let told = listing.rejected[0].reason.to_string();
        assert!(told.contains("other/secret.txt") && told.contains("[corpus]"), "{told}");

        let open = strict.clone().with_links(Links::Anywhere);
        let all = open.survey().await.unwrap();
        assert_eq!((all.files.len(), all.rejected.len()), (9, 0));
        // A file that became such a link after it was listed is not read either.
        fs::remove_file(root.join("inside.txt")).unwrap();
        symlink(other.join("secret.txt"), root.join("inside.txt")).unwrap();
        let read = strict.read(&listing.files[1], &ParseLimits::default()).await;
        assert!(matches!(read, Err(ReadError::Rejected(LoadError::OutsideLink { .. }))), "{read:?}");
    }
}
