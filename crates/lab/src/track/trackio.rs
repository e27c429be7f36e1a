//! Shows runs in Trackio. Its settings stand in `spec/track/trackio.rs`.

use super::{
    Tracker,
    python::{PackageSettings, PackageTracker},
};
use crate::spec::{Pace, TrackioConfig};
use serde_json::Map;

/// Opens the tracker of these settings.
pub(super) fn open(config: &TrackioConfig, pace: Pace) -> Box<dyn Tracker> {
    Box::new(PackageTracker::new(PackageSettings {
        package: "trackio",
        program: include_str!("trackio.py"),
        secrets: Vec::new(),
        place: "Trackio".to_owned(),
        pace,
        project: config.project.clone(),
        fields: Map::new(),
    }))
}
