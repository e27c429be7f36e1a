//! `text`: the text of each format as Reverie reads it: headings, lists and tables where the format has them, and the lines
//! of a PDF in their order.
//!
//! The default. Fast, and needs no model and no other program. Tables of PDFs are lines of text, and scanned pages have
//! none.

use super::{ParseError, Parser};
use crate::{
    Component, Context, Document, Error,
    component::settings,
    load::{self, ParseLimits},
};

/// The version of the formats is part of every key besides.
pub(super) const VERSION: u32 = 1;

settings! {
    /// Settings of `text`: there are none.
    pub struct Config {}
}

impl Component for Config {
    fn is_nothing(&self) -> bool {
        true
    }
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Parser>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Parser for Config {
    fn parse(&self, path: &str, bytes: &[u8], limits: &ParseLimits) -> Result<Document, ParseError> {
        Ok(load::parse(path, bytes, limits)?)
    }
}
