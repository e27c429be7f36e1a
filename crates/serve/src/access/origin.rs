//! The origins of web pages that may use a service.

use axum::http::Uri;

/// The web pages that may use a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageOrigin {
    /// Pages of every origin. Safe only with keys, which no browser sends by itself.
    Any,
    /// Pages of one origin: a scheme, a host, and a port unless it is the scheme's
    /// default.
    One(String),
}

/// The text is not the origin of a web page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no origin: write a scheme and a host, such as https://intranet.example.com")]
pub struct OriginError(String);

impl PageOrigin {
    /// Reads an origin as browsers write it, or `*`.
    ///
    /// # Errors
    /// If the text is neither.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let wrong = || OriginError(text.to_owned());
        let url: Uri = text.parse().map_err(|_| wrong())?;
        let (Some("http" | "https"), Some(authority)) = (url.scheme_str(), url.authority()) else {
            return Err(wrong());
        };
        let has_path = url.path_and_query().is_some_and(|path| path.as_str() != "/") || text.ends_with('/');
        if has_path || authority.as_str().contains('@') {
            return Err(wrong());
        }
        Ok(Self::One(normalize(text)))
    }

    /// Whether pages of a normalized origin may use the service.
    pub(crate) fn allows(&self, origin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::One(allowed) => allowed == origin,
        }
    }
}

/// Normalizes an origin: lower case, without the default port of its scheme.
pub(crate) fn normalize(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let port = if origin.starts_with("https://") { ":443" } else { ":80" };
    origin.strip_suffix(port).map_or(origin.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host_and_nothing_else() {
        assert_eq!(PageOrigin::parse("*"), Ok(PageOrigin::Any));
        for (text, normal) in [
            ("https://Intranet.example.com", "https://intranet.example.com"),
            ("https://a.example:443", "https://a.example"),
            ("http://a.example:80", "http://a.example"),
            ("http://localhost:3000", "http://localhost:3000"),
        ] {
            assert_eq!(PageOrigin::parse(text), Ok(PageOrigin::One(normal.into())), "{text}");
        }
        for text in [
            "",
            "null",
            "a.example",
            "https://",
            "https://a.example/",
            "https://a.example/x",
            "https://u@a.example",
            "ftp://a",
            "https://*.a",
        ] {
            let parsed = PageOrigin::parse(text);
            assert!(parsed.is_err() || text.contains('*'), "{text}: {parsed:?}");
        }
    }
}
