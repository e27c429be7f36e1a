//! The documents that each parser of an experiment makes of its corpus, and the golden questions as they hold their
//! evidence.

use super::shard_summaries::{KeptSummaries, ShardSummary, look_for_evidence, shards_to_read, visit_documents};
use crate::{
    Error, Session,
    corpus::{LoadedCorpus, LoadedShard},
    error_chain,
    plan::QuestionViews,
    warning::ParserFacts,
};
use eval::{Dataset, Evidence, Question};
use rag::{Choice, load::Rejected, parse::ParseConfig};
use std::ops::Range;

/// What each parser has made of a corpus.
pub(super) struct ParsedCorpora {
    shards: Vec<LoadedShard>,
    summaries: Vec<ShardSummary>,
    /// The places of each parser's shards.
    of_parsers: Vec<Range<usize>>,
}

impl ParsedCorpora {
    pub(super) async fn read(session: &Session, loaded: &LoadedCorpus) -> Result<Self, Error> {
        let parsers = session.experiment.space.parsers().len().max(1);
        let (mut shards, mut of_parsers) = (Vec::new(), Vec::new());
        for parser in 0..parsers {
            let first = shards.len();
            shards.extend(loaded.shards_by(parser));
            of_parsers.push(first..shards.len());
        }
        let summaries = KeptSummaries::read(session).of(loaded, &shards, !session.workspace().is_reading()).await?;
        Ok(Self { shards, summaries, of_parsers })
    }

    /// The shards of a parser, with what is known of each.
    pub(super) fn by(&self, parser: usize) -> (&[LoadedShard], &[ShardSummary]) {
        let places = self.of_parsers[parser].clone();
        (&self.shards[places.clone()], &self.summaries[places])
    }

    /// Looks for the evidence of questions in the documents of each parser after the first.
    pub(super) async fn anchored_by_others(
        &self,
        loaded: &LoadedCorpus,
        questions: &[Question],
    ) -> Result<Vec<Vec<Question>>, Error> {
        let mut views = Vec::new();
        for parser in 1..self.of_parsers.len() {
            let mut dataset = Dataset { questions: questions.to_vec() };
            let mut anchoring = dataset.anchoring();
            let wanted = shards_to_read(self.by(parser), &mut anchoring, |_| false);
            visit_documents(loaded, wanted, |_, document| look_for_evidence(&mut anchoring, document)).await?;
            anchoring.finish();
            views.push(dataset.questions);
        }
        Ok(views)
    }

    /// What is known of each parser, if there are several.
    pub(super) fn facts(&self, session: &Session, first: &[Question], views: &QuestionViews) -> Vec<ParserFacts> {
        let parsers = session.experiment.space.parsers();
        if parsers.len() < 2 {
            return Vec::new();
        }
        let facts = |(number, parser): (usize, &&ParseConfig)| {
            let summaries = self.by(number).1;
            let questions = views.of(number, first);
            let rejected: Vec<&Rejected> = summaries.iter().flat_map(|summary| &summary.rejected).collect();
            ParserFacts {
                parser: parser.name().to_owned(),
                documents: summaries.iter().map(|summary| summary.documents.len()).sum(),
                rejected: rejected.len(),
                first_rejected: rejected.first().map(|file| (file.path.clone(), error_chain(&file.reason))),
                questions: questions.len(),
                lost: questions.iter().filter(|question| question.evidence.iter().any(Evidence::is_nowhere)).count(),
                trials: Vec::new(),
            }
        };
        parsers.iter().enumerate().map(facts).collect()
    }

    /// The mistakes for parsers that give no document although the first one does.
    pub(super) fn useless(&self, facts: &[ParserFacts], documents: usize) -> Vec<String> {
        let useless = facts.iter().filter(|facts| documents > 0 && facts.documents == 0);
        let mistake = |facts: &ParserFacts| {
            let why = facts.first_rejected.as_ref().map(|(path, reason)| format!(", such as {path}: {reason}"));
            format!("space.parse: `{}` gives no document of any file{}", facts.parser, why.unwrap_or_default())
        };
        useless.map(mistake).collect()
    }
}

/// The questions as the documents of each parser after the first hold their evidence, which those of the first one hold.
pub(super) async fn views(
    session: &Session,
    loaded: &LoadedCorpus,
    questions: &[Question],
) -> Result<QuestionViews, Error> {
    if session.experiment.space.parsers().len() < 2 {
        return Ok(QuestionViews::NONE);
    }
    let mut views = ParsedCorpora::read(session, loaded).await?.anchored_by_others(loaded, questions).await?;
    join_views(&mut questions.to_vec(), &mut views);
    Ok(QuestionViews::new(views))
}

/// Evidence that the text of some parser holds is nowhere in the texts that do not hold it. What no text holds stays
/// without a place.
pub(super) fn join_views(first: &mut [Question], others: &mut [Vec<Question>]) {
    for (number, question) in first.iter_mut().enumerate() {
        for item in 0..question.evidence.len() {
            let places =
                std::iter::once(&question.evidence[item]).chain(others.iter().map(|view| &view[number].evidence[item]));
            let Some(found) = places.clone().find(|evidence| evidence.span.is_some()).map(Evidence::nowhere) else {
                continue;
            };
            for evidence in std::iter::once(&mut question.evidence[item])
                .chain(others.iter_mut().map(|view| &mut view[number].evidence[item]))
            {
                if evidence.span.is_none() {
                    *evidence = found.clone();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rag::Span;

    fn question(spans: &[Option<(usize, usize)>]) -> Question {
        let evidence = |span: &Option<(usize, usize)>| Evidence {
            document: if span.is_some() { "a.md".to_owned() } else { String::new() },
            quote: "words".to_owned(),
            span: span.map(|(start, end)| Span { start, end }),
        };
        Question { id: "q".to_owned(), evidence: spans.iter().map(evidence).collect(), ..Question::default() }
    }

    #[test]
    fn evidence_that_one_text_holds_is_nowhere_in_the_others() {
        let mut first = [question(&[Some((1, 5)), None, None])];
        let mut others = [vec![question(&[Some((2, 6)), Some((7, 9)), None])], vec![question(&[None, None, None])]];
        join_views(&mut first, &mut others);
        let spans = |question: &Question| -> Vec<Option<Span>> { question.evidence.iter().map(|it| it.span).collect() };
        let span = |start, end| Some(Span { start, end });
        assert_eq!(
            (spans(&first[0])[0], spans(&others[0][0])[..2].to_vec()),
            (span(1, 5), vec![span(2, 6), span(7, 9)])
        );
        assert!(first[0].evidence[1].is_nowhere() && others[1][0].evidence[0].is_nowhere());
        assert_eq!(first[0].evidence[1].document, "a.md", "it is named as the text that holds it");
        assert!([&first[0], &others[0][0], &others[1][0]].iter().all(|question| question.evidence[2].span.is_none()));
    }
}
