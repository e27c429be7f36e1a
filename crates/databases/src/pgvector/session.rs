//! Connections to PostgreSQL: how they are made, with or without TLS, what a connection remembers, and what the
//! server's errors mean.

use crate::{DatabaseAccess, DatabaseProblem, Error};
use bytes::Bytes;
use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use futures::{SinkExt, pin_mut};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use rustls_platform_verifier::BuilderVerifierExt;
use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::timeout};
use tokio_postgres::{
    Client, Config, NoTls, Row, Statement,
    config::SslMode,
    error::{DbError, Severity, SqlState},
    types::ToSql,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// More prepared statements than one pipeline ever has; beyond it a connection forgets all.
const MAX_STATEMENTS: usize = 256;
/// Beyond the server's own limit, so that the server normally ends a slow statement, and the connection stays usable.
const GRACE: Duration = Duration::from_secs(5);
/// Parameters of an address that are read here and not by the client.
const OWN_PARAMETERS: [&str; 4] = ["sslmode", "sslrootcert", "connect_timeout", "application_name"];

/// The parameters that an address may have.
const TAKEN_PARAMETERS: [&str; 6] =
    ["sslmode", "sslrootcert", "connect_timeout", "application_name", "options", "target_session_attrs"];

/// A value of a statement's parameter.
pub(super) type Parameter<'a> = &'a (dyn ToSql + Sync);

/// What went wrong on a connection.
#[derive(Debug)]
pub(super) enum PgFailure {
    Postgres(tokio_postgres::Error),
    TimedOut(Duration),
}

impl From<tokio_postgres::Error> for PgFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

/// Settings that a connection has for its next statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionSettings {
    /// `hnsw.ef_search`.
    pub(super) ef: u32,
    /// `ivfflat.probes`.
    pub(super) probes: u32,
    /// Whether a search goes on until enough rows pass a filter.
    pub(super) is_iterative: bool,
    /// How long one statement may take; none for building an index.
    pub(super) timeout: Option<Duration>,
}

impl SessionSettings {
    /// PostgreSQL's and pgvector's defaults.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { ef: 40, probes: 1, is_iterative: false, timeout: Some(timeout) }
    }

    /// The statements that change a connection from others to these settings.
    fn changes_from(&self, before: Option<&Self>) -> String {
        let scan = |kind| if self.is_iterative { kind } else { "off" };
        let all = [
            (before.is_none_or(|before| before.ef != self.ef), format!("set hnsw.ef_search = {};", self.ef)),
            (
                before.is_none_or(|before| before.probes != self.probes),
                format!("set ivfflat.probes = {};", self.probes),
            ),
            (
                before.is_none_or(|before| before.is_iterative != self.is_iterative),
                format!(
                    "set hnsw.iterative_scan = {}; set ivfflat.iterative_scan = {};",
                    scan("strict_order"),
                    scan("relaxed_order")
                ),
            ),
            (
                before.is_none_or(|before| before.timeout != self.timeout),
                format!("set statement_timeout = {};", self.timeout.unwrap_or_default().as_millis()),
            ),
        ];
        all.into_iter().filter(|(changed, _)| *changed).map(|(_, statement)| statement).collect()
    }
}

/// A connection, with what was prepared and set on it.
pub(super) struct PgSession {
    client: Client,
    connection: JoinHandle<()>,
    statements: HashMap<String, Statement>,
    settings: Option<SessionSettings>,
    timeout: Option<Duration>,
    /// In a call or a transaction. A connection that is given back like this, because its caller failed or was
    /// cancelled, is closed.
    is_busy: bool,
    in_transaction: bool,
}

impl Drop for PgSession {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl PgSession {
    /// Applies settings, with a call only if they differ from those of the connection.
    pub(super) async fn apply(&mut self, settings: SessionSettings) -> Result<(), PgFailure> {
        if self.settings == Some(settings) {
            return Ok(());
        }
        let changes = settings.changes_from(self.settings.as_ref());
        self.timeout = settings.timeout;
        self.run(&changes).await?;
        self.settings = Some(settings);
        Ok(())
    }

    /// Runs statements without parameters and rows.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), PgFailure> {
        self.is_busy = true;
        let result = limited(self.timeout, self.client.batch_execute(sql)).await;
        self.settle(result)
    }

    /// Runs a statement that is prepared once on each connection.
    pub(super) async fn query(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, PgFailure> {
        self.is_busy = true;
        let statement = match self.statements.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let prepared = limited(self.timeout, self.client.prepare(sql)).await;
                let statement = self.settle(prepared)?;
                self.is_busy = true;
                if self.statements.len() >= MAX_STATEMENTS {
                    self.statements.clear();
                }
                self.statements.insert(sql.to_owned(), statement.clone());
                statement
            }
        };
        let rows = limited(self.timeout, self.client.query(&statement, parameters)).await;
        if rows.is_err() {
            // It may have been prepared for columns that a table no longer has.
            self.statements.remove(sql);
        }
        self.settle(rows)
    }

    /// Copies rows in PostgreSQL's binary format into a table.
    pub(super) async fn copy(&mut self, sql: &str, pieces: Vec<Bytes>) -> Result<(), PgFailure> {
        self.is_busy = true;
        let client = &self.client;
        let copying = async {
            let sink = client.copy_in(sql).await?;
            pin_mut!(sink);
            for piece in pieces {
                sink.feed(piece).await?;
            }
            sink.finish().await
        };
        let result = limited(self.timeout, copying).await;
        self.settle(result).map(drop)
    }

    /// A refusal leaves the connection usable, a lost reply does not.
    fn settle<T>(&mut self, result: Result<T, PgFailure>) -> Result<T, PgFailure> {
        self.is_busy = match &result {
            Ok(_) => false,
            Err(PgFailure::Postgres(error)) => error.as_db_error().is_none_or(ends_connection),
            Err(PgFailure::TimedOut(_)) => true,
        };
        result
    }

    /// Begins a transaction. Unless [`PgSession::commit`] follows, it is undone and the connection is closed.
    pub(super) async fn begin(&mut self) -> Result<(), PgFailure> {
        self.in_transaction = true;
        self.run("begin").await
    }

    /// Ends the transaction.
    pub(super) async fn commit(&mut self) -> Result<(), PgFailure> {
        self.run("commit").await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Whether the server still waits for nothing from this connection.
    fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.is_busy && !self.in_transaction
    }
}

/// Whether the server closes the connection after this.
fn ends_connection(refusal: &DbError) -> bool {
    matches!(refusal.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// Waits at most this long, and a little more for the server's own word.
async fn limited<T>(
    limit: Option<Duration>,
    call: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, PgFailure> {
    match limit {
        None => Ok(call.await?),
        Some(limit) => timeout(limit + GRACE, call).await.map_err(|_| PgFailure::TimedOut(limit))?.map_err(Into::into),
    }
}

/// Makes connections for the pool.
pub(super) struct SessionMaker {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl SessionMaker {
    /// Fails if the address has a parameter that is not known, or the certificate cannot be read.
    pub(super) fn new(access: &DatabaseAccess) -> Result<Self, Error> {
        let refuse = |reason: String| access.error(None, DatabaseProblem::InvalidSettings { reason });
        let mut url = access.url.clone();
        let parameters: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let parameter =
            |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let mode = match (parameter("sslmode"), access.needs_tls()) {
            (Some("disable"), true) => {
                let reason = "`sslmode=disable` would send the password to another machine without TLS; set `plain_http = true` if that is intended";
                return Err(refuse(reason.to_owned()));
            }
            (Some("require" | "verify-ca" | "verify-full"), _) | (_, true) => SslMode::Require,
            (Some("disable"), false) => SslMode::Disable,
            (None | Some("allow" | "prefer"), false) if access.is_loopback() => SslMode::Disable,
            (None | Some("allow" | "prefer"), false) => SslMode::Prefer,
            (Some(other), false) => return Err(refuse(format!("`sslmode={other}` is not known"))),
        };
        let certificate = parameter("sslrootcert").filter(|file| *file != "system").map(Into::into);
        let certificate = access.settings.root_certificate.clone().or(certificate);
        url.set_query(None);
        // Others may hold a password, which would be shown and kept, or lead to another machine.
        if let Some((name, _)) = parameters.iter().find(|(name, _)| !TAKEN_PARAMETERS.contains(&name.as_str())) {
            return Err(refuse(format!(
                "the address has the parameter `{name}`, which is not taken; user, password, host and database stand \
                 before the `?`, as in postgresql://user:password@host/database"
            )));
        }
        let others = parameters.iter().filter(|(name, _)| !OWN_PARAMETERS.contains(&name.as_str()));
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            url.query_pairs_mut().extend_pairs(others);
        }
        let mut config: Config = url.as_str().parse().map_err(|error| refuse(access.shown(&innermost(&error))))?;
        config.ssl_mode(mode).connect_timeout(access.settings.connect_timeout).application_name("reverie");
        let tls = (mode != SslMode::Disable).then(|| tls(certificate.as_deref())).transpose().map_err(refuse)?;
        Ok(Self { config, tls })
    }
}

/// TLS that checks the server's certificate, with the system's authorities or the given one.
fn tls(certificate: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let Some(file) = certificate else {
        let config = builder.with_platform_verifier().map_err(|error| error.to_string())?.with_no_client_auth();
        return Ok(MakeRustlsConnect::new(config));
    };
    let unreadable =
        |error: &dyn std::fmt::Display| format!("the certificate {} cannot be read: {error}", file.display());
    let mut authorities = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
        let authority = authority.map_err(|error| unreadable(&error))?;
        authorities.add(authority).map_err(|error| unreadable(&error))?;
    }
    Ok(MakeRustlsConnect::new(builder.with_root_certificates(authorities).with_no_client_auth()))
}

impl Manager for SessionMaker {
    type Type = PgSession;
    type Error = PgFailure;

    async fn create(&self) -> Result<PgSession, PgFailure> {
        let (client, connection) = match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                (client, tokio::spawn(async move { drop(connection.await) }))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                (client, tokio::spawn(async move { drop(connection.await) }))
            }
        };
        let statements = HashMap::new();
        Ok(PgSession {
            client,
            connection,
            statements,
            settings: None,
            timeout: None,
            is_busy: false,
            in_transaction: false,
        })
    }

    async fn recycle(&self, session: &mut PgSession, _: &Metrics) -> RecycleResult<PgFailure> {
        match session.is_usable() {
            true => Ok(()),
            false => Err(RecycleError::message("closed")),
        }
    }
}

/// The text of the innermost cause; those above it say less.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match std::ptr::eq(cause, error) {
        true => error.to_string(),
        false => format!("{error}: {cause}"),
    }
}

/// What a failure means. `is_connecting`: there was no connection yet.
pub(super) fn problem(access: &DatabaseAccess, failure: PgFailure, is_connecting: bool) -> DatabaseProblem {
    let error = match failure {
        PgFailure::TimedOut(after) => return DatabaseProblem::TimedOut { after },
        PgFailure::Postgres(error) => error,
    };
    let Some(refusal) = error.as_db_error() else {
        let reason = access.shown(&innermost(&error));
        return match () {
            () if reason.contains("password missing") => DatabaseProblem::Credentials { message: reason },
            () if reason.contains("TLS") || reason.contains("certificate") => DatabaseProblem::InvalidSettings {
                reason: format!(
                    "{reason}; TLS is used for every password to another machine: enable it on the server, name its authority as `root_certificate`, or set `plain_http = true`"
                ),
            },
            () if is_connecting => DatabaseProblem::Unreachable { reason },
            () if error.is_closed() || is_of_connection(&error) => DatabaseProblem::ConnectionLost { reason },
            () => DatabaseProblem::Malformed { reason },
        };
    };
    let message = access.shown(refusal.message());
    let code = refusal.code();
    match code.code() {
        "28P01" | "28000" => DatabaseProblem::Credentials { message },
        "3D000" => DatabaseProblem::InvalidSettings { reason: message },
        "42501" => DatabaseProblem::Permission { message },
        "42P01" => DatabaseProblem::MissingCollection,
        "42704" if message.contains("vector") => {
            DatabaseProblem::ExtensionMissing { message: extension_advice(&message) }
        }
        "22000" | "22023" if let Some((expected, found)) = dimensions_in(&message) => {
            DatabaseProblem::Dimensions { expected, found }
        }
        "57014" => DatabaseProblem::TimedOut { after: access.settings.timeout },
        "57P01" | "57P02" => DatabaseProblem::ConnectionLost { reason: message },
        "53300" | "57P03" | "55P03" | "40001" | "40P01" | "23505" => {
            DatabaseProblem::Busy { message, retry_after: None }
        }
        "26000" | "42P05" => DatabaseProblem::Refused {
            message: format!(
                "{message}; prepared statements are lost between calls: connect to PostgreSQL itself, or have the connection pooler use its session mode"
            ),
        },
        class if class.starts_with("08") => DatabaseProblem::ConnectionLost { reason: message },
        class => DatabaseProblem::Refused { message: format!("{message} ({class})") },
    }
}

/// Whether an error is one of the network.
fn is_of_connection(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

/// Whether the failure is this refusal of the server.
pub(super) fn is_code(failure: &PgFailure, codes: &[SqlState]) -> bool {
    matches!(failure, PgFailure::Postgres(error) if error.code().is_some_and(|code| codes.contains(code)))
}

pub(super) fn extension_advice(message: &str) -> String {
    format!(
        "the extension pgvector is not installed in this database ({message}); as its owner run `create extension vector`"
    )
}

/// The lengths in pgvector's messages: of the vectors at hand, and of those in the table.
fn dimensions_in(message: &str) -> Option<(usize, usize)> {
    let mut numbers = message.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let (first, second) = (numbers.next()?, numbers.next()?);
    if message.starts_with("expected") {
        Some((second, first))
    } else {
        message.starts_with("different").then_some((second, first))
    }
}
