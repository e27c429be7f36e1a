//! Hugging Face repositories: which of a repository's files make the model.

use super::{
    download::{Downloader, FetchError},
    reference::{HubReference, is_harmless},
};
use serde::{Deserialize, Serialize};
use std::path::Path;

const MANIFEST: &str = "reverie.json";
const NAME_IT: &str = "name the file, as hf:OWNER/REPOSITORY/FILE";

/// Small files that belong to a model, where a repository has them.
const BESIDE: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
];

/// GGUF quantisations, best compromise first.
const QUANTISATIONS: [&str; 6] = ["q4_k_m", "q5_k_m", "q4_0", "q8_0", "q6_k", "f16"];

/// The list of files that were pulled from a repository. It is written last, so
/// a folder with a manifest is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RepositoryManifest {
    pub(super) repository: String,
    /// The commit.
    pub(super) revision: String,
    /// As the repository states it.
    pub(super) licence: Option<String>,
    pub(super) files: Vec<ManifestFile>,
}

/// One file of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestFile {
    pub(super) path: String,
    pub(super) bytes: u64,
    /// Stated for large files only; the others are small and checked by size.
    pub(super) sha256: Option<String>,
}

#[derive(Deserialize)]
struct RepositoryAnswer {
    sha: String,
    #[serde(default, rename = "cardData")]
    card: serde_json::Value,
}

#[derive(Deserialize)]
struct TreeEntry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    oid: String,
}

impl RepositoryManifest {
    /// The manifest of a folder that was pulled as a whole.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(MANIFEST)).ok()?).ok()
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), FetchError> {
        let path = folder.join(MANIFEST);
        let text = serde_json::to_vec_pretty(self).map_err(FetchError::new)?;
        let draft = path.with_extension("part");
        std::fs::write(&draft, text)
            .and_then(|()| std::fs::rename(&draft, &path))
            .map_err(|error| FetchError::file(&path, &error))
    }

    /// Asks the hub which files the reference means now.
    pub(super) async fn ask(
        downloader: &Downloader,
        hub: &str,
        token: Option<&str>,
        reference: &HubReference,
    ) -> Result<Self, FetchError> {
        let HubReference { repository, file } = reference;
        let unreadable = |error: serde_json::Error| {
            FetchError::new(format_args!("the answer about {repository} cannot be read: {error}"))
        };
        let page = downloader.page(&format!("{hub}/api/models/{repository}"), "application/json", token).await?;
        let answer: RepositoryAnswer = serde_json::from_str(&page.body).map_err(unreadable)?;
        let tree = format!("{hub}/api/models/{repository}/tree/{}?recursive=true", answer.sha);
        let page = downloader.page(&tree, "application/json", token).await?;
        let entries: Vec<TreeEntry> = serde_json::from_str(&page.body).map_err(unreadable)?;
        let present =
            entries.into_iter().filter(|entry| entry.kind == "file" && is_harmless(&entry.path)).map(|entry| {
                ManifestFile {
                    path: entry.path,
                    bytes: entry.size,
                    sha256: entry.lfs.map(|large| large.oid.trim_start_matches("sha256:").to_owned()),
                }
            });
        let licence = answer.card["license"].as_str().map(str::to_owned);
        let files = choose(present.collect(), file.as_deref())
            .map_err(|error| FetchError::new(format_args!("{repository} {error}")))?;
        Ok(Self { repository: repository.clone(), revision: answer.sha, licence, files })
    }

    /// The address of one of its files.
    pub(super) fn address(&self, hub: &str, file: &ManifestFile) -> String {
        format!("{hub}/{}/resolve/{}/{}", self.repository, self.revision, file.path)
    }
}

/// Why no file of a repository is chosen. The texts continue a sentence that
/// begins with the repository.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ChoiceError {
    #[error("has no file {0}")]
    NoFile(String),
    #[error("has none of onnx/model.onnx, model.onnx, model.safetensors, *.gguf: {NAME_IT}")]
    NoWeights,
    #[error("has several models ({0}): {NAME_IT}")]
    Ambiguous(String),
}

/// The weights in the form that we run best, and the small files beside them.
fn choose(present: Vec<ManifestFile>, wanted: Option<&str>) -> Result<Vec<ManifestFile>, ChoiceError> {
    let weights = match wanted {
        Some(path) if present.iter().any(|file| file.path == path) => path.to_owned(),
        Some(path) => return Err(ChoiceError::NoFile(path.to_owned())),
        None => weights(&present)?,
    };
    // The weights of a large ONNX model are in a second file.
    let own = [format!("{weights}_data"), format!("{weights}.data"), weights];
    let is_part = |path: &String| own.contains(path) || (!own[2].ends_with(".gguf") && BESIDE.contains(&path.as_str()));
    Ok(present.into_iter().filter(|file| is_part(&file.path)).collect())
}

fn weights(present: &[ManifestFile]) -> Result<String, ChoiceError> {
    for path in ["onnx/model.onnx", "model.onnx", "model.safetensors"] {
        if present.iter().any(|file| file.path == path) {
            return Ok(path.to_owned());
        }
    }
    let gguf: Vec<&str> =
        present.iter().map(|file| file.path.as_str()).filter(|path| path.ends_with(".gguf")).collect();
    let preferred = QUANTISATIONS.iter().find_map(|quantisation| {
        // A model in numbered parts cannot be meant by one name.
        gguf.iter().find(|path| path.to_lowercase().contains(quantisation) && !path.contains("-of-"))
    });
    match (preferred, gguf.as_slice()) {
        (Some(path), _) | (None, [path]) => Ok((*path).to_owned()),
        (None, []) => Err(ChoiceError::NoWeights),
        (None, several) => Err(ChoiceError::Ambiguous(several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(paths: &[&str], wanted: Option<&str>) -> Result<Vec<String>, ChoiceError> {
        let present =
            paths.iter().map(|path| ManifestFile { path: (*path).to_owned(), bytes: 1, sha256: None }).collect();
        choose(present, wanted).map(|files| files.into_iter().map(|file| file.path).collect())
    }

    #[test]
    fn onnx_is_preferred_and_brings_its_values_and_tokenizer() {
        let paths = [
            "README.md",
            "model.safetensors",
            "onnx/model.onnx",
            "onnx/model.onnx_data",
            "onnx/model_O4.onnx",
            "tokenizer.json",
        ];
        assert_eq!(
            chosen(&paths, None),
            Ok(vec!["onnx/model.onnx".to_owned(), "onnx/model.onnx_data".to_owned(), "tokenizer.json".to_owned()])
        );
    }

    #[test]
    fn one_quantisation_of_several_is_taken() {
        let paths = ["m-f16.gguf", "m-Q4_K_M.gguf", "m-q8_0.gguf", "config.json"];
        assert_eq!(chosen(&paths, None), Ok(vec!["m-Q4_K_M.gguf".to_owned()]));
        assert_eq!(chosen(&paths, Some("m-q8_0.gguf")), Ok(vec!["m-q8_0.gguf".to_owned()]));
    }

    #[test]
    fn what_cannot_be_chosen_is_said() {
        assert!(chosen(&["a.gguf", "b.gguf"], None).is_err_and(|error| error.to_string().contains("a.gguf, b.gguf")));
        assert!(chosen(&["pytorch_model.bin"], None).is_err_and(|error| error == ChoiceError::NoWeights));
        assert!(
            chosen(&["a.gguf"], Some("c.gguf")).is_err_and(|error| error == ChoiceError::NoFile("c.gguf".to_owned()))
        );
    }

    #[test]
    fn a_path_that_climbs_is_no_file() {
        assert!(is_harmless("onnx/model.onnx"));
        assert!(!is_harmless("../model.onnx") && !is_harmless("/etc/passwd") && !is_harmless("a//b"));
    }
}
