//! A page of a document of the corpus as a picture, with the places of texts on it.

use crate::{Error, Session, blocking::compute, document::read_file, error_chain, parser_needs::prepare_parsers};
use bytes::Bytes;
use rag::{
    Document,
    load::{self, LoadError, PageView, ParseLimits, ReadError, Source},
    parse::view_page,
};
use std::sync::{Arc, OnceLock};
use store::Key;

/// How finely a page is drawn to be looked at, in dots per inch.
pub const VIEW_DOTS: u32 = 110;

/// A page of a document of a session's corpus, with the places of these texts. None for files that are neither PDFs nor
/// pictures.
///
/// # Errors
/// If the corpus has no such document, or it cannot be read.
pub async fn page_view(
    session: &Session,
    path: &str,
    page: u32,
    texts: Vec<String>,
    dots_per_inch: u32,
) -> Result<Option<PageView>, Error> {
    let bytes = read_file(session, path, &[]).await?;
    let limits = session.experiment.corpus.limits.clone();
    draw(path, bytes, page, texts, dots_per_inch, limits).await
}

/// Draws pages of the documents of a corpus, without listing the corpus.
#[derive(Debug, Clone)]
pub struct CorpusPages {
    source: Source,
    limits: ParseLimits,
}

impl CorpusPages {
    /// The corpus of a session, if its address can be used.
    pub fn of(session: &Session) -> Option<Self> {
        let source = session.corpus_source(&mut Vec::new())?;
        prepare_parsers(&session.context().directory, &[], [], &mut Vec::new()).ok()?;
        Some(Self { source, limits: session.experiment.corpus.limits.clone() })
    }

    /// A document, to look at several of its pages; none if it is not there.
    ///
    /// # Errors
    /// If it cannot be read now.
    pub async fn open(&self, path: &str) -> Result<Option<DocumentPages>, Error> {
        let bytes = self.read(path).await?;
        let (path, limits) = (path.to_owned(), self.limits.clone());
        Ok(bytes.map(|bytes| DocumentPages { path, bytes, limits, parsed: Arc::default() }))
    }

    /// The bytes of a document; none if it is not there.
    async fn read(&self, path: &str) -> Result<Option<Bytes>, Error> {
        // A file in a file is found by the longest path that can be read. "Not a folder" is no failure of the place.
        let outer = path.match_indices('/').map(|(end, _)| &path[..end]);
        let mut failed = None;
        for outer in outer.chain([path]).collect::<Vec<_>>().into_iter().rev() {
            match self.source.read(&self.source.file(outer), &self.limits).await {
                Ok(bytes) => return inner_file(outer, bytes, path, &self.limits).await,
                Err(ReadError::Failed { is_temporary: true, reason }) if outer == path => failed = Some(reason),
                Err(_) => {}
            }
        }
        match failed {
            Some(reason) => Err(Error::Unusable(format!("{path} cannot be read now: {reason}"))),
            None => Ok(None),
        }
    }
}

/// A document whose pages are looked at.
#[derive(Debug)]
pub struct DocumentPages {
    path: String,
    bytes: Bytes,
    limits: ParseLimits,
    /// What it says, once that was asked for; none if it gives no document.
    parsed: Arc<OnceLock<Option<Document>>>,
}

impl DocumentPages {
    /// The key of its bytes.
    ///
    /// # Errors
    /// If the computation panics.
    pub async fn content_key(&self) -> Result<Key, Error> {
        let bytes = self.bytes.clone();
        compute(move || Key::of_bytes(&bytes)).await
    }

    /// The page on which a quote begins in the text, as it is read by default; none if that is not known.
    pub async fn page_of_quote(&self, quote: &str) -> Option<u32> {
        let (path, bytes, limits) = (self.path.clone(), self.bytes.clone(), self.limits.clone());
        let (parsed, quote) = (self.parsed.clone(), quote.to_owned());
        let find = move || {
            let document = parsed.get_or_init(|| load::parse(&path, &bytes, &limits).ok());
            document.as_ref()?.page_of_quote(&quote)
        };
        compute(find).await.ok()?
    }

    /// A page, with the places of these texts. None if there is no such page, or the document is neither a PDF nor a picture.
    ///
    /// # Errors
    /// If the document is damaged, or cannot be read now.
    pub async fn view(&self, page: u32, texts: Vec<String>, dots_per_inch: u32) -> Result<Option<PageView>, Error> {
        draw(&self.path, self.bytes.clone(), page, texts, dots_per_inch, self.limits.clone()).await
    }
}

/// Whether the pages of a document can be drawn, by its name.
pub fn has_drawn_pages(path: &str) -> bool {
    let ending = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    ["pdf", "png", "jpg", "jpeg", "tif", "tiff", "webp"].contains(&ending.as_str())
}

/// The bytes of a file, or of a file in it.
async fn inner_file(outer: &str, bytes: Bytes, wanted: &str, limits: &ParseLimits) -> Result<Option<Bytes>, Error> {
    if outer == wanted {
        return Ok(Some(bytes));
    }
    let (outer, wanted, limits) = (outer.to_owned(), wanted.to_owned(), limits.clone());
    compute(move || load::find_file(&outer, &bytes, &wanted, &limits).found?.ok()).await
}

async fn draw(
    path: &str,
    bytes: Bytes,
    page: u32,
    texts: Vec<String>,
    dots_per_inch: u32,
    limits: ParseLimits,
) -> Result<Option<PageView>, Error> {
    let name = path.to_owned();
    let view = move || -> Result<Option<PageView>, LoadError> {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        view_page(&name, &bytes, page, &texts, dots_per_inch, &limits)
    };
    let failed = |reason: LoadError| Error::Unusable(format!("{path}, page {page}: {}", error_chain(&reason)));
    compute(view).await?.map_err(failed)
}
