//! Prints what the loader makes of files: `load LIBPDFIUM FILE…` shows title,
//! author, pages and the beginning of the text, for judging a parser by eye.

#![expect(clippy::print_stdout, reason = "an example's output is its purpose")]

use rag::load::{self, ParseLimits};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let library = arguments.next().ok_or("usage: load LIBPDFIUM FILE...")?;
    load::bind_pdfium(Path::new(&library))?;
    for path in arguments {
        let bytes = std::fs::read(&path)?;
        let start = Instant::now();
        let parsed = load::parse(&path, &bytes, &ParseLimits::default());
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        match parsed {
            Err(reason) => println!("== {path}: {milliseconds:.1} ms: {reason}\n"),
            Ok(document) => {
                let kilobytes = document.text.len() / 1000;
                let pages = document.pages.len();
                println!("== {path}: {:?}, {milliseconds:.1} ms, {kilobytes} kB, {pages} pages", document.format);
                println!("title {:?}, author {:?}", document.title, document.author);
                for page in document.pages.iter().step_by((pages / 8).max(1)) {
                    println!("  page {} {:?}", page.number, page.span);
                }
                println!("{}\n", document.text.chars().take(2000).collect::<String>());
            }
        }
    }
    Ok(())
}
