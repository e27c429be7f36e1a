//! Removes secrets from text that arrives in pieces: a gateway may send our
//! headers back, and cut them anywhere.

/// The replacement of a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// A text that arrives in pieces, without secrets. Text that may be the
/// beginning of a secret is held back until it is known not to be one; this is
/// never more than the longest secret.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    /// The longest first: one may hold another.
    secrets: Vec<String>,
    held: String,
}

impl Redactor {
    /// Takes out these secrets, the longest of which is first.
    pub(super) fn new(secrets: Vec<String>) -> Self {
        Self { secrets, held: String::new() }
    }

    /// Takes a piece, and returns the text that is known to hold no secret.
    /// However the text is cut, the whole returned text is the same.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        self.release(false)
    }

    /// The rest, at the end of the text.
    pub(crate) fn end(mut self) -> String {
        self.release(true)
    }

    fn release(&mut self, at_end: bool) -> String {
        let mut clean = String::with_capacity(self.held.len());
        let mut rest = self.held.as_str();
        while let Some(first) = rest.chars().next() {
            if !at_end && self.secrets.iter().any(|secret| secret.len() > rest.len() && secret.starts_with(rest)) {
                break;
            }
            match self.secrets.iter().find(|secret| rest.starts_with(secret.as_str())) {
                Some(secret) => {
                    clean.push_str(REDACTED);
                    rest = &rest[secret.len()..];
                }
                None => {
                    clean.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        self.held = rest.to_owned();
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRETS: [&str; 3] = ["sk-secret-and-longer", "sk-secret", "ünsafe-key"];

    /// The pieces that come out for pieces of so many characters.
    fn pieces(text: &str, size: usize) -> Vec<String> {
        let mut redactor = Redactor::new(SECRETS.map(str::to_owned).to_vec());
        let characters: Vec<char> = text.chars().collect();
        let parts = characters.chunks(size).map(|part| part.iter().collect::<String>());
        let mut pieces: Vec<String> = parts.map(|part| redactor.push(&part)).collect();
        pieces.push(redactor.end());
        pieces
    }

    #[test]
    fn a_secret_is_found_however_it_is_cut() {
        let text = "key sk-secret, sk-secret-and-longer, sk-sesk-secret, ünsafe-key and sk-secret-and-long";
        let expected = "key [redacted], [redacted], sk-se[redacted], [redacted] and [redacted]-and-long";
        for size in 1..=text.chars().count() {
            let pieces = pieces(text, size);
            assert_eq!(pieces.concat(), expected, "in pieces of {size}");
            assert!(pieces.iter().all(|piece| !piece.contains("sk-secret")));
        }
    }

    #[test]
    fn only_what_may_become_a_secret_is_held_back() {
        assert_eq!(pieces("a desk-", 1), ["a", " ", "d", "e", "", "", "", "sk-"]);
        assert_eq!(pieces("a task.", 1), ["a", " ", "t", "a", "", "", "sk.", ""]);
        assert_eq!(Redactor::new(Vec::new()).push("sk-"), "sk-");
    }
}
