//! Sources as clients read them, and their ids.
//!
//! An id holds the document's path and the stretch of its text, so that it means
//! the same after a restart and on every replica.

use crate::{error::ApiError, lanes::Lanes, served::Served, turn::Clock};
use axum::http::StatusCode;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rag::{Passage, Span};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// The most characters of a quote.
const QUOTE: usize = 300;
/// How many bytes of a document are shown before and after a passage.
const AROUND: usize = 2000;

/// A passage that an answer was written from.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Source {
    /// What `[1]` in the answer means.
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
    /// Where it can be looked at.
    pub(crate) url: String,
    /// Whether the answer cites it; null where there is no answer.
    pub(crate) cited: Option<bool>,
}

/// A passage with the text around it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Opened {
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
}

pub(crate) fn id(document: &str, span: Span) -> String {
    format!("{}.{}-{}", URL_SAFE_NO_PAD.encode(document), span.start, span.end)
}

fn place(id: &str) -> Option<(String, Span)> {
    let (path, span) = id.split_once('.')?;
    let (start, end) = span.split_once('-')?;
    let span = Span { start: start.parse().ok()?, end: end.parse().ok()? };
    let path = String::from_utf8(URL_SAFE_NO_PAD.decode(path).ok()?).ok()?;
    (span.start < span.end).then_some((path, span))
}

/// Where a source can be looked at, at its passage.
pub(crate) fn url(base: &str, id: &str) -> String {
    format!("{base}/rag/sources/{id}#quote")
}

/// The sources of these passages. `base` is the service's address.
pub(crate) fn of(passages: &[Passage], cited: Option<&[u32]>, base: &str) -> Vec<Source> {
    let source = |(at, passage): (usize, &Passage)| {
        let id = id(&passage.document, passage.span);
        Source {
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

fn quote(text: &str) -> String {
    let (mut words, mut characters) = (String::new(), 0);
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
            characters += 1;
        }
        words += word;
        characters += word.chars().count();
        // The rest of a long passage need not be read.
        if characters > QUOTE {
            break;
        }
    }
    let text = words;
    match text.char_indices().nth(QUOTE) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// A source in a few words: title or file, and page.
pub(crate) fn title(source: &Source) -> String {
    in_words(source.book.as_deref(), &source.file, source.page)
}

fn in_words(book: Option<&str>, file: &str, page: Option<u32>) -> String {
    let name = book.unwrap_or(file);
    page.map_or_else(|| name.to_owned(), |page| format!("{name}, page {page}"))
}

impl Opened {
    /// As [`title`].
    pub(crate) fn title(&self) -> String {
        in_words(self.book.as_deref(), &self.file, self.page)
    }
}

/// A source as Open WebUI reads it. It joins items whose `metadata.source` is the
/// same, and then items of one name, and opens the n-th that is left for the
/// marker `[n]`: so both are different for each passage.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Citation {
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
    /// Where it can be looked at.
    url: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct CitationMetadata {
    /// The passage's id.
    source: String,
    /// Its document and heading, with the number of the marker.
    name: String,
    /// Where it can be looked at.
    source_url: String,
    /// What `[1]` in the answer means.
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

/// One item for each source, in their order.
pub(crate) fn open_webui(sources: &[Source], passages: &[Passage]) -> Vec<Citation> {
    let item = |(source, passage): (&Source, &Passage)| {
        let name = match source.heading.as_deref().and_then(|heading| heading.rsplit(" > ").next()) {
            Some(heading) => format!("{}: {heading} [{}]", title(source), source.number),
            None => format!("{} [{}]", title(source), source.number),
        };
        Citation {
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

/// A source as Open WebUI joins it with the annotation of a stream that has its
/// address: it then keeps this one's number and name.
/// Source: Open WebUI 0.12.4, `middleware.py` and `Citations.svelte`.
pub(crate) fn in_open_webui_stream(mut item: Citation) -> Value {
    let [metadata] = &mut item.metadata;
    metadata.source.clone_from(&metadata.source_url);
    let mut told = json!(item);
    // Else the name is replaced by the address.
    told["metadata"][0]["external"] = true.into();
    told
}

/// A marker such as `[1]` in an answer, in characters.
pub(crate) struct Marker {
    pub(crate) number: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The markers of a text that cite one of so many sources, in order.
pub(crate) fn markers(text: &str, sources: usize) -> Vec<Marker> {
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

/// A passage of what is served, or of the candidate.
pub(crate) async fn of_lanes(lanes: &Lanes, id: &str, clock: &Clock) -> Result<Opened, ApiError> {
    let opened = open(&lanes.serving.served, id, clock).await;
    match (&opened, &lanes.candidate) {
        (Err(error), Some(candidate)) if error.status == StatusCode::NOT_FOUND => {
            open(&candidate.lane.served, id, clock).await
        }
        _ => opened,
    }
}

/// A passage with the text around it.
async fn open(served: &Served, id: &str, clock: &Clock) -> Result<Opened, ApiError> {
    let unknown = || ApiError::not_found("source_not_found", "there is no source with this id in what is served now");
    // One source has one id: `+0` is no number here.
    let (file, span) = place(id).filter(|(file, span)| self::id(file, *span) == id).ok_or_else(unknown)?;
    let part = async |start: usize, end: usize| match start < end {
        true => clock.in_time(served.pipeline.excerpt(&file, Span { start, end })).await,
        false => Ok(Some(String::new())),
    };
    let text = part(span.start, span.end).await?.filter(|text| !text.trim().is_empty()).ok_or_else(unknown)?;
    // Parts that no chunk holds are white space, but a passage ends where text does.
    if span.end - span.start > 2 * text.len() + AROUND {
        return Err(unknown());
    }
    let mut before = part(span.start.saturating_sub(AROUND), span.start).await?.unwrap_or_default();
    if span.start > AROUND {
        // It may begin within a word.
        before = before.split_once(char::is_whitespace).map(|(_, rest)| rest.to_owned()).unwrap_or(before);
    }
    let mut after = part(span.end, span.end.saturating_add(AROUND)).await?.unwrap_or_default();
    if after.len() + 3 > AROUND {
        after = after.rsplit_once(char::is_whitespace).map(|(rest, _)| rest.to_owned()).unwrap_or(after);
    }
    let chunk = clock.in_time(served.pipeline.chunk_at(&file, span.start)).await?;
    let (page, book, heading) = chunk.map_or((None, None, None), |chunk| (chunk.page, chunk.book, chunk.heading));
    Ok(Opened { id: id.to_owned(), file, page, book, heading, before, text, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_gives_its_place_again_and_nonsense_gives_none() {
        let span = Span { start: 3, end: 90 };
        assert_eq!(place(&id("a folder/ä [1].pdf", span)), Some(("a folder/ä [1].pdf".into(), span)));
        for nonsense in
            ["", ".", "abc", "YQ.1-", "YQ.5-5", "YQ.9-5", "YQ.-1-5", "!!.1-5", "YQ.1-99999999999999999999999"]
        {
            assert_eq!(place(nonsense), None, "{nonsense}");
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
        let cited = open_webui(&of(&passages, Some(&[2]), "http://host/app"), &passages);
        let distinct =
            |of: &dyn Fn(&Citation) -> String| cited.iter().map(of).collect::<std::collections::HashSet<_>>();
        assert_eq!(distinct(&|citation| citation.metadata[0].source.clone()).len(), 3);
        assert_eq!(distinct(&|citation| citation.metadata[0].name.clone()).len(), 3);
        assert_eq!(cited[1].source.name, "Installing: Raising [2]");
        assert!(cited[1].metadata[0].source_url.starts_with("http://host/app/rag/sources/"));
    }

    #[test]
    fn markers_are_those_of_sources_and_are_counted_in_characters() {
        let found = markers("Süß [1], not [7] or [x] or [[2]] [1", 3);
        let found: Vec<_> = found.iter().map(|marker| (marker.number, marker.start, marker.end)).collect();
        assert_eq!(found, [(1, 4, 7), (2, 28, 31)]);
    }

    #[test]
    fn a_quote_is_cut_at_a_character() {
        assert_eq!(quote("a\n b"), "a b");
        assert_eq!(quote(&"ä".repeat(400)).chars().count(), QUOTE + 1);
        let exact = "ä ".repeat(QUOTE / 2 - 1) + "äb";
        assert_eq!(quote(&exact), exact, "so many characters fit");
        assert_eq!(quote(&(exact.clone() + " c d")), exact + "…");
    }
}
