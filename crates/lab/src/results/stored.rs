//! Results as files of a run's folder: `results.json` with everything but the rows of questions, and a file with the
//! rows of each trial. Whoever looks at one trial reads its rows alone. Results of earlier versions have the rows in
//! `results.json`.

use super::{
    QuestionResult, Results, StoredRows, TrialResult,
    equal::output_key,
    rows::{decode_rows, encode_rows},
};
use crate::{Error, layout, layout::RunFileName};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeSet, fmt::Display, mem::take, path::Path};

/// The format of results that have their rows.
pub(crate) const WITH_ROWS: u32 = 1;
/// The format of `results.json`, whose rows are in other files.
const WITHOUT_ROWS: u32 = 2;

impl Results {
    /// Reads a run's results, with every passage of every trial.
    ///
    /// # Errors
    /// If they are not there or cannot be read.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        Self::read_file(&RunFileName::Results.within(folder))
    }

    /// The same from a file of any name, beside which is the folder of its rows.
    ///
    /// # Errors
    /// As [`Results::read`].
    pub fn read_file(file: &Path) -> Result<Self, Error> {
        Self::read_results_json(file)?.with_rows(file.parent().unwrap_or(Path::new("")))
    }

    /// Reads a run's results without the rows of its trials; those of an earlier version have them all the same.
    ///
    /// # Errors
    /// As [`Results::read`].
    pub fn read_head(folder: &Path) -> Result<Self, Error> {
        Self::read_results_json(&RunFileName::Results.within(folder))
    }

    /// Reads a run's results with the rows of one trial, if there is such a trial.
    pub(crate) fn read_with_rows_of(folder: &Path, trial: &str) -> Result<Self, Error> {
        Self::read_head(folder)?.with_rows_of(folder, trial)
    }

    /// Reads a run's results with what statistics and leaderboards need of the rows: without passages and long texts.
    /// The rows of one trial at a time are in memory.
    pub(crate) fn read_outline(folder: &Path) -> Result<Self, Error> {
        let mut results = Self::read_head(folder)?;
        for trial in &mut results.trials {
            if let Some(StoredRows { file, .. }) = trial.rows.clone() {
                trial.read_rows(folder)?;
                trial.keep_outline(file);
            }
        }
        Ok(results)
    }

    fn read_results_json(file: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(file).map_err(|source| Error::file("read", file, source))?;
        serde_json::from_slice(&bytes).map_err(|error| again(file, &error))
    }

    /// Whether rows of trials are in files of their own, and not here.
    pub fn lacks_rows(&self) -> bool {
        self.trials.iter().any(|trial| trial.rows.is_some())
    }

    /// The same with the rows of all trials, which are read from a run's folder if they are not here.
    ///
    /// # Errors
    /// If they are not there or cannot be read.
    pub fn with_rows(mut self, folder: &Path) -> Result<Self, Error> {
        for trial in &mut self.trials {
            trial.read_rows(folder)?;
        }
        self.version = WITH_ROWS;
        Ok(self)
    }

    /// The same with the rows of one trial, if there is such a trial, which are read from a run's folder if they are
    /// not here.
    ///
    /// # Errors
    /// If they are not there or cannot be read.
    pub fn with_rows_of(mut self, folder: &Path, trial: &str) -> Result<Self, Error> {
        if let Some(found) = self.trials.iter_mut().find(|found| found.trial.id == trial) {
            found.read_rows(folder)?;
        }
        Ok(self)
    }

    /// The names of the files that have rows of trials.
    pub(crate) fn row_files(&self) -> BTreeSet<String> {
        self.trials.iter().filter_map(|trial| Some(trial.rows.as_ref()?.file.clone())).collect()
    }

    /// How many bytes the files of rows have that are in a run's folder and not here.
    pub fn row_bytes(&self, folder: &Path) -> u64 {
        let bytes = |file: &String| std::fs::metadata(layout::trial_rows_within(folder, file)).map_or(0, |it| it.len());
        self.row_files().iter().map(bytes).sum()
    }

    /// The content of `results.json`. Rows that are in other files are left out.
    pub(crate) fn stored_json(&mut self) -> Result<Vec<u8>, Error> {
        let is_stored = |trial: &&mut TrialResult| trial.rows.is_some();
        // Without the rows it is small, so that it can be changed as a JSON value.
        let rows: Vec<Vec<QuestionResult>> =
            self.trials.iter_mut().filter(is_stored).map(|trial| take(&mut trial.questions)).collect();
        let written = serde_json::to_value(&*self);
        for (trial, rows) in self.trials.iter_mut().filter(is_stored).zip(rows) {
            trial.questions = rows;
        }
        let mut written = written.map_err(Error::table)?;
        let trials = written.get_mut("trials").and_then(Value::as_array_mut);
        for trial in trials.into_iter().flatten().filter_map(Value::as_object_mut) {
            if trial.contains_key("rows") {
                // No version takes a trial without rows for one that was asked nothing.
                trial.shift_remove("questions");
            }
        }
        if self.lacks_rows() {
            written["version"] = WITHOUT_ROWS.into();
        }
        serde_json::to_vec(&written).map_err(Error::table)
    }
}

impl TrialResult {
    /// The file of its rows, and the trial with what statistics and leaderboards need of them.
    pub(crate) fn into_file(mut self) -> Result<(Self, Bytes), Error> {
        let (questions, bytes) = encode_rows(&self.trial.id, take(&mut self.questions))?;
        self.questions = questions;
        let file = layout::rows_file(&self.trial.id, &bytes);
        self.keep_outline(file);
        Ok((self, bytes))
    }

    /// The same with its rows, which are read from a run's folder if they are not here.
    ///
    /// # Errors
    /// If they are not there or cannot be read.
    pub fn with_rows(mut self, folder: &Path) -> Result<Self, Error> {
        self.read_rows(folder)?;
        Ok(self)
    }

    /// Its rows with passages and texts, which are read from a run's folder if they are not here.
    pub(crate) fn whole_rows(&self, folder: &Path) -> Result<Cow<'_, [QuestionResult]>, Error> {
        match &self.rows {
            Some(rows) => read_rows(folder, &rows.file).map(Cow::Owned),
            None => Ok(Cow::Borrowed(&self.questions)),
        }
    }

    fn read_rows(&mut self, folder: &Path) -> Result<(), Error> {
        if let Some(rows) = &self.rows {
            self.questions = read_rows(folder, &rows.file)?;
            self.rows = None;
        }
        Ok(())
    }

    /// Drops passages and long texts, which are in this file.
    fn keep_outline(&mut self, file: String) {
        let output = output_key(self);
        let passages = self.questions.iter().map(|question| question.passages.len()).collect();
        for question in &mut self.questions {
            question.passages = Vec::new();
            for query in &mut question.queries {
                query.hypothetical_passages = Vec::new();
            }
            if let Some(answer) = &mut question.answer {
                (answer.text, answer.citations) = (String::new(), Vec::new());
            }
            for scored in question.scores.values_mut() {
                scored.detail = Value::Null;
            }
            if let Some(loss) = &mut question.loss {
                loss.evidence = Vec::new();
            }
        }
        self.rows = Some(StoredRows { file, output, passages });
    }
}

fn read_rows(folder: &Path, file: &str) -> Result<Vec<QuestionResult>, Error> {
    if !layout::is_rows_name(file) {
        return Err(again(
            &RunFileName::Results.within(folder),
            &format!("`{file}` is not the name of a trial's file"),
        ));
    }
    let path = layout::trial_rows_within(folder, file);
    let bytes = Bytes::from(std::fs::read(&path).map_err(|error| again(&path, &error))?);
    if !layout::is_rows_file(file, &bytes) {
        return Err(again(&path, &"its content is not what was written"));
    }
    decode_rows(bytes).map_err(|error| again(&path, &error))
}

fn again(path: &Path, reason: &dyn Display) -> Error {
    Error::table(format!("{}: {reason}; run again to make it anew", path.display()))
}

/// The names of the files that have rows, by the content of a `results.json`; none if it cannot be read.
pub(crate) fn named_row_files(results: &[u8]) -> BTreeSet<String> {
    #[derive(Default, Deserialize)]
    struct NamedTrials {
        #[serde(default)]
        trials: Vec<NamedTrial>,
    }
    #[derive(Deserialize)]
    struct NamedTrial {
        #[serde(default)]
        rows: Option<StoredRows>,
    }
    let named: NamedTrials = serde_json::from_slice(results).unwrap_or_default();
    let files = named.trials.into_iter().filter_map(|trial| Some(trial.rows?.file));
    files.filter(|file| layout::is_rows_name(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{board::Board, results::fixture};
    use eval::Scored;
    use rag::{Answer, Passage};
    use serde_json::json;
    use std::path::PathBuf;

    /// Two trials whose rows have passages, answers and explanations.
    fn whole() -> Results {
        let mut results = fixture::results(2);
        fixture::score(
            &mut results,
            "recall",
            &[vec![Some(1.0); 5], vec![Some(0.5), None, Some(0.0), None, Some(1.0)]],
        );
        fixture::choose(&mut results, "recall", &[1, 2]);
        for trial in &mut results.trials {
            let text = format!("Mills of {}.", trial.trial.id);
            for question in &mut trial.questions[1..] {
                question.passages = vec![Passage::of_text("a.md".to_owned(), text.clone())];
                question.answer = Some(Answer { text: text.clone(), citations: vec![1], ..Answer::default() });
                question.query_fallback = Some("it was long".to_owned());
                let score = question.scores["recall"].score.clone();
                question.scores.insert("recall".to_owned(), Scored { score, detail: json!({ "read": text }) });
            }
        }
        results
    }

    /// Writes results as a run does, and returns what the run keeps in memory.
    fn store(folder: &Path, mut results: Results) -> Results {
        std::fs::create_dir_all(layout::trial_rows_within(folder, "")).unwrap();
        let keep = |trial: TrialResult| {
            let (trial, bytes) = trial.into_file().unwrap();
            let file = &trial.rows.as_ref().unwrap().file;
            std::fs::write(layout::trial_rows_within(folder, file), bytes).unwrap();
            trial
        };
        results.trials = results.trials.into_iter().map(keep).collect();
        std::fs::write(RunFileName::Results.within(folder), results.stored_json().unwrap()).unwrap();
        results
    }

    #[test]
    fn results_are_put_together_again_and_a_part_of_them_reads_only_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let kept = store(folder.path(), whole());
        assert_eq!(Results::read(folder.path()).unwrap(), whole());
        let written = std::fs::read_to_string(RunFileName::Results.within(folder.path())).unwrap();
        assert!(!written.contains("Mills of") && !written.contains("\"questions\":[]"), "{written}");
        let value: Value = serde_json::from_str(&written).unwrap();
        assert_eq!((&value["version"], value["trials"][1].get("questions")), (&json!(2), None));
        assert_eq!(named_row_files(written.as_bytes()), kept.row_files());

        std::fs::remove_file(layout::trial_rows_within(folder.path(), &kept.trials[0].rows.as_ref().unwrap().file))
            .unwrap();
        let one = Results::read_with_rows_of(folder.path(), "t02").unwrap();
        assert_eq!(one.trials[1], whole().trials[1]);
        assert!(one.trials[0].questions.is_empty() && one.lacks_rows());
        assert_eq!(Results::read_with_rows_of(folder.path(), "t09").unwrap().questions, whole().questions);
        let head = Results::read_head(folder.path()).unwrap();
        assert!(head.trials.iter().all(|trial| trial.questions.is_empty()) && head.metrics == whole().metrics);
        let missing = Results::read(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("t01-") && missing.ends_with("; run again to make it anew"), "{missing}");
    }

    #[test]
    fn without_passages_and_texts_the_leaderboard_and_all_scores_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = store(folder.path(), whole());
        assert_eq!(Results::read_outline(folder.path()).unwrap(), Results { version: 2, ..kept.clone() });
        assert!(!serde_json::to_string(&kept).unwrap().contains("Mills of"));
        assert_eq!(Board::of(&kept), Board::of(&whole()));
        assert_eq!(kept.compare("t01", "t02").unwrap(), whole().compare("t01", "t02").unwrap());
        assert_eq!(kept.trials[0].passages_at(0), whole().trials[0].passages_at(0));
        assert_eq!((kept.trials[0].passages_at(1), kept.trials[0].passages_at(9)), (1, 0));
        let outputs: Vec<_> = kept.trials.iter().map(output_key).collect();
        assert_eq!(outputs, whole().trials.iter().map(output_key).collect::<Vec<_>>());
        assert_ne!(outputs[0], outputs[1]);
        let before = kept.clone();
        kept.stored_json().unwrap();
        assert_eq!(kept, before, "writing changes nothing");
        assert_eq!(kept.with_rows(folder.path()).unwrap(), whole());
    }

    #[test]
    fn results_of_earlier_versions_have_their_rows_inside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(RunFileName::Results.within(folder.path()), serde_json::to_vec(&whole()).unwrap()).unwrap();
        for read in [Results::read, Results::read_head, Results::read_outline] {
            assert_eq!(read(folder.path()).unwrap(), whole());
        }
        assert_eq!(Results::read_with_rows_of(folder.path(), "t02").unwrap(), whole());
        assert!(!whole().lacks_rows() && whole().row_files().is_empty());
        assert_eq!(whole().stored_json().unwrap(), serde_json::to_vec(&whole()).unwrap());
        assert_eq!(whole().trials[1].whole_rows(folder.path()).unwrap(), whole().trials[1].questions);
    }

    #[test]
    fn a_file_of_rows_that_is_not_the_named_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let kept = store(folder.path(), whole());
        let files: Vec<PathBuf> =
            kept.row_files().iter().map(|file| layout::trial_rows_within(folder.path(), file)).collect();
        std::fs::copy(&files[0], &files[1]).unwrap();
        let error = Results::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&files[1].display().to_string()) && error.contains("not what was written"), "{error}");
        let results = RunFileName::Results.within(folder.path());
        let other = std::fs::read_to_string(&results).unwrap().replace("\"t02-", "\"../t02-");
        std::fs::write(&results, &other).unwrap();
        let error = Results::read_with_rows_of(folder.path(), "t02").unwrap_err().to_string();
        assert!(error.contains("is not the name of a trial's file"), "{error}");
        assert_eq!(named_row_files(other.as_bytes()).len(), 1);
        assert!(named_row_files(b"cut").is_empty());
    }
}
