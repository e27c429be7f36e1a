//! `[track]`: the trackers that show runs, one key for each.

use super::{reader::ExperimentReader, table::unknown_keys};
use std::time::Duration;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

store::registry! {
    // `TrackerConfig::build` checks the settings and makes a `Pace`; it needs no context: `from ()`.
    /// The trackers on which runs are shown, besides the run's own folder.
    #[derive(schemars::JsonSchema)]
    pub enum TrackerConfig builds Pace, from (), or TrackerSettingsError {
        Mlflow => mlflow,
    }
}

pub(crate) use mlflow::{Config as MlflowConfig, legal_key};

/// What is wrong with the settings of a tracker, as a sentence that names the setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TrackerSettingsError(pub(crate) String);

/// How often a tracker works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The time between two updates while the run goes on.
    pub every: Duration,
    /// The longest time that the end of a run waits until everything is on the server.
    pub wait: Duration,
}

pub(super) fn read<'a>(reader: &mut ExperimentReader<'a>, root: &DeTable<'a>) -> Vec<TrackerConfig> {
    let Some(value) = root.get("track") else { return Vec::new() };
    let Some(table) = value.get_ref().as_table() else {
        reader.error(
            value.span().start,
            "track: expected a table such as `mlflow = { uri = \"http://127.0.0.1:5000\" }`",
        );
        return Vec::new();
    };
    unknown_keys(reader, table, TrackerConfig::NAMES, "track");
    let mut trackers = Vec::new();
    for (key, value) in table.iter().filter(|(key, _)| TrackerConfig::NAMES.contains(&key.get_ref().as_ref())) {
        let only = DeTable::from_iter([(key.clone(), value.clone())]);
        let only = Spanned::new(value.span(), DeValue::Table(only));
        let Some(config) = reader.read::<TrackerConfig>(&only, "track") else { continue };
        if let Err(reason) = config.build(()) {
            reader.error(value.span().start, format!("track.{}: {reason}", config.name()));
        }
        trackers.push(config);
    }
    trackers
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, spec::TrackerConfig};

    fn parse(track: &str) -> Result<Vec<TrackerConfig>, Vec<String>> {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n[track]\n{track}\n"
        );
        let parsed = Experiment::parse(&text, ".");
        parsed.map(|experiment| experiment.track).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_tracker_is_a_key_with_its_settings() {
        let trackers = parse("mlflow = { uri = \"http://127.0.0.1:5000\", experiment = \"manuals\" }").unwrap();
        assert_eq!(trackers.iter().map(TrackerConfig::name).collect::<Vec<_>>(), ["mlflow"]);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (track, place, part) in [
            ("mlfow = {}", "8:1", "did you mean `mlflow`?"),
            ("mlflow = { url = \"http://x\" }", "8:12", "did you mean `uri`?"),
            ("mlflow = { uri = 5 }", "8:18", "invalid type"),
            ("mlflow = { uri = \"postgresql://x\" }", "8:10", "must begin with http:// or https://"),
            ("mlflow = { wait_seconds = -1 }", "8:10", "`wait_seconds` must be from 0 to 3600"),
        ] {
            let errors = parse(track).expect_err(track);
            assert!(errors.len() == 1 && errors[0].starts_with(place) && errors[0].contains(part), "{errors:?}");
        }
    }
}
