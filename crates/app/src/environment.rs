//! The environment of the process: the folder of models, variables, and whether
//! a person watches standard error.

use lab::{Choice, Control, Experiment, ScoringSpec, Session, Setup, SpecError};
use models::{ModelDirectory, PullOptions};
use serde::de::DeserializeOwned;
use std::{
    env,
    io::{ErrorKind, IsTerminal},
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_util::sync::CancellationToken;

use crate::cli::Failure;

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
        return open_or_read(path, setup);
    }
    reading(experiment, setup)
}

/// Reads an experiment file, and opens its store; if the store cannot be
/// written to, only to read.
pub fn open_or_read(path: &Path, setup: Setup) -> Result<Opened, Failure> {
    match Session::open(read(path)?, setup.clone()) {
        Err(lab::Error::Store(store::Error::File { source, .. }) | lab::Error::File { source, .. })
            if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            reading(read(path)?, setup)
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
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("{}: {error}; `reverie init FOLDER` writes an experiment file", path.display()))
    })?;
    Experiment::parse(&text, folder_of(path))
        .map_err(|errors| mistakes(path, &errors, "experiment file; nothing was run"))
}

/// Reads the settings for scoring answers: a file, and the choices that replace parts of it.
pub fn read_scoring(path: Option<&Path>, choice: &Choice) -> Result<ScoringSpec, Failure> {
    let Some(path) = path else {
        return ScoringSpec::parse("", ".", choice).map_err(|errors| {
            let messages: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
            Failure::usage(messages.join("\n"))
        });
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))?;
    ScoringSpec::parse(&text, folder_of(path), choice)
        .map_err(|errors| mistakes(path, &errors, "file; nothing was scored"))
}

/// The folder that a file's relative paths start from.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_path_buf() }
}

/// All mistakes of a file, each with its line.
fn mistakes(path: &Path, errors: &[SpecError], end: &str) -> Failure {
    let shown = errors.iter().map(|error| {
        let mark = format!("{}^", " ".repeat(error.column.saturating_sub(1)));
        format!("{}:{error}\n    {}\n    {mark}", path.display(), error.source_line)
    });
    let (shown, count) = (shown.collect::<Vec<_>>().join("\n"), errors.len());
    Failure::usage(format!("{shown}\n{count} mistake{} in the {end}", if count == 1 { "" } else { "s" }))
}

/// Reads a file with one JSON object in each line; reports every faulty line.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(row) => rows.push(row),
            Err(error) => faults.push(format!("{}:{}: {error}", path.display(), i + 1)),
        }
    }
    if faults.is_empty() { Ok(rows) } else { Err(Failure::usage(faults.join("\n"))) }
}

/// Whether a person watches standard error.
pub fn watched() -> bool {
    std::io::stderr().is_terminal()
}
