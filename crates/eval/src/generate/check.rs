//! The fixed rules for what is a golden question.

use super::{QuestionDraft, RejectionReason, references::refers_to_passage};
use crate::Question;
use crate::dataset::{QuestionKind, anchor};
use crate::words::{Pattern, content_stems, is_unspaced, pattern, sentences};
use rag::Span;
use std::collections::HashSet;
use std::sync::LazyLock;
use whatlang::Lang;

/// Longer texts retell the passage.
const LONGEST_QUESTION: usize = 300;
/// Shorter quotes prove nothing.
const SHORTEST_QUOTE: usize = 15;
/// Longer quotes are narrowed to the sentence with the answer.
const LONGEST_QUOTE: usize = 600;
/// The share of common words from which on two questions are the same.
const SAME: f64 = 0.8;

/// Matches short English questions whose subject is a pronoun, such as `What is it?`. They do not say what they
/// are about. `Why is it necessary to …` does not match: longer questions name their subject later.
static NO_SUBJECT: Pattern = LazyLock::new(|| {
    pattern(
        r"(?ix)^\W*(what|why|how|when|where|who|which)\s+(is|are|was|were|does|do|did|can|could|should|must|will|has|have)\s+
          (it|they|this|that|these|those|he|she|we|i)(\s+\w+)?\s*\?*$",
    )
});

/// An English demonstrative before a noun (`this file`), where the question should give a name.
static POINTS: Pattern = LazyLock::new(|| pattern(r"(?i)\b(these|those|this)\s+\w+"));

/// A question with fewer stems names nothing.
const FEWEST_STEMS: usize = 2;

/// Checks a draft that was written for these passages. Words are compared by the rules of
/// `language`. Returns the span of the evidence in each passage, or no spans for an
/// unanswerable question.
pub(super) fn draft(
    draft: &QuestionDraft,
    passages: &[&str],
    kind: QuestionKind,
    language: Lang,
) -> Result<Vec<Span>, RejectionReason> {
    if draft.question.chars().count() > LONGEST_QUESTION {
        return Err(RejectionReason::Unreadable("the question is too long".into()));
    }
    if refers_to_passage(&draft.question) {
        return Err(RejectionReason::SpeaksOfPassage);
    }
    let asked = content_stems(&draft.question, language);
    // Scripts without spaces have no words that could be counted.
    let countable = !draft.question.chars().any(is_unspaced);
    let is_vague = NO_SUBJECT.is_match(&draft.question) || POINTS.is_match(&draft.question);
    if (countable && asked.len() < FEWEST_STEMS) || is_vague {
        return Err(RejectionReason::NotSelfContained);
    }
    let recipe = kind.recipe();
    if !kind.is_answerable() {
        (recipe.rule)(draft, passages, language)?;
        return Ok(Vec::new());
    }
    let answer = content_stems(&draft.answer, language);
    if !answer.is_empty() && answer.is_subset(&asked) {
        return Err(RejectionReason::AnswerInQuestion);
    }
    let all = passages.join("\n");
    let answer = AnswerStems { stems: answer, share: recipe.answer_share, language };
    if !answer.is_in(&all) {
        return Err(RejectionReason::AnswerNotInPassage);
    }
    (recipe.rule)(draft, passages, language)?;
    let spans: Option<Vec<Span>> = match passages {
        [one] => evidence(draft, one, &answer).map(|span| vec![span]),
        several => several.iter().map(|passage| part_of_evidence(draft, passage, &answer)).collect(),
    };
    spans.ok_or(RejectionReason::NoEvidence)
}

/// The stems of an answer, and how many of them a text must hold to contain the answer.
struct AnswerStems {
    stems: HashSet<String>,
    /// The share of the stems that the text must hold, from 0 to 1.
    share: f64,
    language: Lang,
}

impl AnswerStems {
    /// Whether a text holds at least `share` of the stems. An answer of stop words alone has no
    /// stems and counts as held by every text.
    fn is_in(&self, text: &str) -> bool {
        let held = self.stems.intersection(&content_stems(text, self.language)).count();
        held as f64 >= self.share * self.stems.len() as f64
    }
}

/// The quote, if it is in the passage and holds the answer; else the sentence with
/// the answer that shares most words with the question.
fn evidence(draft: &QuestionDraft, passage: &str, answer: &AnswerStems) -> Option<Span> {
    let quote = draft.quotes.first().map_or("", String::as_str);
    let quoted = anchor(passage, quote, None).filter(|span| {
        let quote = &passage[span.start..span.end];
        (SHORTEST_QUOTE..=LONGEST_QUOTE).contains(&quote.len()) && answer.is_in(quote)
    });
    if quoted.is_some() {
        return quoted;
    }
    let asked = content_stems(&draft.question, answer.language);
    let candidates = sentences(passage).into_iter();
    let with_answer = candidates.filter(|sentence| sentence.len() >= SHORTEST_QUOTE && answer.is_in(sentence));
    most_in_common(with_answer, &asked, answer.language).and_then(|sentence| anchor(passage, sentence, None))
}

/// The evidence in one of several passages: any quote that is in it; else the
/// sentence that shares most words with question and answer.
fn part_of_evidence(draft: &QuestionDraft, passage: &str, answer: &AnswerStems) -> Option<Span> {
    let quoted = draft.quotes.iter().find_map(|quote| {
        let span = anchor(passage, quote, None)?;
        (SHORTEST_QUOTE..=LONGEST_QUOTE).contains(&span.len()).then_some(span)
    });
    if quoted.is_some() {
        return quoted;
    }
    let wanted: HashSet<String> =
        content_stems(&draft.question, answer.language).union(&answer.stems).cloned().collect();
    let long = sentences(passage).into_iter().filter(|sentence| sentence.len() >= SHORTEST_QUOTE);
    most_in_common(long, &wanted, answer.language).and_then(|sentence| anchor(passage, sentence, None))
}

/// The first of the sentences that share most words with `wanted`.
fn most_in_common<'a>(
    sentences: impl Iterator<Item = &'a str>,
    wanted: &HashSet<String>,
    language: Lang,
) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    for sentence in sentences {
        let common = content_stems(sentence, language).intersection(wanted).count();
        if best.is_none_or(|(most, _)| common > most) {
            best = Some((common, sentence));
        }
    }
    best.map(|(_, sentence)| sentence)
}

/// The rule of kinds with two passages: question and answer together use words of
/// each passage that the other does not have.
pub(super) fn needs_both(draft: &QuestionDraft, passages: &[&str], language: Lang) -> Result<(), RejectionReason> {
    let of = |text: &str| content_stems(text, language);
    let used: HashSet<String> = of(&draft.question).union(&of(&draft.answer)).cloned().collect();
    let stems: Vec<HashSet<String>> = passages.iter().map(|passage| of(passage)).collect();
    for (i, own) in stems.iter().enumerate() {
        let elsewhere = |stem: &String| stems.iter().enumerate().any(|(j, other)| j != i && other.contains(stem));
        if !used.iter().any(|stem| own.contains(stem) && !elsewhere(stem)) {
            return Err(RejectionReason::OnePassageIsEnough);
        }
    }
    Ok(())
}

/// Whether one of the questions asks nearly the same.
pub(super) fn is_repeated(question: &Question, known: &[Question], language: Lang) -> bool {
    let stems = content_stems(&question.question, language);
    known.iter().any(|known| {
        if known.id == question.id {
            return true;
        }
        let others = content_stems(&known.question, language);
        let common = stems.intersection(&others).count() as f64;
        let all = stems.union(&others).count() as f64;
        all > 0.0 && common / all >= SAME
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::PROSE;
    use super::*;

    fn check(question: &str, answer: &str, quote: &str) -> Result<&'static str, RejectionReason> {
        let draft_of = QuestionDraft { question: question.into(), answer: answer.into(), quotes: vec![quote.into()] };
        draft(&draft_of, &[PROSE], QuestionKind::SingleHopSpecific, Lang::Eng)
            .map(|spans| &PROSE[spans[0].start..spans[0].end])
    }

    const SENTENCE: &str = "It was first released in 1998 by a small team of volunteers.";

    #[test]
    fn a_quote_that_stands_in_the_passage_is_the_evidence() {
        assert_eq!(
            check("When did APT come out?", "1998", "first released  in 1998 by a"),
            Ok("first released in 1998 by a")
        );
    }

    #[test]
    fn a_quote_that_does_not_is_replaced_by_the_sentence_with_the_answer() {
        for quote in ["", "APT appeared in 1998", "1998", "The package manager reads its list of sources"] {
            assert_eq!(check("When did APT come out?", "in 1998", quote), Ok(SENTENCE), "{quote}");
        }
    }

    #[test]
    fn questions_about_the_passage_are_rejected() {
        for question in
            ["What does this passage say?", "According to the text, when did APT come out?", "What is listed above?"]
        {
            assert_eq!(check(question, "1998", ""), Err(RejectionReason::SpeaksOfPassage), "{question}");
        }
    }

    #[test]
    fn answers_that_are_given_away_or_made_up_are_rejected() {
        assert_eq!(check("Was APT released in 1998?", "1998", ""), Err(RejectionReason::AnswerInQuestion));
        assert_eq!(check("Who wrote APT?", "Ada Lovelace", ""), Err(RejectionReason::AnswerNotInPassage));
    }

    #[test]
    fn an_answer_that_no_sentence_holds_has_no_evidence() {
        assert_eq!(
            check("What belongs to APT?", "1998, volunteers, directory, mirror, Debian", ""),
            Err(RejectionReason::NoEvidence)
        );
    }

    #[test]
    fn a_question_must_name_what_it_asks_about() {
        for question in
            ["What is it called?", "Why do they?", "When?", "What was this?", "When did these volunteers release APT?"]
        {
            assert_eq!(check(question, "1998", ""), Err(RejectionReason::NotSelfContained), "{question}");
        }
        assert!(check("Where does it say that APT was released?", "1998", "").is_ok());
    }

    const MILL: &str = "The Ostra mill was built by Jan Tesch in 1790. It ground rye.";
    const TESCH: &str = "Jan Tesch was born in Lindow and walked as far as Riga.";

    fn pair(question: &str, answer: &str, quotes: [&str; 2]) -> Result<Vec<String>, RejectionReason> {
        let quotes = quotes.map(str::to_owned).to_vec();
        let passages = [MILL, TESCH];
        let spans = draft(
            &QuestionDraft { question: question.into(), answer: answer.into(), quotes },
            &passages,
            QuestionKind::MultiHop,
            Lang::Eng,
        );
        let quoted = |spans: Vec<Span>| {
            spans.into_iter().zip(passages).map(|(span, text)| text[span.start..span.end].to_owned())
        };
        spans.map(|spans| quoted(spans).collect())
    }

    #[test]
    fn evidence_of_two_passages_is_found_in_each_whatever_the_order_of_quotes() {
        let question = "Where was the builder of the Ostra mill born?";
        let swapped =
            pair(question, "Lindow", ["Jan Tesch was born in Lindow", "mill was built by Jan Tesch"]).unwrap();
        assert_eq!(swapped, ["mill was built by Jan Tesch", "Jan Tesch was born in Lindow"]);
        let without = pair(question, "Lindow", ["", ""]).unwrap();
        assert_eq!(without, ["The Ostra mill was built by Jan Tesch in 1790.", TESCH]);
    }

    #[test]
    fn a_question_that_one_passage_answers_needs_no_other() {
        assert_eq!(pair("Where was Jan Tesch born?", "Lindow", ["", ""]), Err(RejectionReason::OnePassageIsEnough));
        assert_eq!(pair("When was the Ostra mill built?", "1790", ["", ""]), Err(RejectionReason::OnePassageIsEnough));
    }

    #[test]
    fn questions_of_the_same_words_are_repeated() {
        let question = |text: &str| Question { id: text.into(), question: text.into(), ..Question::default() };
        let known = [question("When was APT first released?")];
        assert!(is_repeated(&question("when APT was released first"), &known, Lang::Eng));
        assert!(!is_repeated(&question("Who first released APT to the public?"), &known, Lang::Eng));
    }

    #[test]
    fn questions_in_other_languages_are_checked_by_their_own_words() {
        let check = |question: &str, answer: &str, passage: &'static str, language| {
            let quotes = vec![String::new()];
            let draft_of = QuestionDraft { question: question.into(), answer: answer.into(), quotes };
            draft(&draft_of, &[passage], QuestionKind::SingleHopSpecific, language)
                .map(|spans| &passage[spans[0].start..spans[0].end])
        };
        let chinese = "软件包管理器读取镜像列表。它于一九九八年由志愿者首次发布。";
        assert_eq!(
            check("软件包管理器何时首次发布？", "一九九八年", chinese, Lang::Cmn),
            Ok("它于一九九八年由志愿者首次发布。")
        );
        let wrong = check("软件包管理器由谁编写？", "阿达·洛芙莱斯", chinese, Lang::Cmn);
        assert_eq!(wrong, Err(RejectionReason::AnswerNotInPassage));
        let given = check("它于一九九八年发布吗？", "一九九八年", chinese, Lang::Cmn);
        assert_eq!(given, Err(RejectionReason::AnswerInQuestion));
        let german = "Die Verwaltung liest ihre Liste. Freiwillige veröffentlichten sie erstmals im Herbst 1998.";
        let released =
            check("Wer hat die Paketverwaltung erstmals veröffentlicht?", "die Freiwilligen", german, Lang::Deu);
        assert_eq!(released, Ok("Freiwillige veröffentlichten sie erstmals im Herbst 1998."));
        assert_eq!(check("Wie ist das?", "1998", german, Lang::Deu), Err(RejectionReason::NotSelfContained));
    }
}
