//! Languages by name, and detection of the language of a text.
//!
//! The crate `whatlang` detects languages by script and trigrams. It seldom recognises a
//! text of a few words with certainty, so detection returns an `Option`, and the caller
//! decides which language to use instead.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{borrow::Cow, cmp::Ordering, fmt, sync::LazyLock};
use whatlang::{Detector, Lang, detect};

/// How many letters a text must have for [`Language::of`] to detect its language.
pub(super) const FEWEST_LETTERS: usize = 200;

/// A language. Settings and files hold its English name in lower case, such as `german` or `chinese`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Language(Lang);

impl Language {
    /// English.
    pub const ENGLISH: Self = Self(Lang::Eng);
    /// Russian.
    pub(super) const RUSSIAN: Self = Self(Lang::Rus);

    /// All languages, in alphabetical order of their names.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Lang::all().iter().copied().map(Self).collect();
        all.sort();
        all
    }

    /// Its English name in lower case.
    pub fn name(self) -> &'static str {
        match self.0 {
            Lang::Cmn => "chinese",
            Lang::Nob => "norwegian",
            other => &SMALL_NAMES[other as usize],
        }
    }

    /// Its English name as sentences write it: `German`.
    pub fn title(self) -> String {
        let mut title = self.name().to_owned();
        title[..1].make_ascii_uppercase();
        title
    }

    /// The language with this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        Lang::all().iter().copied().map(Self).find(|language| language.name() == name)
    }

    /// The language in the crate `whatlang`.
    pub fn lang(self) -> Lang {
        self.0
    }

    /// The language of a text; `None` if the text has fewer than 200 letters, or if no
    /// language is clearly more probable than all others.
    pub fn of(text: &str) -> Option<Self> {
        text.chars().filter(|c| c.is_alphabetic()).nth(FEWEST_LETTERS - 1)?;
        Self::detected(text)
    }

    /// The language of a text of any length; `None` if no language is clearly more probable than all others.
    pub fn detected(text: &str) -> Option<Self> {
        detect(text).filter(whatlang::Info::is_reliable).map(|info| Self(info.lang()))
    }

    /// The one of these languages that a text of any length is in; `None` if none of them is
    /// clearly more probable than the others. A single language is returned without detection.
    pub fn among(text: &str, languages: &[Self]) -> Option<Self> {
        if let [only] = languages {
            return Some(*only);
        }
        let detector = Detector::with_allowlist(languages.iter().map(|language| language.0).collect());
        let found = detector.detect(text).filter(whatlang::Info::is_reliable).map(|info| Self(info.lang()));
        // If only one language uses a script (Korean, Thai), `whatlang` returns it even if it is not in the list.
        found.filter(|language| languages.contains(language))
    }
}

impl From<Lang> for Language {
    fn from(lang: Lang) -> Self {
        Self(lang)
    }
}

impl Ord for Language {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Language {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Language {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Language {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'_, str>::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| D::Error::custom(unknown(&name)))
    }
}

/// The setting `language` of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum LanguageChoice {
    /// The language of each document and each question is detected.
    #[default]
    Auto,
    /// All texts are in this language.
    Named(Language),
}

const AUTO: &str = "auto";

impl LanguageChoice {
    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => AUTO,
            Self::Named(language) => language.name(),
        }
    }

    /// The language; `None` for `auto`.
    pub fn language(self) -> Option<Language> {
        match self {
            Self::Auto => None,
            Self::Named(language) => Some(language),
        }
    }
}

impl Serialize for LanguageChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for LanguageChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'_, str>::deserialize(deserializer)?;
        if name == AUTO {
            return Ok(Self::Auto);
        }
        Language::named(&name).map(Self::Named).ok_or_else(|| D::Error::custom(unknown(&name)))
    }
}

impl JsonSchema for LanguageChoice {
    fn schema_name() -> Cow<'static, str> {
        "LanguageChoice".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = std::iter::once(AUTO).chain(Language::all().into_iter().map(Language::name)).collect();
        json_schema!({ "description": "`auto`, or a language by its English name.", "type": "string", "enum": names })
    }
}

fn unknown(name: &str) -> String {
    format!("`{name}` is no language that is known here; write its English name in small letters, such as \"german\"")
}

/// English names in lower case, in the order of [`Lang`].
static SMALL_NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| Lang::all().iter().map(|lang| lang.eng_name().to_lowercase()).collect());

#[cfg(test)]
mod tests {
    use super::*;

    const GERMAN: &str = "Das Paketverwaltungssystem löst Abhängigkeiten selbst auf und entfernt Pakete, die nicht mehr \
                          gebraucht werden. Wer eine ältere Version behalten will, hält das Paket fest. Danach wird es \
                          bei keiner Aktualisierung des Systems angefasst, bis die Sperre aufgehoben ist.";

    #[test]
    fn every_language_is_found_by_its_name() {
        for language in Language::all() {
            assert_eq!(Language::named(language.name()), Some(language));
            assert_eq!(language.name(), language.name().to_lowercase());
        }
        assert!(Language::all().is_sorted());
        assert_eq!(Language::named("chinese").map(Language::lang), Some(Lang::Cmn));
        assert_eq!(Language::named("German"), None);
    }

    #[test]
    fn settings_are_written_by_name_and_an_unknown_name_is_refused() {
        let read = |text: &str| serde_json::from_str::<LanguageChoice>(text);
        assert_eq!(read("\"auto\"").unwrap(), LanguageChoice::Auto);
        let german = read("\"german\"").unwrap();
        assert_eq!(german.language(), Language::named("german"));
        assert_eq!(serde_json::to_string(&german).unwrap(), "\"german\"");
        assert!(read("\"germn\"").unwrap_err().to_string().contains("germn"));
    }

    #[test]
    fn a_text_is_recognised_if_it_is_long_enough() {
        assert_eq!(Language::of(GERMAN), Language::named("german"));
        assert_eq!(Language::of("Das Paket"), None);
        assert_eq!(Language::of(&"7 ".repeat(500)), None);
        let japanese = "パッケージ管理システムは依存関係を自動的に解決します。".repeat(12);
        assert_eq!(Language::of(&japanese), Language::named("japanese"));
    }

    #[test]
    fn a_short_text_is_told_apart_by_its_script_or_belongs_to_the_only_language() {
        let named = |name| Language::named(name).unwrap();
        let both = [named("english"), named("japanese")];
        assert_eq!(Language::among("設定ファイル", &both), Some(both[1]));
        assert_eq!(Language::among("xterm", &both[..1]), Some(both[0]));
        assert_eq!(Language::among("설치 방법", &both), None);
    }
}
