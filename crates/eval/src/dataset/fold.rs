//! Folds texts, so that white space, typography and hyphens do not count when they are compared.

use rag::Span;

/// Differences between two texts that are ignored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fold {
    /// White space and typography.
    Typography,
    /// Hyphens too.
    Hyphens,
    /// Everything but letters and digits, and case: what remains when a text was turned into Markdown, or read by
    /// another parser.
    Letters,
}

/// The folded form of a text.
pub(super) fn folded(text: &str, level: Fold) -> String {
    fold(text, level).map(|(c, _, _)| c).collect()
}

/// The span of the text for these bytes of its folded form.
pub(super) fn unfold(text: &str, first: usize, end: usize, level: Fold) -> Option<Span> {
    let mut position = 0;
    let mut span: Option<Span> = None;
    for (c, start_in_text, end_in_text) in fold(text, level) {
        if position >= end {
            break;
        }
        position += c.len_utf8();
        if position > first {
            let start = span.map_or(start_in_text, |span| span.start);
            span = Some(Span { start, end: end_in_text });
        }
    }
    span
}

/// The characters of the folded form, each with its start and end in the text.
pub(super) fn fold(text: &str, level: Fold) -> impl Iterator<Item = (char, usize, usize)> + '_ {
    text.char_indices().flat_map(move |(start, c)| {
        let end = start + c.len_utf8();
        let letters: &'static str = match c {
            'ﬀ' => "ff",
            'ﬁ' => "fi",
            'ﬂ' => "fl",
            'ﬃ' => "ffi",
            'ﬄ' => "ffl",
            'ﬅ' | 'ﬆ' => "st",
            '…' => "...",
            '‘' | '’' | '‚' | '‛' | '′' | '`' => "'",
            '“' | '”' | '„' | '‟' | '″' | '«' | '»' => "\"",
            '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' => match level {
                Fold::Typography => "-",
                Fold::Hyphens | Fold::Letters => "",
            },
            _ => "",
        };
        let dropped = !letters.is_empty()
            || c.is_whitespace()
            || matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}')
            || matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FEFF}');
        let itself = if dropped { None } else { Some(c) };
        letters.chars().chain(itself).filter_map(move |c| match level {
            Fold::Typography | Fold::Hyphens => Some((c, start, end)),
            Fold::Letters => c.is_alphanumeric().then(|| (c.to_lowercase().next().unwrap_or(c), start, end)),
        })
    })
}
