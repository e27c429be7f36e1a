//! The environment of the process: variables, the folder of models, the terminal, and
//! the files that a command line names.

use lab::{Control, Experiment, Override, ScoringChoice, ScoringSpec, Session, Setup, SpecError};
use models::{ModelDirectory, PullOptions};
use serde::de::DeserializeOwned;
use std::{
    env,
    io::{self, ErrorKind, IsTerminal},
    ops::Deref,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::failure::{CommandFailure, Mistake};

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

/// Who reads what is reported on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A person, at a terminal.
    Terminal,
    /// A log.
    Log,
    /// Nobody: progress is turned off.
    Nobody,
}

// Global, because a process runs one command line.
static COLOR: OnceLock<Color> = OnceLock::new();
static QUIET: AtomicBool = AtomicBool::new(false);

/// Sets when output is coloured, once for the process.
pub fn set_color(color: Color) {
    let _ = COLOR.set(color);
}

/// Whether text for this stream is coloured.
pub fn is_coloured(stream: &impl IsTerminal) -> bool {
    match COLOR.get().copied().unwrap_or_default() {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => stream.is_terminal() && environment_variable("NO_COLOR").is_none(),
    }
}

/// Sets whether progress and remarks are turned off.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether progress and remarks are turned off.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// The folder that holds models and libraries: `REVERIE_HOME`, else the
/// nearest `.reverie` with a folder `models` at or above the working folder, else the user's cache.
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

/// Creates a temporary folder for the files of a service's pipelines. Its name is
/// random, and only its owner can read it (mode 0700), whatever the umask is.
///
/// # Errors
/// If it cannot be created.
pub fn scratch_folder() -> io::Result<TempDir> {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new().prefix("reverie-serve-").permissions(std::fs::Permissions::from_mode(0o700)).tempdir()
}

/// The folders in which models and libraries are looked up.
pub fn model_directory() -> ModelDirectory {
    let extra = env::var_os("REVERIE_LIBRARIES").map(|paths| env::split_paths(&paths).collect()).unwrap_or_default();
    ModelDirectory::new(home().join("models"), extra)
}

/// Looks up an environment variable, such as a model's key. An empty one counts as
/// missing.
pub fn environment_variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The options for downloading models.
pub fn pull_options() -> PullOptions {
    PullOptions { hub_token: environment_variable("HF_TOKEN"), ..PullOptions::default() }
}

/// The Python interpreter for functions whose settings name none: that of the active
/// virtual environment, otherwise the first `python3` in the path.
fn interpreter() -> String {
    let active = environment_variable("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin").join("python"));
    active.filter(|path| path.exists()).map_or_else(|| "python3".to_owned(), |path| path.display().to_string())
}

/// The setup of a session: libraries get it instead of reading the environment.
pub fn setup(cancel: CancellationToken) -> Setup {
    crate::advice::install_advice();
    // Only the first call counts: a Python program has set its own interpreter already.
    rag::python::set_interpreter(interpreter());
    Setup {
        store_options: store_options(),
        control: Control { cancel, ..Control::default() },
        ..Setup::new(model_directory(), Arc::new(environment_variable))
    }
}

/// Options for object stores: variables such as `AWS_ACCESS_KEY_ID`; missing
/// ones are taken from the profile that the AWS tools share.
pub fn store_options() -> Vec<(String, String)> {
    let mut options = store::environment_options(env::vars());
    let home = || env::var_os("HOME").map(PathBuf::from);
    let text = |name: &str, file: &str| {
        let path = environment_variable(name).map(PathBuf::from).or_else(|| Some(home()?.join(".aws").join(file)));
        path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    };
    let profile = environment_variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
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
pub fn open(path: &Path, setup: Setup) -> Result<Session, CommandFailure> {
    Ok(Session::open(read(path)?, setup)?)
}

/// A session with its temporary folder, which is removed after the session.
pub struct OpenSession {
    session: Arc<Session>,
    _scratch: Option<ScratchFolder>,
}

impl Deref for OpenSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl OpenSession {
    /// The session, for tasks of this process. Its files are removed when this is dropped.
    pub fn shared(&self) -> Arc<Session> {
        self.session.clone()
    }
}

/// A temporary folder of this process, removed at the end.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new() -> Self {
        Self(env::temp_dir().join(format!("reverie-{}", store::unique_token())))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads an experiment file, and opens its store for a command that only shows
/// something: a store in a folder is opened read-only.
pub fn open_to_read(path: &Path, setup: Setup) -> Result<OpenSession, CommandFailure> {
    Ok(open_experiment_to_read(read(path)?, setup)?)
}

/// Opens the store of an experiment for a command that only shows something, like
/// [`open_to_read`], but takes an experiment that is already read.
///
/// # Errors
/// [`lab::Error::NoRun`] if the experiment's folder has no store; another error if the store
/// cannot be read.
pub fn open_experiment_to_read(experiment: Experiment, setup: Setup) -> Result<OpenSession, lab::Error> {
    // Objects from an object store are cached in the experiment's folder.
    if store::is_url(&experiment.store) {
        return open_maybe_read_only(experiment, setup);
    }
    open_read_only(experiment, setup)
}

/// Opens an experiment's store, read-only if it cannot be written to.
pub fn open_maybe_read_only(experiment: Experiment, setup: Setup) -> Result<OpenSession, lab::Error> {
    match Session::open(experiment.clone(), setup.clone()) {
        Err(lab::Error::Store(store::Error::File { source, .. }) | lab::Error::File { source, .. })
            if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            open_read_only(experiment, setup)
        }
        session => Ok(OpenSession { session: Arc::new(session?), _scratch: None }),
    }
}

/// Opens an experiment for a command that stores nothing: a store in a folder that does not exist is not made.
///
/// # Errors
/// If the store cannot be read.
pub fn open_without_storing(experiment: Experiment, setup: Setup) -> Result<OpenSession, lab::Error> {
    if store::is_url(&experiment.store) || experiment.path(&experiment.store).exists() {
        return open_maybe_read_only(experiment, setup);
    }
    let scratch = ScratchFolder::new();
    let experiment = Experiment { store: scratch.0.join("store").display().to_string(), ..experiment };
    Ok(OpenSession { session: Arc::new(Session::open(experiment, setup)?), _scratch: Some(scratch) })
}

fn open_read_only(experiment: Experiment, setup: Setup) -> Result<OpenSession, lab::Error> {
    let scratch = ScratchFolder::new();
    let session = Session::open_to_read(experiment, setup, &scratch.0)?;
    Ok(OpenSession { session: Arc::new(session), _scratch: Some(scratch) })
}

/// Reads an experiment file.
pub fn read(path: &Path) -> Result<Experiment, CommandFailure> {
    read_with(path, &[])
}

/// Reads an experiment file with overrides.
pub fn read_with(path: &Path, overrides: &[Override]) -> Result<Experiment, CommandFailure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandFailure::usage(format!(
            "{}: {error}; name the experiment file with -f, or let `reverie init FOLDER` write one",
            path.display()
        ))
    })?;
    Experiment::parse_with(&text, folder_of(path), overrides)
        .map(|experiment| Experiment { file: Some(path.to_owned()), ..experiment })
        .map_err(|errors| list_mistakes(path, &errors, "the experiment; nothing was run"))
}

/// Reads the settings for scoring answers: a file, and the choices that override it.
pub fn read_scoring(path: Option<&Path>, choice: &ScoringChoice) -> Result<ScoringSpec, CommandFailure> {
    let Some(path) = path else {
        return ScoringSpec::parse("", ".", choice).map_err(|errors| {
            let mistakes = errors.iter().map(|error| Mistake { message: error.message.clone(), ..Mistake::default() });
            CommandFailure::with_mistakes(mistakes.collect(), errors.iter().map(|error| error.message.clone()), None)
        });
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| CommandFailure::usage(format!("--experiment {}: {error}", path.display())))?;
    ScoringSpec::parse(&text, folder_of(path), choice)
        .map_err(|errors| list_mistakes(path, &errors, "the file; nothing was scored"))
}

/// The folder that a file's relative paths start from.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_path_buf() }
}

/// All mistakes of a file and its overrides, each with its line.
fn list_mistakes(path: &Path, errors: &[SpecError], end: &str) -> CommandFailure {
    let shown = errors.iter().map(|error| {
        let mark = format!("{}^", " ".repeat(error.column.saturating_sub(1)));
        // `error.place` is the override that has the mistake; without one, the mistake is in the file.
        let place = if error.place.is_none() { format!("{}:", path.display()) } else { String::new() };
        format!("{place}{error}\n    {}\n    {mark}", error.source_line)
    });
    let count = errors.len();
    let end = format!("{count} mistake{} in {end}", if count == 1 { "" } else { "s" });
    CommandFailure::with_mistakes(errors.iter().map(|error| Mistake::of(path, error)).collect(), shown, Some(end))
}

/// Reads a file with one JSON object in each line; reports every faulty line.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, CommandFailure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| CommandFailure::usage(format!("{}: {error}", path.display())))?;
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
    Err(CommandFailure::with_mistakes(
        mistakes,
        faults.iter().map(|(line, fault)| format!("{file}:{line}: {fault}")),
        None,
    ))
}

/// Who reads the progress.
pub fn audience() -> Audience {
    match (is_quiet(), std::io::stderr().is_terminal()) {
        (true, _) => Audience::Nobody,
        (false, true) => Audience::Terminal,
        (false, false) => Audience::Log,
    }
}
