//! `reverie ctl`: steers a run that goes on in another process.

use crate::{
    command::{CommandContext, ExperimentFile},
    environment,
    failure::CommandFailure,
    library,
    option_values::parse_dollars,
    render,
};
use lab::{Act, Override, find_live_run, steer};
use std::collections::BTreeMap;

/// Steer a run while it goes on: pause it, stop or add a trial, change its budget or a limit.
///
/// The run may be on any machine that uses the same store. What is done is in its event log, in its report, and on the
/// pages of `reverie ui`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie ctl                          # how the run is doing
  reverie ctl pause
  reverie ctl continue
  reverie ctl stop t03                 # it keeps its scores, and is compared with no other trial
  reverie ctl add t03 --set retriever.bm25.top_k=8   # a copy of t03 with another value
  reverie ctl ask 200                  # more questions than a limit of the file allowed
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
    /// Add a trial: a copy of another one with other values. The run goes on under the id of a run in which it was planned.
    Add {
        /// The id of the trial that is copied.
        like: String,
        /// A setting to change in the copy, by its dotted key: `retriever.bm25.top_k=8`,
        /// `chunker=token`. May be given more than once.
        #[arg(long = "set", value_name = "KEY=VALUE", required = true, value_parser = Override::parse_setting)]
        set: Vec<(String, serde_json::Value)>,
    },
    /// Ask more questions than `evaluate.answered` or `dataset.limit` allow.
    Ask {
        /// How many questions, from the first on.
        questions: usize,
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
            Self::Add { like, set } => Act::AddTrial { like, set: BTreeMap::from_iter(set) },
            Self::Ask { questions } => Act::AskQuestions { questions },
        }
    }
}

pub async fn run(cx: &CommandContext, arguments: CtlArguments) -> Result<u8, CommandFailure> {
    let session = lab::Session::open(environment::read(&arguments.file.experiment)?, cx.setup())?;
    let live = find_live_run(&session, arguments.run.as_deref()).await?;
    let Some(verb) = arguments.verb else {
        return cx.finish(&live, render::live_run);
    };
    let by = library::user_name().unwrap_or_else(|| "reverie ctl".to_owned());
    let applied = steer(&session, &live.run, &by, verb.act()).await?;
    cx.show(&applied, |applied| applied.outcome.clone().unwrap_or_default())?;
    Ok(u8::from(applied.refused))
}
