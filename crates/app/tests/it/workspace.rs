//! A folder of its own for each test, and the binary to run in it.

use crate::corpus;
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

pub struct Workspace {
    folder: tempfile::TempDir,
}

impl Workspace {
    /// A folder with documents, golden questions and a static model.
    pub fn new() -> Self {
        let workspace = Self { folder: tempfile::tempdir().unwrap() };
        corpus::write(workspace.path());
        models::testing::write_tiny_model(&workspace.path().join("tiny"), &corpus::words()).unwrap();
        workspace
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.file(name), text).unwrap();
    }

    /// An experiment on the documents; `rest` adds sections.
    pub fn experiment(&self, space: &str, rest: &str) {
        let model = serde_json::Value::String(self.file("tiny").display().to_string());
        self.write(
            "experiment.toml",
            format!(
                "name = \"animals\"\nstore = \"store\"\n\n[corpus]\nsource = \"documents\"\n\n[models.tiny]\nembedding.static = {{ model = {model} }}\n\n[space]\n{space}\n\n{rest}\n"
            ),
        );
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reverie"));
        command.args(arguments).current_dir(self.path()).env("REVERIE_HOME", self.file("home"));
        if let Ok(libraries) = std::env::var("REVERIE_TEST_LIBRARIES") {
            command.env("REVERIE_LIBRARIES", libraries);
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(self.command(arguments).output().unwrap())
    }

    /// Asks each golden question so many times, in other words each time.
    pub fn multiply_questions(&self, times: usize) {
        let text = std::fs::read_to_string(self.file("golden.jsonl")).unwrap();
        let mut lines = Vec::new();
        for line in text.lines() {
            for i in 0..times {
                let mut question: serde_json::Value = serde_json::from_str(line).unwrap();
                question["id"] = format!("{}-{i}", question["id"].as_str().unwrap()).into();
                question["question"] = format!("{} ({i})", question["question"].as_str().unwrap()).into();
                lines.push(question.to_string());
            }
        }
        self.write("golden.jsonl", lines.join("\n"));
    }

    /// Forgets what was computed, but not what was paid.
    pub fn forget_artifacts(&self) {
        std::fs::remove_dir_all(self.file("store/artifacts")).unwrap();
    }

    /// The lines of the one run's event log.
    pub fn events(&self) -> Vec<serde_json::Value> {
        let runs = std::fs::read_dir(self.file("store/runs")).unwrap();
        let logs = runs.filter_map(|entry| {
            let path = entry.unwrap().path();
            (!path.ends_with("loading")).then(|| std::fs::read_to_string(path.join("events.jsonl")).ok()).flatten()
        });
        let lines: Vec<String> = logs.flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Outcome {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn succeeds(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn refused_with(self, parts: &[&str]) {
        self.ends_with(2).says(parts);
    }

    #[track_caller]
    fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is not in:\n{}", self.err);
        }
    }

    #[track_caller]
    pub fn fails_with(self, parts: &[&str]) {
        self.ends_with(1).says(parts);
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}
