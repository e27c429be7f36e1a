//! The finished runs of an experiment, for people.

use super::{row, table};
use lab::PastRun;
use serde::Serialize;

/// A run, with the first line of its leaderboard.
#[derive(Serialize)]
pub struct RunListEntry {
    /// The run.
    #[serde(flatten)]
    pub run: PastRun,
    /// The number of questions; `None` if the run's files cannot be read.
    pub questions: Option<usize>,
    /// The number of trials.
    pub trials: Option<usize>,
    /// The first trial by the objective.
    pub leads: Option<String>,
    /// The trial that the verdict names the winner.
    pub winner: Option<String>,
}

/// A line for each run, the last first.
pub fn runs(listed: &[RunListEntry]) -> String {
    let mut rows = table(&["run", "finished", "best", "overrides", "questions", "trials"], 4);
    for RunListEntry { run, questions, trials, leads, winner } in listed {
        let count = |n: &Option<usize>| n.map_or_else(|| "–".to_owned(), super::count);
        let best = match (winner, leads) {
            (Some(id), _) => format!("{id} wins"),
            (None, Some(id)) => format!("{id} leads"),
            (None, None) => "–".to_owned(),
        };
        rows.add_row(row(&[
            &run.run,
            &lab::utc(run.time_ms),
            &best,
            &run.overrides.join(" "),
            &count(questions),
            &count(trials),
        ]));
    }
    rows.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_is_marked_with_what_was_replaced() {
        let run = |run: &str, overrides: &[&str]| PastRun {
            experiment: "owls".to_owned(),
            run: run.to_owned(),
            time_ms: 1_795_342_062_000,
            overrides: overrides.iter().map(|text| (*text).to_owned()).collect(),
        };
        let tried = RunListEntry {
            run: run("owls-1", &["--limit 3"]),
            questions: Some(3),
            trials: Some(2),
            leads: None,
            winner: None,
        };
        let leads = Some("t02".to_owned());
        let whole =
            RunListEntry { run: run("owls-2", &[]), questions: Some(1200), trials: Some(2), leads, winner: None };
        let text = runs(&[tried, whole]);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines[3].split_whitespace().collect::<Vec<_>>().join(" "),
            "owls-1 2026-11-22 10:07 UTC – --limit 3 3 2"
        );
        assert_eq!(
            lines[4].split_whitespace().collect::<Vec<_>>().join(" "),
            "owls-2 2026-11-22 10:07 UTC t02 leads 1,200 2"
        );
    }
}
