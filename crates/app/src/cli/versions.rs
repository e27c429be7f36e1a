//! `reverie versions`: the versions of a pipeline that follows its documents, and which one is served.

use crate::{command::CommandContext, failure::CommandFailure, render};
use lab::VersionPlace;

/// Show the versions that `reverie watch` has made, or serve one of them by name.
///
/// A version that was chosen by name is served until another is chosen: `reverie watch` goes on making versions, and
/// serves none of them. `newest` ends this.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie versions live/manuals
  reverie versions live/manuals 20261128-161500-042-0123456789ab    # roll back
  reverie versions s3://bucket/manuals newest

A service changes within a second, and within five seconds if the place is on an object store.")]
pub struct VersionsArguments {
    /// The place of the versions: a folder, or a URL such as s3://bucket/manuals.
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    place: String,
    /// The version to serve; `newest` for the newest and those that follow.
    version: Option<String>,
}

/// Stands for the newest version.
const NEWEST: &str = "newest";

pub async fn run(cx: &CommandContext, arguments: VersionsArguments) -> Result<u8, CommandFailure> {
    let setup = cx.setup();
    let nothing = || {
        CommandFailure::runtime(format!(
            "{} holds no versions: `reverie watch --output PLACE` makes them",
            store::without_secrets(&arguments.place)
        ))
    };
    VersionPlace::open_to_read(&arguments.place, &setup).await?.ok_or_else(nothing)?;
    let place = VersionPlace::open(&arguments.place, &setup)?;
    let Some(version) = &arguments.version else {
        return cx.finish(&place.list().await?, |versions| render::pipeline_versions(versions));
    };
    let chosen = place.choose(Some(version.as_str()).filter(|version| *version != NEWEST)).await?;
    cx.finish(&chosen, |chosen| match chosen.is_pinned {
        true => format!("{} is served until another version is chosen", chosen.version),
        false => format!("{} is served, and each newer version from when it is made", chosen.version),
    })
}
