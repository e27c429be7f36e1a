//! What a page consists of: before its parts are in reading order, and after.

use super::area::Area;
use super::rows::PageRow;
use super::table_grid::TableGrid;
use super::words::Phrase;

/// A piece of a page.
#[derive(Debug, Clone)]
pub(super) enum Item {
    Phrase(Phrase),
    Table(Box<TableGrid>),
    /// What stands in a frame is read in one go.
    Frame(Area, Vec<Item>),
}

impl Item {
    pub(super) fn area(&self) -> &Area {
        match self {
            Self::Phrase(phrase) => &phrase.area,
            Self::Table(grid) => &grid.area,
            Self::Frame(area, _) => area,
        }
    }
}

/// A part of a page in reading order.
#[derive(Debug, Clone)]
pub(super) enum PagePart {
    PageRow(PageRow),
    Table(Box<TableGrid>),
    /// The lines before it and those after it stand in different places of the page.
    Break,
}
