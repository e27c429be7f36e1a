//! Access to object stores: options from variables and profiles, retries, and
//! advice when access fails.
//!
//! Libraries read no environment, so callers pass in what they read:
//! [`environment_options`] takes the variables, [`profile_options`] the texts
//! of the files that the AWS tools share.

use crate::{
    Error,
    certificate::{self, StoreConnector},
    space,
};
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig, aws::AmazonS3Builder,
    azure::MicrosoftAzureBuilder, client::HttpError, gcp::GoogleCloudStorageBuilder, parse_url_opts,
    path::Path as ObjectPath,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use url::Url;

/// How long requests are repeated if a store is silent.
const PATIENCE: Duration = Duration::from_secs(90);
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The time limit of one request: a part of an upload is 8 MiB, so this is 70 kB/s.
const REQUEST: Duration = Duration::from_secs(120);

/// The prefixes of variables that configure access to object stores.
pub const VARIABLE_PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Options for object stores, taken from the environment variables that begin
/// with one of [`VARIABLE_PREFIXES`] and that the stores know.
///
/// Certificates are always checked: variables that turn this off, such as
/// `AWS_ALLOW_INVALID_CERTIFICATES`, are left out. `SSL_CERT_FILE` names the
/// authority of a server with a certificate of its own.
///
/// Buckets are addressed in the path, unless `AWS_VIRTUAL_HOSTED_STYLE_REQUEST`
/// is `true`.
pub fn environment_options(variables: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let known = |name: &str| VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let given = variables.into_iter().filter(|(name, value)| known(name) && !value.is_empty());
    let named = given.map(|(name, value)| (name.to_lowercase(), value));
    named.filter(|(name, _)| !name.ends_with("allow_invalid_certificates")).collect()
}

/// The options of a profile, out of the texts of `~/.aws/credentials` and
/// `~/.aws/config`: static keys, session token, region and endpoint. Profiles
/// that assume a role or ask a program for keys have none here.
pub fn profile_options(profile: &str, credentials: &str, config: &str) -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    // In the second file, all but the default one are called `profile NAME`.
    let names = [profile.to_owned(), format!("profile {profile}")];
    for (text, names) in [(credentials, &names[..1]), (config, &names[..])] {
        let mut inside = false;
        for line in text.lines() {
            let line = line.trim();
            if let Some(section) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
                inside = names.iter().any(|name| name == section.trim());
                continue;
            }
            let Some((name, value)) = line.split_once('=').filter(|_| inside && !line.starts_with(['#', ';'])) else {
                continue;
            };
            let option = match name.trim() {
                "aws_access_key_id" | "aws_secret_access_key" | "aws_session_token" => name.trim(),
                "region" => "aws_region",
                "endpoint_url" => "aws_endpoint_url",
                _ => continue,
            };
            if !options.iter().any(|(known, _)| known == option) {
                options.push((option.to_owned(), value.trim().to_owned()));
            }
        }
    }
    options
}

/// Allows plain HTTP if an endpoint begins with `http://`: such an address is
/// never written by mistake.
pub fn complete_options(options: &mut Vec<(String, String)>) {
    let plain = |(name, value): &(String, String)| is_endpoint(name) && value.starts_with("http://");
    if options.iter().any(plain) && !options.iter().any(|(name, _)| name.ends_with("allow_http")) {
        options.push(("aws_allow_http".to_owned(), "true".to_owned()));
    }
}

fn is_endpoint(name: &str) -> bool {
    ["endpoint", "endpoint_url", "endpoint_url_s3"].contains(&name.strip_prefix("aws_").unwrap_or(name))
}

/// Opens the store at a URL. The second value is the path in it.
pub(crate) fn open(
    url: &Url,
    options: &[(String, String)],
) -> object_store::Result<(Arc<dyn ObjectStore>, ObjectPath)> {
    crate::choose_cryptography();
    let mut options = options.to_vec();
    complete_options(&mut options);
    let (scheme, path) = ObjectStoreScheme::parse(url)?;
    // Without keys, the machine must have a role. If it has none, the service
    // for roles never answers, so the wait is short.
    let patient = scheme != ObjectStoreScheme::AmazonS3 || has_keys(&options);
    let retry = RetryConfig {
        backoff: BackoffConfig { init_backoff: SHORTEST_WAIT, max_backoff: LONGEST_WAIT, base: 2.0 },
        max_retries: if patient { 1000 } else { 2 },
        retry_timeout: if patient { PATIENCE } else { Duration::from_secs(5) },
    };
    let client = ClientOptions::new().with_connect_timeout(Duration::from_secs(5)).with_timeout(REQUEST);
    macro_rules! built {
        ($builder:ty) => {{
            let new = <$builder>::new()
                .with_url(url.as_str())
                .with_retry(retry)
                .with_client_options(client)
                .with_http_connector(StoreConnector::default());
            let with = |builder: $builder, (name, value): &(String, String)| match name.to_lowercase().parse() {
                Ok(name) => builder.with_config(name, value),
                // A variable that is not for the store.
                Err(_) => builder,
            };
            Arc::new(options.iter().fold(new, with).build()?)
        }};
    }
    let objects: Arc<dyn ObjectStore> = match scheme {
        // Puts on a condition are on by default: `If-None-Match: *` creates.
        ObjectStoreScheme::AmazonS3 => built!(AmazonS3Builder),
        ObjectStoreScheme::GoogleCloudStorage => built!(GoogleCloudStorageBuilder),
        ObjectStoreScheme::MicrosoftAzure => built!(MicrosoftAzureBuilder),
        _ => return parse_url_opts(url, options).map(|(objects, path)| (Arc::from(objects), path)),
    };
    Ok((objects, ObjectPath::parse(path)?))
}

fn has_keys(options: &[(String, String)]) -> bool {
    let gives = |name: &str| {
        let name = name.strip_prefix("aws_").unwrap_or(name);
        name == "access_key_id"
            || name == "skip_signature"
            || name.starts_with("container_")
            || name.starts_with("web_")
    };
    options.iter().any(|(name, _)| gives(name))
}

/// Repeats a request that broke off on the way, for as long as a store may be
/// away. The client itself repeats only requests that it knows to be harmless;
/// here all requests are, because names are written only once.
pub(crate) async fn retry<T, Fut>(work: impl Fn() -> Fut) -> object_store::Result<T>
where
    Fut: Future<Output = object_store::Result<T>>,
{
    let (start, mut wait) = (Instant::now(), SHORTEST_WAIT);
    loop {
        match work().await {
            Err(error) if is_disconnect(&error) && start.elapsed() < PATIENCE => {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            other => return other,
        }
    }
}

/// Whether the error is one of the connection, not of the store. It also covers
/// requests that the client gave up after its own retries.
fn is_disconnect(error: &object_store::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<HttpError>() {
            if space::is_out_of_space(error) {
                return false;
            }
            return !is_without_keys(&error.to_string()) && !certificate::is_refused(&crate::error_chain(error));
        }
        cause = error.source();
    }
    false
}

fn is_without_keys(text: &str) -> bool {
    text.contains("169.254.169.254") || text.contains("/latest/api/token") || text.contains("metadata.google.internal")
}

/// What to do about an error, if the person who set the store up can do
/// something.
pub(crate) fn advice(url: &Url, error: &object_store::Error) -> Option<Error> {
    let (keys, where_from) = match url.scheme() {
        "gs" => ("GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS", ""),
        "az" | "adl" | "azure" | "abfs" | "abfss" => ("AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY", ""),
        _ => ("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", ", or AWS_PROFILE"),
    };
    let bucket = url.host_str().unwrap_or_default();
    let text = crate::error_chain(error);
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let problem = if has(&["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"]) {
        format!("there is no bucket `{bucket}`: create it, or correct the address")
    } else if has(&["InvalidAccessKeyId"]) {
        "the store does not know this access key: check AWS_ACCESS_KEY_ID, and AWS_ENDPOINT_URL if the key is for \
         another service"
            .to_owned()
    } else if has(&["SignatureDoesNotMatch"]) {
        "the secret does not belong to the access key: check AWS_SECRET_ACCESS_KEY".to_owned()
    } else if has(&["ExpiredToken", "InvalidToken"]) {
        "the session has ended: get new keys and set AWS_SESSION_TOKEN with them".to_owned()
    } else if is_without_keys(&text) || matches!(error, object_store::Error::Unauthenticated { .. }) {
        format!("the store requires credentials: set {keys}{where_from}")
    } else if matches!(error, object_store::Error::PermissionDenied { .. }) {
        format!("access is denied: the keys must allow reading, writing and listing `{bucket}`; check {keys}")
    } else if let Some(advice) = certificate::advice(&text) {
        advice.to_owned()
    } else if is_disconnect(error) {
        format!(
            "the store cannot be reached: check {}, and whether it runs",
            if keys.starts_with("AWS") { "AWS_ENDPOINT_URL" } else { "the network" }
        )
    } else {
        return None;
    };
    Some(Error::Access { address: crate::without_secrets(url.as_str()), problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn variables_of_stores_become_options_and_plain_endpoints_allow_http() {
        let mut found = environment_options(pairs(&[
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SESSION_TOKEN", ""),
            ("HOME", "/root"),
            ("AWS_ALLOW_INVALID_CERTIFICATES", "true"),
            ("GOOGLE_SERVICE_ACCOUNT", "account.json"),
        ]));
        let expected = pairs(&[("aws_access_key_id", "key"), ("google_service_account", "account.json")]);
        assert_eq!(found, expected);
        complete_options(&mut found);
        assert_eq!(found, expected);
        for endpoint in ["aws_endpoint_url", "aws_endpoint_url_s3", "aws_endpoint"] {
            let mut found = pairs(&[(endpoint, "http://localhost:9000")]);
            complete_options(&mut found);
            assert_eq!(found[1..], pairs(&[("aws_allow_http", "true")]));
        }
        let mut forbidden = pairs(&[("aws_endpoint_url", "http://localhost"), ("aws_allow_http", "false")]);
        complete_options(&mut forbidden);
        assert_eq!(forbidden.len(), 2);
    }

    #[test]
    fn a_profile_is_read_out_of_both_files() {
        let credentials = "[default]\naws_access_key_id = one\n[work]\n# aws_access_key_id = no\naws_access_key_id=two\naws_secret_access_key= s=2 \n";
        let config = "[default]\nregion = us-east-1\n[profile work]\nregion = eu-central-1\nendpoint_url = http://localhost:9000\noutput = json\n";
        let work = pairs(&[
            ("aws_access_key_id", "two"),
            ("aws_secret_access_key", "s=2"),
            ("aws_region", "eu-central-1"),
            ("aws_endpoint_url", "http://localhost:9000"),
        ]);
        assert_eq!(profile_options("work", credentials, config), work);
        assert_eq!(
            profile_options("default", credentials, config),
            pairs(&[("aws_access_key_id", "one"), ("aws_region", "us-east-1")])
        );
        assert_eq!(profile_options("other", credentials, config), []);
    }
}
