//! Tests of sentences: languages, scripts, and unusual texts that could break the scan.

use super::{
    Language, may_cut,
    sentences::{sentences, starts_by_script},
};
use crate::Span;

fn texts<'a>(language: &str, text: &'a str) -> Vec<&'a str> {
    let language = (!language.is_empty()).then(|| Language::named(language).unwrap());
    spans(text, language).into_iter().map(|span| text[span.start..span.end].trim()).collect()
}

/// The sentences of a text. Checks that they tile the text and that no grapheme cluster is cut.
fn spans(text: &str, language: Option<Language>) -> Vec<Span> {
    let found = sentences(text, language);
    assert!(found.first().is_none_or(|span| span.start == 0), "{text:?}");
    assert!(found.last().map_or(text.trim().is_empty(), |span| span.end == text.len()), "{text:?}");
    assert!(found.windows(2).all(|pair| pair[0].end == pair[1].start), "{text:?}");
    assert!(found.iter().all(|span| may_cut(text, span.start)), "{text:?}");
    found
}

/// Checks that the sentences of a text are the pieces that `|` separates in `marked`.
#[track_caller]
fn check(language: &str, marked: &str) {
    let text = marked.replace('|', "");
    let expected: Vec<&str> = marked.split('|').map(str::trim).collect();
    assert_eq!(texts(language, &text), expected, "{language}");
}

#[test]
fn german() {
    check("german", "Das ist z. B. Das Haus von Dr. Müller. |Es steht seit dem 3. Oktober 1990. |Danach kam nichts.");
    check("german", "Vgl. Abb. 3 bzw. Kap. 2.1 auf S. 5. |Siehe Nr. 7! |Wer ist das? |Ludwig XIV. regierte lange.");
    check("german", "Er sagte: „Komm her.“ |Dann ging er (leise usw.). |»Nein!« |Das war’s.");
    check("german", "„Was?“ fragte er. |Papier, Stifte usw. |Der Rest ist da. |Im 19. Jahrhundert war es anders.");
    check("german", "1. Öffnen Sie java.util.List. |2. Rufen Sie apt.conf auf.");
    check("german", "Der Dipl.-Ing. Meier kam am 3.10. 2020 an.[1] |Der e. V. |Die Mitglieder zahlen.");
}

#[test]
fn romance_languages() {
    check("french", "M. Dupont habite p. ex. à Paris. |« Bonjour ! » |Il part. |« Oui. » |Et Mme Durand ? |Non.");
    check("french", "Voir l’av. Foch, cf. chap. 3. |Des pommes, des poires, etc. |Puis rien.");
    check("spanish", "El Sr. García dijo que no. |¿Por qué? |¡Nadie lo sabe! |Véase la pág. 3 y el art. 5.");
    check("portuguese", "O Sr. Silva mora na Av. Paulista. |É verdade? |Sim, é. |Ver pág. 10.");
    check("italian", "Il dott. Rossi abita qui. |Perché no? |Sì, lo è. |Si veda p. es. il cap. 3.");
}

#[test]
fn northern_and_western_languages() {
    check("dutch", "Dat is bijv. Een huis van dhr. Jansen. |Het kost 5 euro, d.w.z. Niets. |Klaar!");
    check("swedish", "Se t.ex. Kapitel 3. |Bilen är min. |Det kostar ca. 100 kronor.");
    check("danish", "Det skete den 3. Oktober, jf. Bilag 2. |Bogen er min. |Kl. 12 lukker vi.");
    check("finnish", "Katso esim. Luku 3. |Se tapahtui 3. Lokakuuta. |Valmis.");
    check("turkish", "Dr. Yılmaz bu kez 3. Sırada durdu. |Bkz. Bölüm 2. |Neden?");
}

#[test]
fn slavic_languages_and_greek() {
    check("russian", "См. рис. 3 и т. д. |Это сделал я. |Г. Иванов приехал в г. Москва в 1990 г. вечером. |Почему?");
    check("russian", "А. С. Пушкин писал стихи. |«Да!» |Он ушёл… |Потом пришёл, т. е. Вернулся.");
    check("polish", "Por. rys. 3, np. Tabela 2. |To jest prof. Nowak. |Dlaczego?");
    check("czech", "Viz např. Kapitola 3. |Dne 3. Října přišel. |Proč?");
    check("greek", "Τι είναι αυτό; |Είναι π.χ. Ένα βιβλίο. |Βλ. σελ. 3.");
}

#[test]
fn chinese_and_japanese() {
    check("chinese", "第一句话。|第二句话！|真的吗？！|是的，“很好。”|他说。");
    check("chinese", "他说：“我来了。你呢？”，然后走了。|（注：见附录。）|版本3．5很好。|结束");
    check("chinese", "真的吗?|是的!|Use apt 2.0 吧。|好……也许吧。");
    check("japanese", "これはペンです。|「はい。そうです。」と言った。|本当？|彼は（違う。）そう思った。");
    check("japanese", "「行こう。」|山田さんが言った。|ｶﾅです｡|次。");
    check("", "これはペンです。|第二句话！|This is it.");
}

#[test]
fn other_scripts() {
    check("korean", "이것은 책입니다. |그것은 무엇입니까? |2024. 1. 5. 회의를 했다. |끝.");
    check("arabic", "ما هذا؟ |هذا كتاب د. أحمد. |شكرا!");
    check("urdu", "یہ کتاب ہے۔ |وہ کون ہے؟ |ٹھیک ہے۔");
    check("hebrew", "מה זה? |זה ספר. |תודה!");
    check("hindi", "यह डॉ. शर्मा की किताब है। |वह कौन है? |ठीक है॥ |हाँ।");
    check("bengali", "এটি একটি বই। |ওটা কী?");
    check("armenian", "Սա գիրք է։ |Դա ի՞նչ է։ |Լավ է: |Այո։");
    check("amharic", "ይህ መጽሐፍ ነው። |ያ ምንድን ነው፧ |እሺ፡፡ |አዎ።");
    check("burmese", "ဒါစာအုပ်။ |ဟုတ်တယ်။");
    check("khmer", "នេះជាសៀវភៅ។ |បាទ។");
    check("georgian", "ეს წიგნია. |ის ვინ არის? |კარგი.");
}

#[test]
fn thai_is_cut_at_spaces_between_long_stretches() {
    check("thai", "ระบบจัดการแพ็กเกจจะแก้ไขการพึ่งพาโดยอัตโนมัติ |ผู้ใช้สามารถลบแพ็กเกจที่ไม่ต้องการได้ |เสร็จ");
    check("thai", "ต่าง ๆ นานา และ อื่น ๆ");
    check("thai", "ติดตั้งแพ็กเกจรุ่นใหม่ล่าสุด 5 รายการ");
}

#[test]
fn an_empty_line_ends_a_sentence_and_a_line_end_does_not() {
    check("german", "Überschrift\n\n|Der erste Satz geht\nin der nächsten Zeile weiter. |- Punkt\n \t\n|Ende");
    check("german", "Es gilt Folgendes.\n|- eins\n- zwei\n\n|1. Der erste\n2. Der zweite");
    check("german", "Ende.** |_Neu._ |`Code.` |Schluss\u{2029}|Neu");
}

#[test]
fn what_is_no_end_of_a_sentence() {
    for text in [
        "www.example.org und apt.conf(5), Version 1.2.3",
        "foo.bar(); x = a.B.c",
        "Inhalt . . . . . . 5",
        "kurz: z.B.",
        "…und dann",
        "J. R. R. Tolkien",
    ] {
        assert_eq!(texts("german", text).len(), 1, "{text}");
    }
}

#[test]
fn mixed_scripts_in_one_sentence_and_text_from_right_to_left() {
    check("japanese", "パッケージapt-get 2.0をインストールします。|See www.example.org. |次へ。");
    check("arabic", "\u{200f}استخدم apt-get 2.0 الآن\u{200f}؟\u{200f} |\u{202b}نعم.\u{202c} |OK!");
    check("russian", "Пакет libc6 v. 2.0 и 中文。|Да.");
}

#[test]
fn marks_with_accents_selectors_and_emoji_keep_their_clusters() {
    for text in [
        "a. \u{301}B. C",
        "。\u{fe00}。\u{301}x",
        "?\u{301} A",
        "Ja. 👩‍👩‍👧🇩🇪 Nein.",
        "🇩🇪.🇫🇷. A",
        "a.\u{200b} B",
        "\u{feff}A. B",
    ] {
        for language in [None, Language::named("german"), Language::named("chinese"), Language::named("thai")] {
            spans(text, language);
        }
    }
    check("german", "Ja. |👩‍👩‍👧 Nein. |🇩🇪 Gut.");
}

#[test]
fn composed_and_decomposed_full_and_half_width_texts_are_cut_alike() {
    check("german", "Die Übersicht für Müller. |Öffnen!");
    check("german", "Die U\u{308}bersicht fu\u{308}r Mu\u{308}ller. |O\u{308}ffnen!");
    check("japanese", "ＡＰＴを使う！|ｱｯﾌﾟ?|次｡");
}

#[test]
fn texts_of_nothing_of_marks_and_of_one_letter() {
    for language in ["german", "chinese", "thai", "greek", "armenian", "amharic", ""] {
        assert!(texts(language, "").is_empty() && texts(language, " \n\n\u{3000}\u{200a}").is_empty());
        for text in [
            "x",
            ".",
            "。",
            "....",
            "。。。",
            "!?!?",
            "፡፡፡፡",
            ";;;",
            "「「「",
            "」」」",
            "[1][2]",
            "\n\n.\n\n",
            "«»»",
            "“中”",
            "（中。",
        ] {
            assert_eq!(texts(language, text).len(), 1, "{language} {text:?}");
        }
    }
}

#[test]
fn marks_of_other_scripts_are_found_whatever_the_language() {
    assert!(starts_by_script("One. Two! “Three?” naïve… №5\n\nÄ. Б.").is_empty());
    assert_eq!(starts_by_script("a。b"), [4]);
    assert_eq!(starts_by_script("A. B؟ C. D۔ e"), ["A. B؟ ".len(), "A. B؟ C. D۔ ".len()]);
    assert_eq!(starts_by_script("真的吗?是. x"), ["真的吗?".len()]);
}

/// With a scan in quadratic time this test would take hours.
#[test]
fn megabytes_without_a_space_or_of_marks_alone_are_scanned_once() {
    for unit in [
        "x",
        "。",
        ".",
        ". ",
        "a.",
        "「あ",
        "“中",
        "a。",
        ".(((",
        ".»",
        "\n \n",
        "\u{301}. ",
        "กก ",
        "[1]",
        "፡",
        "🇩",
        "1. ",
        "z. ",
    ] {
        let text = format!("{}{}", " ".repeat(1 << 16), unit.repeat((1 << 20) / unit.len()));
        for language in [None, Language::named("german"), Language::named("thai")] {
            spans(&text, language);
        }
        starts_by_script(&text);
    }
}
