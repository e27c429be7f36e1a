//! `command`: a program of this machine reads the file and writes Markdown.
//!
//! When to use it: for a parser that you have, such as Docling, MinerU, Marker or Unstructured, to see on the leaderboard
//! whether it finds more than the others, and what it costs in time.
//!
//! ```toml
//! parse = ["text", { pdf = { command = { program = "./parse.sh", args = ["{file}"], version = "docling 2.143" } } }]
//! ```
//!
//! `{file}` stands for the path of a copy of the file, whose name ends as that of the file. The program writes the text
//! to its standard output, as Markdown, with a form feed (`\f`) between two pages. Or it writes JSON: a table with `text`
//! or `pages`, a list of texts or of tables with `number` and `text`; and `title` and `author` if it knows them.
//!
//! It runs once for each file, in processes of its own that are ended after `timeout_seconds`, or when they take more
//! memory or write more than they may. A program that ends with a failure loses the one file; a file that took too long
//! is tried again by the next run. Documents are made anew if the settings change: write `version` and change it with the
//! program.

use super::{ParseError, Parser};
use crate::{
    Component, Context, Document, Error,
    component::{ensure, settings},
    lines::{ProgramFailure, ProgramLimits, run_program},
    load::{self, LoadError, ParseLimits},
};
use std::{io::Write, process::Command, time::Duration};

pub(super) const VERSION: u32 = 1;
const NAME: &str = "parse command";
/// What stands for the path of the file in an argument.
const FILE: &str = "{file}";

settings! {
    /// Settings of `command`.
    pub struct Config {
        /// The program: a name that is found on `PATH`, or a path from the working folder.
        pub program: String = String::new(),
        /// Its arguments; `{file}` stands for the path of the file. Default `["{file}"]`.
        pub args: Vec<String> = vec![FILE.to_owned()],
        /// The version of the program, in your words: documents are made anew if it changes. Default none.
        pub version: String = String::new(),
        /// How long it may take for one file, in seconds. Default 300; no part of any key.
        pub timeout_seconds: f64 = 300.0,
        /// The most memory of each of its processes, in MB; 0 for no limit. Default 0; no part of any key. Programs that
        /// reserve much more memory than they use, such as those with CUDA, need no limit.
        pub memory_mb: u64 = 0,
    }
}

impl Component for Config {
    fn settings_outside_key(&self) -> &'static [&'static str] {
        &["timeout_seconds", "memory_mb"]
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Parser>, Error> {
        ensure(NAME, !self.program.is_empty(), "`program` is missing: the program that reads the file")?;
        let is_given = self.args.iter().any(|argument| argument.contains(FILE));
        ensure(NAME, is_given, "no argument in `args` holds `{file}`, so the program does not know what to read")?;
        let is_time = self.timeout_seconds > 0.0 && self.timeout_seconds <= 86_400.0;
        ensure(
            NAME,
            is_time,
            format!("`timeout_seconds` is {}; give more than 0 and at most 86400", self.timeout_seconds),
        )?;
        Ok(Box::new(self.clone()))
    }

    /// How the program is called in messages.
    fn called(&self) -> &str {
        self.program.rsplit('/').next().unwrap_or(&self.program)
    }
}

impl Parser for Config {
    fn parse(&self, path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, ParseError> {
        limits.check_file(bytes.len() as u64)?;
        let copy = copy_of(path, bytes)
            .map_err(|error| ParseError::Failed(format!("a copy of it cannot be written: {error}")))?;
        let file = copy.path().display().to_string();
        let mut command = Command::new(&self.program);
        command.args(self.args.iter().map(|argument| argument.replace(FILE, &file)));
        let may = ProgramLimits {
            time: Duration::from_secs_f64(self.timeout_seconds),
            output: usize::try_from(limits.text_bytes).unwrap_or(usize::MAX),
            memory: (self.memory_mb > 0).then_some(self.memory_mb << 20),
        };
        match run_program(command, may) {
            Ok(output) => Ok(load::written_document(path, bytes, &output, limits)?),
            Err(failure @ ProgramFailure::NotStarted(_)) => {
                Err(Error::Config { component: NAME, reason: format!("`{}` {failure}", self.program) }.into())
            }
            Err(failure @ ProgramFailure::TooLong(_)) => {
                Err(LoadError::OverLimit(format!("`{}` {failure}", self.called())).into())
            }
            Err(failure @ ProgramFailure::Failed { .. }) => {
                Err(LoadError::Broken(format!("`{}` {failure}", self.called())).into())
            }
            Err(failure) => Err(ParseError::Failed(format!("`{}` {failure}", self.called()))),
        }
    }
}

/// A copy of the file whose name ends as that of the file.
pub(super) fn copy_of(path: &str, bytes: &[u8]) -> std::io::Result<tempfile::NamedTempFile> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name
        .rsplit_once('.')
        .map(|(_, ending)| format!(".{ending}"))
        .filter(|ending| ending[1..].chars().all(|character| character.is_ascii_alphanumeric()) && ending.len() <= 16);
    let mut copy = tempfile::Builder::new().prefix("document-").suffix(&ending.unwrap_or_default()).tempfile()?;
    copy.write_all(bytes)?;
    copy.flush()?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Config {
        let args = ["-c", script, "parse", FILE].map(str::to_owned).to_vec();
        Config { program: "/bin/sh".to_owned(), args, ..Config::default() }
    }

    fn parse(config: &Config, path: &str, bytes: &[u8]) -> Result<Document, ParseError> {
        config.build(&Context::default()).unwrap().parse(path, bytes, &ParseLimits::default())
    }

    #[test]
    fn a_program_gets_a_copy_of_the_file_and_writes_markdown() {
        let script = "case \"$1\" in *.pdf) printf '# Title\\n\\n'; cat \"$1\"; printf '\\n\\f\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n';; esac";
        let document = parse(&shell(script), "deep/a.pdf", b"some words").unwrap();
        assert_eq!(document.text, "# Title\n\nsome words\n\n| a | b |\n|---|---|\n| 1 | 2 |");
        assert_eq!((document.path.as_str(), document.title.as_deref()), ("deep/a.pdf", Some("Title")));
        assert_eq!(document.pages.iter().map(|page| page.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((document.tables.len(), document.tables[0].page), (1, Some(2)));
        assert_eq!(document.content, store::Key::of_bytes(b"some words"), "the content is that of the file");
    }

    #[test]
    fn a_program_may_write_json() {
        let script = r#"echo '{"title": "T", "author": "A", "pages": [{"number": 3, "text": "three"}, "four"]}'"#;
        let document = parse(&shell(script), "a.bin", b"x").unwrap();
        assert_eq!(document.text, "three\n\nfour");
        assert_eq!((document.title.as_deref(), document.author.as_deref()), (Some("T"), Some("A")));
        assert_eq!(document.pages.iter().map(|page| page.number).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_program_that_fails_loses_the_one_file_and_one_that_hangs_says_nothing_of_it() {
        let failed = parse(&shell("echo broken >&2; exit 1"), "a.pdf", b"x").unwrap_err();
        assert!(
            matches!(&failed, ParseError::Rejected(LoadError::Broken(reason)) if reason == "`sh` ended with code 1: broken"),
            "{failed}"
        );
        let hanging = Config { timeout_seconds: 0.2, ..shell("sleep 60") };
        assert!(matches!(parse(&hanging, "a.pdf", b"x"), Err(ParseError::Failed(_))));
        let empty = parse(&shell("true"), "a.pdf", b"x").unwrap_err();
        assert!(matches!(empty, ParseError::Rejected(LoadError::Empty(_))), "{empty}");
        let missing = Config { program: "/no/such/program".to_owned(), ..Config::default() };
        assert!(matches!(parse(&missing, "a.pdf", b"x"), Err(ParseError::Component(_))));
    }

    #[test]
    fn a_program_that_writes_a_gigabyte_is_ended() {
        let limits = ParseLimits { text_bytes: 1 << 20, ..ParseLimits::default() };
        let parser = shell("yes").build(&Context::default()).unwrap();
        let refused = parser.parse("a.pdf", b"x", &limits).unwrap_err();
        assert!(matches!(refused, ParseError::Rejected(LoadError::OverLimit(_))), "{refused}");
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
        for (config, key) in [
            (Config::default(), "program"),
            (Config { args: vec!["-x".to_owned()], ..shell("") }, "{file}"),
            (Config { timeout_seconds: 0.0, ..shell("") }, "timeout_seconds"),
        ] {
            let error = config.build(&Context::default()).err().unwrap().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
