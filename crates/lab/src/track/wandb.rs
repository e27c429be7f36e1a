//! Shows runs in Weights & Biases. Its settings stand in `spec/track/wandb.rs`.

use super::{
    Tracker,
    python::{PackageSettings, PackageTracker},
};
use crate::spec::{Pace, WandbConfig, WandbMode};
use models::provider::Environment;
use serde_json::{Map, json};

/// The variable with the key of an account.
const KEY: &str = "WANDB_API_KEY";

/// Opens the tracker of these settings.
pub(super) fn open(config: &WandbConfig, pace: Pace, environment: &Environment) -> Box<dyn Tracker> {
    let key = environment(KEY);
    let mode = config.mode.unwrap_or(if key.is_some() { WandbMode::Online } else { WandbMode::Offline });
    let place = match mode {
        WandbMode::Online => "Weights & Biases",
        WandbMode::Offline => "Weights & Biases (offline)",
    };
    let fields = Map::from_iter([
        ("entity".to_owned(), json!(config.entity)),
        ("mode".to_owned(), json!(mode)),
        ("tags".to_owned(), json!(config.tags)),
    ]);
    Box::new(PackageTracker::new(PackageSettings {
        package: "wandb",
        program: include_str!("wandb.py"),
        secrets: key.map(|key| (KEY, key)).into_iter().collect(),
        place: place.to_owned(),
        pace,
        project: config.project.clone(),
        fields,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, time::Duration};

    #[test]
    fn without_a_key_a_run_is_written_offline() {
        let place = |mode, key: Option<&'static str>| {
            let environment: Environment = Arc::new(move |name| key.filter(|_| name == KEY).map(str::to_owned));
            let pace = Pace { every: Duration::from_secs(1), wait: Duration::from_secs(1) };
            open(&WandbConfig { mode, ..WandbConfig::default() }, pace, &environment).place().to_owned()
        };
        let (online, offline) = ("Weights & Biases", "Weights & Biases (offline)");
        assert_eq!(place(None, None), offline);
        assert_eq!(place(None, Some("k")), online);
        assert_eq!(place(Some(WandbMode::Offline), Some("k")), offline);
        assert_eq!(place(Some(WandbMode::Online), None), online, "the account may be in ~/.netrc");
    }
}
