//! `layout`: PDFs by the places of their letters: columns one after another, tables with their rows and columns, headings,
//! lists, listings and footnotes, without running headers and page numbers. Other files as `text` reads them.
//!
//! When to use it: for PDFs with tables or columns. It takes about twice the time of `text`, and no model. Scanned
//! pages have no letters, so it reads nothing on them.
//!
//! Tables are found by their drawn lines, or by the gaps between their columns; one that goes on over the next page is one.
//! A table that does not fit together is told as a problem of the document.

use super::{ParseError, Parser};
use crate::{
    Component, Context, Document, Error,
    component::settings,
    load::{self, ParseLimits},
};

pub(super) const VERSION: u32 = 3;

settings! {
    /// Settings of `layout`: there are none.
    pub struct Config {}
}

impl Component for Config {}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Parser>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Parser for Config {
    fn parse(&self, path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, ParseError> {
        Ok(load::parse_layout(path, bytes, limits)?)
    }
}
