//! The part of a remote model's settings that is about its endpoint, and how
//! an endpoint is made of it: addresses checked, secrets read.

use super::Endpoint;
use crate::{
    EndpointAccess, EndpointLimits, Error,
    model::{innermost, section::system_endpoint},
    provider::ModelContext,
    remote::functions,
};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::json;
use std::{collections::BTreeMap, fmt::Display, net::IpAddr, sync::Mutex, time::Duration};
use tokio::time::Instant;

/// A header value with this prefix names an environment variable.
const FROM_ENVIRONMENT: &str = "env:";
/// Headers whose value is a secret, so that it may not stand in a file.
const SECRET_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"];
/// Secret parameters of the address, which would be shown with it.
const SECRET_PARAMETERS: [&str; 5] = ["key", "api_key", "api-key", "access_token", "sig"];
/// Headers of the connection: another `Host` would lead a key past the address
/// of the settings.
const CONNECTION_HEADERS: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "keep-alive",
    "proxy-connection",
    "expect",
];
/// In seconds.
const YEAR: f64 = 365.0 * 86_400.0;
/// No parameters of the address.
pub(crate) const NO_QUERY: &BTreeMap<String, String> = &BTreeMap::new();
/// The largest answer if the settings do not say: 16 MiB.
pub(crate) const MAX_RESPONSE: usize = 16 << 20;
/// Headers of an answer; the HTTP client bounds their length, 400 kB in all.
const MAX_HEADERS: usize = 100;
/// How long `ready` waits for an answer.
const PROBE: Duration = Duration::from_secs(10);

/// The part of a remote model's settings that is about its endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndpointSettings<'a> {
    pub(crate) model: &'a str,
    pub(crate) base_url: &'a str,
    pub(crate) api_key_env: Option<&'a str>,
    pub(crate) headers: &'a BTreeMap<String, String>,
    /// Whether secrets may go to another machine without TLS.
    pub(crate) plain_http: bool,
    pub(crate) timeout_seconds: f64,
    pub(crate) connect_timeout_seconds: f64,
    /// The largest answer.
    pub(crate) max_response_bytes: usize,
    /// Calls in flight at most, if the settings state it.
    pub(crate) concurrency: Option<usize>,
    pub(crate) limits: EndpointLimits,
    /// Parameters after the address, such as `api-version`.
    pub(crate) query: &'a BTreeMap<String, String>,
    pub(crate) conventions: Conventions,
}

/// The requirements of a provider's endpoints, whatever the settings are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conventions {
    /// An example of a base URL, for the error if it is left out.
    pub(crate) example: &'static str,
    /// The header that takes the key as it is; a bearer token if there is none.
    pub(crate) key_header: Option<&'static str>,
    /// Headers of every request.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// A free request that shows whether the endpoint answers and accepts the key.
    pub(crate) probe: Probe,
    /// The endpoint if `base_url` is empty, at an address that an environment variable may replace. `None` for a
    /// provider whose settings have a fixed default `base_url`, or none, so that it must be set.
    pub(crate) default_endpoint: Option<DefaultEndpoint>,
    /// The setting that holds the whole address of a system's calls, which is used as it is. `None` for models: their
    /// `base_url` lacks the path of a call.
    pub(crate) system_address: Option<&'static str>,
}

/// The default endpoint, with the variables that the provider's own libraries
/// read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DefaultEndpoint {
    pub(crate) address: &'static str,
    /// The variable that replaces the address.
    pub(crate) address_env: &'static str,
    /// The variable that holds the key, unless the settings name another one.
    pub(crate) api_key_env: &'static str,
}

impl DefaultEndpoint {
    pub(crate) const OPENAI: Self =
        Self { address: "https://api.openai.com/v1", address_env: "OPENAI_BASE_URL", api_key_env: "OPENAI_API_KEY" };
}

/// A request that costs nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Probe {
    /// Asks for the list of models.
    Models,
    /// Sends a body that is not a conversation to this path of a model, for
    /// endpoints without a list of models: they check the key first, and then
    /// refuse the body.
    Nonsense(fn(&str) -> String),
}

impl Conventions {
    /// The common case, on which each provider's own conventions are based: the key as a bearer token, no other
    /// headers, a list of models, and no default endpoint.
    pub(crate) const DEFAULT: Self = Self {
        example: "http://127.0.0.1:8000/v1",
        key_header: None,
        headers: &[],
        probe: Probe::Models,
        default_endpoint: None,
        system_address: None,
    };
}

impl EndpointSettings<'_> {
    /// The error if these settings cannot work, for this reason.
    fn refused(&self, reason: impl Display) -> Error {
        Error::bad_settings(self.model, reason)
    }

    /// The address in the settings, else the provider's default.
    fn address(&self, cx: &ModelContext) -> String {
        match self.default_endpoint() {
            Some(default) => (cx.environment)(default.address_env).unwrap_or_else(|| default.address.to_owned()),
            None => self.base_url.to_owned(),
        }
    }

    /// The provider's own endpoint, if the settings name no other one.
    fn default_endpoint(&self) -> Option<DefaultEndpoint> {
        self.conventions.default_endpoint.filter(|_| self.base_url.is_empty())
    }

    /// Where the endpoint is, and what is sent there besides requests.
    pub(crate) fn access(&self) -> EndpointAccess {
        let default = self.default_endpoint();
        let address = default.map_or(self.base_url, |default| default.address).to_owned();
        let address_variable = default.map(|default| default.address_env);
        let mut variables: Vec<String> = self.key_variable().map(str::to_owned).into_iter().collect();
        let mut headers = Vec::new();
        for (name, value) in self.headers {
            match value.strip_prefix(FROM_ENVIRONMENT) {
                Some(variable) => variables.push(variable.to_owned()),
                None => headers.push((name.to_lowercase(), value.clone())),
            }
        }
        let query = self.query.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        EndpointAccess { address, address_variable, variables, headers, query, fields: Vec::new() }
    }

    /// The variable that holds the key; none where the endpoint wants no key.
    pub(crate) fn key_variable(&self) -> Option<&str> {
        let variable = self.api_key_env.or_else(|| self.default_endpoint().map(|default| default.api_key_env));
        // An empty name turns a default off.
        variable.filter(|variable| !variable.is_empty())
    }

    /// The base URL in its normal form, as an identity shows it. A function of a
    /// program is identified by its digest, wherever it is served.
    pub(crate) fn base(&self, cx: &ModelContext) -> Result<String, Error> {
        if self.model.trim().is_empty() {
            return Err(Error::Config("`model` is empty: give the model's name at the endpoint".to_owned()));
        }
        if functions::is_function(self.base_url) {
            return Ok(self.base_url.to_owned());
        }
        let address = self.address(cx);
        let setting = self.conventions.system_address.unwrap_or("base_url");
        if address.is_empty() {
            let example = self.conventions.example;
            return Err(self.refused(format_args!("`{setting}` is missing, such as {example}")));
        }
        let problem = |reason: &str| self.refused(format_args!("`{setting}` {reason}"));
        let mut url = Url::parse(&address).map_err(|error| problem(&format!("is no address: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(problem("must begin with http:// or https://"));
        }
        let is_system = self.conventions.system_address.is_some();
        if is_system && url.query().is_some() {
            return Err(problem("must hold no parameters: write what follows the `?` under `query`"));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(problem(
                "must hold no user, password or query: name the variable that holds the key in `api_key_env`",
            ));
        }
        if is_system {
            url.set_fragment(None);
            // Servers may tell `/ask` from `/ask/`.
            return Ok(url.into());
        }
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }

    /// Reads the secrets and checks everything that can be checked here.
    pub(crate) fn build_endpoint(&self, cx: &ModelContext) -> Result<Endpoint, Error> {
        let (base, function) = functions::address(self.model, self.base(cx)?)?;
        let timeout = self.duration("timeout_seconds", self.timeout_seconds)?;
        let connect_timeout = self.duration("connect_timeout_seconds", self.connect_timeout_seconds)?;
        if self.max_response_bytes < 1024 {
            let bytes = self.max_response_bytes;
            return Err(self.refused(format_args!("`max_response_bytes` is {bytes}: it must be at least 1024")));
        }
        let mut secrets = Vec::new();
        let mut headers = HeaderMap::new();
        for (name, value) in self.conventions.headers {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if let Some(variable) = self.key_variable() {
            let key = self.secret(cx, variable, &mut secrets)?;
            let (header, value) = match self.conventions.key_header {
                Some(name) => (HeaderName::from_static(name), key),
                None => (reqwest::header::AUTHORIZATION, format!("Bearer {key}")),
            };
            headers.insert(header, self.header_value(variable, &value)?);
        }
        for (name, value) in self.headers {
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| self.refused(format_args!("`{name}` cannot be the name of a header")))?;
            if CONNECTION_HEADERS.contains(&header.as_str()) {
                return Err(
                    self.refused(format_args!("the header `{name}` is set by the connection and cannot be set here"))
                );
            }
            let value = match value.strip_prefix(FROM_ENVIRONMENT) {
                Some(variable) => self.secret(cx, variable, &mut secrets)?,
                None if SECRET_HEADERS.contains(&header.as_str()) => {
                    return Err(self.refused(format_args!(
                        "the value of the header `{name}` is a secret: put it into a variable and write \"env:VARIABLE\""
                    )));
                }
                None => value.clone(),
            };
            headers.insert(header, self.header_value(name, &value)?);
        }
        if !secrets.is_empty() && !self.plain_http && lacks_tls(&base) {
            return Err(self.refused(format_args!(
                "a key would go to {base} without TLS, where everybody on the way can read it: use an https:// \
                 address, or set `plain_http = true` if the network between is your own"
            )));
        }
        // One secret may hold another: the longer one is removed first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let client = store::http_client()
            .default_headers(headers)
            .connect_timeout(connect_timeout)
            .user_agent(concat!("reverie/", env!("CARGO_PKG_VERSION")))
            // A redirect would carry prompts to a host that the user did not name.
            .redirect(reqwest::redirect::Policy::none())
            .http1_max_headers(MAX_HEADERS)
            // Answers are read as they are, even if decompression is compiled in.
            .no_gzip();
        // A proxy of the system cannot reach what is on this machine, and must not see it.
        let client = if is_loopback(&base) { client.no_proxy() } else { client };
        let client =
            client.build().map_err(|error| self.refused(format_args!("no HTTP client: {}", innermost(&error))))?;
        Ok(Endpoint {
            client,
            label: match self.conventions.system_address {
                Some(setting) => system_endpoint(&base, setting, self.model),
                None => base.clone(),
            },
            base,
            query: self.query()?,
            model: self.model.to_owned(),
            timeout,
            max_response: self.max_response_bytes,
            secrets,
            hints: Mutex::default(),
            _function: function,
        })
    }

    /// Whether the endpoint answers and takes the key.
    pub(crate) async fn ready(&self, cx: &ModelContext) -> Result<(), Error> {
        let endpoint = self.build_endpoint(cx)?;
        let started = Instant::now();
        let probe = match self.conventions.probe {
            Probe::Models => endpoint.client.get(endpoint.url("models")),
            Probe::Nonsense(path) => {
                endpoint.client.post(endpoint.url(&path(self.model))).json(&json!({ "messages": 0 }))
            }
        };
        let probe = probe.timeout(PROBE.min(endpoint.timeout)).send();
        let response = probe.await.map_err(|error| endpoint.broken(error, started))?;
        if response.status().is_success() {
            return Ok(());
        }
        // Not every server lists its models, so any answer shows that it works,
        // except one about the key, the account or the server's own health.
        match endpoint.read_refusal(response, started).await {
            error @ (Error::Authentication { .. } | Error::QuotaExhausted { .. }) => Err(error),
            error @ Error::Server { status: 500.., .. } => Err(error),
            _ => Ok(()),
        }
    }

    /// What follows the `?` of every address.
    fn query(&self) -> Result<String, Error> {
        if let Some(name) = self.query.keys().find(|name| SECRET_PARAMETERS.contains(&name.to_lowercase().as_str())) {
            return Err(self.refused(format_args!(
                "`query.{name}` is a secret: name the variable that holds the key in `api_key_env`"
            )));
        }
        if self.query.is_empty() {
            return Ok(String::new());
        }
        let url = Url::parse_with_params("http://any", self.query)
            .map_err(|error| self.refused(format_args!("`query` cannot be sent: {error}")))?;
        Ok(url.query().unwrap_or_default().to_owned())
    }

    fn duration(&self, name: &str, seconds: f64) -> Result<Duration, Error> {
        // Time limits are at most a year, because sums of longer ones overflow.
        let duration = Duration::try_from_secs_f64(seconds.min(YEAR)).ok().filter(|duration| !duration.is_zero());
        duration.ok_or_else(|| self.refused(format_args!("`{name}` must be above 0 seconds, not {seconds}")))
    }

    fn secret(&self, cx: &ModelContext, variable: &str, secrets: &mut Vec<String>) -> Result<String, Error> {
        let value = (cx.environment)(variable).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let missing = || Error::MissingKey { variable: variable.to_owned(), model: self.model.to_owned() };
        let value = value.ok_or_else(missing)?;
        secrets.push(value.clone());
        Ok(value)
    }

    /// The error names the setting only: the value may be a secret.
    fn header_value(&self, name: &str, value: &str) -> Result<HeaderValue, Error> {
        let mut header = HeaderValue::from_str(value)
            .map_err(|_| self.refused(format_args!("the value of `{name}` cannot be sent in a header")))?;
        header.set_sensitive(true);
        Ok(header)
    }
}

/// Whether what is sent to an address crosses a network without TLS.
pub fn lacks_tls(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| url.scheme() == "http") && !is_loopback(address)
}

/// Whether an address is one of this machine.
pub(crate) fn is_loopback(base: &str) -> bool {
    let url = Url::parse(base).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_reached_without_a_proxy() {
        for here in ["http://127.0.0.1:8000/v1", "http://localhost/v1", "https://[::1]:1/v1"] {
            assert!(is_loopback(here), "{here}");
        }
        for away in ["https://api.openai.com/v1", "http://127.0.0.1.example.com/v1", "http://10.0.0.1/v1", "no address"]
        {
            assert!(!is_loopback(away), "{away}");
        }
    }
}
