//! How a database is reached: its address, secrets, limits. Secrets never appear in errors or debug output.

use crate::{DatabaseProblem, Error};
use base64::{Engine, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;
use std::{fmt, net::IpAddr, path::PathBuf, time::Duration};
use url::Url;

const REDACTED: &str = "[secret]";
/// Shorter secrets are not looked for in messages: they may be part of any word.
const MIN_SECRET: usize = 4;
/// The longest message of a server that an error repeats, in characters.
const MAX_MESSAGE: usize = 400;

/// Settings of the access to a database, with their secrets.
#[derive(Clone)]
pub struct AccessSettings {
    /// The address, such as `postgresql://user:password@host:5432/name` or `https://host:8000`.
    pub url: String,
    /// A key for databases that take one beside the address.
    pub api_key: Option<String>,
    /// A name that stands for the address in keys, for a server with several addresses.
    pub identity: Option<String>,
    /// How long one call may take. Building a search index has no limit. Default: 30 s.
    pub timeout: Duration,
    /// How long connecting may take. Default: 10 s.
    pub connect_timeout: Duration,
    /// How many calls may be in flight. Default: 64.
    pub concurrency: usize,
    /// Whether secrets may go to another machine without TLS. Default: no.
    pub plain: bool,
    /// A PEM file with the certificate authority of the server, if the system does not know it.
    pub root_certificate: Option<PathBuf>,
}

impl AccessSettings {
    /// Settings with the default of everything but the address.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            api_key: None,
            identity: None,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            concurrency: 64,
            plain: false,
            root_certificate: None,
        }
    }
}

/// Checked settings of the access to a database.
#[derive(Clone)]
pub struct DatabaseAccess {
    pub(crate) settings: AccessSettings,
    /// With user and password.
    pub(crate) url: Url,
    /// The address as errors and keys show it.
    server: String,
    secrets: Vec<String>,
}

impl fmt::Debug for DatabaseAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseAccess").field("server", &self.server).finish_non_exhaustive()
    }
}

impl DatabaseAccess {
    /// Checks the settings. `schemes` are those that the database understands, with the port that each stands for.
    ///
    /// Fails if the address cannot be understood, has another scheme, or would lead a secret to another machine
    /// without TLS.
    pub(crate) fn new(settings: AccessSettings, schemes: &[(&str, u16)]) -> Result<Self, Error> {
        let refuse = |server: &str, reason: String| Error {
            server: server.to_owned(),
            collection: None,
            problem: DatabaseProblem::InvalidSettings { reason },
        };
        // The text is not repeated, because it may hold a password.
        let text = settings.url.trim();
        let mut url = Url::parse(text).map_err(|error| {
            refuse(
                "the database's url",
                format!("{error}; expected an address such as `{}://host:{}`", schemes[0].0, schemes[0].1),
            )
        })?;
        // SQLAlchemy's addresses name the driver: `postgresql+psycopg://`.
        if let Some((scheme, _)) =
            url.scheme().split_once('+').map(|(scheme, driver)| (scheme.to_owned(), driver.to_owned()))
        {
            let rest = text.split_once(':').map_or("", |(_, rest)| rest);
            url = Url::parse(&format!("{scheme}:{rest}"))
                .map_err(|error| refuse("the database's url", error.to_string()))?;
        }
        let host = url.host_str().unwrap_or_default().to_lowercase();
        let Some((scheme, port)) = schemes.iter().find(|(scheme, _)| *scheme == url.scheme()) else {
            let names: Vec<&str> = schemes.iter().map(|(scheme, _)| *scheme).collect();
            let reason = format!("the scheme `{}` is not one of {}", url.scheme(), names.join(", "));
            return Err(refuse(&host, reason));
        };
        let place = match host.is_empty() {
            true => "localhost".to_owned(),
            false => host.clone(),
        };
        let server = format!("{scheme}://{place}:{}{}", url.port().unwrap_or(*port), url.path().trim_end_matches('/'));
        if settings.concurrency == 0 {
            return Err(refuse(&server, "`concurrency` must be at least 1".to_owned()));
        }
        let password = url.password().map(|encoded| percent_decode_str(encoded).decode_utf8_lossy().into_owned());
        // As a server gets them, and may repeat them.
        let encoded = password.as_ref().map(|password| {
            let user = percent_decode_str(url.username()).decode_utf8_lossy();
            BASE64_STANDARD.encode(format!("{user}:{password}"))
        });
        let secrets = [url.password().map(str::to_owned), password, encoded, settings.api_key.clone()];
        let mut secrets: Vec<String> = secrets.into_iter().flatten().collect();
        secrets.retain(|secret| secret.len() >= MIN_SECRET);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Ok(Self { settings, url, server, secrets })
    }

    /// The address without user, password and parameters, as errors show it.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What stands for the server in keys: the setting `identity`, or the address without secrets.
    pub fn address_for_key(&self) -> &str {
        self.settings.identity.as_deref().unwrap_or(&self.server)
    }

    /// Whether the address names this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        host.is_empty()
            || host.eq_ignore_ascii_case("localhost")
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether there is a secret that another machine would see without TLS.
    pub(crate) fn needs_tls(&self) -> bool {
        !self.is_loopback()
            && !self.settings.plain
            && (self.url.password().is_some() || self.settings.api_key.is_some())
    }

    /// Text of the server for an error: without secrets, on one line, not too long.
    pub(crate) fn shown(&self, text: &str) -> String {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), REDACTED);
        }
        let text: String = text.chars().filter(|character| !character.is_control()).collect();
        match text.char_indices().nth(MAX_MESSAGE) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }

    /// An error of this server.
    pub(crate) fn error(&self, collection: Option<&str>, problem: DatabaseProblem) -> Error {
        Error { server: self.server.clone(), collection: collection.map(str::to_owned), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(url: &str) -> Result<DatabaseAccess, Error> {
        DatabaseAccess::new(AccessSettings::new(url), &[("postgresql", 5432), ("postgres", 5432)])
    }

    #[test]
    fn the_address_for_keys_has_neither_user_nor_password_nor_parameters() {
        for (url, expected) in [
            ("postgresql://me:se%24cret@DB.example/docs?sslmode=require", "postgresql://db.example:5432/docs"),
            ("postgresql+psycopg://me:secret@db.example:6432/docs/", "postgresql://db.example:6432/docs"),
            ("postgres:///docs?host=/run", "postgres://localhost:5432/docs"),
        ] {
            assert_eq!(access(url).unwrap().address_for_key(), expected);
        }
        let settings = AccessSettings { identity: Some("prod".to_owned()), ..AccessSettings::new("postgres://a/b") };
        assert_eq!(DatabaseAccess::new(settings, &[("postgres", 5432)]).unwrap().address_for_key(), "prod");
    }

    #[test]
    fn secrets_appear_in_no_text() {
        let settings = AccessSettings {
            api_key: Some("key-12345".to_owned()),
            ..AccessSettings::new("postgres://me:se%24cret@h/d")
        };
        let access = DatabaseAccess::new(settings, &[("postgres", 5432)]).unwrap();
        let shown = access.shown("bad se%24cret and se$cret\n and key-12345");
        assert_eq!(shown, "bad [secret] and [secret] and [secret]");
        let debug = format!("{access:?}");
        assert!(!debug.contains("cret@") && !debug.contains("key-12345"), "{debug}");
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused_without_being_repeated() {
        for (url, expected) in
            [("host:secret", "scheme"), ("mysql://me:secret@h/d", "mysql"), ("secret word", "expected an address")]
        {
            let error = access(url).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_secret_needs_tls_on_its_way_to_another_machine() {
        assert!(access("postgres://me:secret@10.0.0.1/d").unwrap().needs_tls());
        for url in [
            "postgres://me@10.0.0.1/d",
            "postgres://me:secret@127.0.0.1/d",
            "postgres://me:secret@[::1]/d",
            "postgres:///d",
        ] {
            assert!(!access(url).unwrap().needs_tls(), "{url}");
        }
    }
}
