//! The collections of databases that an object store knows of, and their removal.

use crate::{Error, error_chain, layout};
use models::provider::Environment;
use rag::{index::FilledCollection, vector_index::VectorIndexConfig};
use serde::Serialize;
use store::{ArtifactStore, upkeep::Garbage};

/// A collection that was filled for an artifact which is no longer needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnusedCollection {
    /// The artifact that says where it is.
    pub artifact: String,
    /// The address of its database, without user and password.
    pub address: String,
    /// Its name there.
    pub collection: String,
    /// Why it could not be removed; then its artifact stays too. None if it is gone, or was not yet to be removed.
    pub kept: Option<String>,
}

/// The collections that belong to garbage of a store. An artifact that cannot be read has none.
///
/// # Errors
/// If the store fails.
pub async fn unused_collections(store: &ArtifactStore, garbage: &Garbage) -> Result<Vec<UnusedCollection>, Error> {
    let found = filled(store, garbage).await?;
    Ok(found.into_iter().map(|(artifact, filled)| unused(artifact, &filled, None)).collect())
}

/// Removes the collections that belong to garbage of a store, before the garbage itself is removed. If one cannot be
/// removed, its artifact is taken out of the garbage, so that another try finds it.
///
/// # Errors
/// If the store fails.
pub async fn remove_collections(
    store: &ArtifactStore,
    garbage: &mut Garbage,
    environment: &Environment,
) -> Result<Vec<UnusedCollection>, Error> {
    let mut removed = Vec::new();
    for (artifact, filled) in filled(store, garbage).await? {
        let kept = remove(&filled, environment).await.err().map(|error| error_chain(&error));
        if kept.is_some() {
            garbage.keep(&artifact);
        }
        removed.push(unused(artifact, &filled, kept));
    }
    Ok(removed)
}

fn unused(artifact: String, filled: &FilledCollection, kept: Option<String>) -> UnusedCollection {
    let FilledCollection { address, collection, .. } = filled.clone();
    UnusedCollection { artifact, address, collection, kept }
}

async fn filled(store: &ArtifactStore, garbage: &Garbage) -> Result<Vec<(String, FilledCollection)>, Error> {
    let mut found = Vec::new();
    // What was set aside as damaged was filled again under the same name, so only the others are looked at.
    for object in garbage.partial.iter().chain(&garbage.unused).filter(|object| layout::is_of_database(&object.name)) {
        let read = match store.get(&object.name).await {
            Err(store::Error::Damaged { .. }) => None,
            read => read?,
        };
        let filled = read.and_then(|bytes| FilledCollection::read(&bytes).ok());
        found.extend(filled.map(|filled| (object.name.clone(), filled)));
    }
    Ok(found)
}

async fn remove(filled: &FilledCollection, environment: &Environment) -> Result<(), Error> {
    let index: VectorIndexConfig = serde_json::from_value(filled.settings.clone()).map_err(Error::table)?;
    let Some(database) = index.open_database(environment)? else { return Ok(()) };
    let address = database.address();
    if address != filled.address {
        let reason = format!("the settings lead to {address} now, and the collection is in {}", filled.address);
        return Err(rag::Error::Config { component: "index", reason }.into());
    }
    Ok(database.drop_collection(&filled.place(), &filled.key).await.map_err(rag::Error::from)?)
}
