//! The environment of the process: the folder of models, variables, and whether
//! a person watches standard error.

use lab::{Choice, Control, Experiment, Override, ScoringSpec, Session, Setup, SpecError};
use models::{ModelDirectory, PullOptions};
use opentelemetry_sdk::trace::Sampler;
use reqwest::Url;
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
    time::Duration,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{
    failure::{Failure, Mistake},
    traces::TraceSettings,
};

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

/// Creates a temporary folder for the files of a service's pipelines. Its name is
/// random, and only its owner can read it (mode 0700), whatever the umask is.
///
/// # Errors
/// If it cannot be made.
pub fn scratch_folder() -> io::Result<TempDir> {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new().prefix("reverie-serve-").permissions(std::fs::Permissions::from_mode(0o700)).tempdir()
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

/// Where spans go, by OpenTelemetry's variables and the flag of the command
/// line, which replaces the address; none where neither asks for them.
///
/// # Errors
/// If an address is none.
pub fn traces(flag: Option<&str>) -> Result<Option<TraceSettings>, String> {
    trace_settings(flag, &variable)
}

/// The same, with variables from anywhere. Source: "OpenTelemetry Environment
/// Variable Specification" and "OpenTelemetry Protocol Exporter".
fn trace_settings(
    flag: Option<&str>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<TraceSettings>, String> {
    let is = |name: &str, value: &str| variable(name).is_some_and(|set| set.eq_ignore_ascii_case(value));
    if flag.is_none() && (is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none")) {
        return Ok(None);
    }
    let of_traces = |name: &str| {
        let pair = [format!("OTEL_EXPORTER_OTLP_TRACES_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
        pair.into_iter().find_map(|name| variable(&name).map(|value| (name, value)))
    };
    let (from, address) = match flag {
        Some(url) => ("--traces".to_owned(), url.to_owned()),
        None => match of_traces("ENDPOINT") {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    let endpoint = Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let mut endpoint =
        endpoint.ok_or_else(|| format!("{from}: `{address}` is no address such as http://localhost:4318"))?;
    // The address of a collector, unless it is said to be that for traces.
    if from != "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" && !endpoint.path().ends_with("/v1/traces") {
        let path = format!("{}/v1/traces", endpoint.path().trim_end_matches('/'));
        endpoint.set_path(&path);
    }
    if let Some((name, protocol)) = of_traces("PROTOCOL")
        && protocol != "http/protobuf"
    {
        return Err(format!("{name}: `{protocol}` is not spoken here; `http/protobuf` is, mostly at port 4318"));
    }
    let share = || {
        let share = variable("OTEL_TRACES_SAMPLER_ARG").unwrap_or_else(|| "1".to_owned());
        let number = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        number.ok_or_else(|| format!("OTEL_TRACES_SAMPLER_ARG: `{share}` is no share from 0 to 1"))
    };
    let under = |root: Sampler| Sampler::ParentBased(Box::new(root));
    let sampler = match variable("OTEL_TRACES_SAMPLER").as_deref() {
        None | Some("parentbased_always_on") => under(Sampler::AlwaysOn),
        Some("parentbased_always_off") => under(Sampler::AlwaysOff),
        Some("parentbased_traceidratio") => under(Sampler::TraceIdRatioBased(share()?)),
        Some("always_on") => Sampler::AlwaysOn,
        Some("always_off") => Sampler::AlwaysOff,
        Some("traceidratio") => Sampler::TraceIdRatioBased(share()?),
        Some(other) => {
            return Err(format!(
                "OTEL_TRACES_SAMPLER: `{other}` is not one of always_on, always_off, traceidratio, and these behind \
                 parentbased_"
            ));
        }
    };
    let mut resource = pairs(&variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
    if let Some(name) = variable("OTEL_SERVICE_NAME") {
        resource.retain(|(key, _)| key != "service.name");
        resource.push(("service.name".to_owned(), name));
    }
    for (key, value) in [("service.name", "reverie"), ("service.version", env!("CARGO_PKG_VERSION"))] {
        if !resource.iter().any(|(known, _)| known == key) {
            resource.push((key.to_owned(), value.to_owned()));
        }
    }
    let timeout = of_traces("TIMEOUT").and_then(|(_, text)| text.parse().ok()).unwrap_or(10_000);
    Ok(Some(TraceSettings {
        endpoint,
        headers: of_traces("HEADERS").map(|(_, text)| pairs(&text)).unwrap_or_default(),
        timeout: Duration::from_millis(timeout),
        sampler,
        resource,
        content: is("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
    }))
}

/// `name=value,…`, with values in percent-encoding.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), decoded(value.trim()))).collect()
}

/// Without percent-encoding; what is none stays as it is.
fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Into::into)
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
    if store::is_url(&experiment.store) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flag: Option<&str>, set: &[(&str, &str)]) -> Result<Option<TraceSettings>, String> {
        let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        trace_settings(flag, &variable)
    }

    fn endpoint(flag: Option<&str>, set: &[(&str, &str)]) -> Option<String> {
        read(flag, set).unwrap().map(|settings| settings.endpoint.to_string())
    }

    const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

    #[test]
    fn nothing_is_traced_unless_somebody_says_where_to() {
        assert_eq!(endpoint(None, &[("OTEL_SERVICE_NAME", "manuals")]), None);
        for off in [("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(endpoint(None, &[BASE, off]), None);
        }
    }

    #[test]
    fn the_address_is_that_of_the_collector_or_of_its_traces() {
        let at = |flag, set: &[(&str, &str)]| endpoint(flag, set).unwrap();
        assert_eq!(at(None, &[BASE]), "http://collector:4318/v1/traces");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a.example/in");
        assert_eq!(at(None, &[BASE, own]), "https://a.example/in");
        assert_eq!(at(Some("http://b:1/otel/"), &[BASE, own]), "http://b:1/otel/v1/traces");
        assert_eq!(at(Some("http://b:1/v1/traces"), &[]), "http://b:1/v1/traces");
        for (flag, set) in
            [(Some("localhost:4318"), [].as_slice()), (None, [("OTEL_EXPORTER_OTLP_ENDPOINT", "a")].as_slice())]
        {
            assert!(read(flag, set).unwrap_err().contains("is no address"));
        }
    }

    #[test]
    fn headers_and_attributes_are_pairs_in_percent_encoding() {
        let settings = read(
            None,
            &[
                BASE,
                ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20YTpi==, x-tenant = a%2Cb,"),
                ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=100%"),
                ("OTEL_SERVICE_NAME", "manuals"),
            ],
        );
        let settings = settings.unwrap().unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(settings.headers, [pair("authorization", "Basic YTpi=="), pair("x-tenant", "a,b")]);
        assert_eq!(
            settings.resource[..2],
            [pair("deployment.environment.name", "100%"), pair("service.name", "manuals")]
        );
        assert!(!settings.content);
    }

    #[test]
    fn a_wrong_setting_is_told_instead_of_being_traced_otherwise() {
        for (set, said) in [
            (("OTEL_TRACES_SAMPLER", "some"), "`some` is not one of"),
            (("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "`grpc` is not spoken here"),
        ] {
            assert!(read(None, &[BASE, set]).unwrap_err().contains(said));
        }
        let ratio = ("OTEL_TRACES_SAMPLER", "traceidratio");
        assert!(read(None, &[BASE, ratio, ("OTEL_TRACES_SAMPLER_ARG", "7")]).unwrap_err().contains("from 0 to 1"));
        let settings = read(None, &[BASE, ratio, ("OTEL_TRACES_SAMPLER_ARG", "0.25")]).unwrap().unwrap();
        assert!(matches!(settings.sampler, Sampler::TraceIdRatioBased(share) if share == 0.25));
    }
}
