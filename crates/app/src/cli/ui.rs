//! `reverie ui`: the runs of a store in a browser.

use crate::{
    cli::cancel_on_sigterm,
    command::{CommandContext, ExperimentFile},
    environment,
    failure::CommandFailure,
    pages::ServedPages,
};
use serde_json::json;
use std::{net::SocketAddr, path::PathBuf};
use tokio_util::sync::CancellationToken;

/// Look at runs in a browser: while they go on and after they have ended.
///
/// Shows every run of the experiment's store: how it is doing, its leaderboard, effects, the front of quality and cost,
/// and each question with its passages, answers and verdicts. A run that goes on can be paused, a trial stopped, a budget
/// or a limit changed; every act is in the run's event log and in its report. Stops on Ctrl-C or SIGTERM.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie ui
  reverie ui -f books.toml --listen 127.0.0.1:9000
  reverie ui --listen 0.0.0.0:8090 --keys keys.toml

`reverie run --ui` does the same while it runs. A key with the scope `ask` may look, one with the scope `admin` may
also steer.")]
pub struct UiArguments {
    #[command(flatten)]
    file: ExperimentFile,
    /// Where to listen [default: 127.0.0.1:8090, or another port if that is taken].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Who may look and steer: a file that `reverie keys new` wrote. Needed to listen beyond this machine.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    keys: Option<PathBuf>,
}

pub async fn run(cx: &CommandContext, arguments: UiArguments) -> Result<u8, CommandFailure> {
    let experiment = environment::read(&arguments.file.experiment)?;
    let opened = environment::open_maybe_read_only(experiment, cx.setup())?;
    let can_steer = !opened.workspace().is_reading();
    let pages =
        ServedPages::start(opened.shared(), can_steer, arguments.listen, arguments.keys.as_deref(), stop(&cx.cancel))
            .await?;
    let url = &pages.url;
    match cx.json {
        true => cx.print(json!({ "url": url })),
        false => cx.print(format_args!("the runs are at {url} (Ctrl-C ends this)")),
    }
    pages.ended().await?;
    Ok(0)
}

/// Ctrl-C and SIGTERM end the pages, after decisions about golden questions were put into their file.
fn stop(ctrl_c: &CancellationToken) -> CancellationToken {
    let stop = ctrl_c.child_token();
    cancel_on_sigterm(stop.clone());
    stop
}
