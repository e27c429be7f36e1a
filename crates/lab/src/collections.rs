//! The collections that Reverie has filled in databases, and their aliases; those that an object store knows of, and their
//! removal.

use crate::{Error, error_chain, layout};
use databases::{CollectionPlace, DatabaseProblem, IndexManifest, VectorDatabase};
use models::provider::Environment;
use rag::{index::FilledCollection, vector_index::VectorIndexConfig};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use store::{ArtifactStore, upkeep::Garbage};

/// A collection that Reverie has made in a database.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatabaseCollection {
    /// Its name.
    pub name: String,
    /// Its records; none while it is being filled.
    pub records: Option<u64>,
    /// The length of its vectors.
    pub dimensions: usize,
    /// The aliases that point to it.
    pub aliases: Vec<String>,
    /// The collections to which its aliases pointed before, by alias.
    pub previous: BTreeMap<String, String>,
    /// What the filling noted: the search index, seconds, and of a promotion the experiment, run and trial.
    pub facts: Value,
}

/// Where an alias points, and where it pointed before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AliasSwap {
    /// The alias.
    pub alias: String,
    /// The collection to which it points now.
    pub to: String,
    /// The collection to which it pointed before; none if it is new.
    pub from: Option<String>,
}

/// A database with its settings, without a connection until it is first used.
pub struct OpenDatabase {
    config: VectorIndexConfig,
    pub(crate) database: Arc<dyn VectorDatabase>,
}

impl OpenDatabase {
    /// Opens a database.
    ///
    /// # Errors
    /// Settings of no database, a variable that is not set, or an address that cannot be used.
    pub fn open(config: VectorIndexConfig, environment: &Environment) -> Result<Self, Error> {
        let database = config.open_database(environment)?;
        let database = database.ok_or_else(|| Error::Unusable(format!("{} is no database", config.name())))?;
        Ok(Self { config, database })
    }

    /// Its address, without user and password.
    pub fn address(&self) -> String {
        self.database.address()
    }

    /// The collections that Reverie has made there.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub async fn collections(&self) -> Result<Vec<DatabaseCollection>, Error> {
        let found = self.database.list().await.map_err(rag::Error::from)?;
        let aliases = self.aliases().await?;
        let collection = |(place, manifest): (CollectionPlace, IndexManifest)| {
            let points_here = aliases.iter().filter(|(_, target)| **target == place.name);
            DatabaseCollection {
                aliases: points_here.map(|(alias, _)| alias.clone()).collect(),
                name: place.name,
                records: manifest.rows,
                dimensions: manifest.dimensions,
                previous: manifest.previous,
                facts: manifest.facts,
            }
        };
        Ok(found.into_iter().map(collection).collect())
    }

    /// Checks that a name is free for an alias, or is one already. Returns its whole name, and all aliases.
    ///
    /// # Errors
    /// A name that something else has.
    pub(crate) async fn check_alias(&self, alias: &str) -> Result<(String, BTreeMap<String, String>), Error> {
        let aliases = self.aliases().await?;
        let alias = self.whole_alias(alias, &aliases);
        let found = self.database.describe(&CollectionPlace::filled(&alias)).await.map_err(rag::Error::from)?;
        match found.is_some() && !aliases.contains_key(&alias) {
            true => Err(self.error(&alias, DatabaseProblem::ForeignCollection)),
            false => Ok((alias, aliases)),
        }
    }

    /// Points an alias to a complete collection. The collection remembers where the alias pointed before.
    ///
    /// # Errors
    /// A collection that Reverie has not made or not filled to its end, or a name that something else has.
    pub async fn swap(&self, alias: &str, collection: &str) -> Result<AliasSwap, Error> {
        let (alias, aliases) = self.check_alias(alias).await?;
        let place = self.place(collection).await?;
        let mut manifest = self.manifest(&place).await?;
        if !manifest.is_complete() {
            let problem = DatabaseProblem::NotReady { reason: "it was not filled to its end".to_owned() };
            return Err(self.error(&place.name, problem));
        }
        // It is noted first, so that no way back is lost if this ends in between.
        if let Some(from) = aliases.get(&alias).filter(|from| **from != place.name) {
            manifest.previous.insert(alias.clone(), from.clone());
            self.database.write_manifest(&place, &manifest).await.map_err(rag::Error::from)?;
        }
        let from = self.database.swap(&alias, &place).await.map_err(rag::Error::from)?;
        Ok(AliasSwap { alias, to: place.name, from })
    }

    /// Points an alias back to the collection to which it pointed before.
    ///
    /// # Errors
    /// An unknown alias, or one without an earlier collection, or an earlier collection that is gone.
    pub async fn roll_back(&self, alias: &str) -> Result<AliasSwap, Error> {
        let aliases = self.aliases().await?;
        let alias = self.whole_alias(alias, &aliases);
        let unusable = |reason: &str| Error::Unusable(format!("{}: `{alias}` {reason}", self.address()));
        let now = aliases.get(&alias).ok_or_else(|| unusable("is no alias that Reverie has made"))?;
        let mut manifest = self.manifest(&CollectionPlace::filled(now)).await?;
        let previous = manifest.previous.remove(&alias);
        let previous = previous.ok_or_else(|| unusable("pointed to no other collection before"))?;
        let place = CollectionPlace::filled(&previous);
        self.manifest(&place).await?;
        let from = self.database.swap(&alias, &place).await.map_err(rag::Error::from)?;
        Ok(AliasSwap { alias, to: previous, from })
    }

    /// Removes a collection that Reverie has made, and returns its whole name.
    ///
    /// # Errors
    /// If there is none of this name, or an alias points to it.
    pub async fn remove(&self, collection: &str) -> Result<String, Error> {
        let name = self.find_removable(collection).await?;
        let place = CollectionPlace::filled(&name);
        let key = self.manifest(&place).await?.key;
        self.database.drop_collection(&place, &key).await.map_err(rag::Error::from)?;
        Ok(name)
    }

    /// The whole name of a collection that Reverie has made.
    ///
    /// # Errors
    /// If there is none of this name, or an alias points to it.
    pub async fn find_removable(&self, collection: &str) -> Result<String, Error> {
        let place = self.place(collection).await?;
        self.manifest(&place).await?;
        match self.aliases().await?.into_iter().find(|(_, target)| *target == place.name) {
            Some((alias, _)) => {
                let message = format!("the alias `{alias}` points to it; point it elsewhere first");
                Err(self.error(&place.name, DatabaseProblem::Refused { message }))
            }
            None => Ok(place.name),
        }
    }

    /// The manifest of a collection that Reverie has made.
    async fn manifest(&self, place: &CollectionPlace) -> Result<IndexManifest, Error> {
        let found = self.database.describe(place).await.map_err(rag::Error::from)?;
        let found = found.ok_or_else(|| self.error(&place.name, DatabaseProblem::MissingCollection))?;
        found.manifest.ok_or_else(|| self.error(&place.name, DatabaseProblem::ForeignCollection))
    }

    async fn aliases(&self) -> Result<BTreeMap<String, String>, Error> {
        Ok(self.database.aliases().await.map_err(rag::Error::from)?)
    }

    /// The name of an alias as the database has it: as it is listed, or with the schema of the settings.
    fn whole_alias(&self, alias: &str, aliases: &BTreeMap<String, String>) -> String {
        match aliases.contains_key(alias) {
            true => alias.to_owned(),
            false => self.config.name_in_database(alias),
        }
    }

    /// A collection by its whole name, or by its name without the schema.
    async fn place(&self, collection: &str) -> Result<CollectionPlace, Error> {
        let all = self.database.list().await.map_err(rag::Error::from)?;
        let whole = self.config.name_in_database(collection);
        let named = all.into_iter().map(|(place, _)| place).find(|it| it.name == collection || it.name == whole);
        Ok(named.unwrap_or_else(|| CollectionPlace::filled(collection)))
    }

    fn error(&self, collection: &str, problem: DatabaseProblem) -> Error {
        let (server, collection) = (self.address(), Some(collection.to_owned()));
        rag::Error::from(databases::Error { server, collection, problem }).into()
    }
}

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
