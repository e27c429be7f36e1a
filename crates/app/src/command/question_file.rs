//! Reads and writes files of golden questions. Existing files are not replaced by accident.

use super::CommandContext;
use crate::{
    failure::{CommandFailure, Mistake},
    render,
};
use eval::{
    Dataset,
    dataset::{DatasetFile, DatasetFormat},
};
use lab::LoadedCorpus;
use std::path::Path;
use store::{Key, is_url};

/// Reads golden questions.
///
/// # Errors
/// All mistakes of the file.
pub fn read_questions(path: &Path) -> Result<Dataset, CommandFailure> {
    Ok(open_questions(path)?.dataset)
}

/// Reads a file of golden questions with its columns.
///
/// # Errors
/// All mistakes of the file.
pub fn open_questions(path: &Path) -> Result<DatasetFile, CommandFailure> {
    Ok(open_questions_to_change(path)?.0)
}

/// Reads a file of golden questions with the key of its content. A later write
/// compares the key, to notice whether another program changed the file meanwhile.
///
/// # Errors
/// All mistakes of the file.
pub fn open_questions_to_change(path: &Path) -> Result<(DatasetFile, Key), CommandFailure> {
    if is_url(&path.to_string_lossy()) {
        let reason = "only runs read questions from an object store: copy the file here first";
        return Err(CommandFailure::usage(format!("{}: {reason}", path.display())));
    }
    let bytes = std::fs::read(path).map_err(|error| CommandFailure::usage(format!("{}: {error}", path.display())))?;
    let read = DatasetFile::read(&path.display().to_string(), &bytes).map_err(|errors| {
        let mistakes = errors.iter().map(|error| Mistake::of_line(&error.file, error.line, error.reason())).collect();
        CommandFailure::with_mistakes(mistakes, errors.iter().map(ToString::to_string), None)
    });
    Ok((read?, Key::of_bytes(&bytes)))
}

/// The key of a file's present content.
///
/// # Errors
/// If the file cannot be read.
pub fn key_of(path: &Path) -> Result<Key, CommandFailure> {
    let bytes = std::fs::read(path).map_err(CommandFailure::at(path))?;
    Ok(Key::of_bytes(&bytes))
}

/// Writes changed questions back into the file that they were read from.
///
/// # Errors
/// If the file cannot be written.
pub fn write_questions(path: &Path, opened: &DatasetFile) -> Result<(), CommandFailure> {
    let bytes = opened.to_bytes().map_err(|error| CommandFailure::runtime(lab::error_chain(&error)))?;
    Ok(lab::write_whole(path, &bytes)?)
}

/// Writes a new file. A file that has appeared there in the meantime is replaced
/// only if `replace` is set.
///
/// # Errors
/// If the file cannot be written, or is there already.
pub fn write_new_file(path: &Path, bytes: &[u8], replace: bool) -> Result<(), CommandFailure> {
    Ok(if replace { lab::write_whole(path, bytes) } else { lab::write_new(path, bytes) }?)
}

/// Refuses a path where a file is already, unless the file is to be replaced.
///
/// # Errors
/// If a file is there.
pub fn refuse_to_replace(path: &Path, replace: bool) -> Result<(), CommandFailure> {
    if path.exists() && !replace {
        return Err(CommandFailure::usage(format!(
            "{} is there already: choose another --output, or --yes to replace it",
            path.display()
        )));
    }
    Ok(())
}

/// The format in which a file of questions is written, by the ending of its name.
///
/// # Errors
/// If questions cannot be kept in a file of this ending.
pub fn writable_format(path: &Path) -> Result<DatasetFormat, CommandFailure> {
    DatasetFormat::of_editable_name(&path.to_string_lossy()).ok_or_else(|| {
        let editable = DatasetFormat::editable();
        CommandFailure::usage(format!(
            "{}: questions are kept as {}: let the name end in {}",
            path.display(),
            editable.titles(),
            editable.endings()
        ))
    })
}

/// Prints the columns of a file that are not used.
pub fn note_ignored_columns(cx: &CommandContext, opened: &DatasetFile) {
    for line in render::ignored_columns(&opened.ignored) {
        cx.note(line);
    }
}

/// Prints the files of a corpus that gave no document, and those that could not be read now.
pub fn note_unread_files(cx: &CommandContext, corpus: &LoadedCorpus) {
    for line in render::file_lines(&corpus.rejected, |file| {
        format!("not read: {}: {}", render::visible_line(&file.path), lab::error_chain(&file.reason))
    }) {
        cx.note(line);
    }
    for line in render::file_lines(&corpus.unread, |file| {
        format!("could not be read now: {}: {}", render::visible_line(&file.path), file.reason)
    }) {
        cx.warn(line);
    }
}
