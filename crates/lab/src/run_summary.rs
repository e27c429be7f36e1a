//! What a run's leaderboard says and what comparisons of its trials need, stored
//! beside the results: showing the leaderboard, comparing trials and asking a
//! question need not read the passages of all trials.

use crate::{
    Error,
    board::Board,
    clock::run_title,
    layout::RunFileName,
    results::{Answering, Results, ScoreTable, no_such_trial},
};
use eval::Question;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Raise when what a leaderboard says changes. A summary of another version is
/// made anew from the results.
const VERSION: u32 = 3;

/// `summary.json` in a run's folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunSummary {
    version: u32,
    /// The size of the results that it was made from. If the results have another size, another
    /// version of this program wrote them, without a summary.
    results_bytes: u64,
    /// When the run finished, in milliseconds since 1970.
    pub(crate) time_ms: i64,
    /// The golden questions that were asked.
    pub(crate) questions: Vec<Question>,
    pub(crate) board: Board,
    /// What comparisons need.
    pub(crate) scores: ScoreTable,
}

impl RunSummary {
    /// The summary of results that take so many bytes.
    pub(crate) fn of(results: &Results, results_bytes: u64) -> Self {
        Self {
            version: VERSION,
            results_bytes,
            time_ms: results.time_ms,
            questions: results.questions.clone(),
            board: Board::of(results),
            scores: ScoreTable::of(&results.metrics, &results.trials),
        }
    }

    /// The summary of a run's folder, if it is there and is that of the results there.
    pub(crate) fn of_folder(folder: &Path) -> Option<Self> {
        let kept = std::fs::read(RunFileName::Summary.within(folder)).ok()?;
        Self::read(&kept).filter(|kept| kept.results_bytes == results_bytes(folder))
    }

    /// What the file holds; none if another version of this program wrote it.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|kept: &Self| kept.version == VERSION)
    }

    /// The summary of a run that has scores of this trial only, and no results.
    pub(crate) fn of_one_trial(&self, id: &str) -> Self {
        let answering = Some(Answering { trial: id.to_owned(), note: None });
        let board = Board { answering, ..self.board.clone() };
        Self { results_bytes: 0, board, scores: self.scores.of_one_trial(id), ..self.clone() }
    }

    pub(crate) fn title(&self) -> String {
        run_title(&self.board.run, self.time_ms)
    }

    /// Whether there is such a trial.
    pub(crate) fn check_trial(&self, id: &str) -> Result<(), Error> {
        match self.board.row(id) {
            Some(_) => Ok(()),
            None => Err(no_such_trial(id, self.board.rows.iter().map(|row| row.id.as_str()))),
        }
    }

    /// The trial that answers, as in [`Results::answering`].
    pub(crate) fn answering(&self, asked: Option<&str>) -> Result<Answering, Error> {
        if let Some(asked) = asked {
            self.check_trial(asked)?;
            return Ok(Answering { trial: asked.to_owned(), note: None });
        }
        let none = || Error::Unusable(format!("{} has no trials", self.title()));
        self.board.answering.clone().ok_or_else(none)
    }
}

/// What a summary says of its run, read without the scores.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct RunHead {
    results_bytes: u64,
    /// When the run finished, in milliseconds since 1970.
    pub(crate) time_ms: i64,
    board: BoardHead,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct BoardHead {
    experiment: String,
    run: String,
}

impl RunHead {
    /// The head of a summary's bytes; none if they are no summary.
    pub(crate) fn read(summary: &[u8]) -> Option<Self> {
        serde_json::from_slice(summary).ok()
    }

    /// The head of the summary in a run's folder, if it is that of the results there.
    pub(crate) fn of_folder(folder: &Path) -> Option<Self> {
        let kept = std::fs::read(RunFileName::Summary.within(folder)).ok()?;
        Self::read(&kept).filter(|kept| kept.results_bytes == results_bytes(folder))
    }

    pub(crate) fn experiment(&self) -> &str {
        &self.board.experiment
    }

    pub(crate) fn run(&self) -> &str {
        &self.board.run
    }
}

/// How large a run's results are; 0 if there are none.
pub(crate) fn results_bytes(folder: &Path) -> u64 {
    std::fs::metadata(RunFileName::Results.within(folder)).map_or(0, |metadata| metadata.len())
}

/// The content of the file.
pub(crate) fn summary_json(results: &Results, results_bytes: usize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(&RunSummary::of(results, results_bytes as u64)).map_err(Error::table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    #[test]
    fn a_summary_says_what_the_results_say_and_is_made_anew_for_other_results() -> Result<(), Box<dyn std::error::Error>>
    {
        let folder = tempfile::tempdir()?;
        let mut results = fixture::results(2);
        let written = serde_json::to_vec(&results)?;
        std::fs::write(RunFileName::Results.within(folder.path()), &written)?;
        std::fs::write(RunFileName::Summary.within(folder.path()), summary_json(&results, written.len())?)?;
        let read = || match RunSummary::of_folder(folder.path()) {
            Some(kept) => Ok::<_, Error>(kept),
            None => Ok(RunSummary::of(&Results::read(folder.path())?, results_bytes(folder.path()))),
        };
        assert!(RunSummary::of_folder(folder.path()).is_some());
        let (read_again, read) = (read, read()?);
        assert_eq!(read.board, Board::of(&results));
        assert_eq!(read.title(), results.title());
        assert_eq!(read.scores.compare("t01", "t02")?, results.compare("t01", "t02")?);
        assert!(read.scores.compare("t01", "t09").is_err());
        for asked in [None, Some("t02"), Some("t09")] {
            let (one, other) = (read.answering(asked), results.answering(asked));
            assert_eq!(one.map_err(|error| error.to_string()), other.map_err(|error| error.to_string()));
        }
        results.experiment = "another name".to_owned();
        std::fs::write(RunFileName::Results.within(folder.path()), serde_json::to_vec(&results)?)?;
        assert!(RunSummary::of_folder(folder.path()).is_none(), "it is of other results");
        assert_eq!(read_again()?.board.experiment, "another name");
        std::fs::write(RunFileName::Summary.within(folder.path()), "cut off")?;
        assert_eq!(read_again()?.board.experiment, "another name");
        Ok(())
    }
}
