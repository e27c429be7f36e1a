//! Operators: the kinds of work, which are the rows of the live table.

use rag::{Axis, Data};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{cmp::Ordering, sync::LazyLock};

/// The kind of work a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Files to documents.
    Load,
    /// The work of a pipeline stage.
    Stage(Axis),
    /// Questions to vectors.
    EmbedQueries,
    /// Vectors and words to indexes.
    Index,
    /// Questions to the replies of a system.
    Ask,
    /// The passages of a system to places in the documents.
    Anchor,
    /// Everything to scores, without a judge.
    Score,
    /// Everything to scores, by a judge.
    Judge,
}

impl Operator {
    /// Documents to chunks.
    pub const CHUNK: Self = Self::Stage(Axis::Chunker);
    /// Chunks to vectors.
    pub const EMBED: Self = Self::Stage(Axis::Embedder);
    /// Questions to passages.
    pub const RETRIEVE: Self = Self::Stage(Axis::Retriever);
    /// Passages to answers.
    pub const GENERATE: Self = Self::Stage(Axis::Generator);

    /// All, from upstream to downstream.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().copied()
    }

    /// The name people read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Stage(axis) => axis.stage(),
            Self::EmbedQueries => "embed queries",
            Self::Index => "index",
            Self::Ask => "ask",
            Self::Anchor => "anchor",
            Self::Score => "score",
            Self::Judge => "judge",
        }
    }

    /// Whether its tasks mostly wait for models. The stages that do are enrich, query, those from
    /// passages to passages (rerank, refine) and generate.
    pub(crate) fn waits(self) -> bool {
        match self {
            Self::Stage(axis) => {
                axis.input() == Data::Passages
                    || matches!(axis.output(), Data::Queries | Data::Answers)
                    || (axis.input(), axis.output()) == (Data::Chunks, Data::Chunks)
            }
            Self::Ask | Self::Judge => true,
            Self::Load | Self::EmbedQueries | Self::Index | Self::Anchor | Self::Score => false,
        }
    }

    /// The same in an experiment whose texts are perhaps embedded by a model outside this process: then embedding waits too.
    pub(crate) fn waits_where(self, embeds_elsewhere: bool) -> bool {
        self.waits() || (embeds_elsewhere && matches!(self, Self::EMBED | Self::EmbedQueries))
    }

    fn position(self) -> usize {
        ALL.iter().position(|other| *other == self).unwrap_or(usize::MAX)
    }
}

/// Everything that is embedded and indexed comes before everything that is searched.
static ALL: LazyLock<Vec<Operator>> = LazyLock::new(|| {
    let is_before = |axis: &&Axis| matches!(axis.output(), Data::Chunks | Data::Vectors | Data::Queries);
    // The axis `prompt` is a setting of the generator's work, `index` one of the work that makes an index, and `parse` is
    // what loading does.
    let works = || Axis::ALL.iter().filter(|axis| !matches!(axis, Axis::Prompt | Axis::Index | Axis::Parse));
    let before = works().filter(is_before).map(|&axis| Operator::Stage(axis));
    let after = works().filter(|axis| !is_before(axis)).map(|&axis| Operator::Stage(axis));
    let begin = std::iter::once(Operator::Load).chain(before).chain([Operator::EmbedQueries, Operator::Index]);
    begin.chain(after).chain([Operator::Ask, Operator::Anchor, Operator::Score, Operator::Judge]).collect()
});

impl Ord for Operator {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position().cmp(&other.position())
    }
}

impl PartialOrd for Operator {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Serialize for Operator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.name().replace(' ', "_"))
    }
}

impl<'de> Deserialize<'de> for Operator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::all().find(|operator| operator.name().replace(' ', "_") == name).ok_or_else(|| {
            let known: Vec<String> = Self::all().map(|known| format!("`{}`", known.name().replace(' ', "_"))).collect();
            D::Error::custom(format!("unknown variant `{name}`, expected one of {}", known.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_stand_in_the_order_of_the_work() {
        let names: Vec<String> = Operator::all()
            .map(|operator| serde_json::to_value(operator).unwrap().as_str().unwrap().to_owned())
            .collect();
        // New stages may come between these operators.
        let expected =
            "load chunk enrich embed query embed_queries index retrieve rerank refine generate ask anchor score judge";
        let expected: Vec<&str> = expected.split(' ').collect();
        let found: Vec<&str> = names.iter().map(String::as_str).filter(|name| expected.contains(name)).collect();
        assert_eq!(found, expected);
        for (name, operator) in names.iter().zip(Operator::all()) {
            assert_eq!(serde_json::from_value::<Operator>(name.as_str().into()).unwrap(), operator);
        }
        assert!(Operator::all().collect::<Vec<_>>().is_sorted());
        let error = serde_json::from_value::<Operator>("embedding".into()).unwrap_err().to_string();
        assert!(error.contains("unknown variant `embedding`, expected one of `load`"), "{error}");
    }

    #[test]
    fn what_asks_models_for_each_question_waits() {
        let waits = |name: &&str| Operator::all().any(|operator| operator.name() == *name && operator.waits());
        let (asking, computing) = (
            ["enrich", "query", "rerank", "refine", "generate", "ask", "judge"],
            ["load", "chunk", "embed", "embed queries", "index", "retrieve", "anchor", "score"],
        );
        assert!(asking.iter().all(waits) && !computing.iter().any(waits));
    }
}
