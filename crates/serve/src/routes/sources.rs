//! Sources as clients read them, and their ids.
//!
//! An id contains the document's path and the span of its text, so it stays valid
//! after a restart and on every replica.

use crate::{
    answering::{Deadline, DrawnPages, LaneSet, ServedPipeline, WantedPage},
    error::ApiError,
};
use axum::http::StatusCode;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rag::{
    Passage, Span,
    load::{PageBox, PageView},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The most characters of a quote.
const QUOTE_CHARACTERS: usize = 300;
/// How many bytes of a document are shown before and after a passage.
const AROUND_BYTES: usize = 2000;

/// A passage that an answer was written from.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PassageSource {
    /// The number of its marker: `[1]` in the answer is source 1.
    pub(crate) number: usize,
    /// Its id, for `/rag/sources/{id}`.
    pub(crate) id: String,
    /// The document's path below the corpus' root.
    pub(crate) file: String,
    /// The page on which it starts, from 1, where the file has pages.
    pub(crate) page: Option<u32>,
    /// The document's title.
    pub(crate) book: Option<String>,
    /// The headings above it, outermost first, joined by ` > `.
    pub(crate) heading: Option<String>,
    /// Higher is better; the scale is that of the last stage that ranked.
    pub(crate) score: f32,
    /// Its beginning, of at most 300 characters.
    pub(crate) quote: String,
    /// Where it begins in the document's text, in bytes.
    pub(crate) start: usize,
    /// Where it ends.
    pub(crate) end: usize,
    /// The address of its page in the service.
    pub(crate) url: String,
    /// Whether the answer cites it; null where there is no answer.
    pub(crate) cited: Option<bool>,
}

/// A passage with the text around it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SourceExcerpt {
    pub(crate) id: String,
    pub(crate) file: String,
    pub(crate) page: Option<u32>,
    pub(crate) book: Option<String>,
    pub(crate) heading: Option<String>,
    /// Up to 2,000 bytes before it.
    pub(crate) before: String,
    /// The passage.
    pub(crate) text: String,
    /// Up to 2,000 bytes after it.
    pub(crate) after: String,
    /// Whether `/rag/sources/{id}/page.png` shows its page: not where the document cannot be reached from the service, or
    /// its format has no pages that can be drawn.
    pub(crate) has_page_image: bool,
}

/// Where a passage is on a page of its document.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SourcePage {
    /// The number of the page, from 1.
    pub(crate) page: u32,
    /// The width of its picture, in pixels.
    pub(crate) width: usize,
    /// The height of its picture, in pixels.
    pub(crate) height: usize,
    /// The lines of the passage, in parts of the width and height of the page: from 0 to 1, from the upper left corner.
    pub(crate) boxes: Vec<PageBox>,
}

/// Which page of a source is shown.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PageQuery {
    /// Its number, from 1. The default is the page on which the passage begins.
    pub(crate) number: Option<u32>,
}

/// The id of a passage.
fn encode_id(document: &str, span: Span) -> String {
    format!("{}.{}-{}", URL_SAFE_NO_PAD.encode(document), span.start, span.end)
}

/// The document and the span in an id.
fn decode_id(id: &str) -> Option<(String, Span)> {
    let (path, span) = id.split_once('.')?;
    let (start, end) = span.split_once('-')?;
    let span = Span { start: start.parse().ok()?, end: end.parse().ok()? };
    let path = String::from_utf8(URL_SAFE_NO_PAD.decode(path).ok()?).ok()?;
    (span.start < span.end).then_some((path, span))
}

/// The page of a source, at its passage.
pub(crate) fn url(base: &str, id: &str) -> String {
    format!("{base}/rag/sources/{id}#quote")
}

/// Numbers passages as sources, from 1. `base` is the service's address.
pub(crate) fn number(passages: &[Passage], cited: Option<&[u32]>, base: &str) -> Vec<PassageSource> {
    let source = |(at, passage): (usize, &Passage)| {
        let id = encode_id(&passage.document, passage.span);
        PassageSource {
            number: at + 1,
            url: url(base, &id),
            id,
            file: passage.document.clone(),
            page: passage.page,
            book: passage.book.clone(),
            heading: passage.heading.clone(),
            score: passage.score,
            quote: quote(&passage.text),
            start: passage.span.start,
            end: passage.span.end,
            cited: cited.map(|cited| cited.contains(&(at as u32 + 1))),
        }
    };
    passages.iter().enumerate().map(source).collect()
}

/// The beginning of a text, with single spaces.
fn quote(text: &str) -> String {
    let quote = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let beginning = rag::analysis::first_clusters(&quote, QUOTE_CHARACTERS);
    if beginning.len() < quote.len() { format!("{beginning}…") } else { quote }
}

/// The title of a source: the document's title or file, and the page.
pub(crate) fn title(source: &PassageSource) -> String {
    join_title(source.book.as_deref(), &source.file, source.page)
}

fn join_title(book: Option<&str>, file: &str, page: Option<u32>) -> String {
    let name = book.unwrap_or(file);
    page.map_or_else(|| name.to_owned(), |page| format!("{name}, page {page}"))
}

impl SourceExcerpt {
    /// As [`title`].
    pub(crate) fn title(&self) -> String {
        join_title(self.book.as_deref(), &self.file, self.page)
    }
}

/// A source as Open WebUI reads it. Open WebUI merges items with the same
/// `metadata.source`, then items with the same name, and opens the n-th that remains
/// for the marker `[n]`, so both fields differ between passages.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SourceCitation {
    source: CitedSource,
    /// The text of the passage.
    document: [String; 1],
    metadata: [CitationMetadata; 1],
    /// The score: higher is better.
    distances: [f32; 1],
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct CitedSource {
    /// The passage's id.
    id: String,
    /// Its document and heading, with the number of the marker.
    name: String,
    /// The address of its page in the service.
    url: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct CitationMetadata {
    /// The passage's id.
    source: String,
    /// Its document and heading, with the number of the marker.
    name: String,
    /// The address of its page in the service.
    source_url: String,
    /// The number of its marker.
    number: usize,
    id: String,
    file: String,
    page: Option<u32>,
    book: Option<String>,
    heading: Option<String>,
    score: f32,
    /// Whether the answer cites it; null where there is no answer.
    cited: Option<bool>,
}

/// The sources as Open WebUI reads them, in their order.
pub(crate) fn cite(sources: &[PassageSource], passages: &[Passage]) -> Vec<SourceCitation> {
    let item = |(source, passage): (&PassageSource, &Passage)| {
        let name = match source.heading.as_deref().and_then(|heading| heading.rsplit(" > ").next()) {
            Some(heading) => format!("{}: {heading} [{}]", title(source), source.number),
            None => format!("{} [{}]", title(source), source.number),
        };
        SourceCitation {
            source: CitedSource { id: source.id.clone(), name: name.clone(), url: source.url.clone() },
            document: [passage.text.clone()],
            metadata: [CitationMetadata {
                source: source.id.clone(),
                name,
                source_url: source.url.clone(),
                number: source.number,
                id: source.id.clone(),
                file: source.file.clone(),
                page: source.page,
                book: source.book.clone(),
                heading: source.heading.clone(),
                score: source.score,
                cited: source.cited,
            }],
            distances: [source.score],
        }
    };
    sources.iter().zip(passages).map(item).collect()
}

/// A source as an event of a stream. Its `metadata.source` is the page's address, so
/// that Open WebUI merges it with the annotation and keeps this number and name.
/// Source: Open WebUI 0.12.4, `middleware.py` and `Citations.svelte`.
pub(crate) fn to_stream_item(mut item: SourceCitation) -> Value {
    let [metadata] = &mut item.metadata;
    metadata.source.clone_from(&metadata.source_url);
    let mut item = json!(item);
    // Otherwise Open WebUI replaces the name by the address.
    item["metadata"][0]["external"] = true.into();
    item
}

/// A marker such as `[1]` in an answer, in characters.
pub(crate) struct Marker {
    pub(crate) number: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Finds the markers in a text that cite one of `sources` sources, in order.
pub(crate) fn find_markers(text: &str, sources: usize) -> Vec<Marker> {
    let mut markers = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (at, c) in text.chars().enumerate() {
        open = match (open, c) {
            (_, '[') => Some((at, String::new())),
            (Some((start, mut digits)), c) if c.is_ascii_digit() && digits.len() < 4 => {
                digits.push(c);
                Some((start, digits))
            }
            (Some((start, digits)), ']') => {
                let number = digits.parse().unwrap_or(0);
                if (1..=sources).contains(&number) {
                    markers.push(Marker { number, start, end: at + 1 });
                }
                None
            }
            _ => None,
        };
    }
    markers
}

/// Opens a source of the served pipeline, or else of the candidate.
pub(crate) async fn open(lanes: &LaneSet, id: &str, deadline: &Deadline) -> Result<SourceExcerpt, ApiError> {
    let excerpt = open_in(&lanes.serving.pipeline, id, deadline).await;
    match (&excerpt, &lanes.candidate) {
        (Err(error), Some(candidate)) if error.status == StatusCode::NOT_FOUND => {
            open_in(&candidate.lane.pipeline, id, deadline).await
        }
        _ => excerpt,
    }
}

/// A page of a source that was opened, with the places of its passage.
pub(crate) async fn view(
    (lanes, pages): (&LaneSet, &Arc<DrawnPages>),
    excerpt: SourceExcerpt,
    number: Option<u32>,
    deadline: &Deadline,
) -> Result<Arc<PageView>, ApiError> {
    let reason = "the page of this source cannot be shown: the document is not within reach of this service, has no such page, \
                  or its format has no pages that can be drawn";
    let unknown = || ApiError::not_found("page_not_found", reason);
    let number = number.or(excerpt.page).filter(|_| excerpt.has_page_image).ok_or_else(unknown)?;
    let wanted = WantedPage { file: excerpt.file, number, passage: excerpt.text };
    let mut view = pages.draw(&lanes.serving.pipeline, &wanted, deadline).await?;
    if let (None, Some(candidate)) = (&view, &lanes.candidate) {
        view = pages.draw(&candidate.lane.pipeline, &wanted, deadline).await?;
    }
    view.ok_or_else(unknown)
}

/// Opens a source of one pipeline.
async fn open_in(served: &ServedPipeline, id: &str, deadline: &Deadline) -> Result<SourceExcerpt, ApiError> {
    let unknown = || ApiError::not_found("source_not_found", "there is no source with this id in what is served now");
    // Each source has one id: `+0` is not accepted for `0`.
    let (file, span) = decode_id(id).filter(|(file, span)| encode_id(file, *span) == id).ok_or_else(unknown)?;
    let read = async |start: usize, end: usize| match start < end {
        true => deadline.limit(served.pipeline.excerpt(&file, Span { start, end })).await,
        false => Ok(Some(String::new())),
    };
    let text = read(span.start, span.end).await?.filter(|text| !text.trim().is_empty()).ok_or_else(unknown)?;
    // An excerpt ends with the document and may lack some white space: a span that is far longer is invalid.
    if span.end - span.start > 2 * text.len() + AROUND_BYTES {
        return Err(unknown());
    }
    let mut before = read(span.start.saturating_sub(AROUND_BYTES), span.start).await?.unwrap_or_default();
    if span.start > AROUND_BYTES {
        // The excerpt may begin within a word.
        before = before.split_once(char::is_whitespace).map(|(_, rest)| rest.to_owned()).unwrap_or(before);
    }
    let mut after = read(span.end, span.end.saturating_add(AROUND_BYTES)).await?.unwrap_or_default();
    // Shorter by up to 3 bytes if the end fell within a character.
    if after.len() + 3 > AROUND_BYTES {
        after = after.rsplit_once(char::is_whitespace).map(|(rest, _)| rest.to_owned()).unwrap_or(after);
    }
    let chunk = deadline.limit(served.pipeline.chunk_at(&file, span.start)).await?;
    let (page, book, heading) = chunk.map_or((None, None, None), |chunk| (chunk.page, chunk.book, chunk.heading));
    let has_page_image = page.is_some() && served.pipeline.can_view(&file);
    Ok(SourceExcerpt { id: id.to_owned(), file, page, book, heading, before, text, after, has_page_image })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_gives_its_place_again_and_nonsense_gives_none() {
        let span = Span { start: 3, end: 90 };
        assert_eq!(decode_id(&encode_id("a folder/ä [1].pdf", span)), Some(("a folder/ä [1].pdf".into(), span)));
        for nonsense in
            ["", ".", "abc", "YQ.1-", "YQ.5-5", "YQ.9-5", "YQ.-1-5", "!!.1-5", "YQ.1-99999999999999999999999"]
        {
            assert_eq!(decode_id(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn passages_of_one_document_and_one_heading_are_citations_of_their_own() {
        let at = |start: usize, heading: Option<&str>| Passage {
            span: Span { start, end: start + 3 },
            book: Some("Installing".to_owned()),
            heading: heading.map(str::to_owned),
            ..Passage::of_text("installing.md".to_owned(), "abc".to_owned())
        };
        let passages = [at(0, None), at(3, Some("Mast > Raising")), at(9, Some("Mast > Raising"))];
        let cited = cite(&number(&passages, Some(&[2]), "http://host/app"), &passages);
        let distinct =
            |of: &dyn Fn(&SourceCitation) -> String| cited.iter().map(of).collect::<std::collections::HashSet<_>>();
        assert_eq!(distinct(&|citation| citation.metadata[0].source.clone()).len(), 3);
        assert_eq!(distinct(&|citation| citation.metadata[0].name.clone()).len(), 3);
        assert_eq!(cited[1].source.name, "Installing: Raising [2]");
        assert!(cited[1].metadata[0].source_url.starts_with("http://host/app/rag/sources/"));
    }

    #[test]
    fn markers_are_those_of_sources_and_are_counted_in_characters() {
        let found = find_markers("Süß [1], not [7] or [x] or [[2]] [1", 3);
        let found: Vec<_> = found.iter().map(|marker| (marker.number, marker.start, marker.end)).collect();
        assert_eq!(found, [(1, 4, 7), (2, 28, 31)]);
    }

    #[test]
    fn a_quote_is_cut_at_a_character() {
        assert_eq!(quote("a\n b"), "a b");
        assert_eq!(quote(&"ä".repeat(400)).chars().count(), QUOTE_CHARACTERS + 1);
        let exact = "ä ".repeat(QUOTE_CHARACTERS / 2 - 1) + "äb";
        assert_eq!(quote(&exact), exact, "so many characters fit");
        assert_eq!(quote(&(exact.clone() + " c d")), exact + "…");
    }
}
