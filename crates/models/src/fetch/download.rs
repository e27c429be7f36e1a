//! Downloads that can be interrupted at any byte and continue there the next time.

use super::digest::sha256_of;
use crate::{locked, model::innermost};
use futures::StreamExt;
use reqwest::{StatusCode, header};
use std::{collections::HashSet, fmt::Display, path::Path, sync::Mutex, time::Duration};
use tokio::{fs::OpenOptions, io::AsyncWriteExt};

/// A request fails after this many attempts in a row that brought no bytes.
const MAX_ATTEMPTS: u32 = 5;
/// How long a host may send nothing.
const SILENCE: Duration = Duration::from_secs(30);

/// Why a source gave nothing, in words for a person. It holds no secret: only
/// the host of an address is named, because the rest may contain a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct FetchError(pub(super) String);

impl FetchError {
    pub(super) fn new(reason: impl Display) -> Self {
        Self(reason.to_string())
    }

    pub(super) fn file(path: &Path, error: &std::io::Error) -> Self {
        Self(format!("{}: {error}", path.display()))
    }
}

/// A file to download, with its expected size and digest.
#[derive(Debug, Clone, Copy)]
pub(super) struct DownloadRequest<'a> {
    pub(super) url: &'a str,
    /// Sent as a bearer token, and only to the URL's host.
    pub(super) token: Option<&'a str>,
    pub(super) bytes: Option<u64>,
    pub(super) sha256: Option<&'a str>,
}

/// A page of an index or an API.
#[derive(Debug)]
pub(super) struct WebPage {
    /// Its address after all redirects; relative links start from here.
    pub(super) url: reqwest::Url,
    pub(super) body: String,
}

/// An HTTP client that remembers, for one pull, which hosts do not answer.
#[derive(Debug)]
pub(super) struct Downloader {
    client: reqwest::Client,
    unreachable: Mutex<HashSet<String>>,
}

enum Interruption {
    /// Another try may continue from here.
    ForNow(FetchError),
    /// Another try would end the same way.
    ForGood(FetchError),
}

impl Interruption {
    fn for_now(reason: impl Display) -> Self {
        Self::ForNow(FetchError::new(reason))
    }

    fn for_good(reason: impl Display) -> Self {
        Self::ForGood(FetchError::new(reason))
    }
}

impl Downloader {
    pub(super) fn new(connect_timeout: Duration) -> Result<Self, FetchError> {
        let client = store::http_client()
            .connect_timeout(connect_timeout)
            .read_timeout(SILENCE)
            // Files are downloaded as they are, even if decompression is compiled in.
            .no_gzip()
            .user_agent(concat!("reverie/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| FetchError::new(innermost(&error)))?;
        Ok(Self { client, unreachable: Mutex::default() })
    }

    /// Reads a page as a whole.
    pub(super) async fn page(&self, url: &str, accept: &str, token: Option<&str>) -> Result<WebPage, FetchError> {
        retried(|| self.page_once(url, accept, token), || 0).await
    }

    async fn page_once(&self, url: &str, accept: &str, token: Option<&str>) -> Result<WebPage, Interruption> {
        let response = accepted(self.send(url, token, &[(header::ACCEPT, accept)]).await?)?;
        let url = response.url().clone();
        let body = response.text().await.map_err(|error| Interruption::for_now(innermost(&error)))?;
        Ok(WebPage { url, body })
    }

    /// Downloads into `part`, continuing an earlier try, and checks the result.
    /// A file with another size or digest is removed.
    pub(super) async fn fetch(
        &self,
        wanted: DownloadRequest<'_>,
        part: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), FetchError> {
        let resumed = length(part) > 0;
        let fill = || retried(move || self.fill(wanted, part, progress), move || length(part));
        fill().await?;
        match check(wanted, part).await {
            // The part of an earlier try may belong to another version of the file.
            Err(_) if resumed => {
                fill().await?;
                check(wanted, part).await
            }
            done => done,
        }
    }

    async fn fill(
        &self,
        wanted: DownloadRequest<'_>,
        part: &Path,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Interruption> {
        let for_good = |error: std::io::Error| Interruption::ForGood(FetchError::file(part, &error));
        let mut done = length(part);
        if wanted.bytes.is_some_and(|bytes| done > bytes) {
            std::fs::remove_file(part).map_err(for_good)?;
            done = 0;
        }
        if done > 0 && wanted.bytes == Some(done) {
            progress(done);
            return Ok(());
        }
        let range = format!("bytes={done}-");
        let headers: &[_] = if done > 0 { &[(header::RANGE, range.as_str())] } else { &[] };
        let response = self.send(wanted.url, wanted.token, headers).await?;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            // The local part is not the beginning of the remote file.
            std::fs::remove_file(part).map_err(for_good)?;
            return Err(Interruption::for_now("the host no longer has the file that an earlier try began"));
        }
        let response = accepted(response)?;
        let goes_on = response.status() == StatusCode::PARTIAL_CONTENT && starts_at(&response, done);
        if !goes_on {
            done = 0;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(goes_on)
            .write(true)
            .truncate(!goes_on)
            .open(part)
            .await
            .map_err(for_good)?;
        let mut stream = response.bytes_stream();
        let outcome = async {
            while let Some(bytes) = stream.next().await {
                let bytes = bytes.map_err(|error| Interruption::for_now(innermost(&error)))?;
                file.write_all(&bytes).await.map_err(for_good)?;
                done += bytes.len() as u64;
                progress(done);
            }
            Ok::<_, Interruption>(())
        }
        .await;
        // The bytes so far are kept, whatever happens next.
        file.flush().await.map_err(for_good)?;
        outcome?;
        match wanted.bytes {
            Some(bytes) if done < bytes => {
                Err(Interruption::for_now(format_args!("the download ended after {done} of {bytes} bytes")))
            }
            _ => Ok(()),
        }
    }

    async fn send(
        &self,
        url: &str,
        token: Option<&str>,
        headers: &[(header::HeaderName, &str)],
    ) -> Result<reqwest::Response, Interruption> {
        let parsed = reqwest::Url::parse(url)
            .map_err(|error| Interruption::for_good(format_args!("not an address: {error}")))?;
        let host = host(&parsed);
        if locked(&self.unreachable).contains(&host) {
            return Err(Interruption::for_good(format_args!("{host} did not answer an earlier request")));
        }
        let request = self.client.get(parsed);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, *value));
        let request = token.into_iter().fold(request, |request, token| request.bearer_auth(token));
        request.send().await.map_err(|error| {
            let reason = innermost(&error);
            if error.is_connect() {
                locked(&self.unreachable).insert(host.clone());
                Interruption::for_good(format_args!("{host} cannot be reached: {reason}"))
            } else {
                Interruption::for_now(format_args!("{host}: {reason}"))
            }
        })
    }
}

/// The part of an address that is safe to show.
fn host(url: &reqwest::Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

fn accepted(response: reqwest::Response) -> Result<reqwest::Response, Interruption> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let advice = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": it may need a token, or its terms accepted first",
        _ => "",
    };
    let reason = FetchError(format!("{} answered {status}{advice}", host(response.url())));
    let passing =
        status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    Err(if passing { Interruption::ForNow(reason) } else { Interruption::ForGood(reason) })
}

/// Whether the answer to a range request begins where we asked.
fn starts_at(response: &reqwest::Response, start: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.trim_start().starts_with(&format!("bytes {start}-")))
}

async fn check(wanted: DownloadRequest<'_>, part: &Path) -> Result<(), FetchError> {
    let refused = |reason: String| {
        // A part that stays behind would be taken for a good beginning.
        let _ = std::fs::remove_file(part);
        Err(FetchError(reason))
    };
    let bytes = length(part);
    if let Some(wanted) = wanted.bytes.filter(|wanted| *wanted != bytes) {
        return refused(format!("it has {bytes} bytes, not {wanted}"));
    }
    let Some(expected) = wanted.sha256 else { return Ok(()) };
    let found = digest(part).await?;
    if found == expected {
        return Ok(());
    }
    refused(format!("its SHA-256 is {found}, not {expected}"))
}

/// The SHA-256 of a file.
pub(super) async fn digest(path: &Path) -> Result<String, FetchError> {
    let owned = path.to_owned();
    blocking(move || sha256_of(&owned).map_err(|error| FetchError::file(&owned, &error))).await
}

/// Runs slow work outside the threads that wait for the network.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    tokio::task::spawn_blocking(work).await.map_err(FetchError::new)?
}

pub(super) fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Tries again after interruptions, with growing pauses, until [`MAX_ATTEMPTS`] in a row have not raised `done`.
async fn retried<T, Fut: Future<Output = Result<T, Interruption>>>(
    work: impl Fn() -> Fut,
    done: impl Fn() -> u64,
) -> Result<T, FetchError> {
    let mut attempts = 0;
    loop {
        let before = done();
        match work().await {
            Ok(result) => return Ok(result),
            Err(Interruption::ForGood(reason)) => return Err(reason),
            Err(Interruption::ForNow(reason)) => {
                attempts = if done() > before { 1 } else { attempts + 1 };
                if attempts >= MAX_ATTEMPTS {
                    return Err(reason);
                }
                tokio::time::sleep(Duration::from_millis(200 * u64::from(2u32.pow(attempts.min(4))))).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::method};

    const BODY: &[u8] = b"0123456789abcdefghij";

    /// A host that serves ranges.
    fn ranged(request: &Request) -> ResponseTemplate {
        let start = request
            .headers
            .get("range")
            .and_then(|range| range.to_str().ok())
            .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
        match start {
            None => ResponseTemplate::new(200).set_body_bytes(BODY),
            Some(start) if start >= BODY.len() => ResponseTemplate::new(416),
            Some(start) => ResponseTemplate::new(206)
                .insert_header("content-range", format!("bytes {start}-{}/{}", BODY.len() - 1, BODY.len()))
                .set_body_bytes(&BODY[start..]),
        }
    }

    struct Bench {
        folder: tempfile::TempDir,
        server: MockServer,
        downloader: Downloader,
    }

    impl Bench {
        async fn new(respond: fn(&Request) -> ResponseTemplate) -> Self {
            let server = MockServer::start().await;
            Mock::given(method("GET")).respond_with(respond).mount(&server).await;
            let downloader = Downloader::new(Duration::from_secs(120)).expect("a client");
            Self { folder: tempfile::tempdir().expect("a folder"), server, downloader }
        }

        async fn fetch(&self, sha256: &str) -> Result<Vec<u8>, FetchError> {
            let part = self.folder.path().join("file.part");
            let wanted = DownloadRequest {
                url: &self.server.uri(),
                token: None,
                bytes: Some(BODY.len() as u64),
                sha256: Some(sha256),
            };
            self.downloader.fetch(wanted, &part, &|_| {}).await?;
            std::fs::read(&part).map_err(|error| FetchError::file(&part, &error))
        }

        fn begin(&self, bytes: &[u8]) {
            std::fs::write(self.folder.path().join("file.part"), bytes).expect("written");
        }
    }

    fn pin() -> String {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("x"), BODY).expect("written");
        sha256_of(&folder.path().join("x")).expect("a digest")
    }

    #[tokio::test]
    async fn a_truncated_file_is_taken_up_where_it_ended() {
        let bench = Bench::new(ranged).await;
        bench.begin(&BODY[..7]);
        assert_eq!(bench.fetch(&pin()).await.as_deref(), Ok(BODY));
        let requests = bench.server.received_requests().await.unwrap_or_default();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].headers.get("range").and_then(|range| range.to_str().ok()), Some("bytes=7-"));
    }

    #[tokio::test]
    async fn a_whole_file_is_not_asked_for_again() {
        let bench = Bench::new(ranged).await;
        bench.begin(BODY);
        assert_eq!(bench.fetch(&pin()).await.as_deref(), Ok(BODY));
        assert_eq!(bench.server.received_requests().await.map(|requests| requests.len()), Some(0));
    }

    #[tokio::test]
    async fn a_beginning_of_another_file_is_thrown_away() {
        let bench = Bench::new(ranged).await;
        bench.begin(b"XXXX");
        assert_eq!(bench.fetch(&pin()).await.as_deref(), Ok(BODY));
        bench.begin(&[b'X'; 50]);
        assert_eq!(bench.fetch(&pin()).await.as_deref(), Ok(BODY));
    }

    #[tokio::test]
    async fn a_host_without_ranges_sends_the_whole_file() {
        let bench = Bench::new(|_| ResponseTemplate::new(200).set_body_bytes(BODY)).await;
        bench.begin(&BODY[..7]);
        assert_eq!(bench.fetch(&pin()).await.as_deref(), Ok(BODY));
    }

    #[tokio::test]
    async fn a_wrong_digest_is_refused_and_not_left_behind() {
        let bench = Bench::new(ranged).await;
        let failure = bench.fetch(&"0".repeat(64)).await.expect_err("refused");
        assert!(failure.0.contains("SHA-256"), "{failure:?}");
        assert!(!bench.folder.path().join("file.part").exists());
    }

    #[tokio::test]
    async fn an_unreachable_host_is_asked_once() {
        let downloader = Downloader::new(Duration::from_secs(2)).expect("a client");
        let first = downloader.page("http://127.0.0.1:9/", "*/*", None).await.expect_err("nothing listens there");
        assert!(first.0.contains("cannot be reached"), "{first:?}");
        let second = downloader.page("http://127.0.0.1:9/", "*/*", None).await.expect_err("still nothing");
        assert!(second.0.contains("did not answer an earlier request"), "{second:?}");
    }
}
