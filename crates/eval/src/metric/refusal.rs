//! Decides by its words whether an answer declines to answer.
//!
//! For metrics that treat a refusal differently from a wrong answer. The rule is fixed
//! and knows English and the languages in `refusal/phrases.rs`. It looks for the phrases
//! of all languages, because a refusal is often too short to detect its language. A
//! sentence may decline plainly (`I don't know`, `The sources do not say …`, `N/A`), have
//! only words that are often used for declining (`no information`, `unable to`), or have
//! neither.
//!
//! - If all sentences decline plainly, and none goes on with `but` or a similar word,
//!   the answer abstains.
//! - If no sentence has any such words, it answers.
//! - In all other cases it is unclear, and a judge decides: `The sources do not name
//!   the year. The mill is older than the church.`

mod phrases;

use crate::words::{self, Pattern, pattern};
use phrases::{PHRASES, without_hamza};
use std::sync::LazyLock;

/// What the words of an answer say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wording {
    /// All sentences decline.
    Abstains,
    /// No sentence has words of a refusal.
    Answers,
    /// Some sentences decline, or have words that are often used for declining.
    Unclear,
}

/// Sentences that decline.
static DECLINES: Pattern = LazyLock::new(|| {
    let sources = r"(?:sources?|contexts?|passages?|excerpts?|documents?|(?:provided|given|above|retrieved)\s+(?:text|documentation|material|information|data)s?)";
    let given = r"(?:\s+(?:above|given|provided|retrieved))?";
    let not = r"(?:do(?:es)?\s+not|don't|doesn't|did\s+not|didn't|cannot|can't|can\s+not|could\s+not|couldn't)";
    let say = r"(?:answer|say|mention|contain|hold|provide|specify|include|state|give|tell|indicate|describe|name|show|cover|address|explain|discuss|reveal|have)";
    let known =
        r"(?:mentioned|specified|stated|given|provided|available|known|found|contained|included|answered|described)";
    pattern(&format!(
        r"(?ix)
          \b(?:i|we)\s+(?:really\s+)?{not}\s+(?:have\s+(?:any|enough|the)\b|know\b|find\b|answer\b|determine\b|say\b|tell\b)
        | \b{sources}{given}\s+{not}\s+{say}\b
        | \b{sources}{given}\s+(?:has|have|contains?|holds?|gives?|provides?|offers?)\s+(?:no|not\s+enough|insufficient)\s+(?:information|answer|details?)\b
        | \b(?:is|are|was|were)\s+not\s+{known}\s+(?:in|by|within|anywhere\s+in)\s+(?:\w+\s+){{0,2}}{sources}\b
        | \bthere\s+is\s+(?:no|not\s+enough|insufficient)\s+(?:relevant\s+)?(?:information|answer)\b
        | ^\W*(?:there\s+is\s+)?(?:not\s+enough|insufficient|no(?:\s+relevant)?)\s+(?:information|context)\b
        | ^\W*(?:this|that|it|the\s+question)\s+(?:cannot|can't|can\s+not)\s+be\s+(?:answered|determined|known|told)\b
        | ^\W*(?:i\s+am|i'm|we\s+are|we're)?\s*unable\s+to\s+(?:answer|determine|find|say|tell)\b
        | ^\W*(?:i\s+am|i'm|we\s+are|we're)?\s*sorry\W*$
        | ^\W*(?:unknown|unanswerable|not\s+(?:known|answerable|available|applicable|specified|stated|mentioned|found)|n\s*/\s*a|no\s+(?:answer|idea)|none\s+given)\W*$
        "
    ))
});

/// Words that are often said when declining, and not only then.
static HINTS: Pattern = LazyLock::new(|| {
    pattern(
        r"(?ix)
          \b(?:not\s+enough|insufficient|no|without)\s+(?:\w+\s+)?(?:information|context|evidence|answer|mention|details?)\b
        | \b(?:not|n't|never)\s+(?:\w+\s+)?(?:mention|specif|stat|provid|available|known|clear|sure|certain|answer|determin|say|tell)
        | \b(?:cannot|can't|unable|impossible|unclear|unknown|unanswerable|sorry|apologi[sz]e)\b
        ",
    )
});

/// Words after which a sentence that declines may go on to answer.
static GOES_ON: Pattern =
    LazyLock::new(|| pattern(r"(?i)\b(?:but|however|although|though|except|nevertheless|still|yet|while)\b"));

/// Classifies an answer by its words. An answer without words counts as [`Wording::Answers`].
pub(super) fn wording(answer: &str) -> Wording {
    let plain = answer.replace(['’', '‘'], "'");
    let sentences = words::sentences(&plain);
    let of_sentences: Vec<Wording> = sentences.iter().map(|sentence| of_sentence(sentence)).collect();
    if of_sentences.iter().all(|wording| *wording == Wording::Answers) {
        Wording::Answers
    } else if of_sentences.iter().all(|wording| *wording == Wording::Abstains) {
        Wording::Abstains
    } else {
        Wording::Unclear
    }
}

/// Classifies one sentence by the English patterns.
fn of_english_sentence(sentence: &str) -> Wording {
    if DECLINES.is_match(sentence) {
        return if GOES_ON.is_match(sentence) { Wording::Unclear } else { Wording::Abstains };
    }
    if HINTS.is_match(sentence) { Wording::Unclear } else { Wording::Answers }
}

/// Classifies one sentence by the patterns of all languages.
fn of_sentence(sentence: &str) -> Wording {
    let mut wording = of_english_sentence(sentence);
    if wording == Wording::Abstains {
        return wording;
    }
    let folded = without_hamza(&words::folded(sentence));
    for phrases in PHRASES.iter().filter(|phrases| phrases.may_match(&folded)) {
        if phrases.declines.is_match(&folded) {
            let goes_on = phrases.goes_on.is_match(&phrases.apology.replace(&folded, ""));
            if !goes_on && !phrases.conditional.is_match(&folded) {
                return Wording::Abstains;
            }
            wording = Wording::Unclear;
        } else if phrases.hints.is_match(&folded) {
            wording = Wording::Unclear;
        }
    }
    wording
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_known_by_their_words() {
        for answer in [
            rag::generate::NO_ANSWER,
            "I don't know.",
            "I don’t know",
            "I'm sorry. I cannot answer this from the given context.",
            "The provided context does not mention the year.",
            "The documents contain no information about this.",
            "The price is not stated in the sources.",
            "There is not enough information to tell.",
            "Not enough information.",
            "Unable to determine the year.",
            "This cannot be determined.",
            "Unknown.",
            "N/A",
        ] {
            assert_eq!(wording(answer), Wording::Abstains, "{answer}");
        }
    }

    #[test]
    fn answers_that_deny_something_are_no_refusals() {
        for answer in [
            "The mill was built in 1712.",
            "No.",
            "Owls do not move their eyes.",
            "The package does not install documentation.",
            "The data does not fit into memory.",
            "It has no data.",
            "The blue whale does not fear anything.",
            "",
        ] {
            assert_eq!(wording(answer), Wording::Answers, "{answer}");
        }
    }

    #[test]
    fn what_may_be_either_is_unclear() {
        for answer in [
            "The sources do not name the year. The mill is older than the church.",
            "I don't know the year, but it is older than the church.",
            "The text does not say when, however 1712 is likely.",
            "The header carries no information about the length.",
            "It lies in the tomb of the unknown soldier.",
            "An owl cannot move its eyes.",
        ] {
            assert_eq!(wording(answer), Wording::Unclear, "{answer}");
        }
    }

    #[test]
    fn refusals_in_other_languages_are_known() {
        for answer in rag::generate::no_answers().chain(REFUSALS) {
            assert_eq!(wording(answer), Wording::Abstains, "{answer}");
        }
    }

    #[test]
    fn answers_in_other_languages_that_deny_something_are_no_refusals() {
        for answer in ANSWERS {
            assert_eq!(wording(answer), Wording::Answers, "{answer}");
        }
    }

    #[test]
    fn what_other_languages_say_of_missing_things_and_conditions_is_no_refusal() {
        for answer in NO_REFUSALS {
            assert_eq!(wording(answer), Wording::Unclear, "{answer}");
        }
    }

    #[test]
    fn english_is_read_by_the_rule_of_english_alone() {
        for sentence in [
            "You can ignore this warning.",
            "There is no indication of an error.",
            "It returns the rows in a non deterministic order.",
            "There is no determination of the size.",
            "No host responds to the request.",
            "No server responded in time.",
            "The message is non specific.",
            "A non indicative mood has no tense.",
            "The resources do not fit.",
            "It is the caller who will determine and indicate the order.",
            "Use sans serif fonts, or none at all.",
            "The source is open.",
            "I don't know.",
            "The sources do not say, but 1712 is likely.",
            "An owl cannot move its eyes.",
        ] {
            assert!(sentence.is_ascii());
            assert_eq!(of_sentence(sentence), of_english_sentence(sentence), "{sentence}");
        }
    }

    #[test]
    fn refusals_in_other_languages_that_go_on_are_unclear() {
        for answer in UNCLEAR {
            assert_eq!(wording(answer), Wording::Unclear, "{answer}");
        }
    }

    const REFUSALS: [&str; 123] = [
        "Ich weiß es nicht.",
        "Das weiß ich leider nicht.",
        "Die Quellen beantworten diese Frage nicht.",
        "Es tut mir leid, aber ich kann diese Frage anhand der Quellen nicht beantworten.",
        "Der bereitgestellte Kontext enthält keine Informationen darüber, wann die Mühle gebaut wurde.",
        "In den Quellen steht nichts dazu.",
        "Der Preis wird in den Dokumenten nicht genannt.",
        "Es gibt dazu keine Angaben.",
        "Keine Angabe.",
        "Diese Frage lässt sich nicht beantworten.",
        "Je ne sais pas.",
        "Je suis désolé, mais je ne peux pas répondre à cette question.",
        "Les sources ne mentionnent pas l’année de construction.",
        "Le contexte fourni ne contient aucune information à ce sujet.",
        "Il n'y a pas assez d'informations pour répondre.",
        "Le prix n'est pas mentionné dans les sources.",
        "Je n'ai pas suffisamment d'informations pour répondre à cette question.",
        "Inconnu.",
        "No lo sé.",
        "Lo siento, pero no puedo responder a esta pregunta.",
        "Las fuentes no mencionan el año.",
        "No tengo suficiente información para responder.",
        "El contexto proporcionado no contiene información sobre este tema.",
        "El precio no se menciona en los documentos.",
        "No hay información suficiente.",
        "Desconocido.",
        "Não sei.",
        "Desculpe, mas não consigo responder a essa pergunta.",
        "As fontes não mencionam o ano de construção.",
        "O contexto fornecido não contém informações sobre isso.",
        "Não há informações suficientes para responder.",
        "O preço não é mencionado nas fontes.",
        "Non lo so.",
        "Mi dispiace, ma non posso rispondere a questa domanda.",
        "Le fonti non menzionano l'anno.",
        "Il contesto fornito non contiene informazioni al riguardo.",
        "Non ci sono abbastanza informazioni per rispondere.",
        "Il prezzo non è specificato nelle fonti.",
        "Ik weet het niet.",
        "Het spijt me, maar ik kan deze vraag niet beantwoorden.",
        "De bronnen beantwoorden deze vraag niet.",
        "De context bevat geen informatie hierover.",
        "Er is onvoldoende informatie om de vraag te beantwoorden.",
        "De prijs wordt in de bronnen niet vermeld.",
        "Nie wiem.",
        "Przepraszam, ale nie mogę odpowiedzieć na to pytanie.",
        "Źródła nie odpowiadają na to pytanie.",
        "Kontekst nie zawiera informacji na ten temat.",
        "Brak informacji na ten temat.",
        "Nie mam wystarczających informacji.",
        "W źródłach nie ma informacji na ten temat.",
        "Bilmiyorum.",
        "Üzgünüm, ancak bu soruyu yanıtlayamıyorum.",
        "Kaynaklar bu soruyu yanıtlamıyor.",
        "Kaynaklarda bu konuda bilgi yok.",
        "Verilen bilgilerde fiyat belirtilmemiş.",
        "Yeterli bilgi bulunmamaktadır.",
        "Я не знаю.",
        "К сожалению, я не могу ответить на этот вопрос.",
        "В источниках нет информации об этом.",
        "В предоставленном контексте не указан год постройки.",
        "Источники не упоминают год.",
        "Недостаточно информации.",
        "Неизвестно.",
        "لا أعرف.",
        "عذرًا، لا أستطيع الإجابة على هذا السؤال.",
        "لا تذكر المصادر سنة البناء.",
        "السياق المقدم لا يحتوي على معلومات حول هذا الموضوع.",
        "لا توجد معلومات كافية.",
        "لم يُذكر السعر في المصادر.",
        "غير معروف.",
        "मुझे नहीं पता।",
        "क्षमा करें, मैं इस प्रश्न का उत्तर नहीं दे सकता।",
        "स्रोतों में इस बारे में कोई जानकारी नहीं है।",
        "संदर्भ में इसका उल्लेख नहीं है।",
        "पर्याप्त जानकारी उपलब्ध नहीं है।",
        "अज्ञात।",
        "我不知道。",
        "抱歉，我无法回答这个问题。",
        "根据提供的资料，无法确定水车的建造年份。",
        "资料中没有提到价格。",
        "提供的信息中没有相关答案。",
        "文档未说明这一点。",
        "没有足够的信息来回答这个问题。",
        "未知。",
        "抱歉，資料中沒有提到年份。",
        "わかりません。",
        "申し訳ありませんが、お答えできません。",
        "資料にはこの質問の答えがありません。",
        "提供された資料には記載がありません。",
        "その情報は含まれていません。",
        "資料からは判断できません。",
        "この点については資料に記載されていません。",
        "不明です。",
        "모르겠습니다.",
        "죄송하지만 이 질문에 답변할 수 없습니다.",
        "자료에는 이 질문에 대한 답이 없습니다.",
        "제공된 자료에는 가격에 대한 정보가 없습니다.",
        "문서에 건축 연도가 언급되어 있지 않습니다.",
        "알 수 없습니다.",
        "제공된 문서에서 해당 정보를 찾을 수 없습니다.",
        "제공된 문서에서는 해당 내용을 찾을 수 없습니다.",
        "제공된 정보로는 확인할 수 없습니다.",
        "이 질문에는 답변드리기 어렵습니다.",
        "답을 찾을 수 없습니다.",
        "제공된 자료에는 해당 내용이 없습니다.",
        "Die bereitgestellten Quellen enthalten keine Information dazu.",
        "Das geht aus den Quellen nicht hervor.",
        "Cette information n'est pas disponible dans les sources.",
        "Je ne trouve pas cette information dans les sources.",
        "La información no está disponible en las fuentes.",
        "A informação não está disponível nos documentos.",
        "L'informazione non è presente nei documenti.",
        "Dit staat niet in de bronnen.",
        "We kunnen deze vraag niet beantwoorden.",
        "Nie ma tego w źródłach.",
        "Sağlanan kaynaklarda bu soruya cevap bulunamadı.",
        "В документах эта информация отсутствует.",
        "इस प्रश्न का उत्तर स्रोतों में नहीं है।",
        "この質問には答えられません。",
        "資料に該当する内容はありません。",
        "无法确定水车的建造年份。",
        "资料没有明确年份。",
    ];

    const ANSWERS: [&str; 68] = [
        "Die Mühle wurde 1712 gebaut.",
        "Nein.",
        "Das Paket enthält keine Dokumentation.",
        "Eulen bewegen ihre Augen nicht.",
        "Das Dokument wird beim Schließen gespeichert.",
        "Die Daten passen nicht in den Speicher.",
        "Man findet die Quellen in /etc/apt/sources.list.",
        "Non.",
        "Le moulin a été construit en 1712.",
        "Ce paquet n'installe pas la documentation.",
        "Les hiboux ne bougent pas les yeux.",
        "Le fichier n'existe pas.",
        "No.",
        "El molino fue construido en 1712.",
        "El paquete no instala la documentación.",
        "Los búhos no mueven los ojos.",
        "O moinho foi construído em 1712.",
        "O pacote não instala a documentação.",
        "Il mulino fu costruito nel 1712.",
        "Il pacchetto non installa la documentazione.",
        "De molen werd gebouwd in 1712.",
        "Het pakket installeert geen documentatie.",
        "Młyn zbudowano w 1712 roku.",
        "Pakiet nie instaluje dokumentacji.",
        "Değirmen 1712'de yapıldı.",
        "Paket belgeleri kurmaz.",
        "Мельница была построена в 1712 году.",
        "Пакет не устанавливает документацию.",
        "Нет.",
        "بنيت الطاحونة عام 1712.",
        "الحزمة لا تثبت الوثائق.",
        "चक्की 1712 में बनी थी।",
        "पैकेज दस्तावेज़ स्थापित नहीं करता है।",
        "नहीं।",
        "水车建于1712年。",
        "不是。",
        "该软件包不安装文档。",
        "这个命令不能删除正在使用的文件。",
        "如果不能找到该文件，请先更新列表。",
        "数据放不进内存。",
        "該文件不存在於此目錄。",
        "水車は1712年に建てられました。",
        "いいえ。",
        "このパッケージは文書をインストールしません。",
        "情報を入力する必要はありません。",
        "再起動する必要はありません。",
        "フクロウは目を動かせません。",
        "물레방아는 1712년에 지어졌습니다.",
        "아니요.",
        "이 패키지는 문서를 설치하지 않습니다.",
        "다시 시작할 필요가 없습니다.",
        "비밀번호를 입력할 필요가 없습니다.",
        "서버에서 응답이 없습니다.",
        "개인정보는 포함되어 있지 않습니다.",
        "ログに個人情報は含まれていません。",
        "なし",
        "不能点击确定按钮。",
        "不能根据文件扩展名判断文件类型。",
        "不能直接在线更新，需要确定版本。",
        "来源不明确的软件包可能有风险。",
        "该来源不涉及网络。",
        "لا يجب حذف المستندات.",
        "Die Paketquellen enthalten das Paket nicht.",
        "De pakketbronnen bevatten het pakket niet.",
        "La fuente no incluye caracteres cirílicos.",
        "A fonte não fornece energia ao sistema.",
        "Pakiet nie ma informacji o wersji.",
        "Источник питания не отвечает требованиям.",
    ];

    const UNCLEAR: [&str; 8] = [
        "Die Quellen nennen das Jahr nicht. Die Mühle ist älter als die Kirche.",
        "Ich weiß das Jahr nicht, aber sie ist älter als die Kirche.",
        "Les sources ne précisent pas l'année, mais le moulin est plus ancien que l'église.",
        "No sé el año, pero es más antiguo que la iglesia.",
        "Не знаю год, но она старше церкви.",
        "我不知道具体年份，但它比教堂更古老。",
        "資料に年の記載はありませんが、教会より古いです。",
        "연도는 알 수 없지만 교회보다 오래되었습니다.",
    ];

    /// Answers that report that something is missing, or say what happens if it is missing. They contain
    /// words of a refusal without being one.
    const NO_REFUSALS: [&str; 25] = [
        "로그에는 개인 정보가 없습니다.",
        "サーバーからの回答がありません。",
        "この関数の説明はありません。",
        "无法确定依赖关系时会报错。",
        "如果缺少相关信息，安装程序会询问用户。",
        "تظهر الرسالة: تعذر العثور على الحزمة.",
        "Если в документе не указан размер бумаги, используется A4.",
        "Si le document ne précise pas l'encodage, UTF-8 est utilisé.",
        "Si el documento no especifica el formato, se usa A4.",
        "Se il documento non specifica la codifica, si usa UTF-8.",
        "Se o documento não especifica o formato, usa-se A4.",
        "Wenn die Quellen die Frage nicht beantworten, wird A4 verwendet.",
        "Als de bronnen geen informatie bevatten, wordt A4 gebruikt.",
        "Jeśli dokument nie podaje formatu, używany jest A4.",
        "إذا لم تذكر المصادر الحجم، يستخدم A4.",
        "如果文档没有说明编码，则默认为UTF-8。",
        "資料に記載がなければ、不明です。",
        "자료에 정보가 없으면 알 수 없습니다.",
        "Es gibt keine Hinweise auf einen Angriff.",
        "Es gibt keine Antwort vom Server.",
        "Aucune information personnelle n'est envoyée.",
        "Il n'y a pas d'informations sensibles dans les journaux.",
        "No hay información personal en los registros.",
        "Brak odpowiedzi serwera oznacza awarię.",
        "Bu dosyada hata hakkında bilgi yok.",
    ];
}
