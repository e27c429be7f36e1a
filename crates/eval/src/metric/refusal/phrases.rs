//! How languages other than English say that an answer is not known.
//!
//! The patterns are for texts in the form of [`folded`](crate::words::folded): small
//! letters, `ss` for `ß`, `i` for `ı`, `е` for `ё`, no Arabic vowel points. In a pattern, a
//! space matches any white space, and `<sources>` matches the language's words for the
//! retrieved texts (`the documents`, `the context`). The forms of the Arabic letter alif,
//! with and without hamza, are equal ([`without_hamza`]).

use crate::words::pattern;
use regex::Regex;
use std::sync::LazyLock;

/// The phrases of one language.
pub(super) struct RefusalPhrases {
    words: &'static [&'static str],
    /// Whole sentences, or parts of sentences, that decline.
    pub(super) declines: Regex,
    /// Words that are often said when declining, and not only then.
    pub(super) hints: Regex,
    /// Words after which a sentence that declines may go on to answer.
    pub(super) goes_on: Regex,
    /// An apology at the beginning, with a `but` that follows it: `Sorry, but I cannot answer`. It is
    /// removed before [`goes_on`](Self::goes_on) is looked for, because this `but` leads to no answer.
    pub(super) apology: Regex,
    /// The beginning of a conditional clause: `If the document does not say …, A4 is used.`
    pub(super) conditional: Regex,
}

impl RefusalPhrases {
    /// Quick test: `false` if a text can match neither `declines` nor `hints`.
    pub(super) fn may_match(&self, folded: &str) -> bool {
        self.words.iter().any(|word| folded.contains(word))
    }
}

/// The patterns of one language as text, from which [`RefusalPhrases`] is compiled.
struct RefusalPatterns {
    /// Each match of `declines` or `hints` contains one of these, so a text without them is skipped quickly.
    words: &'static [&'static str],
    /// Replaces `<sources>` in `declines`.
    sources: &'static str,
    declines: &'static [&'static str],
    hints: &'static str,
    goes_on: &'static str,
    apology: &'static str,
    conditional: &'static str,
}

const GERMAN: RefusalPatterns = RefusalPatterns {
    words: &["nicht", "kein", "unbekannt", "unklar", "unmöglich", "leid", "entschuldigung", "k.", "unzureichend"],
    sources: r"\b(quellen?|kontext|textausz[uü]ge?n?|textabschnitte?n?|dokumente?n?|passagen?|unterlagen|(bereitgestellten|vorliegenden|angegebenen|gegebenen) (informationen|angaben|daten|materialien))",
    declines: &[
        r"\b(das|dies|die antwort) weiss ich( leider)? nicht\b",
        r"\bich weiss (\S+ ){0,3}?nicht\b",
        r"\b(ich|wir) (kann|können|konnte|konnten) (\S+ ){0,10}?nicht (\w+ ){0,2}?(beantworten|sagen|finden|feststellen|ermitteln|bestimmen|angeben|entnehmen)\b",
        r"\b(kann|können|konnte) (ich|wir) (\S+ ){0,10}?nicht (\w+ ){0,2}?(beantworten|sagen|finden|feststellen|ermitteln|bestimmen|angeben|entnehmen)\b",
        r"\b(ich|wir) (habe|haben) (leider )?(dazu |hierzu |darüber )?(keine|nicht genug|nicht genügend|nicht ausreichend) (\w+ )?(information(en)?|angaben|kenntnis|antwort)\b",
        r"<sources> (\w+ ){0,2}?(beantwortet|beantworten|nennt|nennen|erwähnt|erwähnen|sagt|sagen|enthält|enthalten|erklärt|erklären) (\w+ ){0,6}?nicht\W*$",
        r"<sources> (\w+ ){0,2}?(enthält|enthalten|gibt|geben|liefert|liefern|bietet|bieten|nennt|nennen|macht|machen) (\S+ ){0,4}?(keine|keinen|keinerlei|nicht genug|nicht genügend|nicht ausreichend) (\w+ )?(information(en)?|angaben?|antwort|hinweise?|auskunft|einzelheiten|details)\b",
        r"<sources> (steht|stehen|findet sich|finden sich|gibt es) (\S+ ){0,4}?(nichts|keine (\w+ )?(information(en)?|angaben?|antwort|hinweise?))\b",
        r"<sources> nicht (erwähnt|angegeben|genannt|beantwortet|beschrieben|enthalten)\b|\bnicht (in|aus|von) (\w+ )?(\w+ )?<sources> (erwähnt|genannt|angegeben|beantwortet|hervor)",
        r"\b(es gibt|gibt es|es liegen|liegen) (leider )?(\S+ ){0,4}?(nicht genug|nicht genügend|nicht ausreichend) (\w+ )?(information(en)?|angaben|hinweise)\b",
        r"\b(es gibt|gibt es|es liegen|liegen) (leider )?(dazu|hierzu|darüber|hierüber) (\S+ ){0,3}?keine (\w+ )?(information(en)?|angaben?|antwort|hinweise?)\b",
        r"\b(dazu|hierzu|darüber|hierüber) (gibt es|liegen) (\S+ ){0,3}?keine (\w+ )?(information(en)?|angaben?|antwort|hinweise?)\b",
        r"\b(es gibt|gibt es|es liegen|liegen) (\S+ ){0,4}?keine (\w+ )?(information(en)?|angaben?|antwort|hinweise?) (dazu|hierzu|darüber|hierüber|auf diese frage|zu dieser frage|in (\w+ ){0,2}?<sources>)",
        r"\b(geht|gehen) (\S+ ){0,2}?aus (\w+ ){0,2}?<sources> (\w+ )?nicht hervor\b",
        r"^\W*(keine|nicht genug|nicht genügend|nicht ausreichend|unzureichende) (\w+ )?(information(en)?|angaben?)\b",
        r"^\W*(das|dies|es|die frage|diese frage) (kann|lässt sich|konnte) (\S+ ){0,8}?nicht (\w+ ){0,2}?(beantworten|beantwortet|sagen|bestimmen|bestimmt|feststellen|festgestellt|ermitteln|ermittelt)\b",
        r"^\W*(unbekannt|nicht bekannt|keine antwort|keine ahnung|k\. ?a\.|nicht angegeben|nicht genannt|nicht verfügbar|nicht beantwortbar|weiss ich nicht)\W*$",
        r"^\W*(es tut mir leid|tut mir leid|entschuldigung|leider nicht)\W*$",
    ],
    hints: r"\b(keine|nicht genug|nicht genügend) (\w+ )?(information(en)?|angaben?|antwort|hinweise?)\b|\bnicht (\w+ )?(erwähn|angegeben|genannt|bekannt|klar|sicher|beantwort|bestimm|ermittel|feststell)|\b(unbekannt|unklar|unmöglich|leider|tut mir leid)\b",
    goes_on: r"\b(aber|jedoch|allerdings|obwohl|dennoch|trotzdem|doch|ausser|während|sondern)\b",
    apology: r"^\W*((es )?tut mir( sehr)? leid|entschuldigung|leider)\W+(aber |jedoch )?",
    conditional: r"^\W*(wenn|falls|sofern)\b",
};

const FRENCH: RefusalPatterns = RefusalPatterns {
    words: &[
        "pas",
        "ne ",
        "n'",
        "aucun",
        "inconnu",
        "impossible",
        "incertain",
        "désol",
        "malheureusement",
        "j'ignore",
        "insuffisant",
        "sans ",
        "non ",
        "je ne",
    ],
    sources: r"\b((les |la |des |cette |ces )?sources?|(le |ce )?contexte|(le |les |ce |ces )?(documents?|passages?|extraits?)|(le )?texte fourni|(les |ces )?informations (fournies|disponibles|données))",
    declines: &[
        r"\b(je|nous) (ne |n')(le |l'|en )?(sais|savons|connais|connaissons) (malheureusement )?pas\b",
        r"\bje ne sais( pas)?\W*$|\bj'ignore\b",
        r"\b(je|nous) ne (peux|pouvons|parviens|parvenons)( malheureusement)? pas (\S+ ){0,3}?(répondre|trouver|déterminer|dire|confirmer)\b",
        r"\b(je|nous) (n'ai|n'avons|ne dispose|ne disposons)( malheureusement)? pas (assez |suffisamment )?d('|e |')(\w+ )?(informations?|éléments|réponse)\b",
        r"<sources>( \S+){0,2}? ne (répond|répondent|mentionne|mentionnent|précise|précisent|indique|indiquent|dit|disent|contient|contiennent|fournit|fournissent|donne|donnent|permet|permettent) (pas|aucune?)\b",
        r"<sources>( \S+){0,2}? n'(indique|indiquent|abord|offr|expliqu|apport)\w* (pas|aucune?)\b",
        r"\bn'(est|a|ont|sont|apparaît) pas (\S+ )?(mentionn|précis|indiqu|fourni|donn|trouv)\w* (\S+ )?(dans|par) <sources>",
        r"\b(informations?|réponse) n'(est|sont) pas (\S+ )?(disponible|présent|inclus|contenu)\w* (dans|par) <sources>",
        r"\b(je|nous) ne (trouve|trouvons|vois|voyons)( malheureusement)? pas (\S+ ){0,3}?(informations?|réponse|indication)\b",
        r"\b(il n'y a|il n'existe) (pas assez|pas suffisamment) (d'|de )?(\w+ )?(informations?|indications?)\b",
        r"\b(il n'y a|il n'existe) (aucune|pas) (d'|de )?(\w+ )?(informations?|indications?)(\W*$| (à ce sujet|là-dessus|sur|concernant|dans <sources>))",
        r"\baucune (information|indication) (\S+ ){0,4}?dans <sources>",
        r"\baucune (information|indication) ((sur|concernant|à) (\S+ ){1,5}?)?n'(est|a été) (disponible|fourni|donné|mentionné|trouvé)",
        r"^\W*(informations? insuffisantes?|pas (assez )?d'informations?|aucune information|aucune réponse|inconnue?|non (précisé|mentionné|indiqué|disponible|connu|spécifié)e?|je ne sais pas|sans réponse)\W*$",
        r"^\W*(impossible|il est impossible|il n'est pas possible) (de|d')( ?l[ae])? ?(répondre|déterminer|dire|savoir)\b",
        r"^\W*(désolée?|je suis désolée?)\W*$",
    ],
    hints: r"\b(aucune?|pas|insuffisant\w*|sans) (assez )?(d'|de )?(informations?|réponse|mention|indication)|\b(ne|n') ?\S+ pas\b.*\b(mentionn|précis|indiqu|répond|déterminer|savoir|connu)|\b(inconnue?|impossible|incertain|désolée?|malheureusement|j'ignore)\b",
    goes_on: r"\b(mais|cependant|toutefois|néanmoins|pourtant|bien que|sauf|excepté|tandis que|en revanche)\b",
    apology: r"^\W*((je suis |nous sommes )?(vraiment )?désolée?s?|malheureusement)\W+(mais )?",
    conditional: r"^\W*(si\b|s'ils?\b)",
};

const SPANISH: RefusalPatterns = RefusalPatterns {
    words: &[
        "no ",
        "no,",
        "sin ",
        "desconocid",
        "imposible",
        "inciert",
        "siento",
        "perd",
        "disculpe",
        "lament",
        "insuficiente",
    ],
    sources: r"\b((las |la |estas )?fuentes?|(el |este )?contexto|(el |los |este |estos )?(documentos?|pasajes?|fragmentos?)|(el )?texto proporcionado|(la )?información (proporcionada|disponible|dada))",
    declines: &[
        r"\bno (lo )?(sé|sabemos|conozco|conocemos)\b",
        r"\bno (puedo|podemos|pude|he podido)( \S+){0,3}? (responder|contestar|encontrar|determinar|decir|saber|precisar)\w*\b",
        r"^\W*no (es posible|se puede) (responder|contestar|determinar|saber)\w*\b",
        r"\bno (tengo|tenemos|dispongo|disponemos|cuento|encontré|encuentro|se encontró)( de| con)? (suficiente |ninguna )?(información|datos suficientes)\b",
        r"\bno (hay|existe) (suficiente información|datos suficientes|(ninguna )?información (suficiente|sobre|acerca|al respecto|disponible|relevante|en <sources>))",
        r"\b(información|respuesta) no (está|se encuentra|aparece|figura) (disponible |incluida |presente )?en <sources>",
        r"\bno (tengo|hay|encuentro) (una |la )?respuesta (a|para|en)\b",
        r"<sources>( \S+){0,2}? no (la |lo )?(responden?|mencionan?|especifican?|indican?|dicen?|explican?)\b",
        r"\b(fuentes|contexto|documentos?|pasajes?|fragmentos?|texto proporcionado|información proporcionada)( \S+){0,2}? no (la |lo )?(contienen?|proporcionan?|incluyen?|ofrecen?|aportan?|tienen?|dan)\b",
        r"\bfuente( \S+){0,2}? no (contiene|proporciona|incluye|ofrece|aporta|tiene|da) (\S+ ){0,2}?(información|respuesta|datos|detalles)\b",
        r"\bno (se|está|aparece) (\S+ )?(mencion|especific|indic|encuentr|dice|respond|proporcion)\w* (\S+ )?(en|por) <sources>",
        r"\ben <sources>( \S+){0,2}? no (se|hay|aparece) ?(\S+ )?(mencion|especific|indic|encuentr|dice|respond|proporcion|información|respuesta)\w*",
        r"^\W*(información insuficiente|sin información|no hay información|desconocid[oa]|no (especificad|mencionad|indicad|conocid)[oa]|no disponible|no se sabe|sin respuesta|no consta)\W*$",
        r"^\W*(lo siento|perdón|disculpe)\W*$",
    ],
    hints: r"\b(no|sin|insuficiente) (\S+ )?(información|respuesta|mención|detalles)\b|\bno (\S+ )?(mencion|especific|indic(an?|ad[oa]s?)\b|respond(en?|ió|ido)\b|se sabe|está claro|seguro|determin(an?|ad[oa]s?|ar)\b|puedo)|\b(desconocid[oa]|imposible|incierto|lo siento|lamentablemente)\b",
    goes_on: r"\b(pero|sin embargo|no obstante|aunque|salvo|excepto|mientras que|sino)\b",
    apology: r"^\W*(lo siento|lo lamento|disculpe|perdón|lamentablemente|desafortunadamente)\W+(pero )?",
    conditional: r"^\W*si\b",
};

const PORTUGUESE: RefusalPatterns = RefusalPatterns {
    words: &[
        "não",
        "sem ",
        "desconhecid",
        "impossível",
        "incerto",
        "desculpe",
        "sinto",
        "infelizmente",
        "lamento",
        "insuficiente",
    ],
    sources: r"\b((as |a |estas |essas )?fontes?|(o |este )?contexto|(o |os |este |estes )?(documentos?|trechos?)|(o )?texto fornecido|(a |as )?informaç(ão|ões) (fornecidas?|disponíve(l|is)|dadas?))",
    declines: &[
        r"\b(eu )?não (o )?(sei|sabemos|conheço)\b",
        r"\bnão (posso|podemos|consigo|conseguimos|consegui)( \S+){0,3}? (responder|encontrar|determinar|dizer|saber|identificar)\b",
        r"^\W*não (é|foi) possível (responder|determinar|saber|dizer)\b",
        r"\bnão (tenho|temos|disponho|há|existe|existem|encontrei) (informaç(ão|ões)|dados suficientes)\b",
        r"\bnão (tenho|temos|há|existem) (informaç\w+ suficientes|suficientes? informaç\w+)",
        r"<sources>( \S+){0,2}? não (respondem?|mencionam?|especificam?|indicam?|dizem|diz|informam?|explicam?)\b",
        r"\b(fontes|contexto|documentos?|trechos?|texto fornecido|informaç(ão|ões) fornecidas?)( \S+){0,2}? não (contêm|contém|fornecem?|incluem|inclui|trazem|traz|têm|tem)\b",
        r"\bfonte( \S+){0,2}? não (contém|fornece|inclui|traz|tem) (\S+ ){0,2}?(informaç(ão|ões)|resposta|dados|detalhes)\b",
        r"\b(informaç(ão|ões)|resposta) não (está|estão|é|são|consta|constam|aparece|se encontra)( disponíve(l|is)| presentes?| incluíd[ao]s?)? (nas?|nos?|em) (\S+ )?(fontes?|contexto|documentos?|trechos?)",
        r"\bnão (é|está|foi|são|consta) (\S+ )?(mencion|especific|indic|inform|respond|fornec)\w* (\S+ )?(nas?|nos?|pelas?|pelos?) (fontes?|contexto|documentos?|trechos?)",
        r"^\W*(informações insuficientes|sem informaç\w+|não há informaç\w+|desconhecid[oa]|não (especificad|mencionad|indicad|informad|conhecid)[oa]|não disponível|não se sabe|sem resposta)\W*$",
        r"^\W*(desculpe|sinto muito|lamento)\W*$",
    ],
    hints: r"\b(não|sem|insuficientes?) (\S+ )?(informaç\w+|resposta|menção|detalhes)|\bnão (\S+ )?(mencion|especific|indic|inform|respond|se sabe|está claro|determin|posso|consigo)|\b(desconhecid[oa]|impossível|incerto|desculpe|sinto muito|infelizmente|lamento)\b",
    goes_on: r"\b(mas|porém|contudo|todavia|no entanto|entretanto|embora|exceto|salvo|enquanto)\b",
    apology: r"^\W*(desculpe|sinto muito|lamento|infelizmente)\W+(mas )?",
    conditional: r"^\W*(se|caso)\b",
};

const ITALIAN: RefusalPatterns = RefusalPatterns {
    words: &[
        "non ",
        "nessun",
        "senza ",
        "sconosciut",
        "impossibile",
        "incert",
        "dispiace",
        "purtroppo",
        "spiacente",
        "scus",
        "ignot",
        "insufficient",
    ],
    sources: r"\b((le |queste )?fonti|(la )?fonte|(il |questo )?contesto|(i |il |questi |questo )?(documenti|documento|brani|brano|passaggi|passaggio)|(il )?testo fornito|(le )?informazioni (fornite|disponibili|date))",
    declines: &[
        r"\bnon (lo )?(so|sappiamo|conosco|conosciamo)\b",
        r"\bnon (posso|possiamo|riesco|riusciamo|sono in grado)( \S+){0,3}? (rispondere|trovare|determinare|dire|sapere|stabilire)\b",
        r"^\W*non è possibile (rispondere|determinare|dire|sapere|stabilire)\b",
        r"\bnon (ho|abbiamo|dispongo|ci sono|c'è|esistono|ho trovato)( di)? (abbastanza |sufficienti |alcuna |nessuna )?(informazion\w)\b",
        r"<sources>( \S+){0,2}? non (rispondono|risponde|menzionano|menziona|specificano|specifica|indicano|indica|dicono|dice|contengono|contiene|forniscono|fornisce|riportano|riporta|includono|spiegano|danno|hanno)\b",
        r"\bnon (è|sono|viene|vengono) (\S+ )?(menzionat|specificat|indicat|riportat|fornit)\w (\S+ )?(nelle?|nei|nel|dalle?|dai) (fonti|contesto|documenti|documento|brani|brano)",
        r"\b(informazion[ei]|risposta) non (è|sono|si trova|si trovano)( present[ei]| disponibil[ei]| contenut[aei]| inclus[aei])? (nelle?|nei|nel|in) (\S+ )?(fonti|fonte|contesto|documenti|documento|brani|brano)\b",
        r"^\W*(informazioni insufficienti|nessuna informazione|nessuna risposta|sconosciut[oa]|non (specificat|menzionat|indicat|not)[oa]|non disponibile|non si sa|ignot[oa])\W*$",
        r"^\W*(mi dispiace|spiacente|scusa|scusi)\W*$",
    ],
    hints: r"\b(non|nessuna|senza|insufficienti) (\S+ )?(informazion\w|risposta|menzione|dettagli)\b|\bnon (\S+ )?(menzion|specific(a|ano|at[oaie])\b|indic(a|ano|at[oai])\b|rispond|si sa|è chiaro|determin(a|ano|at[oai]|are)\b|posso)|\b(sconosciut[oa]|impossibile|incert[oa]|mi dispiace|purtroppo)\b",
    goes_on: r"\b(ma|però|tuttavia|anche se|sebbene|benché|tranne|eccetto|mentre|bensì)\b",
    apology: r"^\W*(mi dispiace|spiacente|scusi?|purtroppo)\W+(ma )?",
    conditional: r"^\W*(se|qualora)\b",
};

const DUTCH: RefusalPatterns = RefusalPatterns {
    words: &[
        "niet",
        "geen",
        "onbekend",
        "onduidelijk",
        "onmogelijk",
        "spijt",
        "helaas",
        "sorry",
        "onvoldoende",
        "zonder",
    ],
    sources: r"\b((de |deze )?bronn?(en)?|(de )?context|(de |het |deze |dit )?(documenten|document|passages?|fragmenten|fragment)|(de )?gegeven tekst|(de )?(verstrekte|beschikbare|gegeven) informatie)",
    declines: &[
        r"\b(ik|wij|we) (weet|weten) (het |dat |dit )?(helaas )?niet\b|\bdat weet ik niet\b",
        r"\b(ik|wij|we) (kan|kunnen) (\S+ ){0,8}?niet (\S+ ){0,2}?(beantwoorden|vinden|bepalen|zeggen|vaststellen)\b",
        r"\b(ik|wij|we) (heb|hebben|beschik|beschikken) (helaas )?(over |hierover )?(geen|niet genoeg|onvoldoende) (informatie|antwoord|gegevens)\b",
        r"<sources> (\S+ ){0,1}?(beantwoorden|beantwoordt|noemen|noemt|vermelden|vermeldt|zeggen|zegt|geven|geeft|bevatten|bevat) (\S+ ){0,5}?niet\W*$",
        r"<sources> (\S+ ){0,1}?(bevatten|bevat|geven|geeft|bieden|biedt|verstrekken) (\S+ ){0,3}?(geen|niet genoeg|onvoldoende) (\S+ )?(informatie|antwoord|details|gegevens)\b",
        r"\bniet (vermeld|genoemd|gegeven|beantwoord|te vinden|aangegeven) (in|door) <sources>|\b(in|door) <sources> niet (vermeld|genoemd|gegeven|beantwoord|aangegeven)\b",
        r"^\W*(dit|dat|het|het antwoord|deze informatie|de informatie) staat (helaas )?niet in <sources>",
        r"\ber is (helaas )?(geen|niet genoeg|onvoldoende) (\S+ )?(informatie|antwoord)\b",
        r"^\W*(onvoldoende informatie|niet genoeg informatie|geen informatie|geen antwoord|onbekend|niet (bekend|vermeld|gespecificeerd|beschikbaar|genoemd)|geen idee)\W*$",
        r"^\W*(dit|dat|het|de vraag|deze vraag) kan (\S+ ){0,6}?niet (\S+ )?(worden )?(beantwoord|bepaald|vastgesteld)\b",
        r"^\W*(het spijt me|sorry|helaas)\W*$",
    ],
    hints: r"\b(geen|niet genoeg|onvoldoende|zonder) (\S+ )?(informatie|antwoord|vermelding|details)\b|\bniet (\S+ )?(vermeld|genoemd|bekend|duidelijk|zeker|beantwoord|bepaald|bepalen)|\b(onbekend|onduidelijk|onmogelijk|het spijt me|helaas)\b",
    goes_on: r"\b(maar|echter|hoewel|toch|desondanks|behalve|terwijl|wel)\b",
    apology: r"^\W*(het spijt me|sorry|helaas)\W+(maar )?",
    conditional: r"^\W*(als|indien)\b",
};

const POLISH: RefusalPatterns = RefusalPatterns {
    words: &["nie", "brak", "bez ", "przepraszam", "przykro"],
    sources: r"\b(źródł(a|ach|o)|kontek(st|ście|stu)|dokument(y|ach|cie)?|(podany|podanym) (tekst|tekście)|fragment(y|ach)?|(podane|dostępne|dostarczone) (informacje|materiały))",
    declines: &[
        r"\b(nie wiem|nie wiemy|nie znam odpowiedzi)\b",
        r"\bnie (mogę|możemy|potrafię|jestem w stanie|udało mi się)( \S+){0,5}? (odpowiedzieć|znaleźć|określić|ustalić|stwierdzić|powiedzieć)\b",
        r"^\W*nie (da się|można) (\S+ )?(odpowiedzieć|określić|ustalić|stwierdzić)\b",
        r"(^\W*|<sources> (\S+ ){0,3}?)nie ma (\S+ ){0,2}?(informacji|odpowiedzi)\b",
        r"\bnie ma (tego|tej informacji|takiej informacji|takich informacji|o tym mowy|o tym informacji) w (\S+ )?<sources>",
        r"\bnie (mam|mamy|posiadam|znalazłem|znalazłam) (\S+ ){0,2}?(informacji|odpowiedzi)\b",
        r"<sources>( \S+){0,2}? nie (odpowiada|odpowiadają|zawiera|zawierają|podaje|podają|wspomina|wspominają|mówi|mówią|określa|określają|wyjaśnia|wyjaśniają|wymienia|wymieniają)\b",
        r"\bnie (jest|został|została|zostało|są) (\S+ )?(wspomni|podan|określ|wymieni)\w* (\S+ )?w (\S+ )?<sources>",
        r"\bbrak (wystarczających (informacji|danych)|(informacji|odpowiedzi|danych) (na ten temat|na to pytanie|w (\S+ )?<sources>))",
        r"^\W*(nieznan[eya]|nie wiadomo|nie podano|nie określono|niedostępne|brak informacji|brak odpowiedzi|brak danych)\W*$",
        r"^\W*(przepraszam|przykro mi|niestety)\W*$",
    ],
    hints: r"\b(brak|bez|niewystarczając\w*) (\S+ )?(informacji|odpowiedzi|wzmianki|szczegółów)\b|\bnie (\S+ )?(wspomin|poda|określ|wiadomo|jest jasne|odpowi|ustal)|\b(nieznan[eya]|niejasne|niemożliwe|przepraszam|niestety|przykro)\b",
    goes_on: r"\b(ale|jednak|jednakże|lecz|chociaż|choć|mimo|oprócz|z wyjątkiem|natomiast)\b",
    apology: r"^\W*(przepraszam|przykro mi|niestety)\W+(ale )?",
    conditional: r"^\W*(jeśli|jeżeli|gdy|gdyby)\b",
};

const TURKISH: RefusalPatterns = RefusalPatterns {
    words: &[
        "yok",
        "değil",
        "bilmi",
        "bilemi",
        "yanit",
        "cevap",
        "bulam",
        "bulunm",
        "bulunam",
        "belirle",
        "belirt",
        "söyle",
        "bahse",
        "içerm",
        "vermiyor",
        "açikla",
        "alm",
        "bilinm",
        "üzgün",
        "maalesef",
        "özür",
        "belirsiz",
        "imkânsiz",
        "imkansiz",
        "yetersiz",
        "belli",
    ],
    sources: r"\b(kaynak(lar|larda|ta|larin)?|bağlam(da)?|belge(ler|lerde|de)?|verilen metin(ler|lerde|de)?|(verilen|sağlanan|mevcut) bilgiler(de)?)",
    declines: &[
        r"\b(bilmiyorum|bilmiyoruz|bilemiyorum|cevabini bilmiyorum|bir fikrim yok)\b",
        r"\b(yanitlayamiyorum|yanitlayamam|cevaplayamiyorum|cevaplayamam|bulamadim|bulamiyorum|belirleyemiyorum|söyleyemem)\b",
        r"<sources>( \S+){0,8}? (yanitlamiyor|yanitlamamaktadir|cevaplamiyor|belirtmiyor|bahsetmiyor|içermiyor|içermemektedir|vermiyor|söylemiyor|açiklamiyor|belirtilmemiş\w*|belirtilmemektedir|bahsedilmiyor|bahsedilmemektedir|bulunmuyor|bulunmamaktadir|yer almiyor|yer almamaktadir)\W*$",
        r"<sources>( \S+){0,8}? (bilgi|yanit|cevap) (yok|yoktur|bulunmuyor|bulunmamaktadir|bulunamadi|bulunamamiştir|bulunamiyor)\b",
        r"(\b(yeterli|herhangi bir|(bu konuda|bununla ilgili|bu konu hakkinda)( herhangi)?( bir)?) |^\W*)bilgi (yok|yoktur|bulunmuyor|bulunmamaktadir|mevcut değil)\W*$",
        r"^\W*(yetersiz bilgi|yeterli bilgi yok|bilinmiyor|belirtilmemiş|belli değil|mevcut değil|yanit yok|cevap yok|bilgi yok)\W*$",
        r"^\W*(üzgünüm|maalesef|özür dilerim)\W*$",
    ],
    hints: r"\b(bilgi|yanit|cevap)( \S+)? (yok|yoktur|bulunm\w+)|\b(belirtilme|bilinm|yanitlan?ma|cevaplan?ma|bahsedilm)\w*|\b(belirsiz|imkânsiz|imkansiz|maalesef|üzgünüm)\b",
    goes_on: r"\b(ama|ancak|fakat|yine de|rağmen|dişinda|oysa|halbuki)\b",
    apology: r"^\W*(üzgünüm|maalesef|özür dilerim)\W+(ama |ancak )?",
    conditional: r"^\W*eğer\b",
};

const RUSSIAN: RefusalPatterns = RefusalPatterns {
    words: &["не", "нет", "без ", "отсутств", "нельзя", "сожалению", "извините", "простите", "жаль"],
    sources: r"\b(источник(и|ах|е|ов)?|контекст(е|а)?|документ(ы|ах|е|ов)?|отрыв(ок|ки|ке|ках)|(предоставленн|представленн|имеющ|данн)\w+ (информаци|материал|данн|текст)\w+)",
    declines: &[
        r"\b(я |мы )?не (знаю|знаем)\b",
        r"\b(я|мы) (\S+ ){0,4}?не (могу|можем|смог|смогла|смогли)( \S+){0,5}? (ответить|найти|определить|сказать|установить)\b",
        r"^\W*не (могу|можем|удалось|представляется возможным)( \S+){0,5}? (ответить|определить|сказать|установить)\b",
        r"\bне (могу|удалось|смог|смогла) найти (\S+ ){0,2}?(информаци|ответ|сведени)\w*",
        r"\b(у меня|у нас) нет (\S+ )?(информации|ответа|данных|сведений)\b",
        r"<sources>( \S+){0,2}? не (отвеча\w* (\S+ )?на\b|(упомина|указыва|содерж|сообща|говор|уточня|да[еюё]т|привод|описыва|называ|раскрыва)\w*)",
        r"\bв (\S+ )?<sources>( \S+){0,3}? (информаци|ответ|сведени)\w*( \S+){0,3}? отсутству\w+",
        r"\bв (\S+ )?<sources>( \S+){0,4}? (нет|отсутствует|отсутствуют|не хватает|недостаточно) (\S+ )?(информаци|ответ|сведени|упоминани|данн)\w*",
        r"\bв (\S+ )?<sources>( \S+){0,6}? не (указан|упомянут|упомина|сказан|говорит|назван|содерж|привод|описан|уточня)\w*|\bне (указан|упомянут|назван|описан)\w* в (\S+ )?<sources>",
        r"\b(недостаточно|нет|нет достаточной) (информации|сведений|данных для ответа)\b",
        r"^\W*(неизвестно|не указано|не известно|нет данных|нет ответа|нет информации|ответ неизвестен|не знаю)\W*$",
        r"^\W*(невозможно|нельзя) (\S+ ){0,3}?(ответить|определить|сказать|установить)\b",
        r"^\W*(извините|простите|к сожалению|мне жаль)\W*$",
    ],
    hints: r"\b(нет|без|недостаточно|отсутств\w+) (\S+ )?(информаци|ответ|сведени|упоминани|данн)\w*|\bне (\S+ )?(указан|упомина|упомянут|уточн|известн|ясн|ответ|определ)\w*|\b(неизвестн\w+|неясно|невозможно|к сожалению|извините)\b",
    goes_on: r"\b(но|однако|хотя|тем не менее|кроме|зато|при этом|тогда как)\b",
    apology: r"^\W*(извините|простите|к сожалению|мне жаль)\W+(но )?",
    conditional: r"^\W*если\b",
};

const ARABIC: RefusalPatterns = RefusalPatterns {
    words: &["لا", "لم", "لست", "غير", "ليس", "عذر", "اسف", "اعتذر", "مجهول", "مستحيل", "دون", "تعذر"],
    sources: r"((ال)?(مصادر|مصدر|سياق|وثائق|وثيقة|مستندات|مستند|مقاطع|مقطع)|النص المقدم|المعلومات (المقدمة|المتاحة|المتوفرة|المعطاة))",
    declines: &[
        r"(لا (أعرف|أعلم|نعرف|نعلم|أدري)|لست أدري)(\W|$)",
        r"(لا (أستطيع|يمكنني|يمكننا|نستطيع)|لم (أتمكن من|أستطع|أجد)|^\W*((عذرا|للأسف|آسف)\W+)?تعذر)( \S+){0,4}? ?(ال)?(إجابة|الإجابة|تحديد|تحديده|معرفة|العثور|أجيب|القول|إجابته|جوابا?)",
        r"^\W*(لا يمكن|يتعذر) (الإجابة|تحديد|معرفة)",
        r"(لا (تجيب|يجيب)|لم (تجب|يجب)|(لا|لم) (تذكر|يذكر|تحدد|يحدد|تحتوي|يحتوي|تتضمن|يتضمن|توضح|يوضح|تقدم|يقدم|توفر|يوفر|تشير|يشير|تورد|يرد)) (\S+ ){0,2}?<sources>",
        r"<sources>( \S+){0,2}? (لا (تجيب|يجيب)|لم (تجب|يجب)|(لا|لم) (تذكر|يذكر|تحدد|يحدد|تحتوي|يحتوي|تتضمن|يتضمن|توضح|يوضح|تقدم|يقدم|توفر|يوفر|تشير|يشير))",
        r"(لم|لا) (يذكر|يرد|تذكر|ترد|يحدد)( \S+){0,3}? في (هذه |هذا )?<sources>",
        r"(لا توجد|لا يوجد|ليس هناك|ليست هناك|لا تتوفر|لا تتوافر)( لدي)? (أي )?(معلومات|إجابة|معلومة|جواب|ذكر)",
        r"(ليس لدي|ليست لدي|لا أملك) (أي )?(معلومات|إجابة|جواب)",
        r"^\W*(غير معروف|غير معروفة|غير معلوم|غير مذكور|غير محدد|غير متوفر|غير متاح|معلومات غير كافية|لا إجابة|بدون إجابة|مجهول)\W*$",
        r"^\W*(آسف|عذرا|للأسف|أعتذر)\W*$",
    ],
    hints: r"(لا|لم|غير|ليس|دون) (\S+ )?(معلومات|إجابة|ذكر|مذكور|معروف|واضح|كافية|متوفر|محدد)|(للأسف|عذرا|آسف|مستحيل|تعذر)",
    goes_on: r"(^|\W)(و?لكن|لكنه|لكنها|غير أن|إلا أن|رغم|ومع ذلك|باستثناء|بينما)(\W|$)",
    apology: r"^\W*(آسف|عذرا|للأسف|أعتذر)\W+(و?لكن )?",
    conditional: r"^\W*(إذا|إن (لم|كان|كانت))\s",
};

const HINDI: RefusalPatterns = RefusalPatterns {
    words: &["नहीं", "अज्ञात", "असंभव", "क्षमा", "माफ", "खेद", "दुर्भाग्य", "अपर्याप्त"],
    sources: r"(स्रोत(ों)?|संदर्भ|दस्तावेज\x{93C}?(ों)?|अनुच्छेद(ों)?|(दी गई|उपलब्ध|प्रदान की गई) जानकारी)",
    declines: &[
        r"(मुझे|हमें) (\S+ ){0,4}?(नहीं पता|पता नहीं|नहीं मालूम|मालूम नहीं|जानकारी नहीं)",
        r"मैं (\S+ ){0,4}?(नहीं जानता|नहीं जानती)",
        r"(उत्तर|जवाब) (\S+ ){0,2}?नहीं (दे सकता|दे सकती|दे सकते|दिया जा सकता|मिला|मिलता|पता)",
        r"<sources> (\S+ ){0,10}?(उत्तर|जवाब|जानकारी|उल्लेख|विवरण) (\S+ ){0,2}?(नहीं|उपलब्ध नहीं)",
        r"(उत्तर|जवाब|जानकारी|उल्लेख|विवरण) (\S+ ){0,3}?<sources> में (\S+ ){0,2}?नहीं",
        r"(पर्याप्त|कोई|प्रासंगिक) जानकारी (\S+ ){0,2}?नहीं",
        r"(निर्धारित|तय|ज्ञात) नहीं किया जा सकता",
        r"^\W*(अज्ञात|पता नहीं|ज्ञात नहीं|उपलब्ध नहीं|उल्लेख नहीं|अपर्याप्त जानकारी|कोई जानकारी नहीं|कोई उत्तर नहीं|मालूम नहीं)( है)?\W*$",
        r"^\W*(क्षमा करें|माफ\x{93C}? करें|खेद है|मुझे खेद है)\W*$",
    ],
    hints: r"(जानकारी|उत्तर|जवाब|उल्लेख|स्पष्ट|पता|ज्ञात|निश्चित) (\S+ )?नहीं|(अज्ञात|असंभव|क्षमा करें|खेद है|दुर्भाग्य से)",
    goes_on: r"(लेकिन|परंतु|परन्तु|किंतु|मगर|हालांकि|हालाँकि|फिर भी|सिवाय|जबकि)",
    apology: r"^\W*(क्षमा करें|माफ\x{93C}? करें|मुझे खेद है|खेद है|दुर्भाग्य से)( कि)?\W+(लेकिन )?",
    conditional: r"^\W*(यदि|अगर)\s",
};

const CHINESE: RefusalPatterns = RefusalPatterns {
    words: &["没", "沒", "未", "无", "無", "不", "缺", "抱歉", "遗憾", "遺憾"],
    sources: r"(资料|資料|来源|來源|文档|文檔|上下文|材料|文中|(提供|给出|給出|给定|現有|现有|已知|检索到)的?(信息|資訊|内容|內容))",
    declines: &[
        r"(我|我们|我們)(也|并|並|还|還)?(不知道|不清楚|不了解|不确定|無法確定|无法确定|无从得知)",
        r"(我|我们|我們)(无法|無法|不能)(从|根据|從|根據)?[^,]{0,20}?(回答|得知|确定|確定|判断|判斷|获知|得出答案|找到.{0,8}(信息|資訊|答案))",
        r"(^\W*|因此|所以)(无法|無法|不能)(从|根据|從|根據)[^,]{0,8}?<sources>[^,]{0,8}?(回答|得知|确定|確定|判断|判斷|获知|得出答案|找到.{0,8}(信息|資訊|答案))",
        r"(^\W*|因此|所以)(无法|無法)(回答|得知|确定|確定|判断|判斷|获知|得出答案|找到.{0,8}(信息|資訊|答案))",
        r"(因此|所以)不能(回答|得知|确定|確定|判断|判斷|获知|得出答案|找到.{0,8}(信息|資訊|答案))",
        r"<sources>.{0,12}?((没有|沒有|未|并未|並未|并没有)(回答|提及|提到|说明|說明|指出|涉及|明确|明確|记载|記載)|不(回答|提及|提到|说明|說明|指出|涉及(这|這|该|該|此)))([^的]|$)",
        r"<sources>(中|里|裡|内)?.{0,8}?(没有|沒有|不包含|未包含|未提供|未给出|找不到|未找到|缺少|缺乏).{0,12}?(信息|资讯|資訊|答案|内容|內容|说明|說明|记载|記載)",
        r"<sources>.{0,12}?(无法|無法)(回答|得知|确定|確定|判断|判斷|获知)",
        r"(没有|沒有|缺乏|缺少)(足够|足夠|相关|相關)的?(信息|资讯|資訊|资料|資料)",
        r"^\W*(不知道|未知|不详|不詳|不清楚|未提及|未说明|未說明|没有答案|沒有答案|无答案|無答案|信息不足|資訊不足|无可奉告|无法回答|無法回答|没有提到|沒有提到)\W*$",
        r"^\W*(抱歉|对不起|對不起|很抱歉|非常抱歉)\W*$",
    ],
    hints: r"(没有|沒有|未|无|無|缺乏|不足).{0,6}?(信息|資訊|答案|提及|提到|说明|說明|明确|明確|足够|足夠)|(不知道|不清楚|不确定|未知|(无法|無法)(回答|确定|確定|判断|判斷|得知|提供)|抱歉|对不起|對不起|遗憾)",
    goes_on: r"(但是|但|不过|不過|然而|虽然|雖然|尽管|儘管|除了|除非|而是|只是|可是)",
    apology: r"^\W*((非常|很)?抱歉|对不起|對不起|很?遗憾|很?遺憾)(地)?\W*(但是?|不过|不過)?",
    conditional: r"^\W*(如果|若|假如|倘若|(当|當)[^,]{1,40}?(时|時))|^[^,]{0,40}?(时|時)(,|会|會|将|將|就|则|則)",
};

const JAPANESE: RefusalPatterns = RefusalPatterns {
    words: &[
        "ません",
        "ない",
        "不明",
        "不足",
        "不能",
        "申し訳",
        "すみません",
        "残念",
        "なし",
        "かねます",
        "なかった",
        "未記載",
    ],
    sources: r"(資料|情報源|出典|文書|文章|文脈|コンテキスト|ドキュメント|(^|[^リ])ソース|与えられたテキスト|(提供|与え)られ?た?(情報|内容))",
    declines: &[
        r"(わかりません|分かりません|わかりかねます|分かりかねます|存じません|存じ上げません|知りません|わからない|分からない)(。|\W)*$",
        r"(お答え|回答)(する(こと|事)が|することは|が|は)?(でき(ません|ない|ませんでした|なかった)|いたしかねます|しかねます)(。|\W)*$",
        r"(答え|記載|記述|言及|^\W*(回答|情報|説明)|((その|この|該当する|該当の|関連する|に関する|についての|十分な|必要な|質問への|質問に対する)(回答|情報|説明|内容)))(が|は|も|について(の記載)?は)?(一切|特に|十分に|全く|まったく)?(ありません|ありませんでした|ない|見つかりません|見つかりませんでした|含まれていません|されていません|不足しています)(。|\W)*$",
        r"<sources>.{0,30}?(回答|情報|説明|内容)(が|は|も|について(の記載)?は)?(一切|特に|十分に|全く|まったく)?(ありません|ありませんでした|ない|見つかりません|見つかりませんでした|含まれていません|されていません|不足しています)(。|\W)*$",
        r"(答え(られません|られない|られませんでした|ることができません|ることはできません))(。|\W)*$",
        r"<sources>.{0,30}?(答えていません|書かれていません|述べられていません|触れられていません|載っていません|示されていません|記載されていません|言及していません|(判断|特定|確認)できません)(。|\W)*$",
        r"^\W*(不明|回答不能|該当なし|情報なし|情報不足|記載なし|未記載)(です)?\W*$",
        r"^\W*(申し訳ありません|申し訳ございません|すみません|残念ながら)\W*$",
    ],
    hints: r"(情報|答え|回答|記載|記述|言及|説明)(が|は|も)?.{0,6}?(ありません|ない|不足)|(わかりません|分かりません|不明([^确確显顯白]|$)|できません|申し訳|残念ながら|わからない)",
    goes_on: r"(しかし|ただし|ものの|けれども|けれど|一方|以外|を除いて|ませんが|ないが|ですが|ますが)",
    apology: r"^\W*(大変)?(申し訳(ありません|ございません)(が)?|すみません(が)?|残念ながら|恐れ入りますが)\W*",
    conditional: r"場合(は|には)?[、,]|なければ([^な]|$)|たら[、,]",
};

const KOREAN: RefusalPatterns = RefusalPatterns {
    words: &[
        "없",
        "모르",
        "모릅",
        "모름",
        "않",
        "불분명",
        "불확실",
        "불명",
        "죄송",
        "유감",
        "미안",
        "부족",
        "미상",
        "어렵",
        "명시",
        "안타깝",
        "못",
        "힘들",
        "힘듭",
    ],
    sources: r"(자료|출처|문서|문맥|컨텍스트|지문|(제공|제시|주어)(된|진) (정보|내용|자료|문서))(들)?(에서는|에는|에서|만으로는|으로는|로는|만으로|으로|로|에|는|은|가|이)?",
    declines: &[
        r"(모르겠습니다|모릅니다|알 수 없습니다|알지 못합니다|모르겠어요|알 수 없어요|알 수 없음|모름)\W*$",
        r"(^|\s)(답변|대답|답)(을|를|할 수|하실 수|드릴 수|해 드릴 수)? ?(할 수 |드릴 수 )?(없습니다|없어요|없음|어렵습니다)\W*$",
        r"(^|\s)(답변|대답|답)(을|를)? ?(드리기|하기)(가|는)? ?(어렵습니다|힘듭니다)\W*$",
        r"((^|\s)(답|답변)|(^\W*|에 대한 |에 관한 |관련 |관련된 |해당 |충분한 |필요한 )(정보|언급|설명|내용)|<sources> (\S+ ){0,8}?(정보|언급|설명|내용))(이|가|은|는|도|을|를)? ?(전혀 |충분히 |명시적으로 )?(없습니다|없어요|없음|부족합니다|포함되어 있지 않습니다|나와 있지 않습니다|찾을 수 없습니다)\W*$",
        r"<sources> (\S+ ){0,8}?(언급되지 않았습니다|언급되어 있지 않습니다|나와 있지 않습니다|명시되어 있지 않습니다|제시되어 있지 않습니다|(확인|판단|알|특정할)(할)? 수 없습니다|답하지 않습니다|언급하지 않습니다|설명하지 않습니다)\W*$",
        r"^\W*(알 수 없음|모름|미상|불명|정보 없음|정보 부족|답 없음|해당 없음|언급 없음)\W*$",
        r"^\W*(죄송합니다|미안합니다|유감입니다)\W*$",
    ],
    hints: r"(^|\s)(정보|답|답변|언급|설명|기록)(이|가|은|는|도)? ?(\S+ )?(없|부족)|(알 수 없|모르|모릅|불분명|불확실|죄송|유감|명시되)",
    goes_on: r"(하지만|그러나|다만|그렇지만|지만|제외하고|외에는|반면)",
    apology: r"^\W*(죄송합니다만|죄송하지만|죄송합니다|미안하지만|안타깝게도|유감스럽게도)\W*",
    conditional: r"(으면|[하되라]면|경우(에는|엔|는)?)(,|\s)",
};

/// All languages except English.
const PATTERNS: [&RefusalPatterns; 14] = [
    &GERMAN,
    &FRENCH,
    &SPANISH,
    &PORTUGUESE,
    &ITALIAN,
    &DUTCH,
    &POLISH,
    &TURKISH,
    &RUSSIAN,
    &ARABIC,
    &HINDI,
    &CHINESE,
    &JAPANESE,
    &KOREAN,
];

/// Replaces the forms of the Arabic letter alif with hamza or madda by plain alif.
pub(super) fn without_hamza(text: &str) -> String {
    text.replace(['أ', 'إ', 'آ'], "ا")
}

/// The compiled phrases of each language except English.
pub(super) static PHRASES: LazyLock<Vec<RefusalPhrases>> = LazyLock::new(|| {
    let compiled = |patterns: &&RefusalPatterns| {
        let of = |text: &str| {
            let text = text.replace("<sources>", patterns.sources).replace(" ?", r"\s*").replace(' ', r"\s+");
            pattern(&without_hamza(&text))
        };
        RefusalPhrases {
            words: patterns.words,
            declines: of(&patterns.declines.join("|")),
            hints: of(patterns.hints),
            goes_on: of(patterns.goes_on),
            apology: of(patterns.apology),
            conditional: of(patterns.conditional),
        }
    };
    PATTERNS.iter().map(compiled).collect()
});
