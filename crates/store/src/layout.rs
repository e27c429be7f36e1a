//! What the names in a store mean. A store keeps names and bytes; whoever
//! makes names tells it through a [`Layout`] what each of them is, so that it
//! can note checksums, find what nobody needs and name what is damaged.

use bytes::Bytes;
use std::fmt;

/// Tells what the names of a store mean.
pub trait Layout: fmt::Debug + Send + Sync {
    /// What an object of this name is.
    fn kind(&self, name: &str) -> Kind;

    /// The folder that holds the files of all runs; empty if there is none.
    fn runs(&self) -> &str {
        ""
    }

    /// What is wrong with an output of a task, by its name and its bytes, as
    /// far as its format tells. It is asked where no checksum was noted.
    fn problem(&self, _name: &str, _bytes: Bytes) -> Option<String> {
        None
    }
}

/// What an object is to its store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The output of a task. It is never changed, can be made again, and is
    /// kept while a run refers to it.
    Artifact {
        /// The ending of its format, for people.
        format: String,
    },
    /// An output that lacks something, or a part of one that is being made.
    Partial {
        /// The run that uses it; none if whoever does the task next does.
        run: Option<String>,
    },
    /// A file of a run. The run may write it again.
    Run {
        /// The run.
        run: String,
        /// What the file is.
        file: RunFile,
    },
    /// Which run was the last.
    Pointer,
    /// What the workers of a run are given.
    Input,
    /// What is of use to one machine only.
    Machine,
    /// Anything else.
    Other,
}

/// A file of a run, as far as a store reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunFile {
    /// Its results, in JSON: a run that has some is finished.
    Results,
    /// The artifacts that these come from; see
    /// [`RunArtifacts`](crate::upkeep::RunArtifacts).
    Artifacts,
    /// What happened, one line after another. It grows.
    Log,
    /// Something else in JSON.
    Json,
    /// Something else.
    Other,
}

impl Kind {
    /// Whether a checksum is noted for it: for all that is written whole, but
    /// not for a pointer, which says too little to need one.
    pub(crate) fn has_checksum(&self) -> bool {
        match self {
            Self::Artifact { .. } | Self::Partial { .. } | Self::Input => true,
            Self::Run { file, .. } => *file != RunFile::Log,
            Self::Pointer | Self::Machine | Self::Other => false,
        }
    }

    /// What people call it.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Artifact { format } => format!("artifacts .{format}"),
            Self::Partial { .. } => "partial outputs".to_owned(),
            Self::Run { .. } | Self::Pointer => "runs".to_owned(),
            Self::Machine => "of one machine".to_owned(),
            Self::Input | Self::Other => "other".to_owned(),
        }
    }
}

/// For a folder of files that nobody makes names for: no checksum is noted.
#[derive(Debug, Clone, Copy)]
pub struct NoLayout;

impl Layout for NoLayout {
    fn kind(&self, _: &str) -> Kind {
        Kind::Other
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A layout for tests.
    #[derive(Debug)]
    pub(crate) struct Example;

    impl Layout for Example {
        fn kind(&self, name: &str) -> Kind {
            let parts: Vec<&str> = name.split('/').collect();
            match parts[..] {
                ["artifacts", _, file] => {
                    Kind::Artifact { format: file.split_once('.').map_or("", |(_, format)| format).to_owned() }
                }
                ["partial", "parts", ..] => Kind::Partial { run: None },
                ["partial", run, ..] => Kind::Partial { run: Some(run.to_owned()) },
                ["runs", run, file] => {
                    let file = match file {
                        "results.json" => RunFile::Results,
                        "artifacts.json" => RunFile::Artifacts,
                        "events.jsonl" => RunFile::Log,
                        _ => RunFile::Other,
                    };
                    Kind::Run { run: run.to_owned(), file }
                }
                ["runs", _] => Kind::Pointer,
                _ => Kind::Other,
            }
        }

        fn runs(&self) -> &str {
            "runs"
        }

        fn problem(&self, _: &str, bytes: Bytes) -> Option<String> {
            (!bytes.starts_with(b"PAR1")).then(|| format!("{} bytes are no table", bytes.len()))
        }
    }

    #[test]
    fn what_is_written_whole_has_a_checksum() {
        for (name, expected) in [
            ("artifacts/ab/x.parquet", true),
            ("partial/r/x.parquet", true),
            ("runs/r/results.json", true),
            ("runs/r/events.jsonl", false),
            ("runs/x.latest", false),
            ("other", false),
        ] {
            assert_eq!(Example.kind(name).has_checksum(), expected, "{name}");
        }
        assert!(!NoLayout.kind("artifacts/ab/x.parquet").has_checksum());
    }
}
