//! `long-texts`: chunks that are longer than the embedder or the reranker reads.
//!
//! Before a run, the size of a full chunk is compared with what the model reads. Chunkers count tokens of
//! `cl100k_base`. Each of them is taken as one token of the model, which is about right for English, and too few for
//! other languages and for code. After a run, the warning counts the texts that were cut, from the models' ledgers.

use super::{CutTextsFacts, Finding, RunFacts, TrialFacts, WarningKind, WarningTime};
use crate::number::{count, counted, percent};

pub(super) const KIND: WarningKind = WarningKind {
    title: "chunks longer than a model reads",
    meaning: "An embedder makes a vector of at most so many tokens of a text, and a reranker reads at most so many of a \
              question and a chunk together. What stands beyond that has no influence: it cannot be found by its \
              vector. Large chunks then lose to small ones for this reason alone. Before a run, a full chunk is compared \
              with the limit of the model, and a token of the chunker is counted as one of the model. After a run, the \
              texts that were cut are counted. A model with `long_texts = \"refuse\"` cuts none: there a chunk that is \
              too long fails the trial.",
    action: "use a smaller `chunk_size`, a model that reads more, or embed long texts in windows (`long_texts` of the \
             model)",
    found: WarningTime::BeforeAndAfter,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    let of_trial = |trial: &TrialFacts| match &trial.found {
        Some(found) => found.cut_texts.iter().map(|cut| measured(trial, cut, found.chunks)).collect(),
        None => planned(facts, trial),
    };
    facts.trials.iter().flat_map(of_trial).collect()
}

/// The findings before a run: the trial's models whose limit is below the size of a full chunk.
fn planned(facts: &RunFacts, trial: &TrialFacts) -> Vec<Finding> {
    let Some(size) = trial.chunk_size else { return Vec::new() };
    let readers = trial.embedder.iter().chain(&trial.rerankers);
    let beyond = |name: &String| {
        let model = facts.model(name);
        let window = model.window.filter(|window| *window < size && !model.reads_windows)?;
        let what = match model.refuses {
            true => "a longer text is refused, and then the trial fails".to_owned(),
            false => format!("up to {} of a chunk has no influence", percent(1.0 - window as f64 / size as f64)),
        };
        let text = format!(
            "chunks have up to {} tokens, and `{name}` reads {}: {what} (a token of the chunker counted as one of the \
             model)",
            count(size),
            count(window)
        );
        Some(Finding::planned(trial, text))
    };
    readers.filter_map(beyond).collect()
}

/// The finding after a run: what was counted while the model read.
fn measured(trial: &TrialFacts, cut: &CutTextsFacts, chunks: Option<usize>) -> Finding {
    // The number of texts that the model's ledger counted, or else the number of chunks that are searched.
    let all = cut.all.or_else(|| chunks.filter(|all| cut.of_chunks && *all >= cut.texts));
    let noun = if cut.of_chunks { "chunk" } else { "text" };
    let which = match all {
        Some(all) => format!("{} of {}", count(cut.texts), counted(all, noun)),
        None => counted(cut.texts, noun),
    };
    let verb = if cut.texts == 1 { "was" } else { "were" };
    let limit = match cut.max_tokens {
        Some(limit) => format!("the {} that `{}` reads", counted(limit, "token"), cut.model),
        None => format!("`{}` reads", cut.model),
    };
    let mut text = format!("{which} {verb} longer than {limit}, and {verb} cut");
    if let Some(lost) = cut.lost {
        text += &format!(": {} of all tokens were not read", percent(lost));
    }
    Finding::of_trial(trial, text, cut.texts, all)
}

#[cfg(test)]
mod tests {
    use super::super::{
        ModelFacts, TrialFindings, WarningCode,
        fixture::{only, run, told, trial},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::LongTexts;

    fn planned(chunk_size: Option<usize>, rerankers: &[&str], models: &[(&str, ModelFacts)]) -> RunFacts {
        let trial = TrialFacts {
            chunk_size,
            embedder: Some("minilm".to_owned()),
            rerankers: rerankers.iter().map(|&name| name.to_owned()).collect(),
            found: None,
            ..trial("t01", TrialFindings::default())
        };
        let models = models.iter().map(|(name, facts)| ((*name).to_owned(), facts.clone())).collect();
        RunFacts { models, ..run(vec![trial]) }
    }

    fn reads(window: usize) -> ModelFacts {
        ModelFacts { window: Some(window), ..ModelFacts::default() }
    }

    #[test]
    fn a_chunk_size_beyond_what_a_model_reads_is_told_before_a_run() {
        let facts = planned(Some(1024), &["order"], &[("minilm", reads(256)), ("order", reads(512))]);
        assert_eq!(
            told(CODE, &facts),
            [
                "t01: chunks have up to 1,024 tokens, and `minilm` reads 256: up to 75 % of a chunk has no influence (a \
                 token of the chunker counted as one of the model)",
                "t01: chunks have up to 1,024 tokens, and `order` reads 512: up to 50 % of a chunk has no influence (a \
                 token of the chunker counted as one of the model)",
            ]
        );
    }

    #[test]
    fn chunks_that_fit_or_are_read_in_windows_or_have_no_stated_size_are_not_told() {
        for size in [Some(256), Some(128), None] {
            assert!(told(CODE, &planned(size, &[], &[("minilm", reads(256))])).is_empty(), "{size:?}");
        }
        let windows = ModelFacts { reads_windows: true, ..reads(256) };
        assert!(told(CODE, &planned(Some(1024), &[], &[("minilm", windows)])).is_empty());
        assert!(told(CODE, &planned(Some(1024), &[], &[])).is_empty(), "what it reads is not known");
    }

    #[test]
    fn a_model_that_refuses_long_texts_is_told_to_fail_the_trial() {
        let refuses = ModelFacts { refuses: true, ..reads(256) };
        let expected = "t01: chunks have up to 1,024 tokens, and `minilm` reads 256: a longer text is refused, and then \
                        the trial fails (a token of the chunker counted as one of the model)";
        assert_eq!(told(CODE, &planned(Some(1024), &[], &[("minilm", refuses.clone())])), [expected]);
        assert!(told(CODE, &planned(Some(256), &[], &[("minilm", refuses)])).is_empty());
    }

    #[test]
    fn after_a_run_the_texts_that_were_cut_are_told_and_not_the_settings() {
        let cut = |of_chunks, lost| CutTextsFacts {
            model: "all-minilm-l6-v2".to_owned(),
            of_chunks,
            texts: 1204,
            all: None,
            max_tokens: None,
            lost,
        };
        let found = |cut_texts| {
            let found = TrialFindings { cut_texts, chunks: Some(2310), ..TrialFindings::default() };
            run(vec![TrialFacts { chunk_size: Some(9999), ..trial("t01", found) }])
        };
        assert_eq!(
            only(CODE, &found(vec![cut(true, Some(0.43))])).text,
            "t01: 1,204 of 2,310 chunks were longer than `all-minilm-l6-v2` reads, and were cut: 43 % of all tokens were \
             not read"
        );
        assert_eq!(
            only(CODE, &found(vec![cut(false, None)])).text,
            "t01: 1,204 texts were longer than `all-minilm-l6-v2` reads, and were cut"
        );
        let whole = CutTextsFacts { all: Some(3000), max_tokens: Some(256), ..cut(false, Some(0.001)) };
        assert_eq!(
            only(CODE, &found(vec![whole])).text,
            "t01: 1,204 of 3,000 texts were longer than the 256 tokens that `all-minilm-l6-v2` reads, and were cut: less \
             than 1 % of all tokens were not read"
        );
        assert!(told(CODE, &found(Vec::new())).is_empty(), "nothing was cut, whatever the settings said");
        let one = CutTextsFacts { texts: 1, ..cut(true, None) };
        let one = only(CODE, &found(vec![one]));
        assert_eq!(one.text, "t01: 1 of 2,310 chunks was longer than `all-minilm-l6-v2` reads, and was cut");
        assert_eq!((one.count, one.total), (Some(1), Some(2310)));
    }
}
