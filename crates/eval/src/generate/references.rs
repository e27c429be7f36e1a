//! Finds questions that refer to their passage (`this text`, `the author`), which a reader
//! does not see, in fifteen languages.

use crate::words::{Pattern, pattern};
use std::sync::LazyLock;

/// A pattern for each language: English, German, French, Spanish, Portuguese, Italian, Dutch,
/// Polish, Turkish, Russian, Arabic, Hindi, Chinese, Japanese and Korean. Every question is
/// matched against all of them.
const PATTERNS: [&str; 15] = [
    r"\b(this|above|following|given|provided|preceding|previous)\s+
        (passage|text|excerpt|section|paragraph|document|chapter|context|article|table|figure|page|example|sentence|author|information)s?\b
      | \bthe\s+(passage|text|excerpt|paragraph|context|author|sentence|writer|article)s?\b
      | \b(mentioned|described|discussed|listed|shown)\s+(above|below|here)\b",
    r"\b(diese|obige|folgende|vorliegende|gegebene|genannte)[mnrs]?\s+
        (text|textstelle|abschnitt|absatz|auszug|passage|dokument|kapitel|artikel|tabelle|abbildung|beispiel|satz)(s|es)?\b
      | \b(der|dem|des|im|laut|vom)\s+(text|textes|abschnitt|abschnitts|absatz|absatzes|auszug|autor|verfasser)\b
      | \b(oben|unten)\s+(genannt|beschrieben|erwähnt|aufgeführt|gezeigt)",
    r"\b(ce|cet|cette|ces)\s+(passage|texte|extrait|section|paragraphe|document|chapitre|article|tableau|exemple|phrase)s?\b
      | \b(le|du|au)\s+(passage|texte|paragraphe)\b | \bl['’](extrait|auteur)\b
      | \b(mentionné|décrit|indiqué|présenté)e?s?\s+ci-(dessus|dessous|après)",
    r"\b(este|esta|estos|estas|dicho|siguiente|anterior)\s+
        (pasaje|texto|fragmento|extracto|sección|párrafo|documento|capítulo|artículo|tabla|ejemplo)\b
      | \b(el|del|al)\s+(pasaje|texto|fragmento|extracto|párrafo|autor)\b
      | \b(mencionad|descrit|indicad)[oa]s?\s+(arriba|anteriormente|abajo)\b",
    r"\b(n|d)?(este|esta|esse|essa)\s+(trecho|texto|passagem|fragmento|excerto|seção|secção|parágrafo|documento|capítulo|artigo|tabela|exemplo)\b
      | \b(o|do|no|ao)\s+(trecho|texto|excerto|parágrafo|autor)\b
      | \b(mencionad|descrit)[oa]s?\s+(acima|abaixo)\b",
    r"\b(questo|questa|questi|seguente|presente)\s+(brano|testo|passaggio|estratto|sezione|paragrafo|documento|capitolo|articolo|tabella|esempio)\b
      | \b(il|del|nel|dal|al)\s+(brano|testo|passaggio|paragrafo)\b | \bl['’](estratto|autore)\b
      | \b(menzionat|descritt|indicat)[oaie]\s+(sopra|sotto)\b",
    r"\b(deze|dit|bovenstaande|volgende)\s+(passage|tekst|fragment|alinea|paragraaf|sectie|document|hoofdstuk|artikel|tabel|voorbeeld)\b
      | \b(de|het)\s+(tekst|fragment|alinea|auteur)\b | \bhier(boven|onder)\b",
    r"\b(tym|tego|powyższ\w+|poniższ\w+|podan\w+)\s+(tekst|fragmen|akapi|rozdzia|dokumen|artyku|tabel|przykła)\w*
      | \b(w|według|zgodnie\s+z)\s+(tekście|tekstu|tekstem|fragmencie|fragmentu)\b | \b(zdaniem|według)\s+autor(a|ki)\b",
    r"\b(bu|yukarıdaki|aşağıdaki|verilen)\s+(metin|metn|paragra|bölüm|belge|makale|pasaj|parça|tablo|örne)\w*
      | \b(metne\s+göre|metinde|yazar|yazara|yazarın)\b",
    r"\b(этом|этого|этой|данном|данного|данной|привед[её]нн\w+|следующ\w+)\s+(текст|отрыв|фрагмент|раздел|абзац|документ|стать|глав|таблиц|пример)\w*
      | \b(в|согласно)\s+(тексте|тексту|отрывке|отрывку|абзаце)\b | \bавтор(а|у|ом)?\b
      | \b(упомянут|описан)\w*\s+(выше|ниже)\b",
    r"\b(هذا|هذه)\s+(النص|المقطع|المقال|المقالة|المستند|الوثيقة|الفصل|القسم|الفقرة|الجدول|المثال)\b
      | \b(في|حسب|بحسب)\s+(النص|المقطع|الفقرة)\b | \b(للنص|للمقطع|للفقرة|الكاتب|المؤلف)\b | \b(المذكور|الموضح)ة?\s+(أعلاه|أدناه)",
    r"(इस|उपरोक्त|दिए\s+गए|निम्नलिखित)\s+(गद्यांश|पाठ|अनुच्छेद|लेख|अंश|दस्तावेज|अध्याय|खंड|तालिका) | लेखक",
    r"((^|[^日基])本|该|此|这|这一|以上|上述|给定的?|下面的?|上面的?)(段|节|章|文章|文本|段落|段文字|段话|篇文章|片段|章节|文档)
      | (^|[^中英日法德俄和論作])文中 | 上文([^件档檔]|$) | (^|[^上])下文([^件档檔]|$)
      | (^|[^日基])本文([^件化学字法]|$) | 原文([^件]|$) | 作者",
    r"(この|(^|[^日基])本|上記の|以下の|次の|上の)(文章|文|テキスト|段落|節|章|文書|記事|抜粋|表|例)(?:\W|[はがをにのでと])
      | (^|[^日基])本文(中|で|に|の) | (^|[^中英日法德俄和論作])文中 | 筆者 | 著者",
    r"(이|위|위의|다음|아래|본|해당|주어진)\s*(글|문단|지문|본문|텍스트|구절|단락|문서|기사|예시)(에|의|은|는|이|가|을|를|에서) | 본문에 | 필자 | 저자",
];

static REFERS_TO_PASSAGE: Pattern = LazyLock::new(|| pattern(&format!("(?ix){}", PATTERNS.join("|"))));

/// Whether a question refers to its passage.
pub(super) fn refers_to_passage(question: &str) -> bool {
    REFERS_TO_PASSAGE.is_match(question)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_in_every_language() {
        for question in [
            "What does this passage say?",
            "According to the text, when was it built?",
            "Wann wurde die Mühle laut diesem Abschnitt gebaut?",
            "Was sagt der Text über die Mühle?",
            "Que dit ce passage sur le moulin ?",
            "Selon l’auteur, quand a-t-il été construit ?",
            "¿Qué dice el texto sobre el molino?",
            "O que diz este trecho sobre o moinho?",
            "Che cosa dice il brano sul mulino?",
            "Wat zegt de tekst over de molen?",
            "Co mówi ten autor o młynie w tym fragmencie?",
            "Bu metinde değirmen hakkında ne söyleniyor?",
            "Что говорится в этом тексте о мельнице?",
            "ماذا يقول هذا النص عن الطاحونة؟",
            "इस गद्यांश में चक्की के बारे में क्या कहा गया है?",
            "本文如何描述水车？",
            "Co zdaniem autora jest najważniejsze?",
            "下文说明了什么？",
            "原文怎么说？",
            "文中提到的水车是什么时候建的？",
            "この文章によると、水車はいつ建てられましたか。",
            "이 글에서 물레방아는 언제 지어졌습니까?",
        ] {
            assert!(refers_to_passage(question), "{question}");
        }
    }

    #[test]
    fn questions_that_stand_alone_refer_to_nothing() {
        for question in [
            "When was the mill at Ode built?",
            "Wann wurde die Mühle in Ode gebaut?",
            "Quand le moulin d’Ode a-t-il été construit ?",
            "¿Cuándo se construyó el molino de Ode?",
            "Quando foi construído o moinho de Ode?",
            "Quando fu costruito il mulino di Ode?",
            "Wanneer werd de molen in Ode gebouwd?",
            "Kiedy zbudowano młyn w Ode?",
            "Ode'deki değirmen ne zaman yapıldı?",
            "Когда была построена мельница в Оде?",
            "متى بنيت الطاحونة في أودي؟",
            "ओडे की चक्की कब बनी थी?",
            "奥德的水车是什么时候建造的？",
            "Welcher Autor schrieb Faust?",
            "¿Qué autor escribió el Quijote?",
            "Que autor escreveu Os Lusíadas?",
            "日本文化の特徴は何ですか。",
            "本文件系统支持哪些选项？",
            "上下文窗口有多大？",
            "如何比较原文件和副本？",
            "以上文件如何安装？",
            "基本例を挙げてください。",
            "在中文中如何称呼水车？",
            "オーデの水車はいつ建てられましたか。",
            "오데의 물레방아는 언제 지어졌습니까?",
        ] {
            assert!(!refers_to_passage(question), "{question}");
        }
    }
}
