//! Rows of `f32`: what embedding models return.

/// A dense matrix, row by row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    /// The length of a row.
    pub columns: usize,
    /// `rows × columns` values.
    pub data: Vec<f32>,
}

impl Matrix {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.data.len().checked_div(self.columns).unwrap_or(0)
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.columns..(i + 1) * self.columns]
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[f32]> {
        self.data.chunks_exact(self.columns.max(1))
    }

    /// Scales every row to length 1; a row of zeros stays.
    pub fn normalize(&mut self) {
        self.data.chunks_exact_mut(self.columns.max(1)).for_each(normalize_row);
    }
}

/// Scales a row to length 1; a row of zeros stays.
pub(crate) fn normalize_row(row: &mut [f32]) {
    let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm > 0.0 {
        row.iter_mut().for_each(|x| *x /= norm);
    }
}
