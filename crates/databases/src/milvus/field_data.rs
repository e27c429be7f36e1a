//! Columns of values, as Milvus sends and takes records: one [`FieldData`] for each field.

use prost::{Message, Oneof};
use serde_json::{Value, json};

/// A type of a field.
pub(super) mod data_type {
    pub(in crate::milvus) const BOOL: i32 = 1;
    pub(in crate::milvus) const INT8: i32 = 2;
    pub(in crate::milvus) const INT16: i32 = 3;
    pub(in crate::milvus) const INT32: i32 = 4;
    pub(in crate::milvus) const INT64: i32 = 5;
    pub(in crate::milvus) const FLOAT: i32 = 10;
    pub(in crate::milvus) const DOUBLE: i32 = 11;
    pub(in crate::milvus) const VARCHAR: i32 = 21;
    pub(in crate::milvus) const ARRAY: i32 = 22;
    pub(in crate::milvus) const JSON: i32 = 23;
    pub(in crate::milvus) const FLOAT_VECTOR: i32 = 101;
    pub(in crate::milvus) const SPARSE_VECTOR: i32 = 104;

    /// The name of a type, as descriptions and errors show it.
    pub(in crate::milvus) fn name(kind: i32) -> String {
        let name = match kind {
            BOOL => "Bool",
            INT8 => "Int8",
            INT16 => "Int16",
            INT32 => "Int32",
            INT64 => "Int64",
            FLOAT => "Float",
            DOUBLE => "Double",
            20 | VARCHAR => "VarChar",
            ARRAY => "Array",
            JSON => "JSON",
            24 => "Geometry",
            25 => "Text",
            26 => "Timestamptz",
            100 => "BinaryVector",
            FLOAT_VECTOR => "FloatVector",
            102 => "Float16Vector",
            103 => "BFloat16Vector",
            SPARSE_VECTOR => "SparseFloatVector",
            105 => "Int8Vector",
            kind => return format!("type {kind}"),
        };
        name.to_owned()
    }

    /// Whether values of a type are vectors.
    pub(in crate::milvus) fn is_vector(kind: i32) -> bool {
        (100..200).contains(&kind)
    }
}

/// The values of one field, one for each record.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FieldData {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(string, tag = "2")]
    pub(super) field_name: String,
    #[prost(oneof = "ColumnValues", tags = "3, 4")]
    pub(super) values: Option<ColumnValues>,
    #[prost(bool, tag = "6")]
    pub(super) is_dynamic: bool,
    /// Which values are not null; empty: all.
    #[prost(bool, repeated, tag = "7")]
    pub(super) valid_data: Vec<bool>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ColumnValues {
    #[prost(message, tag = "3")]
    Scalars(ScalarField),
    #[prost(message, tag = "4")]
    Vectors(VectorField),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScalarField {
    #[prost(oneof = "ScalarValues", tags = "1, 2, 3, 4, 5, 6, 8, 9")]
    pub(super) values: Option<ScalarValues>,
    /// Which values are not null, in newer servers.
    #[prost(bool, repeated, tag = "17")]
    pub(super) valid_data: Vec<bool>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ScalarValues {
    #[prost(message, tag = "1")]
    Bools(BoolArray),
    #[prost(message, tag = "2")]
    Ints(IntArray),
    #[prost(message, tag = "3")]
    Longs(LongArray),
    #[prost(message, tag = "4")]
    Floats(FloatArray),
    #[prost(message, tag = "5")]
    Doubles(DoubleArray),
    #[prost(message, tag = "6")]
    Texts(StringArray),
    #[prost(message, tag = "8")]
    Lists(ListArray),
    #[prost(message, tag = "9")]
    Json(JsonArray),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BoolArray {
    #[prost(bool, repeated, tag = "1")]
    pub(super) data: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IntArray {
    #[prost(int32, repeated, tag = "1")]
    pub(super) data: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LongArray {
    #[prost(int64, repeated, tag = "1")]
    pub(super) data: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FloatArray {
    #[prost(float, repeated, tag = "1")]
    pub(super) data: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DoubleArray {
    #[prost(double, repeated, tag = "1")]
    pub(super) data: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StringArray {
    #[prost(string, repeated, tag = "1")]
    pub(super) data: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListArray {
    #[prost(message, repeated, tag = "1")]
    pub(super) data: Vec<ScalarField>,
    #[prost(int32, tag = "2")]
    pub(super) element_type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct JsonArray {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) data: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VectorField {
    #[prost(int64, tag = "1")]
    pub(super) dim: i64,
    #[prost(message, optional, tag = "2")]
    pub(super) floats: Option<FloatArray>,
    /// Which vectors are not null, in newer servers.
    #[prost(bool, repeated, tag = "9")]
    pub(super) valid_data: Vec<bool>,
}

impl FieldData {
    /// A column of values of this type.
    pub(super) fn scalars(field_name: &str, kind: i32, values: ScalarValues) -> Self {
        let scalars = ScalarField { values: Some(values), valid_data: Vec::new() };
        let values = Some(ColumnValues::Scalars(scalars));
        Self { kind, field_name: field_name.to_owned(), values, is_dynamic: false, valid_data: Vec::new() }
    }

    /// A column of vectors.
    pub(super) fn vectors(field_name: &str, dimensions: usize, numbers: Vec<f32>) -> Self {
        let floats = Some(FloatArray { data: numbers });
        let vectors = VectorField { dim: dimensions as i64, floats, valid_data: Vec::new() };
        let values = Some(ColumnValues::Vectors(vectors));
        Self {
            kind: data_type::FLOAT_VECTOR,
            field_name: field_name.to_owned(),
            values,
            is_dynamic: false,
            valid_data: Vec::new(),
        }
    }

    /// Where the value of each row is among the values, none where it is null. Servers either leave nulls out or put
    /// something in their place.
    fn position(&self, row: usize, values: usize) -> Option<usize> {
        let inner = match &self.values {
            Some(ColumnValues::Scalars(scalars)) => &scalars.valid_data,
            Some(ColumnValues::Vectors(vectors)) => &vectors.valid_data,
            None => return None,
        };
        let valid = if inner.is_empty() { &self.valid_data } else { inner };
        match valid.get(row) {
            None => Some(row),
            Some(false) => None,
            Some(true) if values == valid.len() => Some(row),
            Some(true) => Some(valid[..row].iter().filter(|is_valid| **is_valid).count()),
        }
    }

    /// The value of a row as JSON; null if there is none.
    pub(super) fn value(&self, row: usize) -> Value {
        let Some(ColumnValues::Scalars(ScalarField { values: Some(values), .. })) = &self.values else {
            return Value::Null;
        };
        self.position(row, values.len()).map_or(Value::Null, |position| values.value(position))
    }

    /// The text of a row.
    pub(super) fn text(&self, row: usize) -> Option<&str> {
        match &self.values {
            Some(ColumnValues::Scalars(ScalarField { values: Some(ScalarValues::Texts(texts)), .. })) => {
                self.position(row, texts.data.len()).and_then(|position| texts.data.get(position)).map(String::as_str)
            }
            _ => None,
        }
    }

    /// The vector of a row.
    pub(super) fn vector(&self, row: usize) -> Option<&[f32]> {
        let Some(ColumnValues::Vectors(VectorField { dim, floats: Some(floats), .. })) = &self.values else {
            return None;
        };
        let length = usize::try_from(*dim).ok().filter(|length| *length > 0)?;
        let position = self.position(row, floats.data.len() / length)?;
        floats.data.get(position * length..(position + 1) * length)
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        let values = match &self.values {
            Some(ColumnValues::Scalars(scalars)) => scalars.values.as_ref().map_or(0, ScalarValues::len),
            Some(ColumnValues::Vectors(vectors)) => {
                let length = usize::try_from(vectors.dim).unwrap_or_default().max(1);
                vectors.floats.as_ref().map_or(0, |floats| floats.data.len() / length)
            }
            None => 0,
        };
        values.max(self.valid_data.len())
    }
}

impl ScalarValues {
    fn len(&self) -> usize {
        match self {
            Self::Bools(values) => values.data.len(),
            Self::Ints(values) => values.data.len(),
            Self::Longs(values) => values.data.len(),
            Self::Floats(values) => values.data.len(),
            Self::Doubles(values) => values.data.len(),
            Self::Texts(values) => values.data.len(),
            Self::Lists(values) => values.data.len(),
            Self::Json(values) => values.data.len(),
        }
    }

    fn value(&self, position: usize) -> Value {
        let value = match self {
            Self::Bools(values) => values.data.get(position).map(|value| json!(value)),
            Self::Ints(values) => values.data.get(position).map(|value| json!(value)),
            Self::Longs(values) => values.data.get(position).map(|value| json!(value)),
            // The shortest text of a 32-bit number, so that 0.1 stays 0.1.
            Self::Floats(values) => {
                values.data.get(position).and_then(|value| serde_json::from_str(&value.to_string()).ok())
            }
            Self::Doubles(values) => values.data.get(position).map(|value| json!(value)),
            Self::Texts(values) => values.data.get(position).map(|value| json!(value)),
            Self::Lists(values) => values.data.get(position).map(|list| match &list.values {
                Some(items) => (0..items.len()).map(|item| items.value(item)).collect(),
                None => json!([]),
            }),
            Self::Json(values) => values.data.get(position).and_then(|text| serde_json::from_slice(text).ok()),
        };
        value.unwrap_or_default()
    }
}

/// A column by its name.
pub(super) fn column<'a>(columns: &'a [FieldData], name: &str) -> Option<&'a FieldData> {
    columns.iter().find(|column| column.field_name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_may_be_left_out_or_have_a_value_in_their_place() {
        let of = |data: &[&str]| {
            let data = data.iter().map(|text| (*text).to_owned()).collect();
            let mut column = FieldData::scalars("t", data_type::VARCHAR, ScalarValues::Texts(StringArray { data }));
            column.valid_data = vec![true, false, true];
            column
        };
        for column in [of(&["a", "c"]), of(&["a", "", "c"])] {
            assert_eq!((column.text(0), column.text(1), column.text(2)), (Some("a"), None, Some("c")));
            assert_eq!((column.value(1), column.value(2), column.rows()), (Value::Null, json!("c"), 3));
        }
    }
}
