//! Reads requests, with errors in OpenAI's shape.

use crate::{error::ApiError, http::media_type, service::HttpService};
use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{StatusCode, header, request::Parts},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::{Deserialize, Deserializer, de, de::DeserializeOwned};
use serde_json::Value;
use std::{fmt, sync::Arc};

/// A request's body in JSON.
pub(crate) struct JsonBody<T>(pub(crate) T);

/// A body of this many bytes is parsed in less than a millisecond; a longer one is
/// parsed on a blocking thread.
const QUICK_BYTES: usize = 32 << 10;

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<HttpService>> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, service: &Arc<HttpService>) -> Result<Self, ApiError> {
        let kind = media_type(request.headers());
        if kind != "application/json" && !kind.ends_with("+json") {
            return Err(ApiError::not_json());
        }
        let bytes = read_bytes(service, request, usize::MAX).await?;
        off_thread(bytes.len(), move || parse(&bytes)).await.map(Self)
    }
}

/// Does work whose time grows with the number of bytes; with many bytes, on a blocking
/// thread.
pub(crate) async fn off_thread<T: Send + 'static>(
    n_bytes: usize,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if n_bytes <= QUICK_BYTES {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => Err(ApiError::panicked(&*error.into_panic())),
        Err(error) => Err(ApiError::internal(error.to_string())),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let mut body = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut body).map_err(|error| unreadable("", &error))?;
    body.end().map_err(|error| ApiError::invalid(format!("the body is not one value of JSON: {error}")))?;
    Ok(parsed)
}

/// Reads a part of a body. `place` is its path in the body, for errors.
pub(crate) fn read<T: DeserializeOwned>(value: Value, place: &str) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(value).map_err(|error| unreadable(place, &error))
}

/// The error for a part of a body that cannot be read; `place` is the part's path.
fn unreadable(place: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> ApiError {
    let path = match error.path().to_string() {
        path if path == "." => place.to_owned(),
        path if place.is_empty() => path,
        path if path.starts_with('[') => format!("{place}{path}"),
        path => format!("{place}.{path}"),
    };
    let is_syntax = error.inner().is_syntax() || error.inner().is_eof();
    let reason = error.inner().to_string();
    // The line is useful only if no field can be named.
    let reason = match reason.rsplit_once(" at line ") {
        Some((reason, _)) if !is_syntax && !path.is_empty() => reason,
        _ => &reason,
    };
    let mut reason = reason.replace("unknown variant", "unknown value");
    // The names of types mean nothing to a client.
    if let Some((before, _)) = reason.split_once("expected struct ") {
        reason = format!("{before}expected an object");
    }
    if is_syntax {
        return ApiError::invalid(format!("the body is not JSON: {reason}"));
    }
    if path.is_empty() {
        return ApiError::invalid(format!("the body is not what is expected: {reason}"));
    }
    ApiError::invalid(format!("`{path}` is not what is expected: {reason}")).with_parameter(path)
}

/// Reads the bytes of a body: at most `most` of them, and within the limits of the
/// settings in size and time.
pub(crate) async fn read_bytes(service: &Arc<HttpService>, request: Request, most: usize) -> Result<Bytes, ApiError> {
    let (most, reading) = (most.min(service.settings.body_bytes), service.settings.reading);
    let body = Limited::new(request.into_body(), most);
    match tokio::time::timeout(reading, body.collect()).await {
        Err(_) => Err(ApiError::invalid(format!("the body did not come within {reading:?}"))
            .with_status(StatusCode::REQUEST_TIMEOUT, "request_timeout")),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(ApiError::invalid(format!("the body is larger than {most} bytes"))
                .with_status(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"))
        }
        Ok(Err(error)) => Err(ApiError::invalid(format!("the body cannot be read: {error}"))),
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
    }
}

/// The id in a path.
pub(crate) struct PathId(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let found = Path::<String>::from_request_parts(parts, state).await;
        found.map(|Path(id)| Self(id)).map_err(|rejection| ApiError::invalid(rejection.body_text()))
    }
}

/// The parameters in a URL.
pub(crate) struct QueryParameters<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let parsed = Query::<T>::from_request_parts(parts, state).await;
        parsed.map(|Query(query)| Self(query)).map_err(|rejection| ApiError::invalid(rejection.body_text()))
    }
}

/// The base URL of links to the service.
#[derive(Debug, Clone)]
pub(crate) struct PublicBase(pub(crate) String);

impl FromRequestParts<Arc<HttpService>> for PublicBase {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<HttpService>) -> Result<Self, ApiError> {
        if let Some(url) = &service.settings.public_url {
            return Ok(Self(url.trim_end_matches('/').to_owned()));
        }
        let host = parts.uri.authority().map(ToString::to_string);
        let host = host.or_else(|| Some(parts.headers.get(header::HOST)?.to_str().ok()?.to_owned()));
        let scheme = if service.is_tls { "https" } else { "http" };
        Ok(Self(host.map(|host| format!("{scheme}://{host}")).unwrap_or_default()))
    }
}

/// Deserializes an optional whole number; also `3.0`, which is an integer in JSON
/// Schema.
pub(crate) fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    struct WholeNumber;
    impl de::Visitor<'_> for WholeNumber {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number from 0 on")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<usize, E> {
            usize::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<usize, E> {
            // From 2⁵³ on, not every whole number is a floating-point number.
            let is_whole = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
            if is_whole { Ok(number as usize) } else { Err(E::invalid_value(de::Unexpected::Float(number), &self)) }
        }
    }
    let number = Option::<Value>::deserialize(deserializer)?;
    number.map(|number| number.deserialize_any(WholeNumber).map_err(de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{ThreadId, current};

    #[tokio::test]
    async fn a_body_above_32_kib_is_read_on_another_thread() {
        async fn reader(n_bytes: usize) -> ThreadId {
            off_thread(n_bytes, || Ok(current().id())).await.expect("its thread")
        }
        let here = current().id();
        assert_eq!([reader(0).await, reader(QUICK_BYTES).await], [here, here]);
        assert_ne!(reader(QUICK_BYTES + 1).await, here);
        let failed = off_thread(QUICK_BYTES + 1, || -> Result<(), ApiError> { panic!("a mistake") }).await;
        assert_eq!(failed.expect_err("it panicked").status, StatusCode::INTERNAL_SERVER_ERROR);
    }
}
