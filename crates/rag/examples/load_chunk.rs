//! How long a folder of real files takes from bytes on disk to sentence chunks.
//!
//! `load_chunk FOLDER LIBPDFIUM [CHUNK_SIZE] [CHUNK_OVERLAP]` reads, parses and
//! chunks every file of FOLDER on all cores (`sentence`, 1024 tokens, 200 of
//! overlap) once for every line on standard input, and answers each with one
//! line of JSON: so a benchmark can take turns with another program, and
//! measures no start-up. `load_chunk --texts OUT FOLDER LIBPDFIUM`
//! writes the texts of the documents into the folder OUT instead. Used by
//! `benches/run`.

use rag::{
    Document,
    chunk::ChunkerConfig,
    load::{self, LoadError, ParseLimits, Source},
};
use rayon::prelude::*;
use std::{
    error::Error,
    io::{BufRead, Write},
    path::{Path, PathBuf},
    time::Instant,
};

const USAGE: &str = "usage: load_chunk [--texts OUT] FOLDER LIBPDFIUM [CHUNK_SIZE] [CHUNK_OVERLAP]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts = (arguments.first().is_some_and(|argument| argument == "--texts") && arguments.len() > 1)
        .then(|| PathBuf::from(arguments.drain(..2).next_back().unwrap_or_default()));
    let [folder, library, sizes @ ..] = arguments.as_slice() else { return Err(USAGE.into()) };
    load::bind_pdfium(Path::new(library))?;
    let size = |at: usize, default: u32| sizes.get(at).map_or(Ok(default), |size| size.parse());
    let settings = serde_json::json!({"chunk_size": size(0, 1024)?, "chunk_overlap": size(1, 200)?});
    let config: ChunkerConfig = serde_json::from_value(serde_json::json!({ "sentence": settings }))?;
    let chunker = config.build(&rag::Context::default())?;

    let files = tokio::runtime::Runtime::new()?.block_on(Source::parse(folder, &[], &[], &[])?.list())?;
    let folder = Path::new(folder);
    let parse = |name: &str| -> Result<Document, LoadError> {
        let bytes = std::fs::read(folder.join(name)).map_err(|error| LoadError::Unreadable(error.to_string()))?;
        load::parse(name, &bytes, &ParseLimits::default())
    };

    if let Some(out) = texts {
        for (number, file) in files.iter().enumerate() {
            match parse(&file.path) {
                Ok(document) => std::fs::write(out.join(format!("{number:05}.txt")), document.text)?,
                Err(reason) => writeln!(std::io::stderr(), "{}: {reason}", file.path)?,
            }
        }
        return Ok(());
    }
    // Loading for the first chunk counts as start-up.
    chunker.chunk_now(&load::parse("start.txt", b"A word.", &ParseLimits::default())?)?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let start = Instant::now();
        // Documents come and go one by one: only counts outlive them.
        let counts: Vec<Option<(&str, usize, usize)>> = files
            .par_iter()
            .with_max_len(1)
            .map(|file| {
                let document = parse(&file.path).ok()?;
                Some((file.path.as_str(), document.text.len(), chunker.chunk_now(&document).ok()?.len()))
            })
            .collect();
        let seconds = start.elapsed().as_secs_f64();
        let read: Vec<(&str, usize, usize)> = counts.into_iter().flatten().collect();
        let report = serde_json::json!({
            "documents": read.len(),
            "files": read.iter().map(|(path, ..)| path).collect::<Vec<_>>(),
            "refused": files.len() - read.len(),
            "text_bytes": read.iter().map(|(_, bytes, _)| bytes).sum::<usize>(),
            "chunks": read.iter().map(|(_, _, chunks)| chunks).sum::<usize>(),
            "seconds": seconds,
            "threads": rayon::current_num_threads(),
        });
        writeln!(std::io::stdout(), "{report}")?;
    }
    Ok(())
}
