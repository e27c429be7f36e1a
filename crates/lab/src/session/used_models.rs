//! Which models an experiment uses, and whether they can be used here.

use super::Session;
use crate::{Error, budget, error_chain, spec::Experiment};
use models::Identity;
use rag::Axis;
use std::collections::{BTreeMap, BTreeSet};

/// The names of the models that an experiment uses.
pub(crate) fn used_models(experiment: &Experiment) -> BTreeSet<String> {
    let space = &experiment.space;
    let generate = experiment.dataset.as_ref().and_then(|dataset| dataset.generate.as_ref());
    let values = Axis::ALL.iter().flat_map(|&axis| space.on(axis));
    let asked = values.flat_map(|value| value.models());
    let named = asked.chain(generate.map(|generate| generate.model.as_str()));
    named.chain(experiment.evaluate.models()).map(str::to_owned).collect()
}

/// The identity of each model that the experiment uses; a model that cannot be used is a mistake.
pub(crate) async fn identities(session: &Session, mistakes: &mut Vec<String>) -> BTreeMap<String, Identity> {
    let mut identities = BTreeMap::new();
    for name in used_models(&session.experiment) {
        let Some(config) = session.experiment.models.get(&name) else { continue };
        let ready = config.ready(session.context()).await;
        match ready.and_then(|()| config.identity(session.context())) {
            Ok(identity) => _ = identities.insert(name, identity),
            Err(error) => mistakes.push(format!("models.{name}: {}", error_chain(&error))),
        }
    }
    identities
}

/// The message for a model that the experiment does not have.
pub(crate) fn unknown_model(name: &str) -> String {
    format!("there is no model `{name}` in the experiment file: add [models.{name}]")
}

/// Checks that a model of an experiment, the session's or that of a run, can be used, as far as
/// possible without a call.
pub(crate) async fn ready(session: &Session, experiment: &Experiment, name: &str) -> Result<(), Error> {
    let Some(config) = experiment.models.get(name) else {
        return Err(Error::Refused(vec![unknown_model(name)]));
    };
    Ok(config.ready(session.context()).await?)
}

/// Checks that models of an experiment can be used, and that the budget knows the price of each.
pub(crate) async fn priced_and_ready(
    session: &Session,
    experiment: &Experiment,
    names: &BTreeSet<String>,
) -> Result<(), Error> {
    Error::refuse(budget::unpriced(&budget::dollar_caps(session.budget()), &experiment.models, names))?;
    for name in names {
        ready(session, experiment, name).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_used_that_something_of_the_experiment_asks() {
        let model = |name: &str| {
            format!("[models.{name}]\nchat.openai = {{ model = \"m\", base_url = \"http://127.0.0.1:1\" }}\n")
        };
        let experiment = |rest: &str| {
            let text = format!(
                "name = \"x\"\n[corpus]\nsource = \"d\"\n[dataset]\npath = \"g.jsonl\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n{rest}{}{}",
                model("writer"),
                model("judge")
            );
            Experiment::parse(&text, ".").unwrap()
        };
        let names = |rest: &str| used_models(&experiment(rest)).into_iter().collect::<Vec<_>>();
        assert!(names("").is_empty());
        assert_eq!(names("generator = { compact = { model = \"writer\" } }\n"), ["writer"]);
        let judged = "generator = { compact = { model = \"writer\" } }\n[evaluate]\nmetrics = [\"faithfulness\"]\njudge = \"judge\"\n";
        assert_eq!(names(judged), ["judge", "writer"]);
    }
}
