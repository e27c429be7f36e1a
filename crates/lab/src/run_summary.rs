//! What a run's leaderboard says and what comparisons of its trials need, stored
//! beside the results: showing the leaderboard, comparing trials and asking a
//! question need not read the passages of all trials.

use crate::{
    Error,
    board::Board,
    clock::run_title,
    layout::RunFileName,
    results::{Answering, ParserPlaces, Results, ScoreTable, no_such_trial},
};
use eval::Question;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Raise when the fields or their meaning change; another wording of a sentence needs no new version.
/// A summary of another version is made anew from the results.
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
    /// Questions that were left out because the documents have changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lost_questions: Vec<Question>,
    /// Where the evidence of the questions is in the documents of each parser after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parser_places: Vec<ParserPlaces>,
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
            lost_questions: results.lost_questions.clone(),
            parser_places: results.parser_places.clone(),
            board: Board::of(results),
            scores: ScoreTable::of(&results.metrics, &results.trials),
        }
    }

    /// The summary in a run's folder, if it belongs to the results there.
    pub(crate) fn of_folder(folder: &Path) -> Option<Self> {
        let kept = std::fs::read(RunFileName::Summary.within(folder)).ok()?;
        Self::read(&kept).filter(|kept| kept.results_bytes == results_bytes(folder))
    }

    /// What the file holds; none if another version of this program wrote it.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|kept: &Self| kept.version == VERSION)
    }

    /// The summary for a bundle: with the scores of this trial only, and no results.
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
    #[serde(default)]
    unscored: Option<String>,
    #[serde(default)]
    verdict: Vec<String>,
    /// How many trials there are.
    #[serde(default, deserialize_with = "count_items")]
    rows: usize,
}

/// The number of items of a list, without their content.
fn count_items<'de, D: serde::Deserializer<'de>>(list: D) -> Result<usize, D::Error> {
    Ok(Vec::<serde::de::IgnoredAny>::deserialize(list)?.len())
}

impl RunHead {
    /// The head of a summary's bytes; none if they are no summary.
    pub(crate) fn read(summary: &[u8]) -> Option<Self> {
        serde_json::from_slice(summary).ok()
    }

    /// The head of the summary in a run's folder, if it belongs to the results.
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

    /// The first sentence of the verdict.
    pub(crate) fn headline(&self) -> Option<String> {
        self.board.unscored.clone().or_else(|| self.board.verdict.first().cloned())
    }

    pub(crate) fn n_trials(&self) -> usize {
        self.board.rows
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

    #[test]
    fn the_summary_of_one_trial_has_its_scores_alone_and_that_trial_answers() {
        let mut results = fixture::results(3);
        fixture::score(&mut results, "recall", &[vec![Some(1.0); 5], vec![Some(0.5); 5], vec![Some(0.0); 5]]);
        let whole = RunSummary::of(&results, 99);
        let alone = whole.of_one_trial("t02");
        assert_eq!(alone.results_bytes, 0, "there are no results beside it");
        assert_eq!(alone.scores.by_metric("t02"), whole.scores.by_metric("t02"));
        assert!(whole.scores.by_metric("t01").is_some() && alone.scores.by_metric("t01").is_none());
        let answering = |summary: &RunSummary| summary.answering(None).unwrap().trial;
        assert_eq!((answering(&whole).as_str(), answering(&alone).as_str()), ("t01", "t02"));
        assert_eq!(alone.questions, whole.questions);
        assert_eq!(whole.of_one_trial("t09").scores.by_metric("t09"), None);
    }

    #[test]
    fn a_trial_that_is_not_on_the_board_is_named_with_those_that_are() {
        let summary = RunSummary::of(&fixture::results(2), 0);
        assert!(summary.check_trial("t02").is_ok());
        let error = summary.check_trial("t2").unwrap_err().to_string();
        assert_eq!(error, "there is no trial `t2`; there are t01, t02");
        assert_eq!(summary.answering(Some("t2")).unwrap_err().to_string(), error);
        let mut nothing = fixture::results(1);
        nothing.trials.clear();
        nothing.winner = crate::Winner::Refused("there is none".to_owned());
        let error = RunSummary::of(&nothing, 0).answering(None).unwrap_err().to_string();
        assert_eq!(error, "run zoo-1 of 2026-11-22 10:07 UTC has no trials");
    }

    #[test]
    fn a_summary_of_another_version_is_none_and_its_head_is_read_all_the_same() {
        let mut kept = serde_json::to_value(RunSummary::of(&fixture::results(1), 7)).unwrap();
        let read = |kept: &serde_json::Value| RunSummary::read(&serde_json::to_vec(kept).unwrap());
        assert_eq!(read(&kept).map(|summary| summary.results_bytes), Some(7));
        for version in [VERSION - 1, VERSION + 1] {
            kept["version"] = version.into();
            assert!(read(&kept).is_none(), "version {version}");
        }
        let head = RunHead::read(&serde_json::to_vec(&kept).unwrap()).unwrap();
        assert_eq!((head.experiment(), head.run(), head.time_ms), ("zoo", "zoo-1", 1_795_342_062_000));
        assert!(RunHead::read(b"{}").is_none());
        assert!(RunSummary::read(b"{}").is_none() && RunSummary::read(b"").is_none());
    }

    #[test]
    fn a_head_counts_only_beside_the_results_that_it_is_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!((RunHead::of_folder(path).is_none(), results_bytes(path)), (true, 0));
        std::fs::write(RunFileName::Results.within(path), b"12345").unwrap();
        assert_eq!(results_bytes(path), 5);
        for (bytes, is_of_these) in [(5, true), (4, false), (6, false), (0, false)] {
            let written = summary_json(&fixture::results(1), bytes).unwrap();
            std::fs::write(RunFileName::Summary.within(path), written).unwrap();
            assert_eq!(RunHead::of_folder(path).is_some(), is_of_these, "{bytes}");
            assert_eq!(RunSummary::of_folder(path).is_some(), is_of_these, "{bytes}");
        }
    }
}
