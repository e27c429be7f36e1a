//! The files of a dataset under review: the questions, the log beside them, and the questions that left.

use super::ReviewedQuestion;
use crate::{Error, files::write_whole};
use eval::{Question, dataset::DatasetFile};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use store::Key;

/// The files that reviewers have written beside a dataset: the log, and the questions that left it.
pub(crate) fn reviewers_files(path: &Path) -> [PathBuf; 2] {
    [log_path(path), rejected_path(path)]
}

/// The log of a dataset: `golden.reviews.jsonl` for `golden.jsonl`.
pub(super) fn log_path(path: &Path) -> PathBuf {
    path.with_extension("reviews.jsonl")
}

/// The questions that left a dataset: `golden.rejected.jsonl` for `golden.jsonl`.
pub(super) fn rejected_path(path: &Path) -> PathBuf {
    path.with_extension("rejected.jsonl")
}

pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::file("read", path, source))
}

/// The content of a file; nothing if it is not there.
pub(super) fn read_if_there(path: &Path) -> Result<Vec<u8>, Error> {
    Ok(Error::allow_missing(path, std::fs::read(path))?.unwrap_or_default())
}

pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.trim_ascii().is_empty()
}

/// The questions of a dataset's file with this content, and after them those that a reviewer has rejected. A new file has
/// none yet.
pub(super) fn read_questions(
    path: &Path,
    bytes: &[u8],
    is_new: bool,
) -> Result<(DatasetFile, Key, Vec<ReviewedQuestion>), Error> {
    let name = path.display().to_string();
    let file = if is_new {
        DatasetFile::empty(&name)
    } else {
        DatasetFile::read(&name, bytes)
            .map_err(|errors| Error::Refused(errors.iter().map(ToString::to_string).collect()))?
    };
    let new = |question: Question, is_rejected| ReviewedQuestion { question, is_rejected, decisions: Vec::new() };
    let mut questions: Vec<ReviewedQuestion> =
        file.dataset.questions.iter().map(|question| new(question.clone(), false)).collect();
    let known: BTreeSet<String> = questions.iter().map(|reviewed| reviewed.question.id.clone()).collect();
    let rejected = rejected_lines(path)?.iter().filter_map(|line| reviewed_rejection(line)).collect::<Vec<Question>>();
    questions.extend(rejected.into_iter().filter(|question| !known.contains(&question.id)).map(|it| new(it, true)));
    Ok((file, Key::of_bytes(bytes), questions))
}

fn rejected_lines(path: &Path) -> Result<Vec<String>, Error> {
    let path = rejected_path(path);
    let text = Error::allow_missing(&path, std::fs::read_to_string(&path))?;
    Ok(text.unwrap_or_default().lines().map(str::to_owned).collect())
}

/// The question of a line that a reviewer's rejection wrote; the generation of questions writes other lines.
fn reviewed_rejection(line: &str) -> Option<Question> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line["reason"] == json!("review")).then(|| Question::deserialize(&line["removed"]).ok())?
}

/// Brings the reviewed rejections in the file of rejected questions up to date: adds these, and, unless `only_add`, removes
/// others.
pub(super) fn keep_rejected(path: &Path, rejected: &[Question], only_add: bool) -> Result<(), Error> {
    let before = rejected_lines(path)?;
    let wanted: BTreeSet<&str> = rejected.iter().map(|question| question.id.as_str()).collect();
    let (mut lines, mut there) = (Vec::new(), BTreeSet::new());
    for line in &before {
        match reviewed_rejection(line) {
            Some(question) if !only_add && !wanted.contains(question.id.as_str()) => {}
            Some(question) => {
                if there.insert(question.id) {
                    lines.push(line.clone());
                }
            }
            None => lines.push(line.clone()),
        }
    }
    let new = rejected.iter().filter(|question| !there.contains(&question.id));
    lines.extend(new.map(|question| question.rejection().to_string()));
    if lines == before {
        return Ok(());
    }
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    write_whole(&rejected_path(path), text.as_bytes())
}
