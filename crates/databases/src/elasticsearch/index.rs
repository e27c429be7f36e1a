//! An index as the server describes it: its mapping, its vector field, its manifest.

use super::server::{SearchProduct, SearchServer};
use crate::{DatabaseProblem, IndexManifest, SearchIndexDescription, VectorMetric};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The key of the mapping's `_meta` with the manifest as JSON text.
pub(super) const MANIFEST: &str = "reverie_manifest";
/// The ending of the alias through which Reverie writes to an index. A write that must find an alias fails if the
/// index was removed meanwhile; any other write would make a new index without a manifest.
pub(super) const WRITE_ALIAS: &str = ".write";

/// An index.
#[derive(Debug, Clone)]
pub(super) struct SearchIndex {
    /// Its own name, also if it was asked for by an alias.
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    /// Its shards, if the server says so.
    pub(super) shards: Option<u32>,
    manifest: Option<String>,
    properties: Map<String, Value>,
    has_source: bool,
    has_knn: bool,
}

/// What can be asked of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MappedFieldKind {
    /// Whole texts under this name, up to so many UTF-16 units.
    Keyword { name: String, longest: usize },
    /// Integers.
    Integer,
    /// True and false.
    Boolean,
    /// Something else, with its type.
    Other(String),
}

/// A field with vectors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VectorFieldMapping {
    pub(super) name: String,
    pub(super) dimensions: Option<usize>,
    /// What searches use; none if every vector has to be compared.
    pub(super) search_index: Option<VectorIndexMapping>,
}

/// The index of a field with vectors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VectorIndexMapping {
    pub(super) kind: String,
    pub(super) metric: VectorMetric,
    pub(super) formula: ScoreFormula,
}

/// How a server turns the comparison of two vectors into a score, which is never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScoreFormula {
    /// 1 + cosine.
    OnePlus,
    /// (1 + cosine) / 2.
    HalfOfOnePlus,
    /// 1 / (2 - cosine).
    InverseOfTwoMinus,
    /// 1 + product, or 1 / (1 - product) if it is negative.
    Product,
    /// 1 / (1 + squared distance).
    InverseOfDistance,
}

impl ScoreFormula {
    /// The cosine, if both vectors have length 1.
    pub(super) fn cosine(self, score: f64) -> f64 {
        match self {
            Self::OnePlus => score - 1.0,
            Self::HalfOfOnePlus => 2.0 * score - 1.0,
            Self::InverseOfTwoMinus => 2.0 - 1.0 / score,
            Self::Product if score >= 1.0 => score - 1.0,
            Self::Product => 1.0 - 1.0 / score,
            Self::InverseOfDistance => 1.0 - (1.0 / score - 1.0) / 2.0,
        }
    }

    /// The formula that an exact search by this metric asks for.
    pub(super) fn of_exact(metric: VectorMetric) -> Self {
        match metric {
            VectorMetric::Cosine => Self::OnePlus,
            VectorMetric::InnerProduct => Self::Product,
            VectorMetric::Euclidean => Self::InverseOfDistance,
        }
    }
}

impl SearchIndex {
    /// The only index of a reply to `GET /{name}`.
    pub(super) fn of_reply(body: &Value) -> Result<Self, DatabaseProblem> {
        let indexes = body.as_object().filter(|indexes| !indexes.is_empty());
        let Some(indexes) = indexes else {
            return Err(DatabaseProblem::Malformed { reason: "no index is described".to_owned() });
        };
        let mut indexes = indexes.iter();
        let (Some((name, described)), None) = (indexes.next(), indexes.next()) else {
            return Err(DatabaseProblem::InvalidSettings {
                reason: "it is an alias of several indexes; name one of them".to_owned(),
            });
        };
        let text = |path: &str| described.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let object = |path: &str| described.pointer(path).and_then(Value::as_object).cloned().unwrap_or_default();
        Ok(Self {
            name: name.clone(),
            aliases: object("/aliases").into_iter().map(|(alias, _)| alias).collect(),
            shards: text("/settings/index/number_of_shards").and_then(|shards| shards.parse().ok()),
            manifest: text(&format!("/mappings/_meta/{MANIFEST}")),
            properties: object("/mappings/properties"),
            has_source: described.pointer("/mappings/_source/enabled").and_then(Value::as_bool) != Some(false),
            has_knn: text("/settings/index/knn").as_deref() == Some("true"),
        })
    }

    /// The manifest, if Reverie fills the index.
    pub(super) fn manifest(&self) -> Result<Option<IndexManifest>, DatabaseProblem> {
        self.manifest.as_deref().map(IndexManifest::read).transpose()
    }

    /// Its aliases but the one through which Reverie writes.
    pub(super) fn users_aliases(&self) -> impl Iterator<Item = &String> {
        self.aliases.iter().filter(|alias| **alias != write_alias(&self.name))
    }

    /// All fields with their types; those within objects have dots in their names.
    pub(super) fn fields(&self) -> BTreeMap<String, String> {
        fn collect(properties: &Map<String, Value>, before: &str, fields: &mut BTreeMap<String, String>) {
            for (name, field) in properties {
                let name = format!("{before}{name}");
                fields.insert(name.clone(), type_of(field).to_owned());
                if let Some(inner) = field.get("properties").and_then(Value::as_object) {
                    collect(inner, &format!("{name}."), fields);
                }
            }
        }
        let mut fields = BTreeMap::from([("_id".to_owned(), "_id".to_owned())]);
        collect(&self.properties, "", &mut fields);
        fields
    }

    /// The mapping of a field; its name has dots if it is within an object.
    fn field(&self, path: &str) -> Result<&Value, DatabaseProblem> {
        fn find<'a>(properties: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
            if let Some(field) = properties.get(path) {
                return Some(field);
            }
            path.match_indices('.').find_map(|(dot, _)| {
                let inner = properties.get(&path[..dot])?;
                // Each record has a list of these, so there is no vector or value of a record.
                let inner = (type_of(inner) != "nested").then(|| inner.get("properties")?.as_object()).flatten()?;
                find(inner, &path[dot + 1..])
            })
        }
        find(&self.properties, path).ok_or_else(|| DatabaseProblem::MissingField {
            field: path.to_owned(),
            known: self.fields().into_keys().filter(|name| name != "_id").collect(),
        })
    }

    /// What can be asked of a field.
    pub(super) fn kind(&self, path: &str) -> Result<MappedFieldKind, DatabaseProblem> {
        let field = self.field(path)?;
        let keyword = |field: &Value, name: String| {
            let is_plain = type_of(field) == "keyword" && field.get("normalizer").is_none() && is_indexed(field);
            let longest = field.get("ignore_above").and_then(Value::as_u64);
            is_plain.then_some(MappedFieldKind::Keyword {
                name,
                longest: longest.map_or(usize::MAX, |longest| longest as usize),
            })
        };
        if let Some(found) = keyword(field, path.to_owned()) {
            return Ok(found);
        }
        let inner = field.get("fields").and_then(Value::as_object).into_iter().flatten();
        if let Some(found) = inner.filter_map(|(name, field)| keyword(field, format!("{path}.{name}"))).next() {
            return Ok(found);
        }
        Ok(match type_of(field) {
            "long" | "integer" | "short" | "byte" if is_indexed(field) => MappedFieldKind::Integer,
            "boolean" if is_indexed(field) => MappedFieldKind::Boolean,
            other => MappedFieldKind::Other(other.to_owned()),
        })
    }

    /// Fails if the index does not keep what its records were made of.
    fn check_source(&self) -> Result<(), DatabaseProblem> {
        match self.has_source {
            true => Ok(()),
            false => Err(DatabaseProblem::InvalidSettings {
                reason: "its mapping has `_source` disabled, so it has no texts and fields that could be read"
                    .to_owned(),
            }),
        }
    }

    /// The field with a text that can be searched for words.
    pub(super) fn text_field(&self, path: &str) -> Result<(), DatabaseProblem> {
        self.check_source()?;
        match self.kind(path)? {
            MappedFieldKind::Other(kind) if !matches!(kind.as_str(), "text" | "match_only_text") => {
                Err(other_type(path, &kind, "text"))
            }
            _ => Ok(()),
        }
    }

    /// A field with vectors.
    pub(super) fn vector_field(
        &self,
        server: &SearchServer,
        path: &str,
    ) -> Result<VectorFieldMapping, DatabaseProblem> {
        self.check_source()?;
        let field = self.field(path)?;
        let kind = type_of(field);
        let needed = server.product.vector_type();
        if kind != needed {
            return Err(other_type(path, kind, needed));
        }
        let text = |pointer: &str| field.pointer(pointer).and_then(Value::as_str);
        let element = text("/element_type").or_else(|| text("/data_type")).unwrap_or("float");
        if !matches!(element, "float" | "bfloat16" | "half_float") {
            return Err(other_type(path, &format!("{kind} with elements of the type {element}"), "float"));
        }
        let dimensions = field.get("dims").or_else(|| field.get("dimension")).and_then(Value::as_u64);
        let search_index = match server.product {
            SearchProduct::Elasticsearch => {
                let is_indexed = field.get("index").and_then(Value::as_bool).unwrap_or(server.version >= (8, 11));
                let formula = match text("/similarity").unwrap_or("cosine") {
                    "cosine" => Some((VectorMetric::Cosine, ScoreFormula::HalfOfOnePlus)),
                    "dot_product" => Some((VectorMetric::InnerProduct, ScoreFormula::HalfOfOnePlus)),
                    "max_inner_product" => Some((VectorMetric::InnerProduct, ScoreFormula::Product)),
                    "l2_norm" => Some((VectorMetric::Euclidean, ScoreFormula::InverseOfDistance)),
                    _ => None,
                };
                let kind = text("/index_options/type").unwrap_or("hnsw").to_owned();
                formula.filter(|_| is_indexed).map(|(metric, formula)| VectorIndexMapping { kind, metric, formula })
            }
            SearchProduct::OpenSearch => {
                // Before 2.19 only Lucene had this formula for the cosine.
                let is_half = server.version >= (2, 19) || text("/method/engine") == Some("lucene");
                let cosine = if is_half { ScoreFormula::HalfOfOnePlus } else { ScoreFormula::InverseOfTwoMinus };
                let formula = match text("/method/space_type").or_else(|| text("/space_type")).unwrap_or("l2") {
                    "cosinesimil" => Some((VectorMetric::Cosine, cosine)),
                    "innerproduct" => Some((VectorMetric::InnerProduct, ScoreFormula::Product)),
                    "l2" => Some((VectorMetric::Euclidean, ScoreFormula::InverseOfDistance)),
                    _ => None,
                };
                let kind = text("/method/name").unwrap_or("hnsw").to_owned();
                formula.filter(|_| self.has_knn).map(|(metric, formula)| VectorIndexMapping { kind, metric, formula })
            }
        };
        let dimensions = dimensions.and_then(|dimensions| dimensions.try_into().ok());
        Ok(VectorFieldMapping { name: path.to_owned(), dimensions, search_index })
    }
}

impl VectorIndexMapping {
    /// Each record is in it as soon as it can be found at all.
    pub(super) fn describe(&self) -> SearchIndexDescription {
        SearchIndexDescription { kind: self.kind.clone(), metric: self.metric, is_ready: true, bytes: None }
    }
}

/// The alias through which Reverie writes to this index.
pub(super) fn write_alias(name: &str) -> String {
    format!("{name}{WRITE_ALIAS}")
}

/// The type of a field; one without a type is an object.
fn type_of(field: &Value) -> &str {
    field.get("type").and_then(Value::as_str).unwrap_or("object")
}

fn is_indexed(field: &Value) -> bool {
    field.get("index").and_then(Value::as_bool) != Some(false)
}

fn other_type(field: &str, kind: &str, needed: &str) -> DatabaseProblem {
    DatabaseProblem::InvalidSettings {
        reason: format!("its field `{field}` is of the type {kind}, and {needed} is needed"),
    }
}
