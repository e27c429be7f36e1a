//! `recency`: newer passages come before older ones of about the same relevance.
//!
//! A passage's new score is `(1 - weight) x relevance + weight x freshness`.
//! Relevance is its score as a share between the lowest and the highest of the
//! question's passages (1 if all are equal). Freshness halves with every
//! `half_life_days` that it is older than the newest of them, so that no clock is
//! read, and the same question gives the same order next year. A passage without a
//! date has no freshness.
//!
//! It pays for news, logs, releases and rules that replace each other, where the
//! newest of several true passages is wanted. It does not pay for books, or where
//! dates are those of the files and not of what they say. It asks no model.
//! The date is a field of the metadata: `2024`, `2024-05`, `2024-05-01`, also with
//! a time behind it; a year may be a number.
//! Source: the time-weighted retriever of LangChain, which adds freshness to a
//! similarity in the same way.

use crate::{
    ChunkTable, Component, Context, Error, Passage, PassageStep,
    component::{ensure, settings},
    corpus::{Corpus, Query},
};
use async_trait::async_trait;
use chrono::{Datelike, NaiveDate};
use serde_json::Value;

pub(super) const VERSION: u32 = 1;
const NAME: &str = "refine recency";

settings! {
    /// Settings of `recency`.
    pub struct Config {
        /// The field with the date. Default `date`.
        pub field: String = "date".to_owned(),
        /// After so many days a passage is half as fresh. Default 365.
        pub half_life_days: f64 = 365.0,
        /// How much freshness counts, 0 to 1; relevance counts the rest. Default 0.3.
        pub weight: f64 = 0.3,
    }
}

impl Component for Config {
    fn fields(&self) -> Vec<&str> {
        vec![&self.field]
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn PassageStep>, Error> {
        ensure(NAME, !self.field.is_empty(), "field is empty: name the field that holds the date")?;
        let (days, weight) = (self.half_life_days, self.weight);
        ensure(NAME, days.is_finite() && days > 0.0, format!("half_life_days is {days}, but must be above 0"))?;
        ensure(NAME, (0.0..=1.0).contains(&weight), format!("weight is {weight}, but must be between 0 and 1"))?;
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl PassageStep for Config {
    async fn run(&self, _: Query<'_>, corpus: Corpus<'_>, mut passages: Vec<Passage>) -> Result<Vec<Passage>, Error> {
        let days: Vec<Option<i32>> = passages.iter().map(|passage| self.day(passage, corpus.table)).collect();
        let Some(newest) = days.iter().flatten().copied().max() else {
            self.check_dates(corpus.table)?;
            return Ok(passages);
        };
        let scores = || passages.iter().map(|passage| f64::from(passage.score));
        let (low, high) =
            scores().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), score| (low.min(score), high.max(score)));
        let weight = self.weight;
        for (passage, day) in passages.iter_mut().zip(days) {
            let relevance = if high > low { (f64::from(passage.score) - low) / (high - low) } else { 1.0 };
            let freshness = day.map_or(0.0, |day| (-f64::from(newest - day) / self.half_life_days).exp2());
            passage.score = ((1.0 - weight) * relevance + weight * freshness) as f32;
        }
        passages.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(passages)
    }
}

impl Config {
    fn day(&self, passage: &Passage, table: &ChunkTable) -> Option<i32> {
        day(&table.chunk(*passage.rows.first()?).field(&self.field)?)
    }

    /// Checks that some document has a date, because a missing field is a mistake.
    fn check_dates(&self, table: &ChunkTable) -> Result<(), Error> {
        let field = &self.field;
        let mut values = table.searchable_chunks().filter_map(|chunk| chunk.field(field)).peekable();
        let reason = match values.peek().cloned() {
            _ if table.searchable().is_empty() => return Ok(()),
            None => format!("no document has the field `{field}`; there are {}", table.fields().join(", ")),
            Some(_) if values.any(|value| day(&value).is_some()) => return Ok(()),
            Some(first) => format!("the field `{field}` holds {first}, which is not a date such as 2024-05-01"),
        };
        Err(Error::Config { component: NAME, reason })
    }
}

/// The day of a date, counted from the year 1. A missing month or day is the first.
fn day(value: &Value) -> Option<i32> {
    if let Some(year) = value.as_i64() {
        return Some(NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, 1, 1)?.num_days_from_ce());
    }
    let text = value.as_str()?.trim();
    let date = text.split(['T', ' ']).next()?;
    let mut parts = date.split(['-', '/', '.']).map(str::parse::<i32>);
    let year = parts.next()?.ok().filter(|_| date.split(['-', '/', '.']).next().is_some_and(|year| year.len() == 4))?;
    let mut part = || parts.next().map_or(Some(1), |part| u32::try_from(part.ok()?).ok());
    Some(NaiveDate::from_ymd_opt(year, part()?, part()?)?.num_days_from_ce())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, Hit, Span};
    use serde_json::json;

    fn table(dates: &[Value]) -> ChunkTable {
        let chunk = |(number, date): (u32, &Value)| Chunk {
            document: format!("{number}.md"),
            span: Span { start: 0, end: 4 },
            text: "text".to_owned(),
            searchable: true,
            metadata: [("date".to_owned(), date.clone())].into_iter().filter(|(_, date)| !date.is_null()).collect(),
            ..Chunk::default()
        };
        ChunkTable::new((0..).zip(dates).map(chunk).collect())
    }

    /// The names of the documents in their new order, with their scores.
    async fn order(config: Value, dates: &[Value], scores: &[f32]) -> Result<Vec<(String, f32)>, Error> {
        let table = std::sync::Arc::new(table(dates));
        let passages = (0..).zip(scores).map(|(row, &score)| table.passage(Hit { row, score })).collect();
        let step = serde_json::from_value::<Config>(config).unwrap().build(&Context::default())?;
        let query = Query { text: "q", embedding: None, tokens: None, filter: None };
        let made = step.run(query, Corpus::exact(&table, &[]), passages).await?;
        Ok(made.into_iter().map(|passage| (passage.document, passage.score)).collect())
    }

    #[tokio::test]
    async fn of_equally_relevant_passages_the_newer_comes_first() {
        let dates = [json!("2020-01-01"), json!("2024-01-01T10:00:00Z"), json!(2022), Value::Null];
        let made = order(json!({}), &dates, &[1.0; 4]).await.unwrap();
        let names: Vec<&str> = made.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["1.md", "2.md", "0.md", "3.md"]);
        assert_eq!((made[0].1, made[3].1), (1.0, 0.7));
    }

    #[tokio::test]
    async fn freshness_halves_with_the_half_life_and_relevance_counts_the_rest() {
        let dates = [json!("2024-01-01"), json!("2024-01-31")];
        let made = order(json!({ "half_life_days": 30, "weight": 0.5 }), &dates, &[9.0, -3.0]).await.unwrap();
        assert_eq!(made, [("0.md".to_owned(), 0.75), ("1.md".to_owned(), 0.5)]);
    }

    #[tokio::test]
    async fn a_field_without_dates_is_named() {
        let named = async |config, dates: &[Value]| order(config, dates, &[1.0]).await.unwrap_err().to_string();
        let missing = named(json!({ "field": "day" }), &[json!("2024")]).await;
        assert!(missing.contains("no document has the field `day`") && missing.contains("date"), "{missing}");
        let other = named(json!({}), &[json!("soon")]).await;
        assert!(other.contains("holds \"soon\", which is not a date"), "{other}");
        assert!(order(json!({}), &[], &[]).await.unwrap().is_empty());
    }

    #[test]
    fn dates_are_read_as_documents_write_them() {
        for (text, month, day_of_month) in
            [("2024", 1, 1), ("2024-05", 5, 1), ("2024-05-07 11:00", 5, 7), ("2024/5/7", 5, 7)]
        {
            let expected = NaiveDate::from_ymd_opt(2024, month, day_of_month).unwrap().num_days_from_ce();
            assert_eq!(day(&json!(text)), Some(expected), "{text}");
        }
        for wrong in ["", "05-07-2024", "2024-13", "2024-02-30", "May 2024"] {
            assert_eq!(day(&json!(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        for wrong in [json!({ "half_life_days": 0 }), json!({ "weight": 1.5 }), json!({ "field": "" })] {
            let config: Config = serde_json::from_value(wrong.clone()).unwrap();
            assert!(config.build(&Context::default()).is_err(), "{wrong}");
        }
    }
}
