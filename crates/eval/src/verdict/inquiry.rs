//! Questions to a judge.

/// A question to the judge about each of some items.
pub(crate) struct Inquiry<'a> {
    /// The fenced text that all items share.
    pub(crate) shared: String,
    /// The tag of an item.
    pub(crate) tag: &'static str,
    /// The items.
    pub(crate) items: &'a [String],
    /// The yes-or-no question about an item.
    pub(crate) question: &'a str,
    /// The most items of one call, if there are no probabilities.
    pub(crate) per_call: usize,
}

impl<'a> Inquiry<'a> {
    /// A question about statements, which may all be in one call.
    pub(crate) fn of_statements(shared: String, statements: &'a [String], question: &'a str) -> Self {
        Self { shared, tag: "statement", items: statements, question, per_call: statements.len() }
    }
}
