//! Citations in an answer: `[2]`, `[1, 3]`, `[source 2]`, `【2】`; and the source of
//! an answer that names none.

use crate::analysis::Analyzer;
use regex::{Captures, Regex};
use std::{collections::BTreeSet, sync::LazyLock};

/// The brackets that open a citation. In Chinese and Japanese, models also write the wide ones.
pub(super) const OPENING: [char; 3] = ['[', '【', '［'];
/// What separates the numbers of a citation.
const SEPARATORS: [char; 5] = [',', ';', '，', '、', '；'];

/// The share of an answer's words that its source must hold.
const SUPPORT: f64 = 0.6;

#[expect(clippy::expect_used, reason = "a constant pattern; the tests below compile it")]
static CITATION: LazyLock<Regex> = LazyLock::new(|| {
    let source = "sources?|quellen?|fuentes?|fontes?|fonte|fonti|bron|bronnen|źródło|kaynak|источник|مصدر|المصدر|स्रोत|\
                  来源|來源|资料|資料|出典|출처|자료";
    let pattern = format!(
        r"(?i)\s*[\[【［]\s*(?:(?:{source})\s*)?([0-9０-９٠-٩۰-۹०-९]{{1,4}}(?:\s*[,;，、；]\s*[0-9０-９٠-٩۰-۹०-९]{{1,4}})*)\s*[\]】］]"
    );
    Regex::new(&pattern).expect("the pattern is valid")
});

/// The text with citations as `[1]` and `[1][3]`, without those of sources
/// that are not among the first `n_sources`, and the numbers cited, each once,
/// in order of appearance.
pub(super) fn resolve(text: &str, n_sources: u32) -> (String, Vec<u32>) {
    let mut cited = Vec::new();
    let text = CITATION.replace_all(text, |found: &Captures<'_>| {
        let numbers = found[1].split(SEPARATORS).filter_map(|number| read_number(number.trim()));
        let valid: Vec<u32> = numbers.filter(|number| (1..=n_sources).contains(number)).collect();
        let marks: String = valid.iter().map(|number| format!("[{number}]")).collect();
        cited.extend(valid);
        let space: String = found[0].chars().take_while(|c| c.is_whitespace()).collect();
        if marks.is_empty() { String::new() } else { space + &marks }
    });
    let mut seen = BTreeSet::new();
    cited.retain(|&number| seen.insert(number));
    (text.trim().to_owned(), cited)
}

/// Reads a number in ASCII, full-width, Arabic, Persian or Devanagari digits.
fn read_number(digits: &str) -> Option<u32> {
    digits.chars().try_fold(0, |number: u32, digit| {
        let value = match digit {
            '０'..='９' => u32::from(digit) - u32::from('０'),
            '٠'..='٩' => u32::from(digit) - u32::from('٠'),
            '۰'..='۹' => u32::from(digit) - u32::from('۰'),
            '०'..='९' => u32::from(digit) - u32::from('०'),
            _ => digit.to_digit(10)?,
        };
        number.checked_mul(10)?.checked_add(value)
    })
}

/// The number of the source that an answer without citations was taken from:
/// the one that holds most of its words, rare ones counting more, if it holds
/// at least 6 of 10. Small models answer well but seldom cite.
pub(super) fn source_of<'a>(text: &str, sources: impl Iterator<Item = &'a str>) -> Option<u32> {
    let sources: Vec<&str> = sources.collect();
    // The language is detected from the sources, which are longer than the answer.
    let mut analyzer = Analyzer::for_text(&sources.join("\n"));
    let mut terms = |text: &str| analyzer.terms_of(text).into_iter().collect::<BTreeSet<String>>();
    let answer = terms(text);
    let sources: Vec<BTreeSet<String>> = sources.into_iter().map(terms).collect();
    let weight = |term: &String| {
        let holding = sources.iter().filter(|source| source.contains(term)).count();
        (1.0 + sources.len() as f64 / holding.max(1) as f64).ln()
    };
    let support = |source: &BTreeSet<String>| answer.intersection(source).map(weight).sum::<f64>();
    let share = |source: &BTreeSet<String>| answer.intersection(source).count() as f64 / answer.len() as f64;
    let supporting = (1u32..).zip(&sources).filter(|(_, source)| share(source) >= SUPPORT);
    let best = supporting.map(|(number, source)| (number, support(source)));
    // Of equals the first: it is the one that retrieval thought best.
    best.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_citations_belongs_to_the_source_that_holds_its_words() {
        let sources =
            ["The mill burnt down in 1790.", "The mill was built in 1712 by monks.", "A mill is built of stone."];
        let source = |answer: &str| source_of(answer, sources.into_iter());
        assert_eq!(source("The mill was built in 1712."), Some(2));
        assert_eq!(source("It burned in 1790."), None, "half of the words are too few");
        assert_eq!(source("The mill"), Some(1), "of equals the first");
        assert_eq!(source("A bakery opened in 1850."), None);
        assert_eq!(source(""), None);
    }

    #[test]
    fn numbers_are_read_once_in_order_of_appearance() {
        let (text, cited) = resolve("A [2]. B [1, 2][3]. C [Source 1].", 3);
        assert_eq!(text, "A [2]. B [1][2][3]. C [1].");
        assert_eq!(cited, [2, 1, 3]);
    }

    #[test]
    fn citations_in_other_languages_are_read() {
        assert_eq!(resolve("Alt [Quelle 2]. Neu [1].", 3), ("Alt [2]. Neu [1].".to_owned(), vec![2, 1]));
        assert_eq!(resolve("很老【1】。很新［来源2、3］。", 3), ("很老[1]。很新[2][3]。".to_owned(), vec![1, 2, 3]));
        assert_eq!(resolve("新［２］。", 3), ("新[2]。".to_owned(), vec![2]));
        assert_eq!(resolve("参见【图】和[表 2]。", 3), ("参见【图】和[表 2]。".to_owned(), vec![]));
    }

    #[test]
    fn citations_of_nothing_are_taken_out() {
        assert_eq!(resolve("A [0] and B [4], C [1; 9].", 3), ("A and B, C [1].".to_owned(), vec![1]));
        assert_eq!(resolve("A [1].", 0), ("A.".to_owned(), vec![]));
    }

    #[test]
    fn other_brackets_stay() {
        assert_eq!(resolve("Use argv [n] or [a-z].", 5), ("Use argv [n] or [a-z].".to_owned(), vec![]));
    }
}
