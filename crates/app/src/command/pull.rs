//! Downloads models.

use crate::{environment, failure::CommandFailure, render};

/// Downloads models or libraries, with a progress bar for each file.
///
/// # Errors
/// If one cannot be downloaded.
pub async fn pull_models(names: &[impl AsRef<str>]) -> Result<(), CommandFailure> {
    let directory = environment::model_directory();
    let options = environment::pull_options();
    for name in names {
        let bars = render::PullBars::new(name.as_ref(), environment::audience());
        directory.pull(name.as_ref(), &options, &move |event| bars.event(&event)).await?;
    }
    Ok(())
}
