//! The share of its texts that a model did not read, because they are longer than its limit.

use models::ModelUsage;

/// What a model did not read of its texts. For a reranker, a text is a pair of a question and a passage.
#[derive(Debug, Clone, PartialEq)]
pub struct CutShare {
    /// The model's name, from its identity.
    pub model: String,
    /// The most tokens of a text that it reads; none if that is not known.
    pub max_tokens: Option<u64>,
    /// The number of texts of which it read only the beginning.
    pub cut_texts: u64,
    /// The number of all its texts; none if that is not known, because an earlier version did not count them.
    pub texts: Option<u64>,
    /// The share of the tokens of all its texts that it did not read, from 0 to 1; none if that is not known.
    pub lost: Option<f64>,
}

/// What a model did not read; none if it is not known to have cut a text.
pub fn cut_share(used: &ModelUsage) -> Option<CutShare> {
    let ModelUsage { cut_texts, cut_tokens, .. } = *used;
    let all = used.prompt_tokens.saturating_add(cut_tokens);
    (cut_texts > 0).then(|| CutShare {
        model: used.model.clone(),
        max_tokens: Some(used.max_tokens).filter(|limit| *limit > 0),
        cut_texts,
        // Earlier versions did not count all texts, so a sum with their counts can be too small.
        texts: Some(used.texts).filter(|texts| *texts >= cut_texts),
        lost: (cut_tokens > 0).then(|| cut_tokens as f64 / all as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used() -> ModelUsage {
        ModelUsage {
            model: "minilm".to_owned(),
            prompt_tokens: 570,
            texts: 9,
            max_tokens: 256,
            ..ModelUsage::default()
        }
    }

    #[test]
    fn a_model_that_read_all_has_no_share_and_windows_lose_nothing() {
        assert_eq!(cut_share(&ModelUsage::default()), None);
        assert_eq!(cut_share(&used()), None);
        assert_eq!(cut_share(&ModelUsage { windowed_texts: 3, ..used() }), None);
    }

    #[test]
    fn the_share_is_of_all_tokens_those_included_that_were_not_read() {
        let share = cut_share(&ModelUsage { cut_texts: 4, cut_tokens: 430, ..used() }).unwrap();
        assert_eq!((share.cut_texts, share.texts, share.max_tokens, share.lost), (4, Some(9), Some(256), Some(0.43)));
        assert_eq!(share.model, "minilm");
        let all = cut_share(&ModelUsage { cut_texts: 1, cut_tokens: u64::MAX, ..used() }).unwrap();
        assert!(all.lost.is_some_and(|lost| (0.99..=1.0).contains(&lost)));
    }

    #[test]
    fn what_earlier_versions_did_not_count_is_unknown_and_not_zero() {
        let old = ModelUsage { cut_texts: 4, texts: 0, max_tokens: 0, ..used() };
        let share = cut_share(&old).unwrap();
        assert_eq!((share.texts, share.max_tokens, share.lost), (None, None, None));
        // Some tasks were counted by an earlier version, some by this one.
        let mixed = ModelUsage { cut_texts: 40, cut_tokens: 10, ..used() };
        assert_eq!(cut_share(&mixed).unwrap().texts, None);
    }
}
