//! The part of a passage that a reader should see first: the sentence that
//! shares the most words with the question. No model is asked.

use rag::analysis::{cut_before, ends_sentence, first_clusters, has_spaceless_script};
use std::collections::BTreeSet;

/// Two words count as forms of one word if this many first letters are equal.
const STEM_LETTERS: usize = 5;

/// A text on one line, cut after this many grapheme clusters: what readers see as one character each.
pub fn beginning(text: &str, characters: usize) -> String {
    let words = one_line(text);
    let cut = first_clusters(&words, characters);
    if cut.len() == words.len() {
        return words;
    }
    format!("{}…", cut.trim_end())
}

/// The sentence of a text that matches a question best, with as many sentences around
/// it as fit into this many characters; `…` where something is cut. Without a match,
/// the beginning of the text.
pub fn matching(text: &str, question: &str, characters: usize) -> String {
    let text = one_line(text);
    if text.chars().count() <= characters {
        return text;
    }
    let asked: BTreeSet<String> = words(question).map(|(_, word)| stem(word)).collect();
    let sentences = sentences(&text);
    let of_sentence = |&(start, end): &(usize, usize)| -> BTreeSet<String> {
        words(&text[start..end]).map(|(_, word)| stem(word)).filter(|word| asked.contains(word)).collect()
    };
    let shared: Vec<BTreeSet<String>> = sentences.iter().map(of_sentence).collect();
    // A word that is in many sentences says little about which of them answers.
    let weight = |word: &String| 1.0 / shared.iter().filter(|words| words.contains(word)).count().max(1) as f64;
    let weights: Vec<f64> = shared.iter().map(|words| words.iter().map(weight).sum()).collect();
    // Of equal ones the first.
    let best = (0..weights.len()).rev().max_by(|&one, &other| weights[one].total_cmp(&weights[other]));
    let Some(best) = best.filter(|&best| weights[best] > 0.0) else { return beginning(&text, characters) };
    let fits = |start: usize, end: usize| text[start..end].trim().chars().count() <= characters;
    let (mut start, mut end) = sentences[best];
    if !fits(start, end) {
        // From a little before the first word that the question has too.
        let first = words(&text[start..end]).find(|(_, word)| asked.contains(&stem(word))).map_or(0, |(at, _)| at);
        let before: usize = text[start..start + first].chars().rev().take(characters / 4).map(char::len_utf8).sum();
        start = word_start(&text, cut_before(&text, start + first - before), start);
        end = start + first_clusters(&text[start..end], characters).len();
    } else {
        for &(_, next) in &sentences[best + 1..] {
            if !fits(start, next) {
                break;
            }
            end = next;
        }
        for &(before, _) in sentences[..best].iter().rev() {
            if !fits(before, end) {
                break;
            }
            start = before;
        }
    }
    let open = if start > 0 { "…" } else { "" };
    let close = if text[end..].trim().is_empty() { "" } else { "…" };
    format!("{open}{}{close}", text[start..end].trim())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Where each sentence begins and ends, the white space behind it included.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut start) = (Vec::new(), 0);
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let ends = match letter {
            '.' | '!' | '?' => letters.peek().is_some_and(|(_, next)| next.is_whitespace()),
            _ => ends_sentence(letter),
        };
        if ends {
            let end = at + letter.len_utf8();
            found.push((start, end));
            start = end;
        }
    }
    if start < text.len() {
        found.push((start, text.len()));
    }
    found
}

/// Words of three letters or more, each with the offset of its first byte. In scripts without
/// spaces, each pair of neighbouring characters is a word.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_long = |word: &str| word.chars().count() >= 3 || has_spaceless_script(word);
    rag::analysis::words(text).into_iter().filter(move |(_, word)| is_long(word))
}

fn stem(word: &str) -> String {
    word.to_lowercase().chars().take(STEM_LETTERS).collect()
}

/// The beginning of the next word from a byte on, or `least` if the byte is before it.
fn word_start(text: &str, at: usize, least: usize) -> usize {
    if at <= least {
        return least;
    }
    text[at..].find(' ').filter(|_| !text[..at].ends_with(' ')).map_or(at, |space| at + space + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Owls live in barns and in towers. The barn owl is white. It swallows voles whole, and brings up \
                        pellets of fur and bones. Mills were built by the river. The miller of the river mill kept two cats.";

    #[test]
    fn the_sentence_that_shares_the_most_words_with_the_question_is_shown() {
        assert_eq!(
            matching(TEXT, "What does it swallow whole?", 70),
            "…It swallows voles whole, and brings up pellets of fur and bones.…"
        );
        assert_eq!(matching(TEXT, "How many cats were kept?", 60), "…The miller of the river mill kept two cats.");
        assert_eq!(
            matching(TEXT, "Where do owls live?", 60),
            "Owls live in barns and in towers. The barn owl is white.…"
        );
    }

    #[test]
    fn a_text_that_fits_is_whole_and_one_without_a_match_is_cut_at_its_end() {
        assert_eq!(matching("One  two.\nThree.", "four", 80), "One two. Three.");
        assert_eq!(matching(TEXT, "Ptarmigan?", 20), "Owls live in barns a…");
        assert_eq!(matching("中文句子没有空格。这是第二句话！", "什么", 5), "中文句子没…");
    }

    #[test]
    fn what_readers_take_for_one_character_is_not_cut() {
        assert_eq!(beginning("👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", 2), "👩‍👩‍👧👩‍👩‍👧…");
        assert_eq!(beginning("e\u{301}e\u{301}", 1), "e\u{301}…");
        assert_eq!(beginning("e\u{301}e\u{301}", 2), "e\u{301}e\u{301}");
    }

    #[test]
    fn sentences_of_other_scripts_are_found() {
        let text = "第一句话说明安装。第二句话说明 reprepro 配置。第三句话说明升级。";
        assert_eq!(matching(text, "reprepro", 20), "…第二句话说明 reprepro 配置。…");
    }

    #[test]
    fn of_a_long_sentence_the_part_around_the_words_is_shown() {
        let long = format!("{} ptarmigan turns white in winter {}", "many words ".repeat(40), "and more ".repeat(40));
        let shown = matching(&long, "When is the ptarmigan white?", 80);
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("ptarmigan turns white"), "{shown}");
        assert!(shown.chars().count() <= 82, "{shown}");
        for characters in 1..60 {
            let _ = matching("ää 中文句子 ptarmigan。öö ptarmigan", "ptarmigan", characters);
        }
    }
}
