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
        Wandb => wandb,
        Trackio => trackio,
    }
}

pub(crate) use mlflow::{Config as MlflowConfig, legal_key};
pub(crate) use trackio::Config as TrackioConfig;
pub(crate) use wandb::{Config as WandbConfig, WandbMode};

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

impl Pace {
    /// The pace of these settings.
    fn new(every_seconds: f64, wait_seconds: f64) -> Result<Self, TrackerSettingsError> {
        let seconds = |name: &str, value: f64, least: f64| {
            let fits = (least..=3600.0).contains(&value);
            fits.then(|| Duration::from_secs_f64(value))
                .ok_or_else(|| TrackerSettingsError(format!("`{name}` must be from {least} to 3600")))
        };
        let every = seconds("every_seconds", every_seconds, 0.1)?;
        let wait = seconds("wait_seconds", wait_seconds, 0.0)?;
        Ok(Self { every, wait })
    }
}

impl TrackerConfig {
    /// The Python package that the tracker uses.
    pub(crate) fn python_package(&self) -> Option<&'static str> {
        match self {
            Self::Mlflow(_) => None,
            // Its name is that of its package.
            Self::Wandb(_) | Self::Trackio(_) => Some(self.name()),
        }
    }
}

/// Checks the name of a project, if there is one: what every client takes.
fn check_project(project: Option<&str>) -> Result<(), TrackerSettingsError> {
    let fits = |name: &str| {
        (1..=128).contains(&name.chars().count()) && !name.contains(|c: char| r"/\#?%:".contains(c) || c.is_control())
    };
    match project {
        Some(name) if !fits(name) => Err(TrackerSettingsError(
            r"`project` must have from 1 to 128 characters, and none of / \ # ? % :".to_owned(),
        )),
        _ => Ok(()),
    }
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
        let trackers = parse("trackio = {}\nwandb = { project = \"manuals\", mode = \"offline\" }").unwrap();
        let packages: Vec<_> = trackers.iter().filter_map(TrackerConfig::python_package).collect();
        assert_eq!(packages, ["trackio", "wandb"]);
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
            ("wandb = { mode = \"disabled\" }", "8:18", "unknown variant"),
            ("trackio = { project = \"a/b\" }", "8:11", "none of / \\ # ? % :"),
        ] {
            let errors = parse(track).expect_err(track);
            assert!(errors.len() == 1 && errors[0].starts_with(place) && errors[0].contains(part), "{errors:?}");
        }
    }
}
