//! The three ways to name a model.

use crate::{Catalogue, CatalogueEntry, Error, ModelKind};
use std::path::{Path, PathBuf};

const HUB_PREFIX: &str = "hf:";

/// A model as the user names it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelReference {
    /// A name of the catalogue.
    Entry(&'static CatalogueEntry),
    /// `hf:owner/name` or `hf:owner/name/path/to/file`.
    Hub(HubReference),
    /// A file or folder.
    Path(PathBuf),
}

/// A Hugging Face repository, or one file of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HubReference {
    /// `owner/name`.
    pub(super) repository: String,
    /// The one file that is wanted.
    pub(super) file: Option<String>,
}

impl HubReference {
    /// The folder of the model: one per reference, so that two files of one
    /// repository are two models.
    pub(super) fn folder(&self) -> String {
        let parts = [Some(&self.repository), self.file.as_ref()];
        parts.into_iter().flatten().map(|part| part.replace('/', "--")).collect::<Vec<_>>().join("--")
    }
}

impl ModelReference {
    /// Parses what a person wrote. An entry may also be a library; [`Self::expect_kind`] refuses it.
    pub(super) fn parse(model: &str) -> Result<Self, Error> {
        if let Some(rest) = model.strip_prefix(HUB_PREFIX) {
            return hub(model, rest).map(Self::Hub);
        }
        if let Some(entry) = Catalogue::embedded().find(model) {
            return Ok(Self::Entry(entry));
        }
        let path = Path::new(model);
        let looks_like_a_path = path.components().count() > 1
            || model.starts_with('.')
            || ["onnx", "gguf", "safetensors"]
                .iter()
                .any(|known| path.extension().is_some_and(|found| found == *known))
            || path.exists();
        if looks_like_a_path && !model.is_empty() {
            return Ok(Self::Path(path.to_owned()));
        }
        let known: Vec<&str> = Catalogue::embedded().entries.iter().map(|entry| entry.name.as_str()).collect();
        Err(Error::Config(format!(
            "there is no model `{model}`: give a name of the catalogue ({}), the path of a file or folder, \
             or hf:OWNER/REPOSITORY",
            known.join(", ")
        )))
    }

    /// Refuses an entry of another kind.
    pub(super) fn expect_kind(&self, kind: ModelKind) -> Result<(), Error> {
        match self {
            Self::Entry(entry) if entry.kind != kind => Err(Error::Config(format!(
                "`{}` is of kind {}, but {} is wanted here: {}",
                entry.name,
                entry.kind.name(),
                kind.name(),
                Catalogue::embedded().names(kind).join(", "),
            ))),
            _ => Ok(()),
        }
    }
}

fn hub(model: &str, rest: &str) -> Result<HubReference, Error> {
    let mut parts = rest.splitn(3, '/');
    let owner = parts.next().unwrap_or_default();
    let name = parts.next().unwrap_or_default();
    let file = parts.next().map(str::to_owned);
    if !is_harmless(owner) || !is_harmless(name) || !file.as_deref().is_none_or(is_harmless) {
        return Err(Error::Config(format!("`{model}`: expected hf:OWNER/REPOSITORY or hf:OWNER/REPOSITORY/FILE")));
    }
    Ok(HubReference { repository: format!("{owner}/{name}"), file })
}

/// Whether a path of a repository may become a path on this disk: it must not leave its folder.
pub(super) fn is_harmless(path: &str) -> bool {
    !path.contains('\\') && path.split('/').all(|step| !matches!(step, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_naming_a_model_is_recognised() {
        assert!(matches!(ModelReference::parse("all-minilm-l6-v2"), Ok(ModelReference::Entry(_))));
        assert!(matches!(ModelReference::parse("./some/folder"), Ok(ModelReference::Path(_))));
        assert!(matches!(ModelReference::parse("model.gguf"), Ok(ModelReference::Path(_))));
        let hub = HubReference { repository: "a/b".to_owned(), file: Some("c/d.gguf".to_owned()) };
        assert_eq!(hub.folder(), "a--b--c--d.gguf");
        assert_eq!(ModelReference::parse("hf:a/b/c/d.gguf").ok(), Some(ModelReference::Hub(hub)));
    }

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let error = ModelReference::parse("minilm").expect_err("no such model").to_string();
        assert!(error.contains("all-minilm-l6-v2") && error.contains("hf:OWNER/REPOSITORY"), "{error}");
    }

    #[test]
    fn a_repository_name_cannot_climb_out_of_the_folder() {
        for model in ["hf:", "hf:a", "hf:a/", "hf:../b", "hf:a/..", "hf:a/b/../../c", "hf:a/b/", "hf:a/b/c\\d"] {
            assert!(ModelReference::parse(model).is_err(), "{model}");
        }
    }

    #[test]
    fn a_model_of_another_kind_is_refused() {
        let reference = ModelReference::parse("all-minilm-l6-v2").expect("a model");
        assert!(reference.expect_kind(ModelKind::Embedding).is_ok());
        let error = reference.expect_kind(ModelKind::Chat).expect_err("no chat model").to_string();
        assert!(error.contains("smollm2-135m-instruct"), "{error}");
    }
}
