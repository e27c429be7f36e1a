//! The passages of a system's replies to places in the documents.

use super::{DoWork, TaskContext, TaskOutput, passage_rows};
use crate::{
    Error,
    artifact::{self, DocumentRow, PassageRow, ReplyRow},
    number::counted,
    plan::work::AnchorWork,
    spec::Unanchored,
};
use async_trait::async_trait;
use eval::{
    Question,
    dataset::{PassageAnchoring, PassagePlace, PassageQuery},
};
use rag::{Passage, PassagesWithRemarks, Span, system::ReplyPassage};
use std::collections::{BTreeMap, HashMap};

/// The remark on a question for which the system found nothing. It keeps the question apart from those whose replies
/// have no passages at all.
const NOTHING_FOUND: &str = "the system returned no passage";

#[async_trait]
impl DoWork for AnchorWork {
    async fn run(&self, cx: &TaskContext<'_>) -> Result<TaskOutput, Error> {
        let mut returned: HashMap<String, Vec<ReplyPassage>> = HashMap::new();
        for &id in &self.replies {
            let rows: Vec<ReplyRow> = artifact::decode(cx.read(id).await?)?;
            returned.extend(rows.into_iter().filter_map(|row| Some((row.answer.question, row.passages?))));
        }
        let questions: Vec<&Question> = self.questions.iter().map(|&i| &cx.run_context.questions[i]).collect();
        let mut queries: BTreeMap<PassageQuery, usize> = BTreeMap::new();
        for question in &questions {
            for passage in returned.get(&question.id).into_iter().flatten().filter(|passage| !passage.text.is_empty()) {
                let next = queries.len();
                queries.entry(query(question, passage)).or_insert(next);
            }
        }
        let places = self.places(cx, &queries).await?;
        let mut rows: Vec<PassageRow> = Vec::new();
        for question in questions {
            let Some(passages) = returned.get(&question.id) else { continue };
            let place = |passage: &ReplyPassage| {
                queries.get(&query(question, passage)).and_then(|&number| places[number].as_ref())
            };
            let found = self.placed(passages, place);
            rows.extend(passage_rows(&question.id, found));
            cx.report_rows(1);
        }
        Ok(TaskOutput::of(artifact::encode(&rows)?, self.questions.len()))
    }
}

impl AnchorWork {
    /// The place of each query, by its number.
    async fn places(
        &self,
        cx: &TaskContext<'_>,
        queries: &BTreeMap<PassageQuery, usize>,
    ) -> Result<Vec<Option<PassagePlace>>, Error> {
        let mut in_order: Vec<(usize, PassageQuery)> =
            queries.iter().map(|(query, &number)| (number, query.clone())).collect();
        in_order.sort_by_key(|(number, _)| *number);
        let in_order: Vec<PassageQuery> = in_order.into_iter().map(|(_, query)| query).collect();
        let mut anchoring = PassageAnchoring::new(in_order).map_err(Error::table)?;
        for &id in &self.documents {
            let bytes = cx.read(id).await?;
            let visit = move || {
                for document in
                    artifact::decode::<DocumentRow>(bytes)?.into_iter().filter_map(DocumentRow::into_document)
                {
                    anchoring.visit(&document.path, &document.text);
                }
                Ok::<_, Error>(anchoring)
            };
            anchoring = crate::blocking::compute(visit).await??;
        }
        Ok(anchoring.finish())
    }

    /// A question's passages with their places, and remarks on those that are in no document or in several places.
    fn placed<'a>(
        &self,
        passages: &[ReplyPassage],
        place: impl Fn(&ReplyPassage) -> Option<&'a PassagePlace>,
    ) -> PassagesWithRemarks {
        let (mut placed, mut unanchored, mut ambiguous, mut without_text) = (Vec::new(), 0, 0, 0);
        for (rank, passage) in passages.iter().enumerate() {
            let score = passage.score.unwrap_or(1.0 / (rank + 1) as f64) as f32;
            let found = place(passage);
            ambiguous += usize::from(found.is_some_and(|found| found.is_ambiguous));
            without_text += usize::from(passage.text.is_empty());
            unanchored += usize::from(found.is_none() && !passage.text.is_empty());
            let whole = |parts: &[Span]| Span {
                start: parts.first().map_or(0, |part| part.start),
                end: parts.last().map_or(0, |part| part.end),
            };
            let (document, span, parts) = match found {
                Some(found) if found.parts.len() > 1 => {
                    (found.document.clone(), whole(&found.parts), found.parts.clone())
                }
                Some(found) => (found.document.clone(), whole(&found.parts), Vec::new()),
                // A place in no document counts as irrelevant, an empty one as unknown.
                None if self.unanchored == Unanchored::Unknown => {
                    (String::new(), Span { start: 0, end: 0 }, Vec::new())
                }
                None => (String::new(), Span { start: 0, end: passage.text.len().max(1) }, Vec::new()),
            };
            let named = passage.document.clone().or_else(|| passage.id.clone());
            placed.push(Passage {
                document,
                span,
                text: passage.text.clone(),
                score,
                page: passage.page,
                book: named.filter(|_| found.is_none()),
                heading: None,
                rows: Vec::new(),
                parts,
            });
        }
        let all = counted(passages.len(), "passage");
        let remark = |n: usize, what: &str| (n > 0).then(|| format!("{n} of {all} {what}"));
        let nothing = passages.is_empty().then(|| NOTHING_FOUND.to_owned());
        let remarks = [
            nothing,
            remark(unanchored, "are in no document of the corpus"),
            remark(ambiguous, "stand in several places"),
            remark(without_text, "have no text"),
        ];
        PassagesWithRemarks {
            passages: placed,
            remarks: remarks.into_iter().flatten().collect(),
            ..PassagesWithRemarks::default()
        }
    }
}

/// What is searched for a passage: equal passages of one question have one place.
fn query(question: &Question, passage: &ReplyPassage) -> PassageQuery {
    let evidence = question.evidence.iter().filter_map(|item| Some((item.document.clone(), item.span?)));
    PassageQuery { text: passage.text.clone(), document: passage.document.clone(), evidence: evidence.collect() }
}
