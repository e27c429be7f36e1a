//! A question as the stages after `query` get it. Batch tasks and the service
//! call the same function, so that what is measured is what is served.

use crate::{
    Filter,
    corpus::Query,
    query::{SearchQuery, standalone},
};
use models::{Matrix, Message};

/// A question as it was asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct AskedQuestion<'a> {
    /// Its text.
    pub text: &'a str,
    /// The messages before it, oldest first.
    pub history: &'a [Message],
    /// Which chunks may be found, whatever the query component writes; all if there is none.
    pub filter: Option<&'a Filter>,
}

impl<'a> From<&'a str> for AskedQuestion<'a> {
    /// A question without earlier messages and without a filter.
    fn from(text: &'a str) -> Self {
        Self { text, ..Self::default() }
    }
}

/// A question that can be searched: its queries, and what later stages compare
/// passages with.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchableQuestion {
    /// The standalone question: what the query component wrote in place of the
    /// question, or the question itself. Later stages see only this text.
    pub standalone: String,
    /// What is searched for. The hits of several queries are joined.
    pub queries: Vec<SearchQuery>,
    /// Which chunks a step that searches again may find.
    pub filter: Option<Filter>,
}

impl SearchableQuestion {
    /// Joins a question with the queries that the query component wrote for it,
    /// and their filters. `rewrites` says whether that component replaces the
    /// question by one that stands alone ([`crate::Component::rewrites_question`]).
    pub fn new(rewrites: bool, asked: AskedQuestion<'_>, mut queries: Vec<SearchQuery>) -> Self {
        let text = if rewrites { standalone(asked.text, asked.history, &queries) } else { asked.text };
        let standalone = text.to_owned();
        if let Some(filter) = asked.filter {
            for query in &mut queries {
                query.filter = Some(query.filter.take().unwrap_or_default().overridden_by(filter));
            }
        }
        let filter = queries.first().map_or_else(|| asked.filter.cloned(), |query| query.filter.clone());
        Self { standalone, queries, filter }
    }

    /// The question for the steps after the search, with the vector and the
    /// token vectors of its standalone text where they are at hand. A step that
    /// needs them and gets none asks the embedder.
    pub fn for_steps<'a>(&'a self, embedding: Option<&'a [f32]>, tokens: Option<&'a Matrix>) -> Query<'a> {
        Query { text: &self.standalone, embedding, tokens, filter: self.filter.as_ref() }
    }

    /// The query whose vector is that of the standalone text, if there is one.
    pub(super) fn standalone_query(&self) -> Option<usize> {
        self.queries.iter().position(|query| query.text == self.standalone && query.hypothetical_passages.is_empty())
    }
}

/// The searches of questions. `vectors` has a row for each search of all
/// questions, in order, if the retriever compares vectors.
pub fn searches<'a>(questions: &'a [Vec<SearchQuery>], vectors: Option<&'a Matrix>) -> Vec<Vec<Query<'a>>> {
    let mut rows = 0..;
    let mut search = |query: &'a SearchQuery| Query {
        text: &query.words,
        embedding: rows.next().and_then(|row| vectors.map(|matrix| matrix.row(row))),
        tokens: None,
        filter: query.filter.as_ref(),
    };
    questions.iter().map(|queries| queries.iter().map(&mut search).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn filter(value: Value) -> Filter {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn later_stages_see_the_question_that_stands_alone() {
        let history = [Message::user("Is the mill for sale?")];
        let asked = AskedQuestion { text: "And how much is it?", history: &history, filter: None };
        let written = || vec!["How much is the mill?".into()];
        let condensed = SearchableQuestion::new(true, asked, written());
        assert_eq!(condensed.for_steps(None, None).text, "How much is the mill?");
        assert_eq!(condensed.standalone_query(), Some(0));
        // Another component writes further queries for the question itself.
        let more = SearchableQuestion::new(false, asked, written());
        assert_eq!(more.for_steps(None, None).text, "And how much is it?");
        assert_eq!(more.standalone_query(), None);
    }

    #[test]
    fn the_filter_of_the_question_holds_together_with_what_the_component_wrote() {
        let own = filter(json!({ "language": "en" }));
        let asked = AskedQuestion { filter: Some(&own), ..AskedQuestion::from("Who?") };
        let year = filter(json!({ "year": 2020 }));
        let written = vec![SearchQuery { filter: Some(year.clone()), .."Who?".into() }, "Who built it?".into()];
        let question = SearchableQuestion::new(false, asked, written);
        assert_eq!(question.queries[0].filter, Some(year.overridden_by(&own)));
        assert_eq!(question.queries[1].filter.as_ref(), Some(&own));
        assert_eq!(question.for_steps(None, None).filter, question.queries[0].filter.as_ref());
    }

    #[test]
    fn each_search_has_its_row_of_the_vectors() {
        let questions = [vec!["a".into(), "b".into()], vec!["c".into()]];
        let vectors = Matrix { columns: 1, data: vec![1.0, 2.0, 3.0] };
        let searches = searches(&questions, Some(&vectors)).concat();
        let rows: Vec<(&str, f32)> = searches.iter().map(|query| (query.text, query.embedding.unwrap()[0])).collect();
        assert_eq!(rows, [("a", 1.0), ("b", 2.0), ("c", 3.0)]);
    }
}
