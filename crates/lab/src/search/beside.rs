//! Systems beside the pipelines that a search chooses from. A strategy that tries some of many combinations, such as
//! `random`, knows the axes of pipelines alone: it decides about pipelines, and every system is asked all questions. A
//! strategy that stops trials by their scores, such as `race`, decides about all of them.

use super::{SearchConfig, SearchProblem, SearchSettingsError, Stop, Strategy, TrialScores};
use std::collections::BTreeMap;

impl SearchConfig {
    /// Whether it decides by scores alone, so that any trial can take part.
    fn decides_by_scores_alone(&self) -> bool {
        matches!(self, Self::Race(_) | Self::SuccessiveHalving(_))
    }

    /// The strategy for trials of which some are systems.
    ///
    /// # Errors
    /// Its settings cannot work.
    pub(crate) fn build_beside(
        &self,
        problem: &SearchProblem,
        is_system: &[bool],
    ) -> Result<Box<dyn Strategy>, SearchSettingsError> {
        let pipelines: Vec<usize> = (0..problem.trials.len()).filter(|&trial| !is_system[trial]).collect();
        if self.decides_by_scores_alone() || pipelines.is_empty() || pipelines.len() == problem.trials.len() {
            return self.build(problem);
        }
        let chosen = SearchProblem {
            trials: pipelines.iter().map(|&trial| problem.trials[trial].clone()).collect(),
            choices: pipelines.iter().map(|&trial| problem.choices[trial].clone()).collect(),
            ..problem.clone()
        };
        Ok(Box::new(BesideSystems { strategy: self.build(&chosen)?, pipelines, questions: problem.questions }))
    }
}

/// A strategy for the pipelines, beside systems that are asked everything.
struct BesideSystems {
    strategy: Box<dyn Strategy>,
    /// The trials that the strategy knows, by their places among all trials.
    pipelines: Vec<usize>,
    questions: usize,
}

impl BesideSystems {
    fn of_pipelines(&self, seen: &[TrialScores]) -> Vec<TrialScores> {
        self.pipelines.iter().map(|&trial| seen[trial].clone()).collect()
    }
}

impl Strategy for BesideSystems {
    fn next(&mut self, seen: &[TrialScores]) -> Vec<usize> {
        let mut asked = vec![self.questions; seen.len()];
        for (&trial, questions) in self.pipelines.iter().zip(self.strategy.next(&self.of_pipelines(seen))) {
            asked[trial] = questions;
        }
        asked
    }

    fn stops(&self, seen: &[TrialScores]) -> BTreeMap<usize, Stop> {
        let stops = self.strategy.stops(&self.of_pipelines(seen)).into_iter();
        stops.map(|(trial, stop)| (self.pipelines[trial], stop)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problem(trials: usize) -> SearchProblem {
        let labels = |i: usize| BTreeMap::from([("chunker".to_owned(), format!("c{i}"))]);
        let all: Vec<BTreeMap<String, String>> = (0..trials).map(labels).collect();
        SearchProblem { trials: all.clone(), choices: all, questions: 20, width: 1.0 }
    }

    #[test]
    fn a_random_search_draws_pipelines_and_asks_every_system_everything() {
        let config: SearchConfig = serde_json::from_value(json!({ "random": { "share": 0.67 } })).unwrap();
        let is_system = [false, true, false, false, true];
        let mut strategy = config.build_beside(&problem(5), &is_system).unwrap();
        let mut seen: Vec<TrialScores> = vec![Vec::new(); 5];
        loop {
            let asked = strategy.next(&seen);
            if asked.iter().zip(&seen).all(|(asked, seen)| *asked == seen.len()) {
                break;
            }
            seen = asked.into_iter().map(|asked| vec![Some(0.5); asked]).collect();
        }
        let asked: Vec<usize> = seen.iter().map(Vec::len).collect();
        assert_eq!((asked[1], asked[4]), (20, 20), "{asked:?}");
        let pipelines = [0, 2, 3].iter().filter(|&&trial| asked[trial] == 20).count();
        assert_eq!(pipelines, 2, "{asked:?}");
        let stops = strategy.stops(&seen);
        assert_eq!(stops.len(), 1);
        assert!(stops.keys().all(|&trial| asked[trial] == 0 && !is_system[trial]), "{stops:?}");
    }

    #[test]
    fn a_race_may_stop_a_system_too() {
        let config: SearchConfig = serde_json::from_value(json!({ "race": {} })).unwrap();
        let mut strategy = config.build_beside(&problem(2), &[false, true]).unwrap();
        let first = strategy.next(&vec![Vec::new(); 2]);
        assert!(first.iter().all(|&asked| asked < 20), "{first:?}");
    }
}
