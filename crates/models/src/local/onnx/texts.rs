//! Tokenised texts. Each text is one sequence of tokens, or several windows if it is long. Joins the vectors that the
//! model returns for windows into the vectors of texts.

use super::{tokens::TokenSequence, windows::TextWindow};
use crate::{
    Matrix, Usage,
    model::{normalize_row, refuse_long_texts},
};
use std::ops::Range;

/// The tokens of several texts.
#[derive(Debug, Default)]
pub(crate) struct TokenizedTexts {
    /// What the model reads: a sequence for each window of each text.
    pub(crate) sequences: Vec<TokenSequence>,
    /// For each sequence, its own tokens: those that are taken from this window and from no other window of the text.
    own: Vec<Range<usize>>,
    /// For each text, the range of its windows in `sequences`.
    texts: Vec<Range<usize>>,
}

impl FromIterator<Vec<TextWindow>> for TokenizedTexts {
    /// Collects the windows of each text, in order.
    fn from_iter<I: IntoIterator<Item = Vec<TextWindow>>>(texts: I) -> Self {
        let mut all = Self::default();
        for windows in texts {
            let start = all.sequences.len();
            all.texts.push(start..start + windows.len());
            for TextWindow { tokens, own } in windows {
                all.sequences.push(tokens);
                all.own.push(own);
            }
        }
        all
    }
}

impl TokenizedTexts {
    /// The usage of a call with these texts.
    pub(crate) fn usage(&self) -> Usage {
        let windowed_texts = self.texts.iter().filter(|windows| windows.len() > 1).count() as u64;
        Usage { windowed_texts, ..TokenSequence::usage(&self.sequences) }
    }

    /// Fails if a text was cut, with the error of [`refuse_long_texts`]. `texts` are the texts of `self`, in order.
    pub(crate) fn refuse_cut(&self, model: &str, limit: usize, texts: &[String]) -> Result<(), crate::Error> {
        let length = |windows: &Range<usize>| {
            self.sequences[windows.clone()].iter().map(|tokens| tokens.ids.len() + tokens.lost).sum()
        };
        refuse_long_texts(model, limit, false, texts, self.texts.iter().map(length))
    }

    /// The vector of each text, of length 1. `rows` has one vector for each sequence. The vector of a text in windows
    /// is the mean of its windows' vectors, each scaled to length 1 and weighted by the number of the window's own
    /// tokens.
    pub(crate) fn text_vectors(&self, mut rows: Matrix) -> Matrix {
        rows.normalize();
        if self.texts.len() == self.sequences.len() {
            return rows;
        }
        let columns = rows.columns;
        let mut vectors = Matrix { columns, data: vec![0.0; columns * self.texts.len()] };
        for (windows, vector) in self.texts.iter().zip(vectors.data.chunks_exact_mut(columns.max(1))) {
            if windows.len() == 1 {
                vector.copy_from_slice(rows.row(windows.start));
                continue;
            }
            for window in windows.clone() {
                // Only the direction counts: the sum is normalised afterwards.
                let weight = self.own[window].len() as f32;
                vector.iter_mut().zip(rows.row(window)).for_each(|(sum, value)| *sum += weight * value);
            }
            normalize_row(vector);
        }
        vectors
    }

    /// The token vectors of each text. `matrices` has the token vectors of each sequence. A text in windows gets each
    /// of its tokens once, what stands before them in its first window, and what follows them in its last one.
    pub(crate) fn token_vectors(&self, mut matrices: Vec<Matrix>) -> Vec<Matrix> {
        if self.texts.len() == self.sequences.len() {
            return matrices;
        }
        let joined = |windows: &Range<usize>| {
            if windows.len() == 1 {
                return std::mem::take(&mut matrices[windows.start]);
            }
            let columns = matrices[windows.start].columns;
            let mut all = Matrix { columns, data: Vec::new() };
            for window in windows.clone() {
                let (matrix, own) = (&matrices[window], &self.own[window]);
                let start = if window == windows.start { 0 } else { own.start };
                let end = if window + 1 == windows.end { matrix.rows() } else { own.end };
                all.data.extend_from_slice(&matrix.data[start * columns..end * columns]);
            }
            all
        };
        self.texts.iter().map(joined).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(n_tokens: usize, own: Range<usize>) -> TextWindow {
        TextWindow { tokens: TokenSequence { ids: vec![7; n_tokens], types: vec![0; n_tokens], lost: 0 }, own }
    }

    /// A text that fits, a text in three windows, and another text that fits.
    fn texts() -> TokenizedTexts {
        let long = vec![window(4, 1..3), window(4, 1..2), window(4, 2..3)];
        [vec![window(3, 0..3)], long, vec![window(2, 0..2)]].into_iter().collect()
    }

    #[test]
    fn a_text_in_windows_counts_once_and_its_tokens_as_often_as_they_are_read() {
        let usage = texts().usage();
        assert_eq!((usage.prompt_tokens, usage.windowed_texts), (3 + 12 + 2, 1));
        assert_eq!((usage.cut_texts, usage.cut_tokens), (0, 0));
        assert_eq!(TokenizedTexts::default().usage(), Usage::default());
    }

    #[test]
    fn the_vector_of_a_text_in_windows_is_their_mean_by_their_own_tokens() {
        let rows = [[3.0, 4.0], [2.0, 0.0], [0.0, 9.0], [0.0, 1.0], [0.0, -5.0]];
        let made = texts().text_vectors(Matrix { columns: 2, data: rows.concat() });
        assert_eq!((made.row(0), made.row(2)), (&[0.6, 0.8][..], &[0.0, -1.0][..]));
        // Two own tokens point to the right, and two upwards; the lengths of the rows do not matter.
        let half = 0.5_f32.sqrt();
        assert!(made.row(1).iter().all(|value| (value - half).abs() < 1e-6), "{:?}", made.row(1));
        assert_eq!(made.rows(), 3);
    }

    #[test]
    fn texts_that_fit_have_the_same_vectors_beside_long_ones() {
        let alone: TokenizedTexts = [vec![window(3, 0..3)]].into_iter().collect();
        let row = vec![0.123_f32, 4.567, -8.9];
        let expected = alone.text_vectors(Matrix { columns: 3, data: row.clone() });
        let beside = texts().text_vectors(Matrix { columns: 3, data: [row, vec![1.0; 12]].concat() });
        assert_eq!(beside.row(0), expected.row(0));
    }

    #[test]
    fn each_token_of_a_text_in_windows_has_one_vector() {
        let matrix = |values: Range<usize>| Matrix { columns: 1, data: values.map(|value| value as f32).collect() };
        let made =
            texts().token_vectors(vec![matrix(0..3), matrix(10..14), matrix(20..24), matrix(30..34), matrix(40..42)]);
        let rows: Vec<Vec<f32>> = made.into_iter().map(|matrix| matrix.data).collect();
        assert_eq!(rows, [vec![0.0, 1.0, 2.0], vec![10.0, 11.0, 12.0, 21.0, 32.0, 33.0], vec![40.0, 41.0]]);
    }

    #[test]
    fn a_text_that_was_cut_is_refused_with_its_whole_length() {
        let texts: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut cut = window(8, 0..8);
        cut.tokens.lost = 992;
        let tokens: TokenizedTexts = [vec![window(8, 0..8)], vec![cut], vec![window(3, 0..3)]].into_iter().collect();
        let error = tokens.refuse_cut("m", 8, &texts).unwrap_err();
        assert!(
            matches!(&error, crate::Error::TextTooLong { text, tokens: 1000, longer: 1, of: 3, .. } if text == "b")
        );
        let fits: TokenizedTexts = [vec![window(8, 0..8)]].into_iter().collect();
        assert!(fits.refuse_cut("m", 8, &texts[..1]).is_ok());
    }
}
