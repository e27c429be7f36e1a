//! A sample of the documents at equal distances.

/// One document of this many, from the first on, is in a sample of at most `most` documents: 1, 2, 4, …
pub(super) fn sample_step(documents: usize, most: usize) -> usize {
    let mut step = 1;
    while documents.div_ceil(step) > most {
        step *= 2;
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_holds_at_most_so_many_documents_and_more_than_half_as_many() {
        let sampled = |documents: usize| {
            let step = sample_step(documents, 500);
            (documents.div_ceil(step), step)
        };
        assert_eq!([0, 1, 500].map(sampled), [(0, 1), (1, 1), (500, 1)]);
        assert_eq!([501, 1_000, 1_001].map(sampled), [(251, 2), (500, 2), (251, 4)]);
        assert_eq!(sampled(57_638), (451, 128), "documents 0, 128, 256, …");
    }
}
