//! Shows where trials lost the golden evidence of questions: counts for each trial, and one question in detail.

use super::table;
use eval::Evidence;
use lab::{
    Board, EvidenceChunk, EvidenceLoss, LossStep, QuestionLoss,
    board::{LostQuestions, counted},
};
use std::fmt::Write;

/// A table with a row for each trial: how many questions ended at each step. Below it, what the steps
/// mean. If no trial has losses, one sentence says why.
pub fn losses(board: &Board) -> String {
    let has = |step: &LossStep| board.rows.iter().any(|row| row.losses.contains_key(step));
    let steps: Vec<LossStep> = LossStep::ALL.iter().copied().filter(has).collect();
    if steps.is_empty() {
        return "no question was followed through a trial: there are no golden questions, or an earlier version ran it"
            .to_owned();
    }
    let titles = steps.iter().map(|step| step.title());
    let header: Vec<&str> = std::iter::once("trial").chain(titles).collect();
    let mut rows = table(&header, 1);
    for row in &board.rows {
        let cell = |step: &LossStep| row.losses.get(step).map_or_else(String::new, ToString::to_string);
        rows.add_row(std::iter::once(row.id.clone()).chain(steps.iter().map(cell)));
    }
    let mut text = format!("the first step at which the evidence of a question was lost, in questions\n{rows}");
    for step in steps {
        let _ = write!(text, "\n{}: {}", step.title(), step.meaning());
    }
    let first = board.answering.as_ref().and_then(|answering| board.row(&answering.trial));
    text.extend(first.and_then(|row| Some(lost_questions(&row.id, row.lost.as_ref()?))));
    text
}

/// Ranks up to which the questions that come back are counted.
const RANKS: [usize; 4] = [10, 20, 50, 100];

/// Fewer questions that another trial gets may be chance.
const FEWEST_ELSEWHERE: usize = 3;

/// Where the evidence that the first trial lost can be found. Each line begins with a line break.
fn lost_questions(trial: &str, lost: &LostQuestions) -> String {
    let LostQuestions { questions, in_search, ranks, elsewhere } = lost;
    let mut text = String::new();
    let mut before = 0;
    let mut within = |rank: usize| {
        let found = ranks.iter().filter(|own| **own <= rank).count();
        let is_more = found > std::mem::replace(&mut before, found);
        is_more.then(|| format!("{found} by rank {rank}"))
    };
    let counts: Vec<String> = RANKS.iter().filter_map(|rank| within(*rank)).collect();
    if !counts.is_empty() {
        let lost = counted(*in_search, "question");
        let _ = write!(
            text,
            "\na deeper search finds the evidence of {lost} that {trial} loses in the search: {}",
            counts.join(", ")
        );
    }
    if let Some(found) = elsewhere.as_ref().filter(|found| found.questions >= FEWEST_ELSEWHERE) {
        let (other, loses) = (&found.trial, found.loses_instead);
        let _ = write!(
            text,
            "\n{other} gets {} of the {questions} that {trial} loses, and loses {loses} that {trial} gets: reverie compare {trial} {other}",
            found.questions
        );
    }
    text
}

/// Where a question's evidence was lost: one line for the question, more for each lost piece of
/// evidence. Each line begins with a line break.
pub(super) fn question_loss(loss: &QuestionLoss, golden: &[Evidence]) -> String {
    let ended = if loss.step.is_loss() { "lost" } else { "not lost" };
    let mut text = format!("\n{ended}: {}", step_words(loss.step, loss.component.as_deref()));
    for (number, (item, golden)) in (1..).zip(loss.evidence.iter().zip(golden)) {
        if let Some(step) = item.step {
            let words = step_words(step, item.component.as_deref());
            let _ = write!(text, "\n  evidence {number} in {}: {words}{}", golden.document, detail(item));
        }
    }
    text
}

fn step_words(step: LossStep, component: Option<&str>) -> String {
    component.map_or_else(|| step.title().to_owned(), |component| format!("{} ({component})", step.title()))
}

/// Details of a lost piece of evidence, as far as they are known: the chunk that holds it, the rank in
/// the search, and the words that chunk and question share.
fn detail(item: &EvidenceLoss) -> String {
    let mut text = String::new();
    if let Some(EvidenceChunk { number, span, share, .. }) = &item.chunk {
        let (start, end, share) = (span.start, span.end, 100.0 * share);
        let _ = write!(text, "\n    chunk {number} (bytes {start} to {end}) holds {share:.0} % of it");
    }
    match item.rank {
        Some(rank) => _ = write!(text, "\n    rank {rank} of the search, which gave {} passages", item.searched),
        None if item.depth > 0 => _ = write!(text, "\n    not among the first {} chunks of the search", item.depth),
        None => {}
    }
    if let Some(chunk) = &item.chunk {
        let words = match chunk.shared_terms.as_slice() {
            [] => "no word".to_owned(),
            terms => terms.join(", "),
        };
        let _ = write!(text, "\n    the chunk shares with the question: {words}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lost_evidence_is_told_with_its_chunk_its_rank_and_the_shared_words() {
        let golden: Vec<Evidence> = serde_json::from_value(json!([
            { "document": "a.md", "quote": "one", "span": { "start": 5, "end": 8 } },
            { "document": "b.md", "quote": "two", "span": { "start": 0, "end": 3 } },
        ]))
        .unwrap();
        let chunk = |terms: &[&str]| json!({ "document": "b.md", "number": 3, "span": { "start": 0, "end": 90 }, "share": 1.0, "shared_terms": terms });
        let of = |second: serde_json::Value| {
            let loss =
                json!({ "step": "not_found", "component": "bm25", "evidence": [{ "rank": 1, "searched": 5 }, second] });
            question_loss(&serde_json::from_value(loss).unwrap(), &golden)
        };
        let found = of(
            json!({ "step": "not_found", "component": "bm25", "rank": 37, "searched": 5, "chunk": chunk(&["mast", "noon"]) }),
        );
        let expected = "\nlost: not found (bm25)\n  evidence 2 in b.md: not found (bm25)\n    chunk 3 (bytes 0 to 90) \
                        holds 100 % of it\n    rank 37 of the search, which gave 5 passages\n    the chunk shares with \
                        the question: mast, noon";
        assert_eq!(found, expected);
        let deep =
            of(json!({ "step": "not_found", "component": "bm25", "searched": 5, "depth": 412, "chunk": chunk(&[]) }));
        assert!(
            deep.contains("not among the first 412 chunks") && deep.ends_with("with the question: no word"),
            "{deep}"
        );
        let right: QuestionLoss = serde_json::from_value(json!({ "step": "answered_right" })).unwrap();
        assert_eq!(question_loss(&right, &golden), "\nnot lost: answered right");
    }
}
