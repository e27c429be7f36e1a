//! The marks of lists.

/// Whether a word is the mark of an item: a bullet, or a number or letter with a point or bracket.
pub(super) fn is_mark(word: &str) -> bool {
    is_bullet(word) || is_number(word)
}

/// Whether a text is the number of a section, such as `3.14`.
pub(super) fn is_section_number(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
        && text.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
}

pub(super) fn is_bullet(word: &str) -> bool {
    matches!(
        word,
        "•" | "◦"
            | "▪"
            | "‣"
            | "–"
            | "·"
            | "-"
            | "*"
            | "∙"
            | "●"
            | "○"
            | "■"
            | "□"
            | "▸"
            | "►"
            | "➢"
            | "✓"
            | "\u{f0b7}"
            | "\u{f0a7}"
    )
}

pub(super) fn is_number(word: &str) -> bool {
    let inner = word.strip_prefix('(').unwrap_or(word);
    let Some(inner) = inner.strip_suffix(['.', ')']) else { return false };
    let is_digits = inner.len() <= 3 && !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_digit());
    let is_letter = inner.chars().count() == 1 && inner.chars().all(char::is_alphabetic);
    let is_roman =
        inner.len() <= 5 && !inner.is_empty() && inner.bytes().all(|byte| matches!(byte, b'i' | b'v' | b'x'));
    is_digits || is_roman || is_letter && (word.ends_with(')') || word.starts_with(char::is_lowercase))
}
