//! The meaning of the names in a store. A store knows names and bytes; the code
//! that makes the names describes them through a [`Layout`]. So
//! the store can write checksums, find objects that are no longer needed, and
//! name damaged ones.

use bytes::Bytes;
use std::fmt;

/// The meaning of the names in a store.
pub trait Layout: fmt::Debug + Send + Sync {
    /// What an object of this name is.
    fn kind(&self, name: &str) -> ObjectKind;

    /// The folder that holds the files of all runs; empty if there is none.
    fn runs(&self) -> &str {
        ""
    }

    /// What is wrong with an output of a task, by its name and its bytes, as
    /// far as its format shows it. Called only if there is no checksum.
    fn problem(&self, _name: &str, _bytes: Bytes) -> Option<String> {
        None
    }
}

/// What an object is to its store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// The output of a task. It is never changed, can be made again, and is
    /// kept while a run refers to it.
    Artifact {
        /// The ending of its format, for people.
        format: String,
    },
    /// An output that lacks something, or a part of an output that is being made.
    Partial {
        /// The run that uses it; none if any run may use it to continue.
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
    /// What was measured when an output was made, such as its model calls or its latency. It is of no use without
    /// the output.
    Measurement {
        /// The name of the output.
        of: String,
    },
    /// An input of a run's workers.
    Input,
    /// An object that only one machine can use.
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
    /// A log of events, one line each. It grows.
    Log,
    /// Something else in JSON.
    Json,
    /// Something else.
    Other,
}

impl ObjectKind {
    /// Whether it has a checksum: outputs of tasks, inputs of workers and files
    /// of runs do, except a log, which grows.
    pub(crate) fn has_checksum(&self) -> bool {
        match self {
            Self::Artifact { .. } | Self::Partial { .. } | Self::Input => true,
            Self::Run { file, .. } => *file != RunFile::Log,
            Self::Measurement { .. } | Self::Pointer | Self::Machine | Self::Other => false,
        }
    }

    /// What people call it.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Artifact { format } => format!("artifacts .{format}"),
            Self::Partial { .. } => "partial outputs".to_owned(),
            Self::Run { .. } | Self::Pointer => "runs".to_owned(),
            Self::Measurement { .. } => "measurements".to_owned(),
            Self::Machine => "files of one machine".to_owned(),
            Self::Input | Self::Other => "other".to_owned(),
        }
    }
}

/// The layout of a folder without meaningful names: it has no checksums.
#[derive(Debug, Clone, Copy)]
pub struct NoLayout;

impl Layout for NoLayout {
    fn kind(&self, _: &str) -> ObjectKind {
        ObjectKind::Other
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A layout for tests.
    #[derive(Debug)]
    pub(crate) struct ExampleLayout;

    impl Layout for ExampleLayout {
        fn kind(&self, name: &str) -> ObjectKind {
            let parts: Vec<&str> = name.split('/').collect();
            match parts[..] {
                ["artifacts", _, file] => {
                    ObjectKind::Artifact { format: file.split_once('.').map_or("", |(_, format)| format).to_owned() }
                }
                ["partial", "parts", ..] => ObjectKind::Partial { run: None },
                ["partial", run, ..] => ObjectKind::Partial { run: Some(run.to_owned()) },
                ["runs", run, file] => {
                    let file = match file {
                        "results.json" => RunFile::Results,
                        "artifacts.json" => RunFile::Artifacts,
                        "events.jsonl" => RunFile::Log,
                        _ => RunFile::Other,
                    };
                    ObjectKind::Run { run: run.to_owned(), file }
                }
                ["usage", ..] => ObjectKind::Measurement { of: name.replacen("usage", "artifacts", 1) },
                ["runs", _] => ObjectKind::Pointer,
                _ => ObjectKind::Other,
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
            assert_eq!(ExampleLayout.kind(name).has_checksum(), expected, "{name}");
        }
        assert!(!NoLayout.kind("artifacts/ab/x.parquet").has_checksum());
    }
}
