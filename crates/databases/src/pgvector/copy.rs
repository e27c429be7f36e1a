//! Vectors and records in PostgreSQL's binary format.

use super::session::Parameter;
use crate::IndexedRecord;
use bytes::{BufMut, Bytes, BytesMut};
use half::f16;
use std::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// Bytes that are handed to the connection at once.
const PIECE: usize = 1 << 20;
/// Every binary copy begins with this, without flags and without an extension of the header.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const END: i16 = -1;
/// The version of the binary form of `jsonb`.
const JSONB_VERSION: u8 = 1;
/// Columns of a collection that Reverie fills.
const COLUMNS: i16 = 4;

/// A vector as a parameter, for the types `vector` and `halfvec`.
#[derive(Debug)]
pub(super) struct QueryVector<'a>(pub(super) &'a [f32]);

impl ToSql for QueryVector<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        put_vector(self.0, kind.name() == "halfvec", out)?;
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(kind.name(), "vector" | "halfvec")
    }

    to_sql_checked!();
}

impl<'a> QueryVector<'a> {
    pub(super) fn parameter(&'a self) -> Parameter<'a> {
        self
    }
}

/// A vector's length, two unused bytes, and its numbers.
fn put_vector(vector: &[f32], is_half: bool, out: &mut BytesMut) -> Result<(), std::num::TryFromIntError> {
    out.put_u16(vector.len().try_into()?);
    out.put_u16(0);
    // In one go, which compilers turn into a few instructions.
    let at = out.len();
    if is_half {
        out.resize(at + vector.len() * 2, 0);
        for (bytes, value) in out[at..].chunks_exact_mut(2).zip(vector) {
            bytes.copy_from_slice(&f16::from_f32(*value).to_be_bytes());
        }
    } else {
        out.resize(at + vector.len() * 4, 0);
        for (bytes, value) in out[at..].chunks_exact_mut(4).zip(vector) {
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }
    Ok(())
}

/// Rows `id, vector, text, fields` of records with their ids as numbers, as pieces of one binary copy.
pub(super) fn rows(
    records: &[(i64, &IndexedRecord)],
    is_half: bool,
) -> Result<Vec<Bytes>, Box<dyn Error + Sync + Send>> {
    let mut pieces = Vec::new();
    let mut out = BytesMut::with_capacity(PIECE + (PIECE >> 3));
    out.put_slice(HEADER);
    for (id, record) in records {
        out.put_i16(COLUMNS);
        out.put_i32(8);
        out.put_i64(*id);
        put_sized(&mut out, |out| Ok(put_vector(&record.vector, is_half, out)?))?;
        put_sized(&mut out, |out| {
            out.put_slice(record.text.as_bytes());
            Ok(())
        })?;
        put_sized(&mut out, |out| {
            out.put_u8(JSONB_VERSION);
            Ok(serde_json::to_writer((&mut *out).writer(), &record.fields)?)
        })?;
        if out.len() >= PIECE {
            pieces.push(out.split().freeze());
            out.reserve(PIECE + (PIECE >> 3));
        }
    }
    out.put_i16(END);
    pieces.push(out.freeze());
    Ok(pieces)
}

/// A value after its length.
fn put_sized(
    out: &mut BytesMut,
    put: impl FnOnce(&mut BytesMut) -> Result<(), Box<dyn Error + Sync + Send>>,
) -> Result<(), Box<dyn Error + Sync + Send>> {
    let at = out.len();
    out.put_i32(0);
    put(out)?;
    let length = i32::try_from(out.len() - at - 4)?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
