//! The environment of the process: the folder of models, variables, and whether
//! a person watches standard error.

use lab::{Choice, Control, Experiment, Override, ScoringSpec, Session, Setup, SpecError};
use models::{ModelDirectory, PullOptions};
use serde::de::DeserializeOwned;
use std::{
    env,
    io::{ErrorKind, IsTerminal},
    ops::Deref,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio_util::sync::CancellationToken;

use crate::cli::{Failure, Mistake};

/// When to colour what is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// Who sees what is reported on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// A person, at a terminal.
    Terminal,
    /// A log.
    Log,
    /// Nobody: no progress is wanted.
    Not,
}

// The choices of a command line hold for its whole process.
static COLOR: OnceLock<Color> = OnceLock::new();
static QUIET: AtomicBool = AtomicBool::new(false);

/// Sets the choice of the command line.
pub fn set_color(color: Color) {
    let _ = COLOR.set(color);
}

/// Whether text for this stream is coloured.
pub fn is_coloured(stream: &impl IsTerminal) -> bool {
    match COLOR.get().copied().unwrap_or_default() {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => stream.is_terminal() && variable("NO_COLOR").is_none(),
    }
}

/// Sets the choice of the command line.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether progress and remarks are unwanted.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// The folder that holds models and libraries: `REVERIE_HOME`, else the
/// nearest `.reverie` at or above the working folder, else the user's cache.
pub fn home() -> PathBuf {
    if let Some(home) = env::var_os("REVERIE_HOME") {
        return PathBuf::from(home);
    }
    let here = env::current_dir().unwrap_or_default();
    let near = here.ancestors().map(|folder| folder.join(".reverie")).find(|folder| folder.join("models").is_dir());
    near.unwrap_or_else(|| {
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        cache.unwrap_or(here).join("reverie")
    })
}

/// Where models and libraries are looked for.
pub fn model_directory() -> ModelDirectory {
    let extra = env::var_os("REVERIE_LIBRARIES").map(|paths| env::split_paths(&paths).collect()).unwrap_or_default();
    ModelDirectory::new(home().join("models"), extra)
}

/// Looks up a variable; models ask for their keys by name.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where models are pulled from.
pub fn pull_options() -> PullOptions {
    PullOptions { hub_token: variable("HF_TOKEN"), ..PullOptions::default() }
}

/// The interpreter for functions whose settings name none: that of the active
/// virtual environment, otherwise the first `python3` in the path.
fn interpreter() -> String {
    let active = variable("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin").join("python"));
    active.filter(|path| path.exists()).map_or_else(|| "python3".to_owned(), |path| path.display().to_string())
}

/// The setup that libraries get instead of an environment.
pub fn setup(cancel: CancellationToken) -> Setup {
    crate::advice::give();
    // A Python program has set its own interpreter already.
    rag::python::set_interpreter(interpreter());
    Setup {
        store_options: store_options(),
        control: Control { cancel, ..Control::default() },
        ..Setup::new(model_directory(), Arc::new(variable))
    }
}

/// Options for object stores: variables such as `AWS_ACCESS_KEY_ID`; missing
/// ones are taken from the profile that the AWS tools share.
pub fn store_options() -> Vec<(String, String)> {
    let mut options = store::environment_options(env::vars());
    let home = || env::var_os("HOME").map(PathBuf::from);
    let text = |name: &str, file: &str| {
        let path = variable(name).map(PathBuf::from).or_else(|| Some(home()?.join(".aws").join(file)));
        path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    };
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let credentials = text("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    let profile = store::profile_options(&profile, &credentials, &text("AWS_CONFIG_FILE", "config"));
    // A key, its secret and its token must come from one source.
    let is_key = |name: &str| ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"].contains(&name);
    let has_key = options.iter().any(|(name, _)| is_key(name));
    let has_endpoint = options.iter().any(|(name, _)| name.starts_with("aws_endpoint"));
    let has_region = options.iter().any(|(name, _)| name == "aws_region" || name == "aws_default_region");
    options.extend(profile.into_iter().filter(|(name, _)| match name.as_str() {
        "aws_region" => !has_region,
        "aws_endpoint_url" => !has_endpoint,
        _ => !has_key,
    }));
    store::complete_options(&mut options);
    options
}

/// Reads an experiment file, and opens its store.
pub fn open(path: &Path, setup: Setup) -> Result<Session, Failure> {
    Ok(Session::open(read(path)?, setup)?)
}

/// A session, and the folder that it needs as long as it lives.
pub struct Opened {
    session: Session,
    _scratch: Option<Scratch>,
}

impl Deref for Opened {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// A folder of this process only, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Self(env::temp_dir().join(format!("reverie-{}", store::unique_token())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads an experiment file, and opens its store for a command that only shows
/// something: a store in a folder is not written to.
pub fn open_to_read(path: &Path, setup: Setup) -> Result<Opened, Failure> {
    let experiment = read(path)?;
    // Objects from an object store are cached beside the experiment.
    if experiment.store.contains("://") {
        return open_or_read(experiment, setup);
    }
    reading(experiment, setup)
}

/// Opens an experiment's store; if the store cannot be written to, only to read.
pub fn open_or_read(experiment: Experiment, setup: Setup) -> Result<Opened, Failure> {
    match Session::open(experiment.clone(), setup.clone()) {
        Err(lab::Error::Store(store::Error::File { source, .. }) | lab::Error::File { source, .. })
            if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            reading(experiment, setup)
        }
        session => Ok(Opened { session: session?, _scratch: None }),
    }
}

fn reading(experiment: Experiment, setup: Setup) -> Result<Opened, Failure> {
    let scratch = Scratch::new();
    let session = Session::open_to_read(experiment, setup, &scratch.0)?;
    Ok(Opened { session, _scratch: Some(scratch) })
}

/// Reads an experiment file.
pub fn read(path: &Path) -> Result<Experiment, Failure> {
    read_with(path, &[])
}

/// Reads an experiment file of which parts are replaced.
pub fn read_with(path: &Path, overrides: &[Override]) -> Result<Experiment, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!(
            "{}: {error}; name the experiment file with -f, or let `reverie init FOLDER` write one",
            path.display()
        ))
    })?;
    Experiment::parse_with(&text, folder_of(path), overrides)
        .map(|experiment| Experiment { file: Some(path.to_owned()), ..experiment })
        .map_err(|errors| mistakes(path, &errors, "the experiment; nothing was run"))
}

/// Reads the settings for scoring answers: a file, and the choices that replace parts of it.
pub fn read_scoring(path: Option<&Path>, choice: &Choice) -> Result<ScoringSpec, Failure> {
    let Some(path) = path else {
        return ScoringSpec::parse("", ".", choice).map_err(|errors| {
            let mistakes = errors.iter().map(|error| Mistake { message: error.message.clone(), ..Mistake::default() });
            Failure::listed(mistakes.collect(), errors.iter().map(|error| error.message.clone()), None)
        });
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--experiment {}: {error}", path.display())))?;
    ScoringSpec::parse(&text, folder_of(path), choice)
        .map_err(|errors| mistakes(path, &errors, "the file; nothing was scored"))
}

/// The folder that a file's relative paths start from.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_path_buf() }
}

/// All mistakes of a file, and of what replaces parts of it, each with its line.
fn mistakes(path: &Path, errors: &[SpecError], end: &str) -> Failure {
    let shown = errors.iter().map(|error| {
        let mark = format!("{}^", " ".repeat(error.column.saturating_sub(1)));
        let place = if error.place.is_none() { format!("{}:", path.display()) } else { String::new() };
        format!("{place}{error}\n    {}\n    {mark}", error.source_line)
    });
    let count = errors.len();
    let end = format!("{count} mistake{} in {end}", if count == 1 { "" } else { "s" });
    Failure::listed(errors.iter().map(|error| Mistake::of(path, error)).collect(), shown, Some(end))
}

/// Reads a file with one JSON object in each line; reports every faulty line.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(row) => rows.push(row),
            Err(error) => faults.push((i + 1, error.to_string())),
        }
    }
    if faults.is_empty() {
        return Ok(rows);
    }
    let file = path.display().to_string();
    let mistakes = faults.iter().map(|(line, fault)| Mistake::of_line(&file, *line, fault)).collect();
    Err(Failure::listed(mistakes, faults.iter().map(|(line, fault)| format!("{file}:{line}: {fault}")), None))
}

/// Who sees the progress.
pub fn watched() -> Watched {
    match (is_quiet(), std::io::stderr().is_terminal()) {
        (true, _) => Watched::Not,
        (false, true) => Watched::Terminal,
        (false, false) => Watched::Log,
    }
}
