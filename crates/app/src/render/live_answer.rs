//! An answer on a terminal while it is written.

use super::visible;
use models::AnswerPiece;
use std::{
    io::Write,
    sync::{Mutex, PoisonError},
};

/// Prints pieces as they come. If the answer restarts, it is printed again from its
/// beginning, below a line that says so.
pub struct LiveAnswer<W> {
    out: Mutex<LivePage<W>>,
}

struct LivePage<W> {
    out: W,
    /// Whether the line of the cursor has text.
    is_mid_line: bool,
}

impl<W: Write> LiveAnswer<W> {
    /// Prints to this.
    pub fn new(out: W) -> Self {
        Self { out: Mutex::new(LivePage { out, is_mid_line: false }) }
    }

    /// Prints a piece.
    pub fn print(&self, piece: AnswerPiece) {
        match piece {
            AnswerPiece::Text(text) => self.write(&text, true),
            AnswerPiece::Restart => self.write("\n(that attempt failed; the answer from its beginning:)\n", false),
        }
    }

    /// Ends the text, so that an error begins on its own line.
    pub fn break_off(&self) {
        let is_mid_line = self.out.lock().unwrap_or_else(PoisonError::into_inner).is_mid_line;
        if is_mid_line {
            self.write("\n", false);
        }
    }

    fn write(&self, text: &str, is_mid_line: bool) {
        let mut page = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed terminal is not an error.
        let _ = page.out.write_all(visible(text).as_bytes()).and_then(|()| page.out.flush());
        page.is_mid_line = is_mid_line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(pieces: &[AnswerPiece], breaks_off: bool) -> String {
        let live = LiveAnswer::new(Vec::new());
        pieces.iter().cloned().for_each(|piece| live.print(piece));
        if breaks_off {
            live.break_off();
        }
        let page = live.out.into_inner().unwrap();
        String::from_utf8(page.out).unwrap()
    }

    #[test]
    fn pieces_stand_behind_each_other_and_a_new_beginning_below() {
        let text = |text: &str| AnswerPiece::Text(text.to_owned());
        assert_eq!(printed(&[text("The mill"), text(" is old.")], false), "The mill is old.");
        let again = printed(&[text("The m"), AnswerPiece::Restart, text("It is"), text(" old.")], false);
        assert!(again.starts_with("The m\n(") && again.ends_with(")\nIt is old."), "{again}");
    }

    #[test]
    fn an_escape_sequence_is_shown_also_where_it_comes_in_pieces() {
        let pieces = ["The \u{1b}", "]0;own", "ed\u{7} mill\r", "\n\u{9b}", "2J \u{202e}dlo"];
        let printed = printed(&pieces.map(|text| AnswerPiece::Text(text.to_owned())), false);
        assert_eq!(printed, "The \\x1b]0;owned\\x07 mill\\r\n\\u{9b}2J \\u{202e}dlo");
    }

    #[test]
    fn an_error_after_text_begins_on_its_own_line() {
        assert_eq!(printed(&[AnswerPiece::Text("The m".to_owned())], true), "The m\n");
        assert_eq!(printed(&[], true), "");
    }
}
