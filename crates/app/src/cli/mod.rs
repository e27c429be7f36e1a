//! The command line: one file per verb.
//!
//! Results go to standard output, progress and errors to standard error.

mod refusal;

use crate::{
    command::CommandContext,
    environment::{self, Color},
    failure::CommandFailure,
    mcp::ReverieCommand,
    render,
};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use rag::load::PdfProgram;
use std::{
    ffi::OsString,
    fmt::Write as _,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_util::sync::CancellationToken;

/// Declares the verbs from one list: their modules, how clap parses them, the
/// groups of `reverie --help`, and which code runs.
macro_rules! verbs {
    ($($title:literal { $($(#[$attribute:meta])* $verb:ident($module:ident::$arguments:ident),)+ })+) => {
        $($(mod $module;)+)+

        #[derive(Subcommand)]
        enum Verb {
            $($($(#[$attribute])* $verb(Box<$module::$arguments>),)+)+
        }

        impl Verb {
            async fn run(self, cx: &CommandContext) -> Result<u8, CommandFailure> {
                match self {
                    $($(Self::$verb(arguments) => $module::run(cx, *arguments).await,)+)+
                }
            }
        }

        /// The verbs in groups, for `reverie --help`.
        const GROUPS: &[(&str, &[&str])] = &[$(($title, &[$(stringify!($module)),+])),+];
    };
}

verbs! {
    "Run" {
        Demo(demo::DemoArguments),
        Init(init::InitArguments),
        Plan(plan::PlanArguments),
        Run(run::RunArguments),
        Ctl(ctl::CtlArguments),
        Query(query::QueryArguments),
        Score(score::ScoreArguments),
        Track(track::TrackArguments),
    }
    "Look" {
        Ui(ui::UiArguments),
        Leaderboard(leaderboard::LeaderboardArguments),
        Runs(runs::RunsArguments),
        Show(show::ShowArguments),
        Compare(compare::CompareArguments),
        Finalists(finalists::FinalistsArguments),
        Document(document::DocumentArguments),
        #[command(visible_alias = "explain")]
        Components(components::ComponentsArguments),
        Schema(schema::SchemaArguments),
        Warnings(warnings::WarningsArguments),
    }
    "Golden questions" {
        Golden(golden::GoldenArguments),
    }
    "Serve" {
        Promote(promote::PromoteArguments),
        Check(check::CheckArguments),
        Serve(serve::ServeArguments),
        Watch(watch::WatchArguments),
        Versions(versions::VersionsArguments),
        Keys(keys::KeysArguments),
    }
    "Judges" {
        Judge(judge::JudgeArguments),
        Calibrate(calibrate::CalibrateArguments),
        Votes(votes::VotesArguments),
        Noise(noise::NoiseArguments),
    }
    "Models" {
        Models(models::ModelsArguments),
        Doctor(doctor::DoctorArguments),
    }
    "Store" {
        Store(store::StoreArguments),
        Journal(journal::JournalArguments),
        Database(database::DatabaseArguments),
        Forget(forget::ForgetArguments),
    }
    "Agents" {
        Mcp(mcp::McpArguments),
    }
    "Shell" {
        Completions(completions::CompletionsArguments),
        Manual(manual::ManualArguments),
    }
}

const EXIT_CODES: &str = "Exit codes:
  0    done
  1    something failed; what was finished is kept
  2    the command line or the experiment file has mistakes; nothing was run
  3    done, but something is missing because a model failed or a file could not be read: run again to get it
  3    of `check`: INCONCLUSIVE, because scores are missing, or too few questions differ to prove or disprove a loss
  4    the budget was reached: the results are partial, and the next run goes on with a budget of its own
  5    done, but some results are missing because a function of your own failed: fix it, and run again
  6    `check` found that the run is worse than the bundle
  130  interrupted; the next `run` goes on

Environment:
  REVERIE_HOME       models and libraries; default: the nearest .reverie with a folder models, here or above, else the user's cache
  REVERIE_LIBRARIES  more folders with libonnxruntime and libpdfium
  AWS_…              access to s3:// stores, corpora and golden sets: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
                     AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL; or AWS_PROFILE with static keys
  GOOGLE_…, AZURE_…  the same for gs:// (GOOGLE_SERVICE_ACCOUNT) and az:// (AZURE_STORAGE_ACCOUNT_NAME, …_KEY)
  MLFLOW_TRACKING_…  USERNAME and PASSWORD, or TOKEN, for the server under [track]
  WANDB_API_KEY      your key of Weights & Biases; without it, runs under [track] are written for `wandb sync`";

/// The heading of the options that every verb has.
const EVERYWHERE: &str = "Options of every verb";

/// Finds the RAG pipeline that answers best on your documents, says how sure that is, and serves it.
#[derive(Parser)]
#[command(name = "reverie", version, after_help = EXIT_CODES, propagate_version = true)]
struct CommandLine {
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

/// Reports a failure on standard error.
fn print_failure(failure: &CommandFailure, json: bool) {
    let text = if json {
        let error = failure.json();
        render::visible_json(&serde_json::to_string_pretty(&error).unwrap_or_else(|_| error.to_string())).into_owned()
    } else {
        let mark = if environment::is_coloured(&std::io::stderr()) { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
        format!("{mark} {}", render::visible(&failure.message))
    };
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The command line, with its verbs in groups. Clap has no headings for subcommands, so
/// the list of `reverie --help` is made here from the command itself.
fn command() -> clap::Command {
    let command = CommandLine::command();
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut list = String::new();
    for (group, verbs) in GROUPS {
        let _ = writeln!(list, "{header}{group}:{header:#}");
        for verb in verbs.iter().filter_map(|verb| command.find_subcommand(verb)) {
            let (name, about) = (verb.get_name(), verb.get_about().map(ToString::to_string).unwrap_or_default());
            let _ = writeln!(list, "  {literal}{name:<12}{literal:#} {about}");
        }
        list.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

/// The form of errors: whether as JSON, and which colours. It is read from the
/// words, because a command line with mistakes cannot be parsed.
fn error_form(arguments: &[OsString]) -> (bool, Color) {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--").collect();
    let after = words.iter().position(|word| word == "--color").and_then(|at| words.get(at + 1));
    let color = after.map(|word| word.as_ref()).or_else(|| words.iter().find_map(|word| word.strip_prefix("--color=")));
    let color = color.and_then(|color| <Color as clap::ValueEnum>::from_str(color, false).ok());
    (words.iter().any(|word| word == "--json"), color.unwrap_or_default())
}

/// Reads a command line. `--help` and mistakes end the process.
fn parse(arguments: &[OsString]) -> CommandLine {
    let (json, color) = error_form(arguments);
    environment::set_color(color);
    let choice = match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    };
    let matches = command().color(choice).try_get_matches_from(arguments);
    match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let failure = refusal::explain(&error, arguments);
            print_failure(&failure, json);
            exit(failure.code)
        }
        // `--help` and `--version`.
        Err(error) => {
            let _ = error.print();
            exit(0)
        }
    }
}

/// The verb of the processes in which PDFs are read. It is not for people, so no help names it.
pub const READ_PDFS: &str = "read-pdfs";
/// This program, also after its file was replaced by another version.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Reads PDFs for another process of this program, with the PDFium library of this path. Returns the exit code.
fn read_pdfs(library: &Path) -> u8 {
    match rag::load::run_pdf_worker(library) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{READ_PDFS}: {error}");
            1
        }
    }
}

/// Cancels a token when this process gets SIGTERM.
fn cancel_on_sigterm(token: CancellationToken) {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::spawn(async move {
            terminate.recv().await;
            token.cancel();
        });
    }
}

/// This program as a child process. In a Python program, the interpreter runs the package.
fn this_program(is_in_python: bool) -> std::io::Result<ReverieCommand> {
    let program = std::env::current_exe()?;
    Ok(if is_in_python { ReverieCommand::new(program, ["-m", "reverie"]) } else { ReverieCommand::new(program, []) })
}

/// Runs a command line, with the program's name first, and returns the exit
/// code. A command line with mistakes, `--help` and a second Ctrl-C end the
/// process. When this returns, the caller should end the process at once:
/// threads of in-process models may still be computing.
pub fn main(arguments: impl IntoIterator<Item = OsString>, connect: Option<lab::Connect>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let [_, verb, library] = &arguments[..]
        && verb == READ_PDFS
    {
        return read_pdfs(Path::new(library));
    }
    // In Python, the extension names the interpreter.
    if connect.is_none() {
        let this = PathBuf::from(THIS_PROGRAM);
        let program = if this.exists() { Some(this) } else { std::env::current_exe().ok() };
        if let Some(program) = program {
            rag::load::read_pdfs_with(PdfProgram::new(program, [READ_PDFS]));
        }
    }
    let arguments = parse(&arguments);
    environment::set_quiet(arguments.quiet);
    crate::advice::install_advice();
    let cx = CommandContext::new(arguments.json, connect, command);
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
            print_failure(&CommandFailure::runtime(error), cx.json);
            return 1;
        }
    };
    let result = runtime.block_on(async {
        let (cancel, grace) = (cx.cancel.clone(), cx.wait_for_grace());
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            cancel.cancel();
            // A computation cannot be stopped midway; finished work is already stored.
            tokio::select! {
                () = grace => {}
                Ok(()) = tokio::signal::ctrl_c() => {}
            }
            exit(130);
        });
        arguments.verb.run(&cx).await
    });
    runtime.shutdown_background();
    let code = match result {
        Ok(code) => code,
        Err(failure) => {
            print_failure(&failure, cx.json);
            failure.code
        }
    };
    let _ = std::io::stdout().flush();
    code
}

/// Ends the process.
#[expect(clippy::exit, reason = "the one place where the process ends")]
pub fn exit(code: u8) -> ! {
    let _ = std::io::stdout().flush();
    std::process::exit(i32::from(code))
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn the_command_line_has_no_contradiction() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_is_found_by_the_name_of_its_module() {
        let command = command();
        let listed: Vec<&str> = super::GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        assert!(command.get_subcommands().map(clap::Command::get_name).eq(listed));
    }
}
