//! How a database of vectors is reached, as settings say it: for indexes that are filled, and for those that exist.

use crate::Error;
use databases::{AccessSettings, CollectionPlace, VectorDatabase};
use models::{
    EndpointAccess, Identity,
    provider::{Environment, ModelContext},
};
use std::{sync::Arc, time::Duration};

/// What an address begins with that is read from a variable.
const VARIABLE: &str = "env:";

/// The settings of a database.
pub(crate) trait DatabaseSettings {
    /// How it is reached.
    fn connection(&self) -> DatabaseConnection<'_>;

    /// The name of the component in errors.
    fn component(&self) -> &'static str;

    /// Opens it, without a connection.
    fn open(&self, access: AccessSettings) -> Result<Arc<dyn VectorDatabase>, databases::Error>;

    /// The scheme of its addresses.
    fn scheme(&self) -> &'static str {
        "http"
    }

    /// Which part of the server it is, if its address does not say so.
    fn part_of_server(&self) -> Option<String> {
        None
    }
}

/// The settings of a retriever that searches an existing index.
pub trait ExistingIndexSettings: Send + Sync {
    /// The address that is called, and the variables whose values are sent there.
    fn endpoint_access(&self) -> EndpointAccess;

    /// The index by its settings: the address as it is written, and the collection.
    fn index_name(&self) -> String;

    /// The version of the index that the settings state, which is part of keys; none if they state none.
    fn stated_version(&self) -> Option<&str>;

    /// What is searched.
    fn place(&self) -> IndexPlace<'_>;
}

/// Where an existing index is.
pub enum IndexPlace<'a> {
    /// A collection of a database.
    Collection(&'a dyn ExistingCollectionSettings),
    /// A program behind HTTP. What it searches is not known here.
    Service(&'a dyn SearchServiceSettings),
}

/// The settings of a retriever that searches a collection of a database.
pub trait ExistingCollectionSettings: Send + Sync {
    /// Opens its database, without a connection.
    ///
    /// # Errors
    /// A variable that is not set, or an address that cannot be used.
    fn open_database(&self, environment: &Environment) -> Result<Arc<dyn VectorDatabase>, Error>;

    /// The collection, and where the parts of its records are.
    fn collection_place(&self) -> CollectionPlace;
}

/// The settings of a retriever that calls a program behind HTTP.
pub trait SearchServiceSettings: Send + Sync {
    /// The identity of the program, which holds the stated version. Reads the secrets.
    ///
    /// # Errors
    /// A setting that cannot work, or a variable that is not set.
    fn identity(&self, cx: &ModelContext) -> Result<Identity, models::Error>;
}

/// How a database is reached, as the settings say it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatabaseConnection<'a> {
    pub(crate) url: &'a str,
    pub(crate) api_key: Option<&'a str>,
    pub(crate) identity: Option<&'a str>,
    pub(crate) timeout_seconds: u64,
    pub(crate) concurrency: usize,
    pub(crate) plain: bool,
}

impl DatabaseConnection<'_> {
    /// Fails for settings that cannot work, whatever the variables hold.
    pub(crate) fn check(&self, component: &'static str) -> Result<(), Error> {
        let refuse = |reason: &str| Err(Error::Config { component, reason: reason.to_owned() });
        let has_password = |url: &str| {
            let after = url.split_once("://").map_or("", |(_, rest)| rest);
            let user = after.split('/').next().and_then(|host| host.rsplit_once('@')).map_or("", |(user, _)| user);
            let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
            user.contains(':') || parameters.to_lowercase().contains("pass")
        };
        if self.url.trim().is_empty() || self.url == VARIABLE {
            return refuse("url is empty; give an address, or a variable that holds it, such as `env:DATABASE_URL`");
        }
        if !self.url.starts_with(VARIABLE) && has_password(self.url) {
            return refuse("url holds a password; put the address into a variable, and name it: `env:DATABASE_URL`");
        }
        if self.api_key.is_some_and(|key| !key.starts_with(VARIABLE)) {
            return refuse("api_key must name a variable, such as `env:DATABASE_KEY`");
        }
        match (self.timeout_seconds, self.concurrency) {
            (0, _) => refuse("timeout_seconds must be at least 1"),
            (_, 0) => refuse("concurrency must be at least 1"),
            _ => Ok(()),
        }
    }

    /// The settings with what the variables hold.
    fn resolve(&self, component: &'static str, environment: &Environment) -> Result<AccessSettings, Error> {
        let value = |setting: &str, text: &str| match text.strip_prefix(VARIABLE) {
            None => Ok(text.to_owned()),
            Some(name) => environment(name).filter(|value| !value.trim().is_empty()).ok_or_else(|| Error::Config {
                component,
                reason: format!("{setting}: the environment variable `{name}` is not set"),
            }),
        };
        Ok(AccessSettings {
            api_key: self.api_key.map(|key| value("api_key", key)).transpose()?,
            identity: self.identity.map(str::to_owned),
            timeout: Duration::from_secs(self.timeout_seconds),
            concurrency: self.concurrency,
            plain: self.plain,
            ..AccessSettings::new(&value("url", self.url)?)
        })
    }

    /// The address, and the variables whose values are sent there.
    fn endpoint_access(&self) -> EndpointAccess {
        let variables = [Some(self.url), self.api_key].into_iter().flatten();
        let variables = variables.filter_map(|text| text.strip_prefix(VARIABLE)).map(str::to_owned).collect();
        EndpointAccess {
            address: self.url.to_owned(),
            address_variable: None,
            variables,
            headers: Vec::new(),
            query: Vec::new(),
            fields: Vec::new(),
        }
    }
}

/// Opens a database, without a connection.
pub(crate) fn open(
    settings: &dyn DatabaseSettings,
    environment: &Environment,
) -> Result<Arc<dyn VectorDatabase>, Error> {
    Ok(settings.open(settings.connection().resolve(settings.component(), environment)?)?)
}

/// The address of a database, and the variables whose values are sent there.
pub(crate) fn endpoint_access(settings: &dyn DatabaseSettings) -> EndpointAccess {
    settings.connection().endpoint_access()
}

/// What tells databases of an experiment apart by their settings alone: the setting `identity`, or the address as it is
/// written, with the part of the server.
pub(crate) fn name(settings: &dyn DatabaseSettings) -> String {
    let DatabaseConnection { url, identity, .. } = settings.connection();
    let address = identity.unwrap_or(url);
    settings.part_of_server().map_or_else(|| address.to_owned(), |part| format!("{address}/{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(url: &str) -> DatabaseConnection<'_> {
        let (api_key, identity) = (None, None);
        DatabaseConnection { url, api_key, identity, timeout_seconds: 30, concurrency: 64, plain: false }
    }

    #[test]
    fn a_secret_in_the_file_is_refused_without_being_repeated() {
        let parameter = "postgresql://host/db?user=me&password=secret";
        for url in ["postgresql://me:secret@host/db", "http://user:secret@host:8000", parameter] {
            let error = connection(url).check("index pgvector").unwrap_err().to_string();
            assert!(error.contains("env:DATABASE_URL") && !error.contains("secret"), "{error}");
        }
        for url in ["postgresql://me@host/db", "http://host:8000/a@b:c", "env:DATABASE_URL"] {
            connection(url).check("index pgvector").unwrap();
        }
        let key = DatabaseConnection { api_key: Some("secret"), ..connection("http://h") };
        assert!(!key.check("index chroma").unwrap_err().to_string().contains("secret"));
        assert!(connection(" ").check("index chroma").is_err() && connection("env:").check("index chroma").is_err());
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let environment: Environment = Arc::new(|name: &str| (name == "SET").then(|| "postgresql://h/d".to_owned()));
        assert_eq!(connection("env:SET").resolve("x", &environment).unwrap().url, "postgresql://h/d");
        let error = connection("env:UNSET").resolve("index pgvector", &environment).err().unwrap().to_string();
        assert_eq!(error, "index pgvector: url: the environment variable `UNSET` is not set");
        assert_eq!(connection("env:UNSET").endpoint_access().variables, ["UNSET"]);
    }
}
