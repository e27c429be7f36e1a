//! Messages of Milvus' gRPC service: of each, the fields that are used here. Numbers are those of `milvus.proto`,
//! `schema.proto` and `common.proto`; other fields of a reply are passed over.

use super::field_data::{FieldData, LongArray, StringArray};
use prost::{Message, Oneof};
use std::collections::HashMap;

/// What a call did: success, or a code and a reason.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    pub(super) error_code: i32,
    #[prost(string, tag = "2")]
    pub(super) reason: String,
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
    #[prost(bool, tag = "4")]
    pub(super) retriable: bool,
}

/// A reply with a status.
pub(super) trait Reply: Message + Default {
    fn status(&self) -> Status;
}

impl Reply for Status {
    fn status(&self) -> Status {
        self.clone()
    }
}

macro_rules! replies {
    ($($message:ty),* $(,)?) => {
        $(impl Reply for $message {
            fn status(&self) -> Status {
                self.status.clone().unwrap_or_default()
            }
        })*
    };
}

replies!(
    DescribeCollectionReply,
    ShowCollectionsReply,
    LoadStateReply,
    FlushReply,
    FlushStateReply,
    MutationReply,
    RowsReply,
    FoundRowsReply,
    DescribeIndexReply,
    ListAliasesReply,
    VersionReply,
);

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

impl KeyValue {
    pub(super) fn new(key: &str, value: impl ToString) -> Self {
        Self { key: key.to_owned(), value: value.to_string() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FieldSchema {
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(bool, tag = "3")]
    pub(super) is_primary_key: bool,
    #[prost(int32, tag = "5")]
    pub(super) data_type: i32,
    #[prost(message, repeated, tag = "6")]
    pub(super) type_params: Vec<KeyValue>,
    #[prost(int32, tag = "10")]
    pub(super) element_type: i32,
    #[prost(bool, tag = "12")]
    pub(super) is_dynamic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CollectionSchema {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) description: String,
    #[prost(message, repeated, tag = "4")]
    pub(super) fields: Vec<FieldSchema>,
    #[prost(bool, tag = "5")]
    pub(super) enable_dynamic_field: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateCollection {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    /// An encoded [`CollectionSchema`].
    #[prost(bytes = "vec", tag = "4")]
    pub(super) schema: Vec<u8>,
    #[prost(message, repeated, tag = "7")]
    pub(super) properties: Vec<KeyValue>,
}

/// What calls take that need no more than a collection's name: drop, describe, load, release.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OfCollection {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AlterCollection {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) properties: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DescribeCollectionReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    pub(super) schema: Option<CollectionSchema>,
    #[prost(string, repeated, tag = "9")]
    pub(super) aliases: Vec<String>,
    #[prost(string, tag = "12")]
    pub(super) collection_name: String,
    #[prost(message, repeated, tag = "13")]
    pub(super) properties: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ShowCollections {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ShowCollectionsReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(string, repeated, tag = "2")]
    pub(super) collection_names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetLoadState {
    #[prost(string, tag = "2")]
    pub(super) collection_name: String,
    #[prost(string, tag = "4")]
    pub(super) db_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LoadStateReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    /// 1: not loaded, 2: being loaded, 3: loaded.
    #[prost(int32, tag = "2")]
    pub(super) state: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LoadCollection {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    #[prost(int32, tag = "4")]
    pub(super) replica_number: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Flush {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) collection_names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FlushReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(map = "string, message", tag = "3")]
    pub(super) segments: HashMap<String, LongArray>,
    #[prost(map = "string, uint64", tag = "6")]
    pub(super) timestamps: HashMap<String, u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetFlushState {
    #[prost(int64, repeated, tag = "1")]
    pub(super) segments: Vec<i64>,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
    #[prost(string, tag = "3")]
    pub(super) db_name: String,
    #[prost(string, tag = "4")]
    pub(super) collection_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FlushStateReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(bool, tag = "2")]
    pub(super) flushed: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UpsertRows {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) fields_data: Vec<FieldData>,
    #[prost(uint32, tag = "7")]
    pub(super) num_rows: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Delete {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    #[prost(string, tag = "5")]
    pub(super) expr: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MutationReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    /// Rows that were refused.
    #[prost(uint32, repeated, tag = "4")]
    pub(super) err_index: Vec<u32>,
}

/// The consistency level stays at its default, strong, so that a search finds every record that was written.
#[derive(Clone, PartialEq, Message)]
pub(super) struct QueryRows {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    #[prost(string, tag = "4")]
    pub(super) expr: String,
    #[prost(string, repeated, tag = "5")]
    pub(super) output_fields: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    pub(super) query_params: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RowsReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(super) fields_data: Vec<FieldData>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PlaceholderValue {
    #[prost(string, tag = "1")]
    pub(super) tag: String,
    #[prost(int32, tag = "2")]
    pub(super) kind: i32,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(super) values: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PlaceholderGroup {
    #[prost(message, repeated, tag = "1")]
    pub(super) placeholders: Vec<PlaceholderValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SearchRows {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    /// The condition on records.
    #[prost(string, tag = "5")]
    pub(super) dsl: String,
    /// An encoded [`PlaceholderGroup`]: the vectors of the queries.
    #[prost(bytes = "vec", tag = "6")]
    pub(super) placeholder_group: Vec<u8>,
    /// 1: `dsl` is an expression.
    #[prost(int32, tag = "7")]
    pub(super) dsl_type: i32,
    #[prost(string, repeated, tag = "8")]
    pub(super) output_fields: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    pub(super) search_params: Vec<KeyValue>,
    #[prost(int64, tag = "12")]
    pub(super) nq: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FoundRowsReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(message, optional, tag = "2")]
    pub(super) results: Option<FoundRows>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FoundRows {
    #[prost(message, repeated, tag = "3")]
    pub(super) fields_data: Vec<FieldData>,
    #[prost(float, repeated, tag = "4")]
    pub(super) scores: Vec<f32>,
    #[prost(message, optional, tag = "5")]
    pub(super) ids: Option<Ids>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Ids {
    #[prost(oneof = "IdValues", tags = "1, 2")]
    pub(super) values: Option<IdValues>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum IdValues {
    #[prost(message, tag = "1")]
    Numbers(LongArray),
    #[prost(message, tag = "2")]
    Texts(StringArray),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateIndex {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    #[prost(string, tag = "4")]
    pub(super) field_name: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) extra_params: Vec<KeyValue>,
    #[prost(string, tag = "6")]
    pub(super) index_name: String,
}

/// What the calls take that describe or remove an index.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OfIndex {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    #[prost(string, tag = "4")]
    pub(super) field_name: String,
    #[prost(string, tag = "5")]
    pub(super) index_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DescribeIndexReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(message, repeated, tag = "2")]
    pub(super) indexes: Vec<IndexDescription>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IndexDescription {
    #[prost(string, tag = "1")]
    pub(super) index_name: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) params: Vec<KeyValue>,
    #[prost(string, tag = "4")]
    pub(super) field_name: String,
    #[prost(int64, tag = "5")]
    pub(super) indexed_rows: i64,
    #[prost(int64, tag = "6")]
    pub(super) total_rows: i64,
    /// 3: finished, 4: failed.
    #[prost(int32, tag = "7")]
    pub(super) state: i32,
    #[prost(string, tag = "8")]
    pub(super) fail_reason: String,
    #[prost(int64, tag = "9")]
    pub(super) pending_rows: i64,
}

/// What the calls take that make or change an alias.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PointAlias {
    #[prost(string, tag = "2")]
    pub(super) db_name: String,
    #[prost(string, tag = "3")]
    pub(super) collection_name: String,
    #[prost(string, tag = "4")]
    pub(super) alias: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListAliasesReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(string, repeated, tag = "4")]
    pub(super) aliases: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetVersion {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionReply {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}
