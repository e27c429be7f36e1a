//! Prints what a parser makes of a file, with a form feed between two pages: `parse LIBPDFIUM PARSER FILE`. The files in a
//! mail follow it. With `time` behind it, how long that took beside `text`, and what was read badly.
//! PDFs are read in processes of their own, unless
//! `IN_THIS_PROCESS` is set.

#![expect(clippy::print_stdout, reason = "an example's output is its purpose")]

use models::ModelDirectory;
use rag::load::{self, ParseLimits, PdfProgram};
use rag::parse::{ParseConfig, ParseError, Parser};
use rag::{Context, Document};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// The argument of processes that read PDFs.
const READ_PDFS: &str = "read-pdfs";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [READ_PDFS, library] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return Ok(load::run_pdf_worker(Path::new(library))?);
    }
    if std::env::var_os("IN_THIS_PROCESS").is_none() {
        load::read_pdfs_with(PdfProgram::new("/proc/self/exe", [READ_PDFS]));
    }
    let [library, parser, path, rest @ ..] = &arguments[..] else {
        return Err("usage: parse LIBPDFIUM PARSER FILE [time]".into());
    };
    load::bind_pdfium(Path::new(library))?;
    if let Some(home) = std::env::var_os("REVERIE_HOME") {
        // Networks of `ocr`; ONNX Runtime lies among them.
        rag::parse::set_model_directory(&ModelDirectory::new(Path::new(&home).join("models"), Vec::new()));
    }
    let bytes = std::fs::read(path)?;
    let read = |parser: &str| -> Result<Vec<Document>, Box<dyn Error>> {
        let config: ParseConfig = serde_json::from_value(serde_json::Value::String(parser.to_owned()))?;
        let (parser, limits) = (config.build(&Context::default())?, ParseLimits::default());
        let mut read = Vec::new();
        load::visit_files(path, &bytes, &limits, &mut |path, bytes| {
            read.push(bytes.map_err(ParseError::from).and_then(|bytes| parser.parse(path, bytes, &limits)));
        });
        match <[_; 1]>::try_from(read) {
            Ok([one]) => Ok(vec![one?]),
            // A file in a mail that gives no document is no reason to show nothing.
            Err(several) => Ok(several.into_iter().filter_map(Result::ok).collect()),
        }
    };
    if rest.is_empty() {
        print!("{}", read(parser)?.iter().map(by_page).collect::<Vec<_>>().join("\n\n\u{c}"));
        return Ok(());
    }
    for parser in ["text", parser, "text", parser] {
        let start = Instant::now();
        let documents = match read(parser) {
            Ok(documents) => documents,
            Err(reason) => {
                println!("{parser}: {:?}, {reason}", start.elapsed());
                continue;
            }
        };
        let pages = documents.iter().map(|document| document.pages.len()).sum::<usize>();
        let bytes = documents.iter().map(|document| document.text.len()).sum::<usize>();
        println!("{parser}: {:?}, {pages} pages, {bytes} bytes", start.elapsed());
    }
    for document in read(parser)? {
        println!("{}: {} headings, {} tables", document.path, document.headings.len(), document.tables.len());
        for problem in &document.problems {
            println!("page {}: {:?}: {}", problem.page.unwrap_or(0), problem.kind, problem.detail);
        }
    }
    Ok(())
}

/// The text with form feeds between pages. A table over two pages stays whole.
fn by_page(document: &Document) -> String {
    let mut output = String::new();
    let mut start = 0;
    for page in document.pages.iter().skip(1) {
        let cuts = |table: &&rag::Table| table.span.start < page.span.start && page.span.start < table.span.end;
        let end = document.tables.iter().find(cuts).map_or(page.span.start, |table| table.span.end);
        output.push_str(&document.text[start..end.max(start)]);
        output.push('\u{c}');
        start = end.max(start);
    }
    output + &document.text[start..]
}
