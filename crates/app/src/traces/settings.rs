//! Where spans are sent, by OpenTelemetry's variables and the option `--traces`.

use opentelemetry_sdk::trace::Sampler;
use reqwest::Url;
use std::time::Duration;

/// The collector of spans, and which spans it gets.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// The collector's address for traces.
    pub endpoint: Url,
    /// Sent with every batch; they may hold a key.
    pub headers: Vec<(String, String)>,
    /// How long the collector may take for a batch.
    pub timeout: Duration,
    /// Which requests are traced.
    pub sampler: Sampler,
    /// Attributes of the service: `service.name` and others.
    pub resource: Vec<(String, String)>,
    /// Whether texts of questions, passages and answers are sent.
    pub content: bool,
}

/// A setting of traces that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceSettingsError {
    /// The address of the collector.
    #[error("{setting}: `{address}` is no address such as http://localhost:4318")]
    Address {
        /// The option or variable.
        setting: String,
        /// Its value.
        address: String,
    },
    /// A protocol that is not supported.
    #[error("{variable}: `{protocol}` is not supported: use `http/protobuf`, usually at port 4318")]
    Protocol {
        /// The variable.
        variable: String,
        /// Its value.
        protocol: String,
    },
    /// A sampler that is not supported.
    #[error(
        "OTEL_TRACES_SAMPLER: `{0}` is none of always_on, always_off, traceidratio, with or without parentbased_ before it"
    )]
    Sampler(String),
    /// The share of a sampler.
    #[error("OTEL_TRACES_SAMPLER_ARG: `{0}` is no share from 0 to 1")]
    SamplerShare(String),
}

impl TraceSettings {
    /// Reads the settings from variables; `address`, of the command line, replaces
    /// that of the variables. `None` if no address is set, or if traces are turned off.
    /// Source: "OpenTelemetry Environment Variable Specification" and
    /// "OpenTelemetry Protocol Exporter".
    ///
    /// # Errors
    /// If a setting cannot be used.
    pub fn read(
        address: Option<&str>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, TraceSettingsError> {
        let is = |name: &str, value: &str| variable(name).is_some_and(|set| set.eq_ignore_ascii_case(value));
        if address.is_none() && (is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none")) {
            return Ok(None);
        }
        let of_traces = |name: &str| {
            let pair = [format!("OTEL_EXPORTER_OTLP_TRACES_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
            pair.into_iter().find_map(|name| variable(&name).map(|value| (name, value)))
        };
        let option = address.map(|address| ("--traces".to_owned(), address.to_owned()));
        let Some((setting, address)) = option.or_else(|| of_traces("ENDPOINT")) else { return Ok(None) };
        let endpoint = Url::parse(&address).ok();
        let endpoint = endpoint.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(mut endpoint) = endpoint else { return Err(TraceSettingsError::Address { setting, address }) };
        // Only the variable for traces holds the complete address; the others hold that of the collector.
        if setting != "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" && !endpoint.path().ends_with("/v1/traces") {
            let path = format!("{}/v1/traces", endpoint.path().trim_end_matches('/'));
            endpoint.set_path(&path);
        }
        if let Some((variable, protocol)) = of_traces("PROTOCOL")
            && protocol != "http/protobuf"
        {
            return Err(TraceSettingsError::Protocol { variable, protocol });
        }
        let share = || {
            let share = variable("OTEL_TRACES_SAMPLER_ARG").unwrap_or_else(|| "1".to_owned());
            let number = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
            number.ok_or(TraceSettingsError::SamplerShare(share))
        };
        let parent_based = |root: Sampler| Sampler::ParentBased(Box::new(root));
        let sampler = match variable("OTEL_TRACES_SAMPLER").as_deref() {
            None | Some("parentbased_always_on") => parent_based(Sampler::AlwaysOn),
            Some("parentbased_always_off") => parent_based(Sampler::AlwaysOff),
            Some("parentbased_traceidratio") => parent_based(Sampler::TraceIdRatioBased(share()?)),
            Some("always_on") => Sampler::AlwaysOn,
            Some("always_off") => Sampler::AlwaysOff,
            Some("traceidratio") => Sampler::TraceIdRatioBased(share()?),
            Some(other) => return Err(TraceSettingsError::Sampler(other.to_owned())),
        };
        let mut resource = parse_pairs(&variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
        if let Some(name) = variable("OTEL_SERVICE_NAME") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".to_owned(), name));
        }
        for (key, value) in [("service.name", "reverie"), ("service.version", env!("CARGO_PKG_VERSION"))] {
            if !resource.iter().any(|(known, _)| known == key) {
                resource.push((key.to_owned(), value.to_owned()));
            }
        }
        let timeout = of_traces("TIMEOUT").and_then(|(_, text)| text.parse().ok()).unwrap_or(10_000);
        Ok(Some(Self {
            endpoint,
            headers: of_traces("HEADERS").map(|(_, text)| parse_pairs(&text)).unwrap_or_default(),
            timeout: Duration::from_millis(timeout),
            sampler,
            resource,
            content: is("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
        }))
    }
}

/// Parses `name=value,…`, with values in percent-encoding.
fn parse_pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), decode_percent(value.trim()))).collect()
}

/// Decodes percent-encoding; a text that has none stays as it is.
fn decode_percent(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flag: Option<&str>, set: &[(&str, &str)]) -> Result<Option<TraceSettings>, TraceSettingsError> {
        let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        TraceSettings::read(flag, &variable)
    }

    fn endpoint(flag: Option<&str>, set: &[(&str, &str)]) -> Option<String> {
        read(flag, set).unwrap().map(|settings| settings.endpoint.to_string())
    }

    const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");

    #[test]
    fn nothing_is_traced_unless_somebody_says_where_to() {
        assert_eq!(endpoint(None, &[("OTEL_SERVICE_NAME", "manuals")]), None);
        for off in [("OTEL_SDK_DISABLED", "True"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(endpoint(None, &[BASE, off]), None);
        }
    }

    #[test]
    fn the_address_is_that_of_the_collector_or_of_its_traces() {
        let at = |flag, set: &[(&str, &str)]| endpoint(flag, set).unwrap();
        assert_eq!(at(None, &[BASE]), "http://collector:4318/v1/traces");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://a.example/in");
        assert_eq!(at(None, &[BASE, own]), "https://a.example/in");
        assert_eq!(at(Some("http://b:1/otel/"), &[BASE, own]), "http://b:1/otel/v1/traces");
        assert_eq!(at(Some("http://b:1/v1/traces"), &[]), "http://b:1/v1/traces");
        for (flag, set) in
            [(Some("localhost:4318"), [].as_slice()), (None, [("OTEL_EXPORTER_OTLP_ENDPOINT", "a")].as_slice())]
        {
            assert!(read(flag, set).unwrap_err().to_string().contains("is no address"));
        }
    }

    #[test]
    fn headers_and_attributes_are_pairs_in_percent_encoding() {
        let settings = read(
            None,
            &[
                BASE,
                ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20YTpi==, x-tenant = a%2Cb,"),
                ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=100%"),
                ("OTEL_SERVICE_NAME", "manuals"),
            ],
        );
        let settings = settings.unwrap().unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(settings.headers, [pair("authorization", "Basic YTpi=="), pair("x-tenant", "a,b")]);
        assert_eq!(
            settings.resource[..2],
            [pair("deployment.environment.name", "100%"), pair("service.name", "manuals")]
        );
        assert!(!settings.content);
    }

    #[test]
    fn a_wrong_setting_is_told_instead_of_being_traced_otherwise() {
        for (set, said) in [
            (("OTEL_TRACES_SAMPLER", "some"), "`some` is none of"),
            (("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "`grpc` is not supported"),
        ] {
            assert!(read(None, &[BASE, set]).unwrap_err().to_string().contains(said));
        }
        let ratio = ("OTEL_TRACES_SAMPLER", "traceidratio");
        assert!(
            read(None, &[BASE, ratio, ("OTEL_TRACES_SAMPLER_ARG", "7")])
                .unwrap_err()
                .to_string()
                .contains("from 0 to 1")
        );
        let settings = read(None, &[BASE, ratio, ("OTEL_TRACES_SAMPLER_ARG", "0.25")]).unwrap().unwrap();
        assert!(matches!(settings.sampler, Sampler::TraceIdRatioBased(share) if share == 0.25));
    }
}
