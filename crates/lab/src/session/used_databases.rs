//! Which databases an experiment uses, and whether they can be used: those into which it writes its chunks, and indexes of
//! the user's own, in databases or behind HTTP.

use super::Session;
use crate::{
    Error, error_chain,
    plan::work::{database_name, existing_index_name},
    spec::Experiment,
    task::CallTurn,
};
use databases::{CollectionDescription, CollectionPlace, DatabaseProblem, IndexedRecord, RecordFilter, VectorDatabase};
use models::{EndpointAccess, Identity, InputKind};
use rag::{
    Choice, Component, ExistingIndexSettings, IndexPlace, Models, PipelineConfig, SearchServiceSettings, embed::cosine,
    retrieve::RetrieverConfig, vector_index::VectorIndexConfig,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// How many records of an existing index are compared with their texts.
const PROBES: usize = 8;
/// The least median cosine between the vectors of an index and those of the trial's embedder: below it, the embedder is
/// another one, and from it to the higher one something differs, such as a prefix.
const SAME_EMBEDDER: f32 = 0.95;
const SAME_SETTINGS: f32 = 0.999;
/// Settings of a database that do not say what is read there: the address and its variables are named by themselves.
const OUTSIDE_REACH: [&str; 4] = ["url", "api_key", "identity", "version"];

/// The databases that an experiment writes into, by the names of their identities.
pub(crate) fn used_databases(experiment: &Experiment) -> BTreeMap<String, VectorIndexConfig> {
    let indexes = experiment.space.combinations().map(|pipeline| pipeline.index);
    indexes.filter_map(|index| Some((database_name(&index)?, index))).collect()
}

/// The indexes of the user's own that an experiment searches, by the names of their identities, with the names of the
/// embedders that are to have filled them.
fn existing_indexes(experiment: &Experiment) -> BTreeMap<String, (RetrieverConfig, BTreeSet<String>)> {
    let mut found: BTreeMap<String, (RetrieverConfig, BTreeSet<String>)> = BTreeMap::new();
    for pipeline in experiment.space.combinations() {
        let Some(name) = existing_index_name(&pipeline.retriever) else { continue };
        let entry = found.entry(name).or_insert_with(|| (pipeline.retriever.clone(), BTreeSet::new()));
        entry.1.extend(pipeline.embedder.as_deref().map(str::to_owned));
    }
    found
}

/// The addresses of all databases, the variables whose values are sent there, and what is read there.
pub(crate) fn database_access(experiment: &Experiment) -> Vec<EndpointAccess> {
    experiment.space.combinations().flat_map(|pipeline| database_access_of(&pipeline)).collect()
}

/// The same of one pipeline.
pub(crate) fn database_access_of(pipeline: &PipelineConfig) -> Vec<EndpointAccess> {
    let filled = pipeline.index.endpoint_access().map(|access| (access, pipeline.index.value()));
    let existing = pipeline.retriever.existing_index();
    let existing = existing.map(|index| (index.endpoint_access(), pipeline.retriever.value()));
    let with_settings = |(access, value): (EndpointAccess, Value)| {
        // Which table is read, under which condition, and whether a secret may go there in the clear.
        let settings = value.as_object().and_then(|value| value.values().next()).and_then(Value::as_object);
        let settings = settings.into_iter().flatten();
        let settings = settings.filter(|(name, value)| !OUTSIDE_REACH.contains(&name.as_str()) && !value.is_number());
        let fields = settings.map(|(name, value)| (name.clone(), Value::from(value.to_string()).to_string())).collect();
        EndpointAccess { fields, ..access }
    };
    filled.into_iter().chain(existing).map(with_settings).collect()
}

/// The identity of each database and of each existing index. What cannot be used is a mistake.
pub(crate) async fn identities(session: &Session, mistakes: &mut Vec<String>) -> BTreeMap<String, Identity> {
    let mut identities = BTreeMap::new();
    for (name, index) in used_databases(&session.experiment) {
        match filled_identity(session, &index).await {
            Ok(Some(identity)) => _ = identities.insert(name, identity),
            Ok(None) => (),
            Err(error) => mistakes.push(format!("space.index: {}: {}", index.name(), error_chain(&error))),
        }
    }
    for (name, (retriever, embedders)) in existing_indexes(&session.experiment) {
        let Some(index) = retriever.existing_index() else { continue };
        match existing_identity(session, (retriever.name(), index), &embedders).await {
            Ok(identity) => _ = identities.insert(name, identity),
            Err(error) => mistakes.push(format!("space.retriever: {}: {}", retriever.name(), error_chain(&error))),
        }
    }
    identities
}

/// Fails if a database cannot be reached, or the user has no right to create collections there.
pub(crate) async fn check_can_create(database: &dyn VectorDatabase) -> Result<(), rag::Error> {
    let server = database.describe_server().await?;
    if server.can_create {
        return Ok(());
    }
    let message = format!("{}: the user may create nothing there; grant it, or name another schema", server.version);
    let problem = DatabaseProblem::Permission { message };
    Err(databases::Error { server: database.address(), collection: None, problem }.into())
}

/// The address of a database, without user and password. Fails if it cannot be reached, or nothing can be made there.
async fn filled_identity(session: &Session, index: &VectorIndexConfig) -> Result<Option<Identity>, rag::Error> {
    let Some(database) = index.open_database(&session.context().environment)? else { return Ok(None) };
    check_can_create(&*database).await?;
    let address = database.address();
    let (provider, model) = (index.name().to_owned(), String::new());
    Ok(Some(Identity { provider, model, revision: address, parameters: Value::Null }))
}

/// What stands for the content of an existing index: what its settings state, or what the database says of it. Fails if
/// it cannot be searched, or another embedder has filled it.
async fn existing_identity(
    session: &Session,
    (provider, index): (&str, &dyn ExistingIndexSettings),
    embedders: &BTreeSet<String>,
) -> Result<Identity, Error> {
    let collection = match index.place() {
        IndexPlace::Collection(collection) => collection,
        IndexPlace::Service(service) => return service_identity(session, index.stated_version(), service),
    };
    let database = collection.open_database(&session.context().environment)?;
    let (place, address) = (collection.collection_place(), database.address());
    let of = |problem| {
        rag::Error::Database(databases::Error {
            server: address.clone(),
            collection: Some(place.name.clone()),
            problem,
        })
    };
    let found = database.describe(&place).await.map_err(rag::Error::from)?;
    let found = found.ok_or_else(|| of(DatabaseProblem::MissingCollection))?;
    let records = database.first_records(&place, &RecordFilter::default(), PROBES).await.map_err(rag::Error::from)?;
    // Its own dimensions, until an embedder says which they should be.
    found.check(&place, found.dimensions.unwrap_or_default()).map_err(of)?;
    for embedder in embedders {
        check_embedder(session, embedder, (&place, &found, &records)).await?.map_err(of)?;
    }
    let parameters = match index.stated_version() {
        Some(version) => json!({ "version": version }),
        None => json!({
            "rows": found.rows,
            "dimensions": found.dimensions,
            "index": found.search_index.as_ref().map(|index| &index.kind),
            "changes": found.change_counter,
        }),
    };
    Ok(Identity { provider: provider.to_owned(), model: place.name, revision: address, parameters })
}

/// The identity of a program behind HTTP: its address, and the version that the settings state.
fn service_identity(
    session: &Session,
    version: Option<&str>,
    service: &dyn SearchServiceSettings,
) -> Result<Identity, Error> {
    let identity = service.identity(session.context())?;
    if version.is_none() {
        let text = format!(
            "space.retriever: {} has no `version`, so a later run takes its passages from the store, even if its index has \
             changed: state a `version`, and another one when the index changes",
            identity.model
        );
        session.setup().control.progress.warn(text);
    }
    Ok(identity)
}

/// Compares the vectors of some records with those of their texts. A model behind an endpoint is not asked, because that
/// would be paid: with it, only a wrong number of dimensions is found, when the first question is searched.
async fn check_embedder(
    session: &Session,
    embedder: &str,
    (place, found, records): (&CollectionPlace, &CollectionDescription, &[IndexedRecord]),
) -> Result<Result<(), DatabaseProblem>, Error> {
    let config = session.experiment.models.get(embedder);
    // An embedder that is not there, or cannot be used, is told where models are checked.
    let Some(config) = config.filter(|config| config.endpoint_access().is_none()) else { return Ok(Ok(())) };
    if config.ready(session.context()).await.is_err() {
        return Ok(Ok(()));
    }
    let texts: Vec<String> = records.iter().map(|record| record.text.clone()).collect();
    let model = session.models();
    let model = model.in_turn(CallTurn::default()).embedder(embedder)?;
    let vectors = model.embed(&texts, InputKind::Document).await?;
    if let Err(problem) = found.check(place, vectors.columns) {
        return Ok(Err(problem));
    }
    // A database that declares no dimensions may hold vectors of several lengths.
    let cosine = |(record, vector): (&IndexedRecord, &[f32])| match record.vector.len() == vector.len() {
        true => cosine(&record.vector, vector),
        false => 0.0,
    };
    let mut cosines: Vec<f32> = records.iter().zip(vectors.iter()).map(cosine).collect();
    cosines.sort_by(f32::total_cmp);
    let Some(&median) = cosines.get(cosines.len() / 2) else { return Ok(Ok(())) };
    let records = cosines.len();
    let compared = format!(
        "the median cosine between the vectors of {records} records and those that `{embedder}` makes of their texts is {median:.3}"
    );
    if median < SAME_EMBEDDER {
        let message = format!("{compared}; name the embedder that filled it");
        return Ok(Err(DatabaseProblem::Refused { message }));
    }
    if median < SAME_SETTINGS {
        let text = format!("{}: {compared}: its texts may have had another prefix, or were cut elsewhere", place.name);
        session.setup().control.progress.warn(text);
    }
    Ok(Ok(()))
}
