//! What a judge is asked.

/// A question to the judge about each of some items.
pub(crate) struct Inquiry<'a> {
    /// What all items share, fenced.
    pub(crate) shared: String,
    /// What an item is called: its tag.
    pub(crate) tag: &'static str,
    /// The items.
    pub(crate) items: &'a [String],
    /// The question about an item, to be answered by yes or no.
    pub(crate) question: &'a str,
    /// How many items one call may hold where there are no probabilities.
    pub(crate) per_call: usize,
}

impl<'a> Inquiry<'a> {
    /// A question about statements, all of which one call may hold.
    pub(crate) fn of_statements(shared: String, statements: &'a [String], question: &'a str) -> Self {
        Self { shared, tag: "statement", items: statements, question, per_call: statements.len() }
    }
}
