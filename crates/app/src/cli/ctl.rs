//! `reverie ctl`: steers a run that goes on in another process.

use crate::{
    command::{CommandContext, ExperimentFile},
    environment,
    failure::CommandFailure,
    option_values::parse_dollars,
    render,
};
use lab::{Act, AppliedAct, LiveRun, Session, known_runs, live_run, run_begins_with};
use std::time::{Duration, Instant};

/// How long a run may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

/// Steer a run while it goes on: pause it, stop a trial, change its budget or a limit.
///
/// The run may be on any machine that uses the same store. What is done is in its event log, in its report, and on the
/// pages of `reverie ui`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie ctl                          # how the run is doing
  reverie ctl pause
  reverie ctl continue
  reverie ctl stop t03                 # it keeps its scores, and is compared with no other trial
  reverie ctl budget --usd 5
  reverie ctl limit 'chat gpt-5-mini' 4")]
pub struct CtlArguments {
    #[command(flatten)]
    file: ExperimentFile,
    /// The run: its id or the beginning of it. Needed if several runs go on.
    #[arg(long = "run", value_name = "ID")]
    run: Option<String>,
    #[command(subcommand)]
    verb: Option<CtlVerb>,
}

#[derive(clap::Subcommand)]
enum CtlVerb {
    /// Start no further task and no further call; calls in flight go on to their end.
    Pause,
    /// End a pause.
    Continue,
    /// Ask a trial nothing more.
    Stop {
        /// The trial's id.
        trial: String,
    },
    /// Change caps of the run's budget.
    Budget(CapArguments),
    /// Change how many calls of a model may be in flight.
    Limit {
        /// The model, by its name in the live table.
        model: String,
        /// Calls in flight at most.
        concurrency: usize,
    },
}

#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct CapArguments {
    /// US dollars.
    #[arg(long, value_parser = parse_dollars)]
    usd: Option<f64>,
    /// Tokens.
    #[arg(long)]
    tokens: Option<u64>,
    /// Calls.
    #[arg(long)]
    calls: Option<u64>,
    /// Minutes since the run began.
    #[arg(long)]
    minutes: Option<f64>,
}

impl CtlVerb {
    fn act(self) -> Act {
        match self {
            Self::Pause => Act::Pause {},
            Self::Continue => Act::Continue {},
            Self::Stop { trial } => Act::StopTrial { trial },
            Self::Budget(CapArguments { usd, tokens, calls, minutes }) => {
                Act::SetBudget { usd, tokens, calls, minutes }
            }
            Self::Limit { model, concurrency } => Act::SetLimit { model, concurrency },
        }
    }
}

pub async fn run(cx: &CommandContext, arguments: CtlArguments) -> Result<u8, CommandFailure> {
    let session = lab::Session::open(environment::read(&arguments.file.experiment)?, cx.setup())?;
    let live = find(&session, arguments.run.as_deref()).await?;
    let Some(verb) = arguments.verb else {
        return cx.finish(&live, render::live_run);
    };
    let by = environment::environment_variable("USER").unwrap_or_else(|| "reverie ctl".to_owned());
    let number = session.workspace().post_act(&live.run, &by, verb.act()).await?;
    let applied = outcome(&session, &live.run, number).await?;
    cx.show(&applied, |applied| applied.outcome.clone().unwrap_or_default())?;
    Ok(u8::from(applied.refused))
}

/// The run that goes on.
async fn find(session: &Session, asked: Option<&str>) -> Result<LiveRun, CommandFailure> {
    let runs = known_runs(session).await?;
    let is_asked = |run: &lab::KnownRun| match asked {
        Some(asked) => run_begins_with(&run.run, &run.experiment, asked),
        None => run.experiment == session.experiment.name,
    };
    let live: Vec<&str> =
        runs.iter().filter(|run| run.state.is_live() && is_asked(run)).map(|run| run.run.as_str()).collect();
    match live[..] {
        [run] => live_run(session, run)
            .await?
            .ok_or_else(|| CommandFailure::runtime(format!("the run {run} has just ended"))),
        [] => Err(CommandFailure::runtime(match asked {
            Some(asked) => format!("no run `{asked}` goes on in this store; `reverie ui` shows all runs"),
            None => format!("no run of `{}` goes on in this store", session.experiment.name),
        })),
        _ => Err(CommandFailure::usage(format!("several runs go on: {}; name one with --run", live.join(", ")))),
    }
}

/// Waits until the run has read the act.
async fn outcome(session: &Session, run: &str, number: u64) -> Result<AppliedAct, CommandFailure> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(live) = live_run(session, run).await? {
            if let Some(applied) = live.acts.into_iter().find(|act| act.number == number && act.outcome.is_some()) {
                return Ok(applied);
            }
            if !live.state.is_live() {
                return Err(CommandFailure::runtime(format!("the run {run} ended before it read this")));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(CommandFailure::runtime(format!(
        "the run {run} has not answered for {} s; it does this when it reads it",
        PATIENCE.as_secs()
    )))
}
