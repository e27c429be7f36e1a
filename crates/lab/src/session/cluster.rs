//! What a session does for a cluster: joins it, and on a worker pulls the models that are missing there.

use super::{
    Session,
    used_databases::database_access,
    used_models::{identities, used_models},
};
use crate::{
    Error,
    engine::{Remote, WorkerSetup},
    error_chain, layout,
    parser_needs::{NO_LIBRARY, prepare_parsers},
    spec::{Experiment, RayEngineSpec},
};
use models::{Library, ModelConfig, ModelDirectory, PullOptions};
use std::{collections::BTreeSet, path::PathBuf};

/// The variables that hold the keys and addresses of the experiment's models, systems and databases.
fn key_variables(experiment: &Experiment) -> BTreeSet<String> {
    let used = used_models(experiment);
    let of = |config: &ModelConfig| {
        let settings = serde_json::to_value(config).unwrap_or_default();
        let mut open = vec![settings];
        let mut found = Vec::new();
        while let Some(value) = open.pop() {
            let serde_json::Value::Object(fields) = value else { continue };
            for (name, value) in fields {
                match value {
                    serde_json::Value::String(variable) if name == "api_key_env" => found.push(variable),
                    value => open.push(value),
                }
            }
        }
        found
    };
    let systems = experiment.systems.values().filter_map(|spec| spec.asked()?.settings().endpoint_access());
    let of_systems = systems.flat_map(|access| access.variables);
    let of_databases = database_access(experiment).into_iter().flat_map(|access| access.variables);
    let models = experiment.models.iter().filter(|(name, _)| used.contains(*name));
    models.flat_map(|(_, config)| of(config)).chain(of_systems).chain(of_databases).collect()
}

/// Joins the experiment's cluster.
pub(super) async fn join(session: &Session, ray: &RayEngineSpec) -> Result<Remote, Error> {
    let refuse = |reason: String| Error::Refused(vec![format!("engine.ray: {reason}")]);
    let connect = session.setup.cluster.connect.as_ref().ok_or_else(|| {
        refuse(format!(
            "this program cannot join the cluster at `{}`: use the `reverie` command of the Python package inside \
             the cluster, or the address of its Jobs API (http://HEAD:8265)",
            ray.address
        ))
    })?;
    let environment = ray.environment.iter().cloned().chain(key_variables(&session.experiment)).collect();
    let cluster = connect(&RayEngineSpec { environment, ..ray.clone() }).map_err(|error| refuse(error.to_string()))?;
    let mut mistakes = Vec::new();
    let pdf_library = prepare_parsers(&session.context.directory, &[], [], &mut mistakes)?;
    let identities = identities(session, &mut mistakes).await;
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let driver = store::unique_token();
    let rest = session.budget.rest();
    // A resumed run has a budget of its own, as on one machine.
    let budget = (!rest.is_empty()).then(|| (format!("{}-{driver}", session.experiment.name), rest));
    let (store, source) = (session.workspace.store(), &session.experiment.corpus.source);
    let setup = WorkerSetup {
        experiment: session.experiment.portable(),
        base: absolute(session.experiment.base.clone()),
        store: store.location().to_string(),
        source: if store::is_url(source) {
            source.clone()
        } else {
            absolute(session.experiment.path(source)).display().to_string()
        },
        probe: layout::probe(&driver),
        pdf_library,
        identities,
        budget,
        cores: 1,
    };
    // Each worker checks that it finds this object.
    store.put(&setup.probe, "seen").await?;
    Ok(Remote::new(cluster, store.clone(), setup, &session.experiment))
}

/// Pulls the missing files of the experiment's models. Returns the reasons of failed pulls; the
/// files that are still missing are found by the checks of the models.
pub(crate) async fn pull_missing(session: &Session, pdf_library: &str) -> Vec<String> {
    let Some(options) = &session.setup.cluster.pull else { return Vec::new() };
    let directory = &session.context.directory;
    let mut failed = Vec::new();
    let mut pulled = BTreeSet::new();
    if pdf_library != NO_LIBRARY && directory.library(Library::Pdfium).is_err() {
        failed.extend(pull(directory, Library::Pdfium.name(), options).await);
    }
    for name in used_models(&session.experiment) {
        let Some(config) = session.experiment.models.get(&name) else { continue };
        // A model may lack its files, and then the library that runs it.
        while let Err(models::Error::NotHere { model, .. }) = config.ready(&session.context).await
            && pulled.insert(model.clone())
        {
            failed.extend(pull(directory, &model, options).await);
        }
    }
    failed
}

/// Pulls a model, or says why that is not possible.
async fn pull(directory: &ModelDirectory, name: &str, options: &PullOptions) -> Option<String> {
    let error = directory.pull(name, options, &|_| {}).await.err()?;
    Some(format!("{name} is missing here and cannot be pulled: {}", error_chain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_given_the_keys_of_the_models_that_the_experiment_uses() {
        let model = |name: &str, variable: &str| {
            format!(
                "[models.{name}]\nchat.openai = {{ model = \"m\", base_url = \"http://h/v1\", api_key_env = \"{variable}\" }}\n"
            )
        };
        let variables = |rest: &str| {
            let text = format!(
                "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n{rest}{}{}{}",
                model("writer", "KEY"),
                model("second", "KEY"),
                model("idle", "OTHER")
            );
            let experiment = Experiment::parse(&text, ".").unwrap_or_else(|errors| panic!("{errors:?}"));
            key_variables(&experiment).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(variables(""), [""; 0], "no model is used");
        let both = "generator = [{ compact = { model = \"writer\" } }, { compact = { model = \"second\" } }]\n";
        assert_eq!(variables(both), ["KEY"], "once for both, and not that of the idle one");
        assert_eq!(variables("generator = { compact = { model = \"idle\" } }\n"), ["OTHER"]);
    }
}
