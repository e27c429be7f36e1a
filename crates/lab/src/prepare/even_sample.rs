//! A sample of the documents at equal distances, taken while they are read.

/// At most `MOST` items of a stream, at equal distances. If an item is added to a full sample, every second item of the
/// sample is dropped, and from then on half as many are kept.
#[derive(Debug)]
pub(super) struct EvenSample<T, const MOST: usize> {
    kept: Vec<T>,
    /// One of this many items is kept: 1, 2, 4, …
    step: usize,
    /// The number of items so far.
    seen: usize,
}

impl<T, const MOST: usize> Default for EvenSample<T, MOST> {
    fn default() -> Self {
        Self { kept: Vec::new(), step: 1, seen: 0 }
    }
}

impl<T, const MOST: usize> EvenSample<T, MOST> {
    /// Counts the next item of the stream, and calls `make` for it if it is kept.
    pub(super) fn add(&mut self, make: impl FnOnce() -> T) {
        let place = self.seen;
        self.seen += 1;
        if !place.is_multiple_of(self.step) {
            return;
        }
        if self.kept.len() == MOST {
            self.step *= 2;
            let mut at = 0..;
            self.kept.retain(|_| at.next().is_some_and(|at: usize| at.is_multiple_of(2)));
        }
        self.kept.push(make());
    }

    /// The items of the sample, in the order of the stream.
    pub(super) fn kept(&self) -> &[T] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_documents_is_spread_over_the_corpus_however_they_lie_in_files() {
        let kept = |documents: usize| {
            let mut sample = EvenSample::<usize, 500>::default();
            (0..documents).for_each(|document| sample.add(|| document));
            let is_spread = sample.kept().iter().enumerate().all(|(at, document)| *document == at * sample.step);
            assert!(is_spread && sample.seen == documents, "{sample:?}");
            (sample.kept().len(), sample.step)
        };
        assert_eq!([0, 1, 500].map(kept), [(0, 1), (1, 1), (500, 1)]);
        assert_eq!([501, 1_000, 1_001].map(kept), [(251, 2), (500, 2), (251, 4)]);
        assert_eq!(kept(57_638), (451, 128), "documents 0, 128, 256, …");
    }
}
