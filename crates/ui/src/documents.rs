//! Documents of the corpus: their texts, how the chunkers have cut them, and where evidence and passages lie.

use crate::{error::PageError, recent::RecentlyOpened};
use eval::dataset::anchor;
use lab::{ChunkedDocument, RunRecord, Session, document_chunks, found_passages};
use rag::{ReadingProblem, Span, load::Document};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// The most documents that are kept in memory.
const MOST_DOCUMENTS: usize = 16;

/// A document in a list.
#[derive(Serialize)]
pub(crate) struct ListedDocument {
    path: String,
    /// Golden questions with evidence in it.
    questions: usize,
}

/// A document as one parser reads it.
#[derive(Serialize)]
pub(crate) struct DocumentText {
    path: String,
    /// The number of the parser in the experiment, from 1, and its name.
    parser: usize,
    parser_name: String,
    title: Option<String>,
    text: String,
    /// Where its tables lie, in bytes of the text.
    tables: Vec<Span>,
    pages: Vec<PageStart>,
    problems: Vec<ReadingProblem>,
    /// Where golden evidence lies.
    evidence: Vec<EvidencePlace>,
    /// Whether its pages can be drawn.
    has_pages: bool,
}

#[derive(Serialize)]
struct PageStart {
    number: u32,
    start: usize,
}

#[derive(Serialize)]
struct EvidencePlace {
    question: String,
    quote: String,
    span: Option<Span>,
}

/// How a run has cut a document, and what its searches found of it.
#[derive(Serialize)]
pub(crate) struct DocumentInRun {
    run: String,
    chunkers: Vec<ChunkedDocument>,
    /// By trial: the spans of passages, and how many questions found each.
    found: BTreeMap<String, Vec<(Span, usize)>>,
}

/// A quote with the text around it.
pub(crate) struct Excerpt {
    pub(crate) document: String,
    pub(crate) before: String,
    pub(crate) quote: String,
    pub(crate) after: String,
    pub(crate) span: Span,
    pub(crate) page: Option<u32>,
}

/// The documents that were looked at last, by their path and the number of the parser that reads them.
pub(crate) struct DocumentCache {
    open: RecentlyOpened<(String, usize), Arc<Document>>,
}

impl Default for DocumentCache {
    fn default() -> Self {
        Self { open: RecentlyOpened::new(MOST_DOCUMENTS) }
    }
}

impl DocumentCache {
    /// A document of the corpus as the parser with this number reads it.
    pub(crate) async fn get(&self, session: &Session, path: &str, parser: usize) -> Result<Arc<Document>, lab::Error> {
        let name = (path.to_owned(), parser);
        if let Some(document) = self.open.get(&name) {
            return Ok(document);
        }
        let document = Arc::new(lab::document(session, path, parser).await?);
        self.open.insert(name, document.clone());
        Ok(document)
    }

    /// A quote with the text around it; or why there is none, in a sentence.
    pub(crate) async fn excerpt(
        &self,
        session: &Session,
        path: &str,
        quote: &str,
        span: Option<Span>,
        around: usize,
    ) -> Result<Excerpt, String> {
        if path.is_empty() {
            return Err("the evidence names no document".to_owned());
        }
        let document = self.get(session, path, 1).await.map_err(|error| lab::error_chain(&error))?;
        let span = anchor(&document.text, quote, span).ok_or("the document does not hold these words any more")?;
        let text = document.text.as_str();
        let from = text.floor_char_boundary(span.start.saturating_sub(around));
        let to = text.ceil_char_boundary((span.end + around).min(text.len()));
        Ok(Excerpt {
            document: path.to_owned(),
            before: text[from..span.start].to_owned(),
            quote: text[span.start..span.end].to_owned(),
            after: text[span.end..to].to_owned(),
            span,
            page: document.page_at(span.start).map(|page| page.number),
        })
    }

    /// Whether another parser than the first one reads a document with this quote in it.
    pub(crate) async fn is_read_by_another_parser(&self, session: &Session, path: &str, quote: &str) -> bool {
        for number in 2..=lab::parser_names(session).len() {
            let document = self.get(session, path, number).await;
            if document.is_ok_and(|document| anchor(&document.text, quote, None).is_some()) {
                return true;
            }
        }
        false
    }

    pub(crate) async fn text(
        &self,
        session: &Session,
        path: &str,
        parser: usize,
        questions: &[eval::Question],
    ) -> Result<DocumentText, PageError> {
        let document = self.get(session, path, parser).await?;
        let of_document = |question: &&eval::Question| question.evidence.iter().any(|item| item.document == path);
        let mut evidence = Vec::new();
        for question in questions.iter().filter(of_document) {
            for item in question.evidence.iter().filter(|item| item.document == path) {
                let span = anchor(&document.text, &item.quote, item.span.filter(|_| parser == 1));
                evidence.push(EvidencePlace { question: question.id.clone(), quote: item.quote.clone(), span });
            }
        }
        Ok(DocumentText {
            path: path.to_owned(),
            parser,
            parser_name: lab::parser_name(session, parser),
            title: document.title.clone(),
            tables: document.tables.iter().map(|table| table.span).collect(),
            pages: document
                .pages
                .iter()
                .map(|page| PageStart { number: page.number, start: page.span.start })
                .collect(),
            problems: document.problems.clone(),
            evidence,
            has_pages: lab::has_drawn_pages(path),
            text: document.text.clone(),
        })
    }
}

/// How a run has cut a document, and what its searches found of it.
pub(crate) async fn document_in_run(
    session: &Session,
    record: &RunRecord,
    path: &str,
) -> Result<DocumentInRun, PageError> {
    Ok(DocumentInRun {
        run: record.id().to_owned(),
        chunkers: document_chunks(session, record, path).await?,
        found: found_passages(session, record, path).await?,
    })
}

/// The documents of a run, with the number of questions that have evidence in each.
pub(crate) fn list(record: &RunRecord) -> Result<Vec<ListedDocument>, PageError> {
    let mut questions: BTreeMap<&str, usize> = BTreeMap::new();
    for question in record.questions() {
        let documents: std::collections::BTreeSet<&str> =
            question.evidence.iter().map(|evidence| evidence.document.as_str()).collect();
        documents.into_iter().for_each(|document| *questions.entry(document).or_default() += 1);
    }
    let documents = record.documents()?;
    let listed = documents.iter().map(|document| ListedDocument {
        questions: questions.get(document.path.as_str()).copied().unwrap_or_default(),
        path: document.path.clone(),
    });
    Ok(listed.collect())
}
