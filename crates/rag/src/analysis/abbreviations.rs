//! Abbreviations of many languages: the full stop after them does not end a
//! sentence.
//!
//! The lists have only abbreviations that are followed by other words. Abbreviations that often
//! end a sentence (`usw.`, `etc.`) are not listed: in the middle of a sentence a small
//! letter follows them, and no sentence ends before a small letter. Abbreviations that are
//! spelt like frequent words, such as the Spanish `no`, are not listed either. Single letters
//! and letters with full stops between them (`z.B.`, `т. е.`) are recognised without a list.

use whatlang::Lang;

/// The abbreviations of a language, in lower case and without the last full stop: its own list (the English
/// one if it has none), and [`TITLES`].
pub(super) fn abbreviations(language: Option<Lang>) -> [&'static [&'static str]; 2] {
    let own: &[&str] = match language {
        Some(Lang::Deu) => GERMAN,
        Some(Lang::Fra) => FRENCH,
        Some(Lang::Spa) => SPANISH,
        Some(Lang::Cat) => CATALAN,
        Some(Lang::Por) => PORTUGUESE,
        Some(Lang::Ita) => ITALIAN,
        Some(Lang::Ron) => ROMANIAN,
        Some(Lang::Nld | Lang::Afr) => DUTCH,
        Some(Lang::Swe) => SWEDISH,
        Some(Lang::Dan | Lang::Nob) => DANISH_NORWEGIAN,
        Some(Lang::Fin) => FINNISH,
        Some(Lang::Est) => ESTONIAN,
        Some(Lang::Lav) => LATVIAN,
        Some(Lang::Lit) => LITHUANIAN,
        Some(Lang::Rus | Lang::Bel) => RUSSIAN,
        Some(Lang::Ukr) => UKRAINIAN,
        Some(Lang::Bul | Lang::Mkd) => BULGARIAN,
        Some(Lang::Pol) => POLISH,
        Some(Lang::Ces | Lang::Slk) => CZECH_SLOVAK,
        Some(Lang::Hrv | Lang::Slv) => CROATIAN_SLOVENE,
        Some(Lang::Srp) => SERBIAN,
        Some(Lang::Hun) => HUNGARIAN,
        Some(Lang::Tur | Lang::Aze) => TURKISH,
        Some(Lang::Ell) => GREEK,
        Some(Lang::Ara | Lang::Pes | Lang::Urd) => ARABIC,
        Some(Lang::Hin | Lang::Mar | Lang::Nep) => HINDI,
        Some(Lang::Vie) => VIETNAMESE,
        Some(Lang::Ind | Lang::Jav) => INDONESIAN,
        _ => ENGLISH,
    };
    [own, TITLES]
}

/// Abbreviations of single letters that often end a sentence. A full stop after them ends it, as after other
/// words.
pub(super) fn closing_phrases(language: Option<Lang>) -> &'static [&'static str] {
    match language {
        Some(Lang::Rus | Lang::Bel | Lang::Bul) => &["т. д", "т. п", "т.д", "т.п", "н. э", "н.э"],
        Some(Lang::Ukr) => &["т. д", "т. п", "т.д", "т.п", "н. е", "н.е"],
        Some(Lang::Deu) => &["u. s. w", "u.s.w", "e. v", "e.v"],
        Some(Lang::Nld) => &["e.d", "e.a", "n.v", "b.v"],
        Some(Lang::Spa | Lang::Por | Lang::Ita | Lang::Fra | Lang::Cat) => {
            &["s.a", "s.l", "s.p.a", "s.r.l", "a.m", "p.m"]
        }
        Some(Lang::Dan | Lang::Nob) => &["m.m", "m. m", "o.l", "o. l"],
        Some(Lang::Swe) => &["m.m", "m. m", "o.d", "o.s.v", "o. s. v"],
        Some(Lang::Pol) => &["o.o", "s.a", "n.e", "p.n.e"],
        Some(Lang::Ell) => &["κ.α", "κ.λπ", "π.μ", "μ.μ"],
        Some(Lang::Lav) => &["u.c", "u. c"],
        _ => &["a.m", "p.m", "u.s", "u.s.a"],
    }
}

/// Titles and references that are written in nearly every European language.
const TITLES: &[&str] = &["cf", "dr", "fig", "mr", "mrs", "ms", "prof", "vgl", "vs"];

const ENGLISH: &[&str] = &[
    "al", "approx", "capt", "col", "e.g", "ed", "gen", "gov", "i.e", "jr", "lt", "no", "pp", "rep", "resp", "rev",
    "sec", "sen", "sgt", "sr", "st", "vol",
];

const GERMAN: &[&str] = &[
    "abb", "abk", "abs", "abschn", "allg", "anh", "anl", "anm", "apr", "aufl", "aug", "bd", "bde", "betr", "bez",
    "bspw", "bzgl", "bzw", "ca", "dez", "dgl", "dipl", "eigtl", "einschl", "engl", "entspr", "erw", "evtl", "exkl",
    "fa", "feb", "febr", "fn", "fr", "franz", "frz", "geb", "gegr", "gem", "gest", "ggf", "griech", "hr", "hrn",
    "hrsg", "ing", "inkl", "insb", "insbes", "ital", "jan", "jh", "jhd", "jul", "jun", "kap", "kath", "kfm", "lat",
    "lfd", "lt", "max", "med", "min", "mind", "mio", "mrd", "mär", "nachf", "nov", "nr", "nrn", "okt", "phil", "pos",
    "prot", "rd", "resp", "russ", "röm", "sep", "sept", "sog", "span", "spez", "st", "str", "tab", "techn", "teilw",
    "tel", "tsd", "ugs", "urspr", "usf", "verf", "versch", "vorm", "wg", "zb", "zit", "zt", "ztr", "zzgl", "übers",
];

const FRENCH: &[&str] = &[
    "app", "apr", "av", "boul", "bull", "c.-à-d", "ca", "ch", "chap", "cit", "coll", "dir", "déc", "env", "ex", "fasc",
    "févr", "ill", "inf", "janv", "juil", "libr", "loc", "mgr", "mlle", "mme", "mmes", "nov", "n°", "obs", "oct", "op",
    "p.ex", "pl", "pp", "réf", "sup", "suppl", "trad", "tél", "voy", "éd", "éds",
];

const SPANISH: &[&str] = &[
    "abr", "admón", "ago", "aprox", "art", "arts", "avda", "bco", "c/", "cap", "caps", "cit", "coord", "cía", "dcha",
    "depto", "dic", "dpto", "dra", "dres", "dª", "dña", "ed", "eds", "ej", "ene", "excmo", "fdo", "feb", "gral",
    "ilmo", "ing", "izda", "izq", "lic", "máx", "mín", "nov", "núm", "núms", "oct", "op", "p.ej", "pdte", "pl", "pral",
    "prov", "pza", "pág", "págs", "párr", "ref", "sept", "sr", "sra", "sras", "sres", "srta", "ss", "sta", "sto",
    "tel", "trad", "tít", "ud", "uds", "vd", "vds", "vol",
];

const CATALAN: &[&str] = &[
    "aprox", "av", "cia", "dra", "ed", "ex", "fig", "gral", "màx", "mín", "núm", "núms", "p.ex", "pàg", "pàgs", "sr",
    "sra", "srs", "sta",
];

const PORTUGUESE: &[&str] = &[
    "abr", "ago", "aprox", "art", "arts", "av", "cap", "caps", "cia", "cit", "coord", "dez", "dra", "dras", "drs",
    "ed", "eng", "enga", "ex", "exa", "exma", "exmo", "fev", "gov", "ilmo", "jan", "máx", "mín", "nov", "nº", "núm",
    "obs", "op", "org", "orgs", "out", "pe", "profa", "profª", "pág", "págs", "pça", "ref", "rev", "sr", "sra", "sras",
    "srs", "srta", "sta", "sto", "tel", "trad", "vol",
];

const ITALIAN: &[&str] = &[
    "all", "app", "arch", "art", "artt", "avv", "cap", "capp", "cfr", "cit", "cons", "dic", "dir", "dott", "dott.ssa",
    "ed", "egr", "es", "fasc", "febbr", "genn", "gent", "geom", "ill", "ing", "lett", "max", "mons", "nn", "nov", "on",
    "op", "ott", "pag", "pagg", "par", "pp", "prof.ssa", "proff", "rag", "rif", "sec", "sett", "sez", "sig", "sig.ra",
    "sigg", "spett", "suppl", "tab", "tel", "trad", "v.le", "vol",
];

const ROMANIAN: &[&str] = &[
    "alin", "aprox", "art", "aug", "bd", "conf", "d-na", "d-nul", "dec", "dl", "dlui", "dna", "ex", "febr", "ian",
    "lit", "mart", "max", "min", "mun", "nov", "nr", "obs", "oct", "pag", "sec", "sept", "sf", "str", "tel", "trad",
    "vol", "ș.a",
];

const DUTCH: &[&str] = &[
    "a.u.b", "afb", "afd", "apr", "art", "aug", "bijl", "bijv", "blz", "bv", "ca", "d.w.z", "dec", "dhr", "drs", "evt",
    "excl", "fa", "feb", "geb", "gebr", "hfst", "hr", "i.p.v", "i.v.m", "incl", "ing", "inz", "ir", "jan", "jhr", "jl",
    "m.a.w", "m.b.t", "max", "mej", "mevr", "mgr", "min", "mld", "mln", "mrt", "mw", "nl", "nov", "nr", "nrs", "o.a",
    "okt", "ong", "opm", "pag", "par", "resp", "sept", "st", "t.a.v", "t.o.v", "tab", "tel", "uitg", "verg", "vert",
    "vgl", "zgn",
];

const SWEDISH: &[&str] = &[
    "adj", "alt", "anm", "apr", "aug", "avd", "bl.a", "ca", "d.v.s", "dec", "dvs", "e.d", "eg", "ev", "exkl", "f.d",
    "f.n", "f.ö", "feb", "förf", "hr", "inkl", "jan", "jfr", "kap", "kl", "max", "milj", "mkt", "nov", "nr", "obs",
    "okt", "p.g.a", "resp", "s.k", "sept", "sid", "t.ex", "t.o.m", "tab", "tfn", "ung", "uppl",
];

const DANISH_NORWEGIAN: &[&str] = &[
    "adm", "afd", "alm", "anm", "apr", "aug", "avd", "bd", "bet", "bl.a", "ca", "d.v.s", "dec", "des", "dir", "dvs",
    "eks", "ekskl", "evt", "f.eks", "feb", "fhv", "fig", "fork", "forts", "ggr", "gl", "hhv", "hr", "iht", "inkl",
    "int", "jan", "jf", "jfr", "kap", "kgl", "kl", "maks", "mht", "mill", "ndr", "nov", "nr", "obs", "okt", "omkr",
    "opl", "oppl", "pga", "pkt", "resp", "s.k", "sdr", "sept", "sml", "spm", "st", "str", "tab", "tlf", "udg", "vedr",
    "vha",
];

const FINNISH: &[&str] = &[
    "alk", "ao", "ark", "em", "engl", "ent", "esim", "fil", "harv", "henk", "huom", "k.o", "kap", "kpl", "ks", "lis",
    "lut", "maist", "milj", "mrd", "mts", "muist", "nk", "nro", "ns", "nyk", "oik", "os", "puh", "ruots", "saks",
    "siht", "sis", "so", "suom", "synt", "toim", "ts", "us", "vas", "vrt", "yht", "yl",
];

const ESTONIAN: &[&str] =
    &["hr", "ld", "lk", "nn", "nr", "nt", "näit", "pr", "s.o", "s.t", "sh", "st", "tel", "tn", "umb", "vrd", "vt"];

const LATVIAN: &[&str] =
    &["apm", "att", "gs", "iel", "kab", "lpp", "milj", "mljrd", "nod", "nr", "piem", "sal", "sk", "skat", "t.i", "tab"];

const LITHUANIAN: &[&str] = &[
    "doc", "dr", "el", "gim", "kun", "liet", "min", "mln", "mlrd", "mst", "nr", "pan", "past", "pav", "pvz", "red",
    "rus", "sav", "sk", "skg", "str", "t.y", "tel", "tūkst", "vad", "vyr", "žml", "žr",
];

const RUSSIAN: &[&str] = &[
    "авг",
    "авт",
    "адм",
    "акад",
    "англ",
    "апр",
    "букв",
    "вкл",
    "внутр",
    "возм",
    "вып",
    "гл",
    "гос",
    "гр",
    "греч",
    "дек",
    "деп",
    "дер",
    "доп",
    "доц",
    "ед",
    "зав",
    "зам",
    "изд",
    "инж",
    "искл",
    "исп",
    "итал",
    "канд",
    "кв",
    "комм",
    "корп",
    "лат",
    "лит",
    "макс",
    "мкр",
    "млн",
    "млрд",
    "напр",
    "наст",
    "нач",
    "нем",
    "нояб",
    "обл",
    "оз",
    "окр",
    "окт",
    "отд",
    "пер",
    "пл",
    "пос",
    "прим",
    "просп",
    "проф",
    "разд",
    "ред",
    "рис",
    "рус",
    "св",
    "сент",
    "см",
    "сокр",
    "соотв",
    "сост",
    "ср",
    "ст",
    "стр",
    "т.е",
    "т.к",
    "т.н",
    "табл",
    "тел",
    "тж",
    "тов",
    "тыс",
    "ул",
    "упр",
    "ур",
    "февр",
    "франц",
    "экз",
    "янв",
];

const UKRAINIAN: &[&str] = &[
    "акад",
    "англ",
    "буд",
    "бул",
    "вул",
    "гр",
    "див",
    "дол",
    "доц",
    "заст",
    "зб",
    "кв",
    "млн",
    "млрд",
    "напр",
    "наприкл",
    "нім",
    "обл",
    "оз",
    "пер",
    "пл",
    "пор",
    "прим",
    "пров",
    "просп",
    "проф",
    "ред",
    "рис",
    "розд",
    "св",
    "смт",
    "ст",
    "стор",
    "т.зв",
    "табл",
    "тел",
    "тис",
    "укр",
    "ім",
];

const BULGARIAN: &[&str] = &[
    "акад",
    "бел",
    "бул",
    "вж",
    "вкл",
    "вм",
    "гл",
    "гр",
    "доц",
    "ж.к",
    "изд",
    "инж",
    "кв",
    "макс",
    "мин",
    "млн",
    "млрд",
    "напр",
    "обл",
    "пл",
    "прим",
    "проф",
    "св",
    "сл",
    "стр",
    "т.е",
    "т.нар",
    "табл",
    "тел",
    "ул",
    "фиг",
    "хил",
    "чл",
];

const POLISH: &[&str] = &[
    "al", "ang", "art", "bp", "bł", "cz", "dn", "doc", "dot", "dyr", "godz", "grudz", "hab", "inż", "jw", "kard",
    "kol", "kpt", "ks", "kwiec", "lic", "listop", "m.in", "mar", "max", "mec", "mgr", "min", "mjr", "mld", "mln", "np",
    "nr", "os", "paźdz", "pkt", "pl", "plk", "por", "pow", "poz", "pp", "prok", "przyp", "pt", "płk", "red", "ros",
    "rozdz", "ryc", "rys", "sierp", "stycz", "szer", "tab", "tel", "tj", "tow", "tys", "tzn", "tzw", "tłum", "ul",
    "ust", "wg", "woj", "wrz", "ww", "wyd", "zał", "zob", "zw", "łac", "śp", "śr", "św",
];

const CZECH_SLOVAK: &[&str] = &[
    "angl", "arch", "bc", "doc", "dop", "el", "ev", "event", "fr", "hod", "ing", "kap", "kol", "kpt", "lat", "max",
    "mgr", "mil", "min", "mj", "mjr", "mld", "mudr", "napr", "např", "nem", "nám", "něm", "obr", "obv", "odd", "ods",
    "odst", "okr", "ozn", "pl", "plk", "popř", "por", "pov", "pozn", "príp", "písm", "př", "příp", "red", "resp",
    "roz", "sb", "sl", "slov", "sp", "stol", "str", "sv", "tab", "tel", "tis", "tj", "tzn", "tzv", "ul", "vyd", "zast",
    "zb", "zejm", "zn", "zvl", "čes", "čl", "čís",
];

const CROATIAN_SLOVENE: &[&str] = &[
    "br", "dipl", "doc", "dr", "e.g", "engl", "gdin", "gl", "god", "gđa", "ing", "inž", "izd", "kap", "lat", "mag",
    "max", "min", "mlrd", "mr", "npr", "obr", "odst", "oz", "pog", "prev", "pribl", "prim", "sl", "slov", "st", "str",
    "sv", "t.i", "tab", "tel", "tj", "tzv", "ul", "usp", "zv", "čl",
];

const SERBIAN: &[&str] = &[
    "br", "gl", "god", "npr", "odn", "str", "sv", "tj", "tzv", "ul", "čl", "бр", "гл", "год", "гђа", "др", "енгл",
    "изд", "инж", "лат", "мин", "млрд", "мр", "нпр", "одн", "прим", "проф", "св", "сл", "стр", "таб", "тел", "тзв",
    "тј", "ул", "чл",
];

const HUNGARIAN: &[&str] = &[
    "bek", "bp", "br", "cca", "dec", "dk", "dr", "febr", "gr", "id", "ifj", "ill", "int", "ism", "jan", "júl", "jún",
    "kb", "ker", "kgy", "kiad", "kk", "krt", "köt", "ld", "lh", "lt", "max", "min", "mn", "márc", "nov", "nr", "okl",
    "okt", "old", "pl", "pld", "pu", "rkp", "s.k", "sz", "szept", "szerk", "szt", "tel", "tkp", "uo", "vö", "ált",
    "é.n", "özv", "ún",
];

const TURKISH: &[&str] = &[
    "alb", "alm", "apt", "ar", "arş", "bk", "bkz", "bl", "böl", "bşk", "cad", "doç", "dz", "ecz", "ed", "fak", "fr",
    "gön", "hst", "hz", "ing", "kr", "krş", "ltd", "mah", "max", "md", "min", "müh", "no", "nö", "ord", "pl", "sf",
    "sok", "sp", "tic", "uzm", "vd", "yrd", "yy", "çev", "çvş", "ör", "örn", "öğr", "şb",
];

const GREEK: &[&str] = &[
    "αι", "αρ", "αριθ", "βλ", "γρ", "δηλ", "διδ", "δρ", "εικ", "εκ", "εκδ", "καθ", "κεφ", "μετ", "π.χ", "παρ", "πρβλ",
    "σελ", "σημ", "στ", "σχ", "τηλ", "χιλ", "χλμ",
];

const ARABIC: &[&str] = &["د", "أ", "أ.د", "ص", "ج"];

const HINDI: &[&str] = &["इं", "उदा", "कृ", "क्र", "डा", "डॉ", "पं", "प्रो", "रु", "सं", "स्व"];

const VIETNAMESE: &[&str] =
    &["bs", "gs", "ks", "kts", "nxb", "pgs", "st", "stt", "ths", "tp", "tr", "ts", "tt", "tx", "vd"];

const INDONESIAN: &[&str] = &[
    "bpk", "dr", "dra", "drs", "gg", "hj", "hlm", "ir", "jl", "jln", "kab", "kec", "kel", "kep", "mis", "no", "pt",
    "rp", "sdr", "tgl", "tlp", "tsb", "yth",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_are_in_small_letters_without_their_last_full_stop() {
        for language in Lang::all().iter().copied().map(Some).chain([None]) {
            for word in abbreviations(language).concat().into_iter().chain(closing_phrases(language).iter().copied()) {
                assert!(!word.is_empty() && !word.ends_with('.') && word == word.to_lowercase(), "{language:?} {word}");
            }
        }
    }

    #[test]
    fn frequent_words_at_the_end_of_a_sentence_are_no_abbreviations() {
        for (language, words) in [
            (Lang::Spa, &["no", "con", "sin", "sur", "as"][..]),
            (Lang::Ita, &["no", "sì"]),
            (Lang::Deu, &["usw", "etc", "ab", "an", "sie"]),
            (Lang::Fra, &["etc", "al", "pas", "va"]),
            (Lang::Rus, &["я", "он", "там"]),
        ] {
            let listed = abbreviations(Some(language)).concat();
            assert!(words.iter().all(|word| !listed.contains(word)), "{language:?}");
        }
    }
}
