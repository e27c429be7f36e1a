//! Picture files. A TIFF may have several pages: fax machines and scanners write such files.
//!
//! Source: TIFF 6.0 (Adobe 1992). A directory describes a page and holds the offset of the next directory.

use super::picture::{Picture, PictureError};
use image::ImageFormat;
use std::{borrow::Cow, collections::BTreeSet, io::Cursor};
use tiff::{
    decoder::Decoder,
    tags::{IfdPointer, Tag},
};

/// The bytes of a file that hold the offset of its first directory.
const OFFSET: std::ops::Range<usize> = 4..8;
/// The most directories of a file that are read.
const MOST_DIRECTORIES: usize = 10_000;
/// An entry of a directory has so many bytes.
const ENTRY_BYTES: usize = 12;
/// The bit of the tag `NewSubfileType` of a smaller copy of another page.
const IS_SMALLER_COPY: u32 = 1;

/// The pages of a file in one of the formats that are read: PNG, JPEG, TIFF and WebP.
#[derive(Debug)]
pub struct PictureFile<'b> {
    /// The file as if the page that was read last were its first, because decoders read the first.
    bytes: Cow<'b, [u8]>,
    /// Where the directories of the pages begin; empty for formats of one page.
    directories: Vec<u32>,
}

impl<'b> PictureFile<'b> {
    /// Finds the pages of a file. A file whose list of pages is damaged has those before the damage.
    pub fn open(bytes: &'b [u8]) -> Self {
        let is_tiff = matches!(image::guess_format(bytes), Ok(ImageFormat::Tiff));
        Self { bytes: bytes.into(), directories: if is_tiff { directories(bytes) } else { Vec::new() } }
    }

    /// How many pages it has, 1 or more.
    pub fn pages(&self) -> usize {
        self.directories.len().max(1)
    }

    /// Reads a page, from 0.
    ///
    /// # Errors
    /// The page is damaged or too large, or there is no such page.
    pub fn decode(&mut self, page: usize) -> Result<Picture, PictureError> {
        match self.directories.get(page) {
            Some(&directory) => self.begin_with(directory),
            None if page == 0 => {}
            None => return Err(PictureError::Broken(format!("it has no page {}", page + 1))),
        }
        Picture::decode(&self.bytes)
    }

    /// Makes a directory the first one.
    fn begin_with(&mut self, directory: u32) {
        if first_directory(&self.bytes) == Some(directory) {
            return;
        }
        let is_little = is_little_endian(&self.bytes);
        let offset = if is_little { directory.to_le_bytes() } else { directory.to_be_bytes() };
        if let Some(place) = self.bytes.to_mut().get_mut(OFFSET) {
            place.copy_from_slice(&offset);
        }
    }
}

/// Where the directories of the pages begin, in their order.
fn directories(bytes: &[u8]) -> Vec<u32> {
    let Ok(mut decoder) = Decoder::new(Cursor::new(bytes)) else { return Vec::new() };
    let (mut next, mut seen, mut found) = (first_directory(bytes), BTreeSet::new(), Vec::new());
    // Overlapping directories could have far more entries than the file has room for.
    let mut entries = bytes.len() / ENTRY_BYTES;
    while let Some(at) = next.filter(|&at| at != 0 && seen.len() < MOST_DIRECTORIES && seen.insert(at)) {
        let Ok(directory) = decoder.read_directory(IfdPointer(at.into())) else { break };
        let Some(left) = entries.checked_sub(directory.len()) else { break };
        entries = left;
        let kind = decoder.read_directory_tags(&directory).find_tag_unsigned::<u32>(Tag::NewSubfileType);
        if kind.ok().flatten().unwrap_or_default() & IS_SMALLER_COPY == 0 {
            found.push(at);
        }
        next = directory.next().and_then(|next| u32::try_from(next.0).ok());
    }
    found
}

/// Whether numbers begin with their lowest byte.
fn is_little_endian(bytes: &[u8]) -> bool {
    bytes.starts_with(b"II")
}

fn first_directory(bytes: &[u8]) -> Option<u32> {
    let offset: [u8; 4] = bytes.get(OFFSET)?.try_into().ok()?;
    Some(if is_little_endian(bytes) { u32::from_le_bytes(offset) } else { u32::from_be_bytes(offset) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiff::encoder::{TiffEncoder, colortype::Gray8};

    /// A file with a page for each of these greys. Each page is a pixel wider than the one before, and a smaller copy follows
    /// the first page.
    fn written(greys: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = TiffEncoder::new(Cursor::new(&mut bytes)).unwrap();
        for (place, grey) in greys.iter().enumerate() {
            let width = place as u32 + 3;
            encoder.write_image::<Gray8>(width, 2, &vec![*grey; 2 * width as usize]).unwrap();
            if place == 0 {
                let mut copy = encoder.new_image::<Gray8>(1, 1).unwrap();
                copy.encoder().write_tag(Tag::NewSubfileType, 1_u32).unwrap();
                copy.write_data(&[9]).unwrap();
            }
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<(usize, u8)> {
        let mut file = PictureFile::open(bytes);
        (0..file.pages())
            .map(|page| file.decode(page).map(|picture| (picture.width, picture.pixels[0])).unwrap())
            .collect()
    }

    #[test]
    fn every_page_of_a_tiff_is_read_but_no_smaller_copy() {
        let bytes = written(&[10, 20, 30]);
        assert_eq!(read(&bytes), [(3, 10), (4, 20), (5, 30)]);
        assert!(matches!(PictureFile::open(&bytes).decode(3), Err(PictureError::Broken(_))));
    }

    #[test]
    fn a_list_of_pages_without_an_end_and_a_cut_one_end() {
        let whole = written(&[10, 20]);
        let directories = PictureFile::open(&whole).directories;
        // The last directory names the first as the next one.
        let last = *directories.last().unwrap() as usize;
        let entries = usize::from(u16::from_le_bytes([whole[last], whole[last + 1]]));
        let mut endless = whole.clone();
        endless[last + 2 + 12 * entries..][..4].copy_from_slice(&directories[0].to_le_bytes());
        assert_eq!(read(&endless), [(3, 10), (4, 20)]);
        let cut = PictureFile::open(&whole[..last]);
        assert_eq!(cut.pages(), 1);
        assert!(PictureFile::open(b"II").decode(0).is_err());
    }

    #[test]
    fn other_formats_have_one_page() {
        let picture = Picture { width: 2, height: 1, channels: 1, pixels: vec![1, 2] };
        let file = picture.to_png().unwrap();
        assert_eq!((PictureFile::open(&file).pages(), PictureFile::open(&file).decode(0).unwrap()), (1, picture));
    }
}
