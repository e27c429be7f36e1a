//! `reverie run --address http://HEAD:8265`: the run as a job of a Ray
//! cluster. This machine packs the experiment, follows the log and stops the
//! job on Ctrl-C; it needs no Python and none of the models. The job's result
//! goes to standard output, as it would from a run on this machine, and the
//! rest of its log to standard error.

use crate::{
    command::CommandContext,
    environment,
    failure::CommandFailure,
    jobs::{JobLogReader, LogPart, RESULT_MARK, RayJob, RayJobsApi, RayJobsError},
};
use lab::{Experiment, RayEngineSpec};
use serde_json::json;
use std::{
    collections::BTreeMap,
    io::{Cursor, Write},
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use store::Key;
use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

/// The interval at which the job and its log are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a stopped job may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a cluster may take to accept a job.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(60);
/// If a cluster has not answered for this long, following the job is given up; the job continues.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(300);
/// The name of the experiment file in the job's folder.
const EXPERIMENT_FILE: &str = "experiment.toml";

/// Runs an experiment as a job; returns the code to exit with.
pub async fn run(
    cx: &CommandContext,
    experiment: &Experiment,
    ray: &RayEngineSpec,
    budget_usd: Option<f64>,
) -> Result<u8, CommandFailure> {
    let package = pack(experiment)?;
    let wheel = wheel(experiment, ray)?;
    let token = environment::environment_variable(&ray.token_env);
    if token.is_some() && models::lacks_tls(&ray.address) {
        cx.warn(format_args!(
            "the token in {} goes to {} without TLS, where everybody on the way can read it",
            ray.token_env, ray.address
        ));
    }
    let jobs = RayJobsApi::new(&ray.address, token).map_err(CommandFailure::runtime)?;

    let name = format!("_ray_pkg_{}.zip", &Key::of_bytes(&package).hex()[..16]);
    let working_dir = jobs.upload(&name, &package).await.map_err(CommandFailure::runtime)?;
    let mut wheels = Vec::new();
    if let Some((name, bytes)) = &wheel {
        cx.note(format_args!("wheel: {name} ({:.1} MB)", bytes.len() as f64 / 1e6));
        wheels.push(jobs.upload(name, bytes).await.map_err(CommandFailure::runtime)?);
    }
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let id = format!("reverie-{}-{started}", experiment.name);
    let json_flag = if cx.json { " --json" } else { "" };
    let budget = budget_usd.map(|usd| format!(" --budget-usd {usd}")).unwrap_or_default();
    let mark = format!("result-{}", &Key::of_bytes(id.as_bytes()).hex()[..24]);
    let mut environment = job_variables(ray)?;
    environment.insert(RESULT_MARK.to_owned(), mark.clone());
    let submission = json!({
        "submission_id": id,
        "entrypoint": format!("python -m reverie run -f {EXPERIMENT_FILE} --engine ray --address auto{budget}{json_flag}"),
        "metadata": { "reverie.experiment": experiment.name },
        // Ray's dashboard shows them: only the mark and the variables that the experiment names are sent.
        "runtime_env": { "working_dir": working_dir, "py_modules": wheels, "env_vars": environment },
    });
    // After Ctrl-C the job must be stopped, also if it was accepted and the cluster's
    // answer has not arrived yet: it would continue and cost money.
    cx.set_grace(STOP_TIMEOUT + SUBMIT_TIMEOUT + POLL_INTERVAL * 10);
    jobs.submit(&submission).await.map_err(CommandFailure::runtime)?;
    cx.note(format_args!("job {id} at {}", ray.address));
    let job = follow(cx, &jobs, &id, JobLogReader::new(mark)).await?;
    match (job.status.as_str(), job.driver_exit_code) {
        ("SUCCEEDED", _) => Ok(0),
        ("STOPPED", _) => Err(lab::Error::Interrupted.into()),
        // The job runs this same program, so its exit codes mean the same.
        (_, Some(code @ 2..=5)) => Ok(u8::try_from(code).unwrap_or(1)),
        _ => Err(CommandFailure::runtime(format!("the job failed: {}", job.message.unwrap_or_default()))),
    }
}

/// Shows the log as it grows, until the job is over, and then its result.
async fn follow(
    cx: &CommandContext,
    jobs: &RayJobsApi,
    id: &str,
    mut reader: JobLogReader,
) -> Result<RayJob, CommandFailure> {
    let mut shown = 0;
    let mut result = String::new();
    let mut stopping_since: Option<tokio::time::Instant> = None;
    let mut silent_since: Option<tokio::time::Instant> = None;
    loop {
        let polled = async { Ok::<_, RayJobsError>((jobs.job(id).await?, jobs.log(id).await?)) };
        let (job, log) = match polled.await {
            Ok(found) => found,
            Err(error) => {
                if silent_since.is_none() {
                    cx.note(format_args!("the job goes on, but cannot be looked at now: {}", error));
                }
                if cx.cancel.is_cancelled()
                    || silent_since.get_or_insert_with(tokio::time::Instant::now).elapsed() > SILENCE_TIMEOUT
                {
                    return Err(CommandFailure::runtime(format!(
                        "job {id} may still go on: its cluster does not answer ({}); look at it there, or stop it with \
                         `ray job stop {id}`",
                        error
                    )));
                }
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            }
        };
        silent_since = None;
        // Ray returns only whole logs, so a long one is read less often.
        let pause = POLL_INTERVAL + POLL_INTERVAL * u32::try_from(log.len() >> 20).unwrap_or(u32::MAX).min(29);
        // An incomplete line waits for its end.
        let end = if job.is_over() { log.len() } else { log.rfind('\n').map_or(0, |at| at + 1) };
        if let Some(new) = log.get(shown..end).filter(|new| !new.is_empty()) {
            for part in reader.read(new) {
                match part {
                    LogPart::Result(piece) => result.push_str(&piece),
                    LogPart::Log(line) => cx.note(line),
                }
            }
            shown = end;
        }
        if job.is_over() {
            if !result.is_empty() {
                cx.print(result.trim_end_matches('\n'));
            } else if job.status == "SUCCEEDED" {
                cx.note("the job's log has no result: is its reverie an older version?");
            }
            return Ok(job);
        }
        match stopping_since {
            None if cx.cancel.is_cancelled() => {
                cx.note("stopping the job");
                jobs.stop(id).await.map_err(CommandFailure::runtime)?;
                stopping_since = Some(tokio::time::Instant::now());
            }
            Some(since) if since.elapsed() > STOP_TIMEOUT => {
                return Err(CommandFailure::runtime(format!(
                    "job {id} was told to stop, but has not ended: look at it there"
                )));
            }
            _ => {}
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = cx.cancel.cancelled(), if stopping_since.is_none() => {}
        }
    }
}

/// The experiment file and its golden questions as an archive; equal content
/// gives equal archives.
fn pack(experiment: &Experiment) -> Result<Vec<u8>, CommandFailure> {
    let is_shared = |address: &str| store::is_url(address) || Path::new(address).is_absolute();
    let mut mistakes = Vec::new();
    for (what, address) in [("store", &experiment.store), ("corpus.source", &experiment.corpus.source)] {
        if !is_shared(address) {
            mistakes.push(format!(
                "  - {what}: `{address}` is a folder of this machine: for a job use an object store (s3://…), or the \
                 absolute path of a folder that all nodes share"
            ));
        }
    }
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    if let Some(dataset) =
        experiment.dataset.as_ref().filter(|dataset| dataset.rows.is_empty() && !is_shared(&dataset.path))
    {
        let inside =
            Path::new(&dataset.path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let path = experiment.path(&dataset.path);
        if !inside {
            mistakes.push(format!(
                "  - dataset.path: `{}` must be in the folder of the experiment file, an absolute path, or a URL",
                dataset.path
            ));
        } else if path.exists() {
            files.push((dataset.path.trim_start_matches("./").to_owned(), path));
        } else if dataset.generate.is_none() {
            mistakes.push(format!("  - dataset.path: there is no {}", path.display()));
        }
    }
    if !mistakes.is_empty() {
        return Err(CommandFailure::usage(format!("nothing was submitted, because:\n{}", mistakes.join("\n"))));
    }
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default());
    let mut add = |name: &str, bytes: &[u8]| {
        archive.start_file(name, options).map_err(CommandFailure::runtime)?;
        archive.write_all(bytes).map_err(CommandFailure::runtime)
    };
    add(EXPERIMENT_FILE, experiment.portable().as_bytes())?;
    for (name, path) in files {
        let bytes = std::fs::read(&path).map_err(CommandFailure::at(&path))?;
        add(&name, &bytes)?;
    }
    Ok(archive.finish().map_err(CommandFailure::runtime)?.into_inner())
}

/// The wheel under a name with its content's hash as a build tag, so that a
/// cluster never uses an older wheel instead.
fn wheel(experiment: &Experiment, ray: &RayEngineSpec) -> Result<Option<(String, Vec<u8>)>, CommandFailure> {
    let Some(path) = &ray.wheel else { return Ok(None) };
    let path = experiment.path(path);
    let refuse = |reason: String| CommandFailure::usage(format!("engine.ray.wheel: {}: {reason}", path.display()));
    let bytes = std::fs::read(&path).map_err(|error| refuse(error.to_string()))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let parts: Vec<&str> = name.split('-').collect();
    let [package, version, .., python, abi, platform] = parts.as_slice() else {
        return Err(refuse("this is no wheel's name".to_owned()));
    };
    if !platform.ends_with(".whl") {
        return Err(refuse("this is no wheel's name".to_owned()));
    }
    let hash = &Key::of_bytes(&bytes).hex()[..12];
    Ok(Some((format!("{package}-{version}-1{hash}-{python}-{abi}-{platform}"), bytes)))
}

/// The environment variables of the job, which `engine.ray.environment` names.
fn job_variables(ray: &RayEngineSpec) -> Result<BTreeMap<String, String>, CommandFailure> {
    let variable = |name: &String| {
        let missing = || CommandFailure::usage(format!("engine.ray.environment: the variable {name} is not set here"));
        Ok((name.clone(), environment::environment_variable(name).ok_or_else(missing)?))
    };
    ray.environment.iter().map(variable).collect()
}
