//! What the citation metrics share: the sentences of an answer with what they
//! cite, and whether cited passages support a sentence.
//!
//! A sentence is what a fixed rule cuts, as in `context_recall`; a citation
//! belongs to the sentence in or behind which it stands.

use super::Sample;
use super::judge::{ItemVerdict, Judge, Transcript};
use super::refusal::{self, Wording};
use crate::verdict::Inquiry;
use crate::{Missing, prompt, words};

/// A sentence of an answer, without citations, and the numbers it cites.
pub(super) type CitedSentence = (String, Vec<u32>);

const QUESTION: &str = "The statement is part of an answer to the question. Does the context support all that it says?";

/// The sentences of a sample's answer; at least one.
pub(super) fn sentences(sample: &Sample<'_>) -> Result<Vec<CitedSentence>, Missing> {
    let answer = sample.answer_with_words()?;
    if sample.passages.is_empty() {
        return Err(Missing::EmptyInput("nothing was retrieved that could be cited".into()));
    }
    if refusal::wording(&answer) == Wording::Abstains {
        return Err(Missing::EmptyInput("the answer declines to answer: there is nothing to cite".into()));
    }
    let sentences =
        sample.answer.map(|answer| words::cited_sentences(&answer.text, &answer.citations)).unwrap_or_default();
    if sentences.is_empty() {
        return Err(Missing::EmptyInput("the answer holds no word".into()));
    }
    Ok(sentences)
}

/// For each sentence whether the passages of its numbers, taken together,
/// support it. Without a passage nothing is asked, and the verdict is no.
pub(super) async fn verify(
    judge: &Judge,
    sample: &Sample<'_>,
    cited: &[CitedSentence],
    transcript: &mut Transcript,
) -> Result<Vec<ItemVerdict>, Missing> {
    let mut verdicts = vec![ItemVerdict { yes: Some(false), ..ItemVerdict::default() }; cited.len()];
    // Sentences with the same passages are asked about together.
    let mut lists: Vec<&Vec<u32>> = Vec::new();
    for (_, numbers) in cited {
        if !lists.contains(&numbers) {
            lists.push(numbers);
        }
    }
    for numbers in lists {
        let of_number = |number: &u32| sample.passages.get((*number as usize).checked_sub(1)?);
        let texts: Vec<&str> = numbers.iter().filter_map(of_number).map(|passage| passage.text.as_str()).collect();
        if texts.is_empty() {
            continue;
        }
        let places: Vec<usize> = (0..cited.len()).filter(|&i| cited[i].1 == *numbers).collect();
        let items: Vec<String> = places.iter().map(|&i| cited[i].0.clone()).collect();
        let context = prompt::fence_all("context", "passage", texts);
        let shared = format!("{context}\n\n{}", sample.fenced_question());
        let given = judge.verdicts(&Inquiry::of_statements(shared, &items, QUESTION), transcript).await?;
        for (place, verdict) in places.into_iter().zip(given) {
            verdicts[place] = verdict;
        }
    }
    Ok(verdicts)
}
