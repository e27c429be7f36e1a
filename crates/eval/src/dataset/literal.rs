//! Reads lists of texts in a cell of a CSV file.
//!
//! pandas writes a list as Python shows it: `['it', "isn't"]`; NumPy arrays
//! lack the commas: `['a' 'b']`; JSON is `["a", "b"]`. All three are read; nothing
//! is evaluated.

use serde_json::Value;

/// Why a cell holds no list of texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LiteralError {
    #[error("a list of texts is needed, but it holds {0}")]
    NotText(String),
    #[error("a list such as [\"one text\", \"another\"] is needed")]
    NoList,
    #[error("there is more after the list: {0:.40}")]
    TrailingText(String),
    #[error("a text in quotation marks is needed at: {0:.40}")]
    NoQuotationMark(String),
    #[error("the list has no end")]
    OpenList,
    #[error("a text of the list has no end: it lacks its quotation mark")]
    OpenText,
    #[error("`{0}` is no character code")]
    NoCharacterCode(String),
}

/// The texts of a list; empty elements (`None`, `null`, `nan`) are left out.
pub(super) fn list_of_texts(cell: &str) -> Result<Vec<String>, LiteralError> {
    match serde_json::from_str::<Value>(cell) {
        Ok(Value::Array(items)) => items
            .into_iter()
            .filter(|item| !item.is_null())
            .map(|item| match item {
                Value::String(text) => Ok(text),
                other => Err(LiteralError::NotText(other.to_string())),
            })
            .collect(),
        _ => ListParser { rest: cell.trim() }.list(),
    }
}

struct ListParser<'a> {
    rest: &'a str,
}

impl ListParser<'_> {
    fn list(mut self) -> Result<Vec<String>, LiteralError> {
        if !self.take("[") && !self.take("(") {
            return Err(LiteralError::NoList);
        }
        let mut texts = Vec::new();
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            if self.take("]") || self.take(")") {
                break;
            }
            if ["None", "nan", "null"].iter().any(|word| self.take(word)) {
                continue;
            }
            texts.push(self.text()?);
        }
        if self.rest.trim().is_empty() { Ok(texts) } else { Err(LiteralError::TrailingText(self.rest.to_owned())) }
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn text(&mut self) -> Result<String, LiteralError> {
        let mut characters = self.rest.chars();
        let quote = match characters.next() {
            Some(quote @ ('\'' | '"')) => quote,
            Some(_) => return Err(LiteralError::NoQuotationMark(self.rest.to_owned())),
            None => return Err(LiteralError::OpenList),
        };
        let mut text = String::new();
        while let Some(c) = characters.next() {
            match c {
                c if c == quote => {
                    self.rest = characters.as_str();
                    return Ok(text);
                }
                '\\' => match characters.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('x') => text.push(code_point(&mut characters, 2)?),
                    Some('u') => text.push(code_point(&mut characters, 4)?),
                    Some('U') => text.push(code_point(&mut characters, 8)?),
                    Some(c @ ('\\' | '\'' | '"')) => text.push(c),
                    // Python keeps the backslash before any other character.
                    Some(c) => text.extend(['\\', c]),
                    None => break,
                },
                c => text.push(c),
            }
        }
        Err(LiteralError::OpenText)
    }
}

fn code_point(characters: &mut std::str::Chars<'_>, n_digits: usize) -> Result<char, LiteralError> {
    let digits: String = characters.by_ref().take(n_digits).collect();
    u32::from_str_radix(&digits, 16)
        .ok()
        .filter(|_| digits.len() == n_digits)
        .and_then(char::from_u32)
        .ok_or(LiteralError::NoCharacterCode(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_python_and_numpy_lists_are_read() {
        for cell in [r#"["it", "isn't"]"#, r#"['it', "isn't"]"#, "['it'\n \"isn't\"]", r"['it', 'isn\'t', None]"] {
            assert_eq!(list_of_texts(cell).unwrap(), ["it", "isn't"], "{cell}");
        }
        assert!(list_of_texts("[]").unwrap().is_empty());
    }

    #[test]
    fn python_escapes_are_undone() {
        assert_eq!(list_of_texts(r"['a\nb\t\\\x41\u00e4\U0001F98A \d']").unwrap(), ["a\nb\t\\Aä🦊 \\d"]);
    }

    #[test]
    fn what_is_no_list_of_texts_is_refused() {
        for cell in ["", "text", "['a'", "['a", "[1]", "['a'] x", r"['\u00']", "[\"a\", 1]", "{'a': 1}", "['a\\"] {
            assert!(list_of_texts(cell).is_err(), "{cell}");
        }
    }
}
