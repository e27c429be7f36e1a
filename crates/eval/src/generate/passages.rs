//! Selects the passages that are suitable for questions, and their order.

use super::{GenerateOptions, Rejection, RejectionReason};
use crate::statistics::Random;
use crate::words;
use rag::{Chunk, analysis::ends_sentence};
use std::collections::{BTreeMap, HashSet};

/// Headings of sections that hold no prose, separated by commas, in the languages of most corpora.
const EMPTY_HEADINGS: &str = "contents,table of contents,index,list of figures,list of tables,copyright,\
    copyright notice,bibliography,references,acknowledgements,acknowledgments,\
    inhalt,inhaltsverzeichnis,stichwortverzeichnis,sachregister,abbildungsverzeichnis,tabellenverzeichnis,\
    literaturverzeichnis,literatur,danksagung,impressum,\
    table des matières,sommaire,bibliographie,références,remerciements,droits d'auteur,\
    índice,contenido,tabla de contenido,tabla de contenidos,bibliografía,referencias,agradecimientos,\
    sumário,conteúdo,bibliografia,referências,agradecimentos,indice,sommario,indice analitico,riferimenti,\
    ringraziamenti,inhoud,inhoudsopgave,register,literatuur,dankwoord,spis treści,indeks,podziękowania,\
    içindekiler,dizin,kaynakça,teşekkür,содержание,оглавление,предметный указатель,литература,\
    список литературы,благодарности,المحتويات,فهرس,الفهرس,المراجع,شكر وتقدير,विषय सूची,अनुक्रमणिका,संदर्भ,\
    目录,目錄,索引,参考文献,參考文獻,版权,版权声明,致谢,目次,もくじ,著作権,謝辞,차례,목차,색인,찾아보기,참고 문헌,참고문헌,저작권";

/// Characters besides [`ends_sentence`] with which a sentence of prose may end.
const CLOSING: [char; 7] = [')', '"', '”', ':', '」', '』', '）'];
/// A sentence of prose has at least so many words, or so many characters of scripts without spaces.
const FEWEST_WORDS: usize = 5;
const FEWEST_CHARACTERS: usize = 10;

/// The suitable passages, in the order of trying, and the rejected ones. Documents
/// alternate, so that a long book does not dominate; within a document the order is
/// random.
pub(super) fn draw<'a>(chunks: &'a [Chunk], options: &GenerateOptions) -> (Vec<&'a Chunk>, Vec<Rejection>) {
    let mut rejected = Vec::new();
    let mut by_document: BTreeMap<&str, Vec<&Chunk>> = BTreeMap::new();
    // Parents of a hierarchy repeat the text of their children.
    for chunk in chunks.iter().filter(|chunk| chunk.searchable) {
        match find_fault(chunk, options.min_characters) {
            None => by_document.entry(&chunk.document).or_default().push(chunk),
            Some(reason) => {
                let (document, span) = (chunk.document.clone(), chunk.span);
                rejected.push(Rejection { reason, kind: None, document, span, question: None });
            }
        }
    }
    let mut random = Random::new(options.seed);
    let mut documents: Vec<Vec<&Chunk>> = by_document.into_values().collect();
    random.shuffle(&mut documents);
    for passages in &mut documents {
        passages.sort_by_key(|chunk| (chunk.span, chunk.number));
        random.shuffle(passages);
    }
    let mut order = Vec::new();
    let longest = documents.iter().map(Vec::len).max().unwrap_or(0);
    for turn in 0..longest {
        order.extend(documents.iter().filter_map(|passages| passages.get(turn)));
    }
    (order, rejected)
}

/// The reason for which a passage is unsuitable, if any.
fn find_fault(chunk: &Chunk, min_characters: usize) -> Option<RejectionReason> {
    let text = chunk.text.trim();
    if text.chars().count() < min_characters {
        return Some(RejectionReason::TooShort);
    }
    if chunk.text.len() != chunk.span.len() {
        return Some(RejectionReason::OtherText);
    }
    let heading = chunk.heading.as_deref().and_then(|heading| heading.rsplit(" > ").next()).unwrap_or_default();
    let heading = heading.trim().to_lowercase();
    if EMPTY_HEADINGS.split(',').any(|empty| empty == heading) || is_contents(text) {
        return Some(RejectionReason::Contents);
    }
    if is_prose(text) { None } else { Some(RejectionReason::NotProse) }
}

/// Whether a text has dot leaders, or most lines end in a page number.
fn is_contents(text: &str) -> bool {
    let n_leaders = text.matches("....").count() + text.matches(". . .").count();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let n_numbered = lines.iter().filter(|line| line.trim_end().ends_with(|c: char| c.is_ascii_digit())).count();
    n_leaders >= 3 || (lines.len() >= 5 && n_numbered * 2 > lines.len())
}

/// Whether a text is mostly letters, has at least two sentences, and is not
/// repetitive.
fn is_prose(text: &str) -> bool {
    let n_letters = text.chars().filter(|c| c.is_alphabetic() || words::is_mark(*c)).count();
    let n_visible = text.chars().filter(|c| !c.is_whitespace()).count();
    let is_sentence = |sentence: &&str| {
        let is_long = sentence.split_whitespace().count() >= FEWEST_WORDS
            || sentence.chars().filter(|c| words::is_unspaced(*c)).count() >= FEWEST_CHARACTERS;
        is_long && sentence.ends_with(|c| ends_sentence(c) || CLOSING.contains(&c))
    };
    let n_sentences = words::sentences(text).iter().filter(|sentence| is_sentence(sentence)).count();
    let tokens = words::tokens(text, None);
    // Where each character is a token, all texts repeat tokens. Pairs of neighbouring tokens are seldom repeated.
    let n_unspaced = text.chars().filter(|c| words::is_unspaced(*c)).count();
    let n_distinct = match n_unspaced * 2 > n_letters {
        true => tokens.windows(2).collect::<HashSet<_>>().len() + 1,
        false => tokens.iter().collect::<HashSet<_>>().len(),
    };
    n_letters * 10 >= n_visible * 7 && n_sentences >= 2 && n_distinct * 10 >= tokens.len() * 3
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PROSE, chunk};
    use super::*;

    fn reason(text: &str) -> Option<RejectionReason> {
        find_fault(&chunk("a.txt", 0, text), 200)
    }

    #[test]
    fn prose_is_fit() {
        assert_eq!(reason(PROSE), None);
    }

    #[test]
    fn prose_without_spaces_is_fit_and_repeated_prose_is_not() {
        let chinese = "软件包管理器从镜像服务器读取软件包列表，并自动解决它们之间的依赖关系。管理员可以用一条命令安装、\
                       升级或者删除任何软件。每个发行版本都经过长时间的测试，因此服务器可以多年稳定运行而不必重新安装。\
                       如果某个软件存在安全漏洞，维护者会在几天之内发布修正后的版本，用户只需要更新本地列表就能得到它。\
                       志愿者们通过邮件列表讨论问题，任何人都可以提交错误报告。";
        assert_eq!(find_fault(&chunk("a.txt", 0, chinese), 100), None);
        let repeated = "这里又是同样的几个词语。".repeat(20);
        assert_eq!(find_fault(&chunk("a.txt", 0, &repeated), 100), Some(RejectionReason::NotProse));
        let contents = Chunk { heading: Some("Handbuch > Inhaltsverzeichnis".into()), ..chunk("a.txt", 0, PROSE) };
        assert_eq!(find_fault(&contents, 200), Some(RejectionReason::Contents));
    }

    #[test]
    fn a_character_without_spaces_in_english_changes_nothing() {
        let few = "stone river field house water light bread cloud horse glass paper table plant";
        let few: Vec<&str> = few.split(' ').collect();
        let sentence = |step: usize| {
            let words: Vec<&str> = (0..8).map(|i| few[(i + 1) * step % few.len()]).collect();
            format!("The {}. ", words.join(" "))
        };
        let repeated: String = (1..13).map(sentence).collect();
        assert_eq!(reason(&repeated), Some(RejectionReason::NotProse));
        assert_eq!(reason(&format!("{repeated}A sign that reads 字 stands here.")), Some(RejectionReason::NotProse));
    }

    #[test]
    fn a_passage_that_its_chunker_wrote_anew_is_not() {
        let written = Chunk { text: PROSE.replace("the", "this"), ..chunk("a.txt", 0, PROSE) };
        assert_eq!(find_fault(&written, 200), Some(RejectionReason::OtherText));
    }

    #[test]
    fn contents_tables_and_fragments_are_not() {
        assert_eq!(reason("Short."), Some(RejectionReason::TooShort));
        assert_eq!(reason(&"1.2 Installing packages ........ 17\n".repeat(8)), Some(RejectionReason::Contents));
        assert_eq!(
            reason(&"Installing packages from a disc 17\nRemoving them 18\n".repeat(6)),
            Some(RejectionReason::Contents)
        );
        assert_eq!(reason(&"0.12 | 4.5e-3 | -7 | x\n".repeat(20)), Some(RejectionReason::NotProse));
        assert_eq!(reason(&"word list without any sentence at all ".repeat(9)), Some(RejectionReason::NotProse));
        assert_eq!(reason(&"The same words are here again. ".repeat(20)), Some(RejectionReason::NotProse));
        let under_index = Chunk { heading: Some("Guide > Index".into()), ..chunk("a.txt", 0, PROSE) };
        assert_eq!(find_fault(&under_index, 200), Some(RejectionReason::Contents));
    }

    #[test]
    fn documents_take_turns_and_no_passage_comes_twice() {
        let chunks: Vec<Chunk> =
            (0..20).map(|i| chunk(if i < 16 { "long.txt" } else { "short.txt" }, i, PROSE)).collect();
        let options = GenerateOptions::default();
        let (order, rejected) = draw(&chunks, &options);
        assert!(rejected.is_empty());
        let of_short = order[..8].iter().filter(|chunk| chunk.document == "short.txt").count();
        assert_eq!(of_short, 4);
        let distinct: HashSet<u32> = order.iter().map(|chunk| chunk.number).collect();
        assert_eq!((order.len(), distinct.len()), (20, 20));
    }

    #[test]
    fn the_order_depends_on_the_seed_and_not_on_the_order_of_chunks() {
        let chunks: Vec<Chunk> = (0..9).map(|i| chunk("a.txt", i, PROSE)).collect();
        let mut reversed = chunks.clone();
        reversed.reverse();
        let numbers = |chunks: &[Chunk], seed| -> Vec<u32> {
            let options = GenerateOptions { seed, ..GenerateOptions::default() };
            draw(chunks, &options).0.iter().map(|chunk| chunk.number).collect()
        };
        assert_eq!(numbers(&chunks, 1), numbers(&reversed, 1));
        assert_ne!(numbers(&chunks, 1), numbers(&chunks, 2));
    }
}
