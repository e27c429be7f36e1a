//! Lists of texts as they stand in a cell of a CSV file.
//!
//! pandas writes a list as Python shows it: `['it', "isn't"]`; NumPy arrays
//! lack the commas: `['a' 'b']`; careful people write JSON: `["a", "b"]`. All
//! three are read; nothing is ever evaluated.

use serde_json::Value;

/// The texts of a list; empty elements (`None`, `null`, `nan`) are left out.
pub(super) fn list_of_texts(cell: &str) -> Result<Vec<String>, String> {
    match serde_json::from_str::<Value>(cell) {
        Ok(Value::Array(items)) => items
            .into_iter()
            .filter(|item| !item.is_null())
            .map(|item| match item {
                Value::String(text) => Ok(text),
                other => Err(format!("a list of texts is needed, but it holds {other}")),
            })
            .collect(),
        _ => Parser { rest: cell.trim() }.list(),
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn list(mut self) -> Result<Vec<String>, String> {
        if !self.take("[") && !self.take("(") {
            return Err("a list such as [\"one text\", \"another\"] is needed".to_owned());
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
        if self.rest.trim().is_empty() {
            Ok(texts)
        } else {
            Err(format!("there is more after the list: {:.40}", self.rest))
        }
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

    fn text(&mut self) -> Result<String, String> {
        let mut characters = self.rest.chars();
        let quote = match characters.next() {
            Some(quote @ ('\'' | '"')) => quote,
            Some(_) => return Err(format!("a text in quotation marks is needed at: {:.40}", self.rest)),
            None => return Err("the list has no end".to_owned()),
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
        Err("a text of the list has no end: it lacks its quotation mark".to_owned())
    }
}

fn code_point(characters: &mut std::str::Chars<'_>, n_digits: usize) -> Result<char, String> {
    let digits: String = characters.by_ref().take(n_digits).collect();
    u32::from_str_radix(&digits, 16)
        .ok()
        .filter(|_| digits.len() == n_digits)
        .and_then(char::from_u32)
        .ok_or_else(|| format!("`{digits}` is no character code"))
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
