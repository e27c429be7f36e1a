//! `reverie serve`: a pipeline behind HTTP.

mod bundle_places;
mod descriptors;

use crate::{
    audit::AuditLog,
    command::{CommandContext, ExperimentFile, RunChoice},
    environment,
    failure::CommandFailure,
    key_watch::WatchedKeys,
    option_values::{parse_dollars, parse_seconds, parse_seconds_or_zero, parse_share},
    traces::{TraceSettings, Traces},
};
use ::serve::{
    DrainOutcome, HttpService, LineLog, PageOrigin, SampleSettings, ServedPipeline, ServiceSettings, StopSignals,
};
use bundle_places::BundlePlaces;
use descriptors::connections;
use futures::FutureExt;
use lab::VersionPlace;
use serde_json::json;
use std::{
    any::Any,
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// Answer questions over HTTP, with sources, in OpenAI's API and in Reverie's own.
///
/// Serves a bundle, the versions that `reverie watch` makes, or a trial of the last run: the winner, or the first of the leaderboard, if none is named. Stops on
/// Ctrl-C or SIGTERM, after the requests that were begun have ended. Without keys it
/// answers only to this machine. A bundle is code: serve only those of people whom you would let run a program here.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie serve                                    # the winner of the last run, at http://127.0.0.1:8080
  reverie serve bundles/manuals-1 --listen 0.0.0.0:8080 --keys keys.toml
  reverie serve s3://bucket/manuals-1 --fallback s3://bucket/manuals-small
  reverie serve live/manuals                       # follows the documents, as `reverie watch` does
  curl 'http://127.0.0.1:8080/rag/answer?query=What+is+a+virtual+package'

GET /docs lists all routes. `reverie keys new NAME` makes a key.")]
pub struct ServeArguments {
    /// A bundle that `reverie promote` made, or a place of versions that `reverie watch` makes: a folder, or a URL such as
    /// s3://bucket/manuals-1.
    #[arg(value_hint = clap::ValueHint::AnyPath, conflicts_with_all = ["trial", "run"])]
    bundle: Option<String>,
    /// A trial of the run; default: the winner, else the first of the leaderboard.
    #[arg(long)]
    trial: Option<String>,
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Who may ask: a file that `reverie keys new` wrote.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    keys: Option<PathBuf>,
    /// Let everybody who reaches the address ask without a key. `/metrics` and `/admin` need a key of --keys all the same.
    #[arg(long)]
    open_to_all: bool,
    /// Let programs on this machine read `/metrics` and use `/admin` without a key. Not for a service behind a proxy.
    #[arg(long)]
    admin_without_key: bool,
    /// Bundles that `/admin` may open: those at or below this folder or URL; may be given more than once. All by default.
    #[arg(long, value_name = "PREFIX")]
    bundles_from: Vec<String>,
    /// Let bundles that `/admin` opens bring functions of Python, which are code.
    #[arg(long)]
    allow_functions: bool,
    /// Let bundles that `/admin` opens use other model addresses, variables, headers and fields than the bundles
    /// of this command line.
    #[arg(long)]
    allow_other_models: bool,
    /// The address that people use, for links to sources, such as https://manuals.example.com.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// The origin of another web page that may ask, such as https://intranet.example.com, or `*` for all (with --keys
    /// only); may be given more than once.
    #[arg(long, value_name = "ORIGIN", value_parser = PageOrigin::parse)]
    allow_origin: Vec<PageOrigin>,
    /// What answers while the chat model fails: a trial of the same run, or another bundle.
    #[arg(long, value_name = "TRIAL_OR_BUNDLE")]
    fallback: Option<String>,
    /// Keep people's feedback on answers in this file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    feedback: Option<PathBuf>,
    /// A bundle that may replace what is served: it answers a share of the questions.
    #[arg(long, value_name = "BUNDLE")]
    candidate: Option<String>,
    /// The share of questions that the candidate is asked.
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = parse_share, requires = "candidate")]
    candidate_share: f64,
    /// Ask the candidate in addition to what is served, and compare: its answers are shown to nobody.
    #[arg(long, requires = "candidate")]
    shadow: bool,
    /// Cache answers in up to this many megabytes of memory: the same question gets the same answer again.
    #[arg(long, value_name = "MB", default_value = "0")]
    cache_answers: u64,
    /// Score some answers by a metric that needs no reference, and watch for a fall below what the run found; may be
    /// given more than once. `all` takes those of the experiment.
    #[arg(long, value_name = "METRIC")]
    score: Vec<String>,
    /// A judge for --score instead of the experiment's; may be given more than once.
    #[arg(long, value_name = "MODEL", requires = "score")]
    judge: Vec<String>,
    /// What --score may cost until the service ends, in US dollars. Needed where a judge costs money.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars, requires = "score")]
    score_budget_usd: Option<f64>,
    /// Keep some questions with their answers in this file, one JSON object in a line, without e-mail addresses and
    /// telephone, card and account numbers: `reverie score FILE` scores them.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    traffic: Option<PathBuf>,
    /// The share of questions that --traffic keeps and --score scores.
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = parse_share)]
    traffic_share: f64,
    /// Send traces to this collector of OpenTelemetry, such as http://localhost:4318. OpenTelemetry's own variables do the
    /// same: OTEL_EXPORTER_OTLP_ENDPOINT and others. Texts of questions and answers are sent only with
    /// OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true.
    #[arg(long, value_name = "URL")]
    traces: Option<String>,
    /// Certificates for TLS (PEM), the server's own first.
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = clap::ValueHint::FilePath)]
    tls_certificate: Option<PathBuf>,
    /// The key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_certificate", value_hint = clap::ValueHint::FilePath)]
    tls_key: Option<PathBuf>,
    /// How many answers are written at once.
    #[arg(long, value_name = "N", default_value = "64")]
    answers_at_once: NonZeroUsize,
    /// How many questions may wait; more are refused with 503.
    #[arg(long, value_name = "N", default_value = "256")]
    queue: usize,
    /// How many searches, embeddings and rankings run at once; as many may wait.
    #[arg(long, value_name = "N", default_value = "256")]
    searches_at_once: NonZeroUsize,
    /// The longest time from a question to the end of its answer, including its wait in the queue and the fallback's
    /// attempt.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = parse_seconds)]
    deadline: Duration,
    /// The longest time from when the passages are found to the answer's first word.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    first_token: Duration,
    /// How long the service goes on answering after SIGTERM, while `/health/ready` says that it is not ready, so that
    /// load balancers stop sending requests before connections are refused. By default 5, and 0 if it listens to this machine only.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds_or_zero)]
    lame_duck: Option<Duration>,
    /// How long requests may take to end after the service was told to stop.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    drain: Duration,
    #[command(flatten)]
    file: ExperimentFile,
    #[command(flatten)]
    run: RunChoice,
}

pub async fn run(cx: &CommandContext, arguments: ServeArguments) -> Result<u8, CommandFailure> {
    let keys = arguments.keys.as_deref().map(WatchedKeys::read).transpose()?;
    if keys.is_none() && !arguments.open_to_all && !arguments.listen.ip().is_loopback() {
        return Err(CommandFailure::usage(format!(
            "--listen {}: others than this machine could ask, and there are no keys; add --keys FILE (`reverie keys new` \
             makes one), or --open-to-all if everybody may ask",
            arguments.listen
        )));
    }
    let conflicting_flags = [("--keys", keys.is_some()), ("--public-url", arguments.public_url.is_some())];
    if let Some((flag, _)) =
        conflicting_flags.into_iter().find(|(_, is_given)| arguments.admin_without_key && *is_given)
    {
        return Err(CommandFailure::usage(format!(
            "--admin-without-key with {flag}: what comes through a proxy on this machine may look like a program on it; give \
             programs a key with the scope `admin` (`reverie keys new NAME --scope admin`)"
        )));
    }
    if keys.is_none() && arguments.allow_origin.contains(&PageOrigin::Any) {
        return Err(CommandFailure::usage(
            "--allow-origin '*': without keys, any web page could make a visitor's browser ask and pay; add --keys FILE, or \
             name the origins",
        ));
    }
    let tls = match (&arguments.tls_certificate, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Some(::serve::tls_acceptor(certificate, key).map_err(CommandFailure::usage)?),
        _ => None,
    };
    let log = |flag: &str, path: Option<&Path>| {
        let open = |path: &Path| {
            LineLog::open(path).map_err(|error| CommandFailure::usage(format!("{flag} {}: {error}", path.display())))
        };
        path.map(open).transpose()
    };
    let feedback = log("--feedback", arguments.feedback.as_deref())?;
    let traffic = log("--traffic", arguments.traffic.as_deref())?;
    let traces = traces(cx, arguments.traces.as_deref())?;
    // Ctrl-C drains the service, so it must not cancel the calls of models.
    let first_token = arguments.first_token;
    let setup = || {
        let mut setup = environment::setup(CancellationToken::new());
        setup.control.retry = Some(::serve::interactive_retry_policy(first_token));
        setup.control.forgets_answers = true;
        setup
    };
    let cache = environment::home().join("bundles");
    let scratch_folder = environment::scratch_folder().map_err(CommandFailure::runtime)?;
    let scratch = scratch_folder.path().to_owned();
    let OpenedPipelines { served, fallback, versions } = open(cx, &arguments, &setup, &cache, &scratch).await?;
    let candidate = match &arguments.candidate {
        Some(address) => Some(ServedPipeline::open_bundle(address, setup(), &cache, &scratch).await?),
        None => None,
    };
    if candidate.as_ref().is_some_and(|candidate| served.writes_answers() && !candidate.writes_answers()) {
        return Err(CommandFailure::usage(
            "--candidate: this bundle has no generator, and what is served writes answers; promote a trial that answers",
        ));
    }
    let scorer = scorer(&arguments, &served, setup()).await?;
    for note in served.notes() {
        cx.note(format_args!("note: {note}"));
    }
    let listener = TcpListener::bind(arguments.listen)
        .await
        .map_err(|error| CommandFailure::runtime(format!("--listen {}: {error}", arguments.listen)))?;
    let address = listener.local_addr().map_err(CommandFailure::runtime)?;
    let url = format!("{}://{address}", if tls.is_some() { "https" } else { "http" });
    // No load balancer stands before a service that only this machine reaches.
    let lame_duck = Duration::from_secs(if arguments.listen.ip().is_loopback() { 0 } else { 5 });
    let connections = connections(cx, arguments.answers_at_once.get() + arguments.searches_at_once.get());
    let settings = ServiceSettings {
        keys: keys.as_ref().map(|keys| keys.keys.clone()),
        open_to_all: arguments.open_to_all,
        admin_without_key: arguments.admin_without_key,
        public_url: arguments.public_url.clone(),
        connections,
        origins: arguments.allow_origin.clone(),
        sample: SampleSettings { log: traffic, scorer, share: arguments.traffic_share },
        cache_bytes: arguments.cache_answers.saturating_mul(1_000_000),
        answers_at_once: arguments.answers_at_once.get(),
        queue: arguments.queue,
        searches_at_once: arguments.searches_at_once.get(),
        deadline: arguments.deadline,
        first_token: arguments.first_token,
        lame_duck: arguments.lame_duck.unwrap_or(lame_duck),
        drain: arguments.drain,
        parent: traces.as_ref().map(|_| crate::traces::parent_span()),
        spans: traces.as_ref().map(|traces| traces.spans.clone()),
        ..ServiceSettings::default()
    };
    let (name, version) = (served.name.clone(), served.version.clone());
    let (opener, follower) = {
        let (setup, cache, scratch) = (setup(), cache.clone(), scratch.clone());
        let places = BundlePlaces::new(&arguments.bundles_from)?;
        // Bundles on the command line are the operator's own choice.
        let named = [fallback.as_ref(), candidate.as_ref()].into_iter().flatten();
        let mut allowed = named.fold(served.reach.clone(), |reach, served| reach.and(&served.reach));
        if arguments.allow_functions {
            allowed = allowed.with_functions();
        }
        if arguments.allow_other_models {
            allowed = allowed.with_all_models();
        }
        let open = Arc::new(move |address: String| {
            let (setup, cache, scratch, allowed) = (setup.clone(), cache.clone(), scratch.clone(), allowed.clone());
            async move { ServedPipeline::open_restricted_bundle(&address, setup, &cache, &scratch, &allowed).await }
                .boxed()
        });
        let follower = open.clone();
        let opener = Arc::new(move |address: String| {
            let (place, open) = (places.resolve(&address), open.clone());
            async move { open(place.map_err(|error| lab::Error::Unusable(error.to_string()))?).await }.boxed()
        });
        (opener, follower)
    };
    let audit = AuditLog::begin(std::io::stderr()).map_err(CommandFailure::runtime)?;
    let auditing = audit.clone();
    let _watching = keys.map(|keys| AbortOnDropHandle::new(tokio::spawn(keys.watch(audit.clone()))));
    let service = HttpService::new(served, settings)
        .with_fallback(fallback)
        .with_candidate(candidate, arguments.candidate_share, arguments.shadow)
        .with_admin(opener, Arc::new(move |event: &serde_json::Value| auditing.record(event)))
        .with_feedback(feedback);
    let service = match versions {
        Some((place, version)) => service.with_versions(place, version, follower),
        None => service,
    };
    // Sending the last spans takes time too.
    let after = if traces.is_some() { 10 } else { 5 };
    cx.set_grace(arguments.drain + Duration::from_secs(after));
    let (json, shown) = (cx.json, url.clone());
    let on_ready = move || {
        use std::io::Write;
        let line = match json {
            true => json!({ "url": shown, "name": name, "version": version }).to_string(),
            false => format!("serving {name} ({version}) at {shown}"),
        };
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{}", crate::render::visible(&line)).and_then(|()| out.flush());
    };
    cx.note(format_args!("{url} is getting ready"));
    let drained = service.run(listener, tls, on_ready, stop(&cx.cancel)).await;
    if let Some(traces) = traces {
        traces.end().await;
    }
    audit.end();
    match drained.map_err(CommandFailure::runtime)? {
        DrainOutcome::Complete => Ok(0),
        DrainOutcome::CutOff => Err(CommandFailure::runtime(format!(
            "requests that took longer than --drain {} s were cut off",
            arguments.drain.as_secs_f64()
        ))),
    }
}

/// Starts to send spans, if an option or a variable asks for it.
fn traces(cx: &CommandContext, flag: Option<&str>) -> Result<Option<Traces>, CommandFailure> {
    let Some(settings) =
        TraceSettings::read(flag, &environment::environment_variable).map_err(CommandFailure::usage)?
    else {
        return Ok(None);
    };
    let content = if settings.content { "; texts of questions, passages and answers are in them" } else { "" };
    let host = settings.endpoint.host_str().unwrap_or_default();
    cx.note(format_args!("traces go to {host}{content}"));
    if !settings.headers.is_empty() && ::models::lacks_tls(settings.endpoint.as_str()) {
        cx.warn(format_args!(
            "the headers of traces, which may hold a key, go to {host} without TLS, where everybody on the way can read \
             them"
        ));
    }
    let warn = Arc::new(|text: String| {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "{}", crate::render::visible(&text));
    });
    Ok(Some(Traces::start(settings, warn).map_err(CommandFailure::usage)?))
}

/// Ctrl-C begins to drain the service at once, SIGTERM after the lame-duck time.
fn stop(ctrl_c: &CancellationToken) -> StopSignals {
    let stop = StopSignals { now: ctrl_c.child_token(), after_lame_duck: CancellationToken::new() };
    super::cancel_on_sigterm(stop.after_lame_duck.clone());
    stop
}

/// What a service begins with.
struct OpenedPipelines {
    served: ServedPipeline,
    fallback: Option<ServedPipeline>,
    /// The place whose versions are served, and the version that is now.
    versions: Option<(VersionPlace, String)>,
}

/// Opens the pipeline that answers, and its fallback.
async fn open(
    cx: &CommandContext,
    arguments: &ServeArguments,
    setup: &dyn Fn() -> lab::Setup,
    cache: &Path,
    scratch: &Path,
) -> Result<OpenedPipelines, CommandFailure> {
    let bundle = async |address: &str| ServedPipeline::open_bundle(address, setup(), cache, scratch).await;
    if let Some(address) = &arguments.bundle {
        let versions = VersionPlace::open_to_read(address, &setup()).await?;
        let versions = versions.map(|(place, current)| (place, current.version));
        let current = versions.as_ref().map(|(place, version)| place.bundle(version));
        let served = bundle(current.as_ref().unwrap_or(address)).await?;
        let fallback = match &arguments.fallback {
            Some(address) => Some(bundle(address).await?),
            None => None,
        };
        return Ok(OpenedPipelines { served, fallback, versions });
    }
    let session = environment::open_maybe_read_only(environment::read(&arguments.file.experiment)?, setup())?;
    let record = arguments.run.record(cx, &session).await?;
    let answering = record.answering(arguments.trial.as_deref())?;
    if let Some(note) = &answering.note {
        cx.note(note);
    }
    let session = Arc::new(session);
    let keep: Arc<dyn Any + Send + Sync> = session.clone();
    let served = ServedPipeline::open_run(&session, &record, &answering.trial, keep.clone()).await?;
    let fallback = match &arguments.fallback {
        Some(address) if store::is_url(address) || lab::Bundle::is_at(Path::new(address)) => {
            Some(bundle(address).await?)
        }
        Some(trial) => Some(ServedPipeline::open_run(&session, &record, trial, keep).await?),
        None => None,
    };
    Ok(OpenedPipelines { served, fallback, versions: None })
}

/// The scorer of sampled answers, if `--score` is given.
async fn scorer(
    arguments: &ServeArguments,
    served: &ServedPipeline,
    setup: lab::Setup,
) -> Result<Option<Arc<lab::Scorer>>, CommandFailure> {
    if arguments.score.is_empty() {
        return Ok(None);
    }
    let all = arguments.score.iter().any(|name| name == "all");
    let metrics = if all { Vec::new() } else { arguments.score.clone() };
    let choice = lab::ScoringChoice { metrics, judges: arguments.judge.clone(), embedder: None };
    // Nobody waits for a judge, so it may take longer and retry more often.
    let mut setup = lab::Setup { budget_usd: arguments.score_budget_usd, ..setup };
    setup.control.retry = None;
    Ok(Some(Arc::new(lab::Scorer::of_service(&served.experiment, &choice, setup).await?)))
}
