//! Where models and libraries are on this disk. Nothing here downloads.

use super::{
    digest::{Digests, combined},
    hub::RepositoryManifest,
    reference::{HubReference, ModelReference},
};
use crate::{Absence, Catalogue, CatalogueEntry, Error, ModelKind};
use std::path::{Path, PathBuf};

/// The extensions of files that affect a model's answers.
const MODEL_FILES: [&str; 8] = ["onnx", "onnx_data", "data", "safetensors", "gguf", "json", "txt", "model"];

/// A folder of pulled models, and other folders where libraries may lie.
#[derive(Debug, Clone)]
pub struct ModelDirectory {
    root: PathBuf,
    libraries: Vec<PathBuf>,
}

/// A model's files, all of them here.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFiles {
    /// The requested name.
    pub name: String,
    /// The folder that holds the files.
    pub folder: PathBuf,
    /// The files, sorted; for a single file also the files that belong to it in
    /// the same folder (tokenizer, config).
    pub files: Vec<PathBuf>,
    /// The SHA-256 over all files: that of the file if there is only one.
    pub sha256: String,
    /// The model's entry in the catalogue.
    pub entry: Option<CatalogueEntry>,
}

impl ModelFiles {
    /// The first file with this extension.
    pub fn with_extension(&self, extension: &str) -> Option<&Path> {
        self.files.iter().map(PathBuf::as_path).find(|path| path.extension().is_some_and(|found| found == extension))
    }
}

/// A native library that is loaded while the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Library {
    /// Runs embedding and rerank models.
    OnnxRuntime,
    /// Reads PDF.
    Pdfium,
}

impl Library {
    /// Its name in the catalogue, by which it is pulled.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnnxRuntime => "onnxruntime",
            Self::Pdfium => "pdfium",
        }
    }

    /// The beginning of its file's name.
    fn stem(self) -> &'static str {
        match self {
            Self::OnnxRuntime => "libonnxruntime.",
            Self::Pdfium => "libpdfium.",
        }
    }

    /// Where its Python package keeps it, below `site-packages`.
    fn package_folder(self) -> &'static str {
        match self {
            Self::OnnxRuntime => "onnxruntime/capi",
            Self::Pdfium => "pypdfium2_raw",
        }
    }
}

impl ModelDirectory {
    /// Models are kept in `root`. A library is looked for there first, then in
    /// `libraries`: files, folders that hold it, or Python's `site-packages`.
    pub fn new(root: PathBuf, libraries: Vec<PathBuf>) -> Self {
        Self { root, libraries }
    }

    /// The folder of pulled models.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files of a model, given by a name of the catalogue, a path, or
    /// `hf:owner/repository[/file]`.
    ///
    /// # Errors
    /// If there is no such model, it is of another kind, it is not here, or
    /// its files are not the ones that were pulled.
    pub fn locate(&self, model: &str, kind: ModelKind) -> Result<ModelFiles, Error> {
        let reference = ModelReference::parse(model)?;
        reference.expect_kind(kind)?;
        match reference {
            ModelReference::Entry(entry) => self.locate_entry(entry),
            ModelReference::Hub(hub) => self.locate_hub(model, &hub),
            ModelReference::Path(path) => self.locate_path(model, &path),
        }
    }

    /// The path of a native library.
    ///
    /// # Errors
    /// If it is neither in the folder nor in one of the others.
    pub fn library(&self, library: Library) -> Result<PathBuf, Error> {
        let entry = Catalogue::embedded().find(library.name());
        let pulled =
            entry.and_then(|entry| entry.files_here().first().map(|file| self.root.join(&entry.name).join(&file.name)));
        if let Some(path) = pulled.filter(|path| path.is_file()) {
            return Ok(path);
        }
        let is_library = |path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.starts_with(library.stem()) && (name.contains(".so") || name.ends_with(".dylib")) && path.is_file()
        };
        for place in &self.libraries {
            if is_library(place) {
                return Ok(place.clone());
            }
            for folder in [place.clone(), place.join(library.package_folder())] {
                // The real file has the longest name; the others are links to it.
                let found = listed(&folder).into_iter().filter(|path| is_library(path));
                if let Some(path) = found.max_by_key(|path| path.as_os_str().len()) {
                    return Ok(path);
                }
            }
        }
        Err(not_here(library.name()))
    }

    /// The path of a file that can be made again at any time. Its folder is
    /// created if possible.
    pub fn cache_file(&self, name: &str) -> PathBuf {
        let folder = self.root.join("cache");
        // If the folder cannot be made, writing the file reports that.
        let _ = std::fs::create_dir_all(&folder);
        folder.join(name)
    }

    /// Whether all files of an entry are here, judged by their sizes.
    pub fn holds(&self, entry: &CatalogueEntry) -> bool {
        let (folder, files) = (self.root.join(&entry.name), entry.files_here());
        let is_whole = |path: &Path, bytes| std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes);
        !files.is_empty() && files.iter().all(|file| is_whole(&folder.join(&file.name), file.bytes))
    }

    pub(super) fn digests(&self) -> Digests {
        Digests::new(self.root.join("cache").join("digests"))
    }

    pub(super) fn hub_folder(&self) -> PathBuf {
        self.root.join("hf")
    }

    /// The folder of incomplete downloads.
    pub(super) fn parts_folder(&self) -> PathBuf {
        self.root.join("parts")
    }

    pub(super) fn locate_entry(&self, entry: &CatalogueEntry) -> Result<ModelFiles, Error> {
        if !self.holds(entry) {
            return Err(not_here(&entry.name));
        }
        let (folder, files, digests) = (self.root.join(&entry.name), entry.files_here(), self.digests());
        let mut paths = Vec::with_capacity(files.len());
        for file in &files {
            let path = folder.join(&file.name);
            if digests.of(&path)? != file.sha256 {
                return Err(Error::NotPinned { path: path.display().to_string(), model: entry.name.clone() });
            }
            paths.push(path);
        }
        paths.sort();
        let sha256 = combined(files.iter().map(|file| (file.name.as_str(), file.sha256.as_str())));
        Ok(ModelFiles { name: entry.name.clone(), folder, files: paths, sha256, entry: Some(entry.clone()) })
    }

    pub(super) fn locate_hub(&self, model: &str, hub: &HubReference) -> Result<ModelFiles, Error> {
        let folder = self.hub_folder().join(hub.folder());
        let manifest = RepositoryManifest::read(&folder).ok_or_else(|| not_here(model))?;
        let mut files: Vec<PathBuf> = manifest.files.iter().map(|file| folder.join(&file.path)).collect();
        files.sort();
        if files.iter().any(|file| !file.is_file()) {
            return Err(not_here(model));
        }
        self.described(model, folder, files)
    }

    fn locate_path(&self, model: &str, path: &Path) -> Result<ModelFiles, Error> {
        if path.is_file() {
            let folder = path.parent().map(Path::to_owned).unwrap_or_default();
            let mut files = vec![path.to_owned()];
            // A GGUF file holds everything itself.
            if path.extension().is_none_or(|extension| extension != "gguf") {
                let beside = ["tokenizer.json", "config.json"].map(|name| folder.join(name));
                files.extend(beside.into_iter().filter(|beside| beside.is_file() && beside != path));
            }
            return self.described(model, folder, files);
        }
        if !path.is_dir() {
            return Err(Error::NotHere { model: model.to_owned(), absence: Absence::NoSuchPath });
        }
        let is_model_file = |path: &PathBuf| {
            let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
            path.is_file() && extension.is_some_and(|extension| MODEL_FILES.contains(&extension.as_str()))
        };
        let mut files: Vec<PathBuf> = [path.to_owned(), path.join("onnx"), path.join("1_Pooling")]
            .iter()
            .flat_map(|folder| listed(folder))
            .filter(is_model_file)
            .collect();
        files.sort();
        if files.is_empty() {
            return Err(Error::bad_file(path, "holds no model: expected .onnx, .safetensors or .gguf"));
        }
        self.described(model, path.to_owned(), files)
    }

    fn described(&self, model: &str, folder: PathBuf, files: Vec<PathBuf>) -> Result<ModelFiles, Error> {
        let digests = self.digests();
        let mut named = Vec::with_capacity(files.len());
        for file in &files {
            let name = file.strip_prefix(&folder).unwrap_or(file).to_string_lossy().into_owned();
            named.push((name, digests.of(file)?));
        }
        let sha256 = combined(named.iter().map(|(name, sha256)| (name.as_str(), sha256.as_str())));
        Ok(ModelFiles { name: model.to_owned(), folder, files, sha256, entry: None })
    }
}

/// What lies in a folder; nothing if there is none.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    entries.unwrap_or_default()
}

fn not_here(model: &str) -> Error {
    Error::NotHere { model: model.to_owned(), absence: Absence::NotPulled }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, ModelDirectory) {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = ModelDirectory::new(folder.path().join("models"), vec![folder.path().join("site-packages")]);
        (folder, directory)
    }

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn a_missing_model_is_named_as_it_is_pulled() {
        let (_folder, directory) = directory();
        for model in ["all-minilm-l6-v2", "hf:owner/name"] {
            let error = directory.locate(model, ModelKind::Embedding).expect_err("not here");
            let Error::NotHere { model: named, absence: Absence::NotPulled } = &error else { panic!("{error}") };
            assert_eq!(named, model);
        }
        assert!(matches!(directory.locate("./nothing", ModelKind::Chat), Err(Error::NotHere { .. })));
        assert!(matches!(directory.library(Library::Pdfium), Err(Error::NotHere { .. })));
    }

    #[test]
    fn a_file_brings_its_tokenizer_and_its_identity_follows_the_bytes() {
        let (folder, directory) = directory();
        let model = folder.path().join("mine/model.onnx");
        write(&model, "one");
        write(&folder.path().join("mine/tokenizer.json"), "{}");
        write(&folder.path().join("mine/README.md"), "no part of the model");
        let located = directory.locate(&model.to_string_lossy(), ModelKind::Embedding).expect("here");
        assert_eq!(located.files.len(), 2);
        assert!(located.with_extension("json").is_some() && located.with_extension("onnx").is_some());
        let whole =
            directory.locate(&folder.path().join("mine").to_string_lossy(), ModelKind::Embedding).expect("here");
        assert_eq!(whole.sha256, located.sha256);
        write(&model, "other");
        let changed = directory.locate(&model.to_string_lossy(), ModelKind::Embedding).expect("here");
        assert_ne!(changed.sha256, located.sha256);
    }

    #[test]
    fn a_file_that_is_not_the_pinned_one_is_refused() {
        let (_folder, directory) = directory();
        let mut entry = Catalogue::embedded().find("all-minilm-l6-v2").expect("an entry").clone();
        entry.files.retain(|file| file.name == "config.json");
        let path = directory.root().join(&entry.name).join("config.json");
        write(&path, &" ".repeat(entry.files[0].bytes as usize));
        assert!(directory.holds(&entry));
        assert!(matches!(directory.locate_entry(&entry), Err(Error::NotPinned { .. })));
    }

    #[test]
    fn a_library_is_found_in_the_packages_of_python() {
        let (folder, directory) = directory();
        let capi = folder.path().join("site-packages/onnxruntime/capi");
        write(&capi.join("libonnxruntime_providers_shared.so"), "");
        assert!(directory.library(Library::OnnxRuntime).is_err());
        write(&capi.join("libonnxruntime.so.1.31.1"), "");
        let found = directory.library(Library::OnnxRuntime).expect("a library");
        assert_eq!(found, capi.join("libonnxruntime.so.1.31.1"));
    }
}
