//! Decides which trial answers for a run, for all callers: commands, pipelines
//! in Python, the report page and trackers.

use super::Results;
use crate::{Error, clock::run_title};
use serde::{Deserialize, Serialize};

/// The trial that answers for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answering {
    /// Its id.
    pub trial: String,
    /// Why this trial answers, if it was not asked for and does not lead.
    pub note: Option<String>,
}

impl Results {
    /// The run in words: its id and when it finished.
    pub fn title(&self) -> String {
        run_title(&self.run, self.time_ms)
    }

    /// The trial that answers: the requested one, otherwise the winner
    /// or the one that leads, otherwise the first of the leaderboard.
    ///
    /// # Errors
    /// If there is no such trial, or none at all.
    pub fn answering(&self, asked: Option<&str>) -> Result<Answering, Error> {
        if let Some(asked) = asked {
            return Ok(Answering { trial: self.trial(asked)?.trial.id.clone(), note: None });
        }
        let is_pipeline = |id: &&str| self.trial(id).is_ok_and(|found| found.trial.pipeline().is_some());
        let winner = self.winner.first();
        if let Some(first) = winner.filter(|id| is_pipeline(id)) {
            return Ok(Answering { trial: first.to_owned(), note: None });
        }
        let Some(any) = self.trials.first().map(|found| &found.trial) else {
            return Err(Error::Unusable(format!("{} has no trials", self.title())));
        };
        let Some(first) = self.trials.iter().map(|found| &found.trial).find(|trial| trial.pipeline().is_some()) else {
            any.runnable()?;
            return Err(Error::Unusable(format!("{} has no pipeline", self.title())));
        };
        if first.id != any.id || winner.is_some() {
            let leads = winner.unwrap_or(&any.id);
            let note = format!("{leads} leads, and Reverie does not run it; {} answers, the best pipeline", first.id);
            return Ok(Answering { trial: first.id.clone(), note: Some(note) });
        }
        let note = match self.trials.len() {
            1 => None,
            n => Some(format!("no winner was named; {} answers, the first of {n} on the leaderboard", first.id)),
        };
        Ok(Answering { trial: first.id.clone(), note })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Winner, fixture};

    #[test]
    fn the_one_that_is_asked_for_answers_else_the_winner_else_the_first() {
        let mut results = fixture::results(3);
        results.winner = Winner::Trial("t02".to_owned());
        let of = |results: &super::Results, asked| results.answering(asked).map(|it| (it.trial, it.note)).unwrap();
        assert_eq!(of(&results, Some("t03")), ("t03".to_owned(), None));
        assert_eq!(of(&results, None), ("t02".to_owned(), None));
        results.winner = Winner::Refused("scores are missing".to_owned());
        let note = "no winner was named; t01 answers, the first of 3 on the leaderboard".to_owned();
        assert_eq!(of(&results, None), ("t01".to_owned(), Some(note)));
        results.trials.truncate(1);
        assert_eq!(of(&results, None), ("t01".to_owned(), None), "there is nothing to choose from");
    }

    #[test]
    fn a_trial_that_is_not_there_and_a_run_without_trials_are_errors() {
        let mut results = fixture::results(1);
        assert!(results.answering(Some("t09")).unwrap_err().to_string().contains("there is no trial `t09`"));
        results.trials.clear();
        results.winner = Winner::Refused("there is none".to_owned());
        let error = results.answering(None).unwrap_err().to_string();
        assert_eq!(error, "run zoo-1 of 2026-11-22 10:07 UTC has no trials");
    }
}
