//! The command line: one file per verb.
//!
//! Results go to standard output, progress and errors to standard error.

mod calibrate;
mod check;
pub(crate) mod compare;
mod completions;
mod components;
mod demo;
mod doctor;
mod document;
mod finalists;
mod golden;
mod groups;
mod init;
mod journal;
mod judge;
mod keys;
mod leaderboard;
mod manual;
mod models;
mod noise;
mod options;
mod plan;
mod promote;
mod query;
mod refusal;
pub(crate) mod run;
mod runs;
mod schema;
mod score;
mod serve;
mod show;
mod since;
mod store;
mod submit;
mod track;

pub use crate::failure::{BUDGET_REACHED, Failure, Mistake};

use crate::{
    environment::{self, Color},
    render,
};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::{
    ffi::OsString,
    fmt::Display,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use submit::Marked;
use tokio_util::sync::CancellationToken;

/// The exit code if a user's function failed.
pub const FUNCTION_FAILED: u8 = 5;
/// The exit code of a check that found a loss.
pub const WORSE: u8 = 6;

const EXIT_CODES: &str = "Exit codes:
  0    done
  1    something failed; what was finished is kept
  2    the command line or the experiment file has mistakes; nothing was run
  3    done, but something is missing because a model failed or a file could not be read: run again to get it
  3    of `check`: INCONCLUSIVE, because scores are missing, or too few questions differ to prove or disprove a loss
  4    the budget was reached: the results are partial, and the next run goes on with a budget of its own
  5    done, but some results are missing because a function of your own failed: mend it, and run again
  6    `check` found that the run is worse than the bundle
  130  interrupted; the next `run` goes on

Environment:
  REVERIE_HOME       models and libraries; default: the nearest .reverie above, else the user's cache
  REVERIE_LIBRARIES  more folders with libonnxruntime and libpdfium
  AWS_…              access to s3:// stores, corpora and golden sets: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
                     AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL; or AWS_PROFILE with static keys
  GOOGLE_…, AZURE_…  the same for gs:// (GOOGLE_SERVICE_ACCOUNT) and az:// (AZURE_STORAGE_ACCOUNT_NAME, …_KEY)
  MLFLOW_TRACKING_…  USERNAME and PASSWORD, or TOKEN, for the server under [track]";

/// The heading of the options that every verb has.
const EVERYWHERE: &str = "Options of every verb";

/// Finds the RAG pipeline that answers best on your documents, says how sure that is, and serves it.
#[derive(Parser)]
#[command(name = "reverie", version, after_help = EXIT_CODES, propagate_version = true)]
struct Arguments {
    /// Print results as JSON, and an error as one JSON object on standard error.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    json: bool,
    /// Print no progress and no remarks: only results and errors.
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    quiet: bool,
    /// Colour what is printed: always, never, or auto: on a terminal, unless NO_COLOR is set.
    #[arg(
        long,
        global = true,
        help_heading = EVERYWHERE,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    color: Color,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Demo(demo::Arguments),
    Init(init::Arguments),
    Plan(plan::Arguments),
    Run(run::Arguments),
    Runs(runs::Arguments),
    Leaderboard(leaderboard::Arguments),
    Compare(compare::Arguments),
    Finalists(finalists::Arguments),
    Show(show::Arguments),
    Track(track::Arguments),
    Judge(judge::Arguments),
    Calibrate(calibrate::Arguments),
    Noise(noise::Arguments),
    Golden(golden::Arguments),
    Query(query::Arguments),
    Promote(promote::Arguments),
    Check(check::Arguments),
    Serve(Box<serve::Arguments>),
    Keys(keys::Arguments),
    Document(document::Arguments),
    Score(score::Arguments),
    #[command(visible_alias = "explain")]
    Components(components::Arguments),
    Schema(schema::Arguments),
    Models(models::Arguments),
    Journal(journal::Arguments),
    Store(store::Arguments),
    Doctor(doctor::Arguments),
    Completions(completions::Arguments),
    Manual(manual::Arguments),
}

/// What every command is given.
pub struct Context {
    /// Print results as JSON.
    pub json: bool,
    /// Cancelled by Ctrl-C.
    pub cancel: CancellationToken,
    /// Joins a cluster, in a program that can.
    pub connect: Option<lab::Connect>,
    /// In a job of a cluster: how results are told apart from everything else
    /// in the job's log.
    pub marked: Option<Marked>,
}

impl Context {
    /// What a session is given.
    pub fn setup(&self) -> lab::Setup {
        let mut setup = environment::setup(self.cancel.clone());
        setup.cluster.connect.clone_from(&self.connect);
        setup
    }

    /// Prints a result. Control characters in text of documents, models and
    /// servers are made visible.
    pub fn print(&self, text: impl Display) {
        self.write(&render::visible(&text.to_string()));
    }

    /// Prints a leaderboard.
    pub fn print_leaderboard(&self, board: &lab::Board, layout: &render::Layout) -> Result<(), Failure> {
        self.print(render::leaderboard(board, layout).map_err(Failure::usage)?);
        Ok(())
    }

    /// Prints a result as JSON.
    pub fn print_json(&self, value: &impl serde::Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(Failure::work)?;
        self.write(&render::visible_json(&text));
        Ok(())
    }

    fn write(&self, result: &str) {
        match &self.marked {
            Some(marked) => marked.print(&format!("{result}\n")),
            // A closed pipe (`reverie leaderboard | head`) is not an error.
            None => drop(writeln!(std::io::stdout(), "{result}")),
        }
    }

    /// Gives this command this long to end by itself after Ctrl-C; a second
    /// Ctrl-C ends it at once.
    pub fn may_take_to_end(&self, time: Duration) {
        GRACE.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Reports progress or a remark on standard error.
    pub fn note(&self, text: impl Display) {
        if !environment::is_quiet() {
            self.warn(text);
        }
    }

    /// Reports on standard error why results are missing.
    pub fn warn(&self, text: impl Display) {
        let _ = writeln!(std::io::stderr(), "{}", render::visible(&text.to_string()));
    }
}

/// Reports a failure on standard error.
fn tell(failure: &Failure, json: bool) {
    let text = if json {
        let error = failure.json();
        render::visible_json(&serde_json::to_string_pretty(&error).unwrap_or_else(|_| error.to_string())).into_owned()
    } else {
        let mark = if environment::is_coloured(&std::io::stderr()) { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
        format!("{mark} {}", render::visible(&failure.message))
    };
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The command line, with its verbs in groups.
fn command() -> clap::Command {
    groups::grouped(Arguments::command())
}

/// Whether errors are wanted as JSON, and which colours: also a command line
/// with mistakes is answered in the form that it asks for.
fn wanted(arguments: &[OsString]) -> (bool, Color) {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--").collect();
    let after = words.iter().position(|word| word == "--color").and_then(|at| words.get(at + 1));
    let color = after.map(|word| word.as_ref()).or_else(|| words.iter().find_map(|word| word.strip_prefix("--color=")));
    let color = color.and_then(|color| <Color as clap::ValueEnum>::from_str(color, false).ok());
    (words.iter().any(|word| word == "--json"), color.unwrap_or_default())
}

/// Reads a command line. `--help` and mistakes end the process.
fn parse(arguments: &[OsString]) -> Arguments {
    let (json, color) = wanted(arguments);
    environment::set_color(color);
    let choice = match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    let matches = command().color(choice).try_get_matches_from(arguments);
    match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let failure = refusal::explained(&error, arguments);
            tell(&failure, json);
            leave(failure.code)
        }
        // `--help` and `--version`.
        Err(error) => {
            let _ = error.print();
            leave(0)
        }
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How long a command that asks models may take to end after Ctrl-C: their
/// calls that have begun are awaited, ten seconds at most.
pub const PAID_CALLS: Duration = Duration::from_secs(12);

/// How long a command may take to end after Ctrl-C, in milliseconds.
static GRACE: AtomicU64 = AtomicU64::new(1500);

/// Runs a command line, with the program's name first, and returns the exit
/// code. A command line with mistakes, `--help` and a second Ctrl-C end the
/// process. When this returns, the caller should end the process at once:
/// threads of in-process models may still compute something that nobody waits
/// for.
pub fn main(arguments: impl IntoIterator<Item = OsString>, connect: Option<lab::Connect>) -> u8 {
    let arguments = parse(&arguments.into_iter().collect::<Vec<_>>());
    environment::set_quiet(arguments.quiet);
    crate::advice::give();
    let marked = Marked::from_environment();
    let cx = Context { json: arguments.json, cancel: CancellationToken::new(), connect, marked };
    rag::python::set_sink(Arc::new(|printed| {
        if !environment::is_quiet() {
            let _ = writeln!(std::io::stderr(), "{}", render::visible(&printed.to_string()));
        }
    }));
    // A service answers on all cores; other verbs wait for models and disks.
    let all = || std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let threads = if matches!(arguments.verb, Verb::Serve(_)) { all() } else { 2 };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tell(&Failure::work(error), cx.json);
            return 1;
        }
    };
    let result = runtime.block_on(async {
        let cancel = cx.cancel.clone();
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if INTERRUPTED.swap(true, Ordering::SeqCst) {
                    leave(130);
                }
                cancel.cancel();
                // A computation cannot be stopped midway; finished work is already stored.
                tokio::spawn(async {
                    tokio::time::sleep(Duration::from_millis(GRACE.load(Ordering::SeqCst))).await;
                    leave(130);
                });
            }
        });
        match arguments.verb {
            Verb::Demo(arguments) => demo::run(&cx, arguments).await,
            Verb::Init(arguments) => init::run(&cx, arguments).await,
            Verb::Plan(arguments) => plan::run(&cx, arguments).await,
            Verb::Run(arguments) => run::run(&cx, arguments).await,
            Verb::Runs(arguments) => runs::run(&cx, arguments).await,
            Verb::Leaderboard(arguments) => leaderboard::run(&cx, arguments).await,
            Verb::Compare(arguments) => compare::run(&cx, arguments).await,
            Verb::Finalists(arguments) => finalists::run(&cx, arguments).await,
            Verb::Judge(arguments) => judge::run(&cx, arguments).await,
            Verb::Calibrate(arguments) => calibrate::run(&cx, arguments).await,
            Verb::Noise(arguments) => noise::run(&cx, arguments).await,
            Verb::Show(arguments) => show::run(&cx, arguments).await,
            Verb::Track(arguments) => track::run(&cx, arguments).await,
            Verb::Golden(arguments) => golden::run(&cx, arguments).await,
            Verb::Document(arguments) => document::run(&cx, arguments).await,
            Verb::Query(arguments) => query::run(&cx, arguments).await,
            Verb::Promote(arguments) => promote::run(&cx, arguments).await,
            Verb::Check(arguments) => check::run(&cx, arguments).await,
            Verb::Serve(arguments) => serve::run(&cx, *arguments).await,
            Verb::Keys(arguments) => keys::run(&cx, arguments),
            Verb::Score(arguments) => score::run(&cx, arguments).await,
            Verb::Manual(arguments) => manual::run(&cx, &arguments),
            Verb::Components(arguments) => components::run(&cx, &arguments),
            Verb::Schema(arguments) => schema::run(&cx, &arguments),
            Verb::Models(arguments) => models::run(&cx, arguments).await,
            Verb::Journal(arguments) => journal::run(&cx, arguments).await,
            Verb::Store(arguments) => store::run(&cx, arguments).await,
            Verb::Doctor(arguments) => doctor::run(&cx, arguments).await,
            Verb::Completions(arguments) => completions::run(&cx, arguments).await,
        }
    });
    runtime.shutdown_background();
    let code = match result {
        Ok(code) => code,
        Err(failure) => {
            tell(&failure, cx.json);
            failure.code
        }
    };
    let _ = std::io::stdout().flush();
    code
}

/// Ends the process.
#[expect(clippy::exit, reason = "the one place where the process ends")]
pub fn leave(code: u8) -> ! {
    let _ = std::io::stdout().flush();
    std::process::exit(i32::from(code))
}
