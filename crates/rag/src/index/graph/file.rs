//! The file of a graph index. Numbers are little-endian.
//!
//! | bytes | what |
//! |-------|------|
//! | 64 | header: magic, format, dimensions and number of the vectors, BLAKE3 of all that follows |
//! | 64 | BLAKE3 of the vectors, start node, degree, candidates, reconnected nodes, number of links, number of duplicates |
//! | 8 × (vectors + 1) | for each node, the place of its first link; then the number of links |
//! | 4 × links | the linked nodes |
//! | 8 × duplicates | an entry with links and an entry with the same vector, ascending |
//!
//! The vectors are in the file of the [`DenseIndex`](super::DenseIndex), whose checksum is kept here.

use super::GraphSettings;
use crate::{
    Error,
    index::header::{self, FileKind, HEADER_BYTES, IndexHeader, bad, number},
};
use memmap2::Mmap;
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    ops::Range,
    path::Path,
};

const KIND: FileKind = FileKind { magic: *b"RVGRAPH\n", format: 1, title: "graph index" };
const FACTS_BYTES: usize = 64;
const LINKS_AT: usize = HEADER_BYTES + FACTS_BYTES;

/// What the header of a graph's file says: from which vectors it was built, how, and how large it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GraphFacts {
    /// BLAKE3 of the vectors that the graph links.
    pub(super) vectors: [u8; 32],
    /// The node at which a search begins.
    pub(super) start: u32,
    pub(super) settings: GraphSettings,
    /// Nodes that got an additional link, because no path led to them.
    pub(super) reconnected: u32,
    pub(super) links: u64,
    pub(super) duplicates: u64,
}

impl GraphFacts {
    fn bytes(&self) -> [u8; FACTS_BYTES] {
        let mut bytes = [0; FACTS_BYTES];
        bytes[..32].copy_from_slice(&self.vectors);
        let numbers = [self.start, self.settings.degree, self.settings.candidates, self.reconnected];
        for (place, number) in bytes[32..48].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        bytes[48..56].copy_from_slice(&self.links.to_le_bytes());
        bytes[56..].copy_from_slice(&self.duplicates.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; FACTS_BYTES]) -> Self {
        let mut vectors = [0; 32];
        vectors.copy_from_slice(&bytes[..32]);
        let long = |at| u64::from(number(bytes, at)) | u64::from(number(bytes, at + 4)) << 32;
        Self {
            vectors,
            start: number(bytes, 32),
            settings: GraphSettings { degree: number(bytes, 36), candidates: number(bytes, 40) },
            reconnected: number(bytes, 44),
            links: long(48),
            duplicates: long(56),
        }
    }
}

/// An opened file.
#[derive(Debug)]
pub(super) struct GraphFile {
    pub(super) origin: String,
    pub(super) header: IndexHeader,
    pub(super) facts: GraphFacts,
    data: FileBytes,
}

#[derive(Debug)]
pub(super) enum FileBytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl GraphFile {
    /// Checks the header and the length.
    pub(super) fn new(origin: String, data: FileBytes) -> Result<Self, Error> {
        let bytes = data.all();
        let header = IndexHeader::read(bytes, &KIND, &origin)?;
        let Some(facts) = bytes[HEADER_BYTES..].first_chunk() else {
            return Err(bad(&origin, "the file is cut off"));
        };
        let facts = GraphFacts::read(facts);
        let entries = header.vectors;
        let of_places = entries.checked_add(1).and_then(|places| places.checked_mul(8));
        let of_lists = facts.links.checked_mul(4).zip(facts.duplicates.checked_mul(8));
        let lists = of_lists.and_then(|(links, duplicates)| links.checked_add(duplicates));
        let expected = of_places.zip(lists).and_then(|(places, lists)| places.checked_add(lists));
        let found = (bytes.len() - LINKS_AT) as u64;
        let is_start = u64::from(facts.start) < entries.max(1);
        if expected != Some(found) || entries > u64::from(u32::MAX) || !is_start {
            let GraphFacts { links, duplicates, .. } = facts;
            let reason = format!(
                "{found} bytes are not {links} links and {duplicates} duplicates of {entries} vectors: the file is \
                 cut off or damaged"
            );
            return Err(bad(&origin, reason));
        }
        Ok(Self { origin, header, facts, data })
    }

    pub(super) fn entries(&self) -> usize {
        self.header.vectors as usize
    }

    /// The links of a node as bytes; none if the file is damaged there.
    pub(super) fn links(&self, node: u32) -> Option<&[[u8; 4]]> {
        let places = self.section(self.places()).as_chunks::<8>().0;
        let place = |at: usize| places.get(at).map(|bytes| u64::from_le_bytes(*bytes) as usize);
        let (first, end) = (place(node as usize)?, place(node as usize + 1)?);
        let links = LINKS_AT + size_of_val(places);
        let links = &self.data.all()[links..links + self.facts.links as usize * 4];
        links.as_chunks::<4>().0.get(first..end)
    }

    /// Pairs of an entry with links and another entry with the same vector.
    pub(super) fn duplicates(&self) -> &[[[u8; 4]; 2]] {
        let bytes = &self.data.all()[self.places().end + self.facts.links as usize * 4..];
        bytes.as_chunks::<4>().0.as_chunks::<2>().0
    }

    /// Compares all with the checksum, and whether every link leads to a node.
    pub(super) fn verify(&self) -> Result<(), Error> {
        let damaged = |reason: &str| Err(bad(&self.origin, format!("{reason}; delete it and run again")));
        if *blake3::hash(self.section(HEADER_BYTES..self.data.all().len())).as_bytes() != self.header.checksum {
            return damaged("its content does not match its checksum");
        }
        let entries = self.header.vectors as u32;
        let is_entry = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) < entries;
        let is_sound = |node: u32| self.links(node).is_some_and(|links| links.iter().all(is_entry));
        if !(0..entries).all(is_sound) || !self.duplicates().as_flattened().iter().all(is_entry) {
            return damaged("a link leads to a node that does not exist");
        }
        Ok(())
    }

    fn places(&self) -> Range<usize> {
        LINKS_AT..LINKS_AT + (self.entries() + 1) * 8
    }

    fn section(&self, range: Range<usize>) -> &[u8] {
        &self.data.all()[range]
    }
}

impl FileBytes {
    fn all(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// A graph that is to be written.
pub(super) struct GraphContent<'a> {
    pub(super) dimensions: usize,
    /// How many nodes there are.
    pub(super) entries: u32,
    /// The numbers of links and duplicates are counted while they are written.
    pub(super) facts: GraphFacts,
    /// Puts the links of a node into an empty list.
    pub(super) links: &'a dyn Fn(u32, &mut Vec<u32>),
    pub(super) duplicates: &'a [(u32, u32)],
}

impl GraphContent<'_> {
    /// Writes the file under another name, and renames it when it is complete.
    pub(super) fn write(&self, path: &Path) -> Result<GraphFacts, Error> {
        let partial = store::staged_path(path);
        let written = self.write_partial(&partial).and_then(|facts| std::fs::rename(&partial, path).map(|()| facts));
        written.map_err(|error| {
            // A partial file that cannot be removed does no harm.
            drop(std::fs::remove_file(&partial));
            bad(&path.display().to_string(), error)
        })
    }

    fn write_partial(&self, path: &Path) -> io::Result<GraphFacts> {
        let mut list = Vec::new();
        let mut places = Vec::with_capacity(self.entries as usize + 1);
        let mut links = 0u64;
        for node in 0..self.entries {
            places.push(links);
            list.clear();
            (self.links)(node, &mut list);
            links += list.len() as u64;
        }
        places.push(links);
        let facts = GraphFacts { links, duplicates: self.duplicates.len() as u64, ..self.facts };
        let mut content = HashedWriter { file: header::begin(path)?, hasher: blake3::Hasher::new() };
        content.write(&facts.bytes())?;
        let mut bytes = Vec::new();
        for places in places.chunks(1 << 13) {
            bytes.clear();
            bytes.extend(places.iter().flat_map(|place| place.to_le_bytes()));
            content.write(&bytes)?;
        }
        bytes.clear();
        for node in 0..self.entries {
            list.clear();
            (self.links)(node, &mut list);
            bytes.extend(list.iter().flat_map(|link| link.to_le_bytes()));
            if bytes.len() >= 1 << 16 {
                content.write(&bytes)?;
                bytes.clear();
            }
        }
        bytes
            .extend(self.duplicates.iter().flat_map(|(one, other)| [one.to_le_bytes(), other.to_le_bytes()]).flatten());
        content.write(&bytes)?;
        let header = IndexHeader {
            dimensions: self.dimensions as u32,
            vectors: self.entries.into(),
            checksum: *content.hasher.finalize().as_bytes(),
            chunks: 0,
        };
        header::complete(&mut content.file, &KIND, &header)?;
        Ok(facts)
    }
}

struct HashedWriter {
    file: BufWriter<File>,
    hasher: blake3::Hasher,
}

impl HashedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.file.write_all(bytes)
    }
}
