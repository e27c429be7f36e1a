//! The files of an experiment that may lie in the folder of its documents.

use crate::spec::Experiment;
use std::{collections::BTreeSet, ffi::OsStr, path::Path};

/// The experiment's own files in the folder of the corpus: itself, its table of metadata and its questions, which are
/// not documents. Their paths are below the folder. A set, because two of these paths may be the same file.
pub(crate) fn own_files(experiment: &Experiment) -> BTreeSet<String> {
    let address = experiment.path(&experiment.corpus.source);
    // The folder of a pattern is the path before its first wildcard.
    let has_wildcard = |part: &Path| part.to_string_lossy().contains(['*', '?', '[']);
    let folder =
        address.ancestors().filter(|path| has_wildcard(path)).last().and_then(Path::parent).unwrap_or(&address);
    let Ok(folder) = folder.canonicalize() else { return BTreeSet::new() };
    let dataset = experiment.dataset.as_ref().map(|dataset| dataset.path.as_str());
    let named = experiment.corpus.metadata.as_deref().into_iter().chain(dataset).filter(|path| !path.is_empty());
    let own = named.map(|path| experiment.path(path)).chain(experiment.file.clone());
    own.filter_map(|path| path_below(&folder, &path)).collect()
}

/// The path of a file relative to a folder, with `/`; none if there is no such file in the folder. The folder's path is
/// canonical. For a symbolic link, the place of the link counts, not its target.
fn path_below(folder: &Path, file: &Path) -> Option<String> {
    let file = std::path::absolute(file).ok().filter(|file| file.is_file())?;
    let parent = file.parent()?.canonicalize().ok()?;
    let names: Vec<&str> =
        parent.strip_prefix(folder).ok()?.iter().chain(file.file_name()).map(OsStr::to_str).collect::<Option<_>>()?;
    Some(names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::{session, text};

    #[test]
    fn an_own_file_is_found_however_its_path_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("deep")).unwrap();
        for name in ["own.toml", "deep/table.csv"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        let below = |path: &Path| path_below(&root, path);
        assert_eq!(below(&root.join("./own.toml")).as_deref(), Some("own.toml"));
        assert_eq!(below(&root.join("deep/../deep/table.csv")).as_deref(), Some("deep/table.csv"));
        assert_eq!(
            (below(&root.join("none.toml")), below(&root.join("deep"))),
            (None, None),
            "not there, and a folder"
        );
        assert_eq!(path_below(&root.join("deep"), &root.join("own.toml")), None, "it is beside the folder");
    }

    #[tokio::test]
    async fn files_of_the_experiment_itself_are_no_documents() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = text("chunker = \"sentence\"\nretriever = \"bm25\"", "metrics = [\"recall\"]");
        for address in [".", "*.csv"] {
            let with = format!("\"{address}\"\nmetadata = \"table.csv\"");
            let session = session(folder.path(), &experiment.replace("\"docs\"", &with));
            for name in ["table.csv", "prices.csv", "notes.log"] {
                std::fs::write(folder.path().join(name), "path,kind\na,b\n").unwrap();
            }
            let listing = session.corpus_source(&mut Vec::new()).unwrap().survey().await.unwrap();
            let csv: Vec<&str> =
                listing.files.iter().map(|file| file.path.as_str()).filter(|path| path.ends_with("csv")).collect();
            assert_eq!(csv, ["prices.csv"], "{address}");
            assert!(!listing.unread_types.contains_key(".toml"), "{:?}", listing.unread_types);
        }
    }
}
