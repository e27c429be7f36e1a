//! What reads bytes from outside, given bytes that are nearly right: no panic,
//! and no input that takes longer than a person waits.
//!
//! The crate `fuzz` says how to fuzz for longer. Requests to the service are in
//! `attacks`.

use ::fuzz::{MARKUP, run as fuzz};
use rag::{
    index::IndexKind,
    load::{ParseLimits, parse},
};
use std::{
    io::{Cursor, Write},
    path::Path,
};

/// An archive in which one file is what was made up.
fn zipped(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn load(name: &'static str) -> impl FnMut(&[u8]) {
    move |bytes| drop(parse(name, bytes, &ParseLimits::default()))
}

const HTML: &[u8] = b"<!doctype html><html><head><title>Owls</title><meta name=author content='A. B.'></head><body><h1>Owls</h1><p>They <b>swallow</b> mice &amp; voles.</p><ul><li>one<li>two</ul><table><tr><th>a<td>b</table><pre> x </pre></body></html>";

#[test]
fn html() {
    fuzz("html", &[HTML], &MARKUP, load("a.html"));
}

#[test]
fn markdown() {
    let seed = b"---\ntitle: Owls\ntags: [a, b]\ndate: 2020-01-02\n---\n# Owls\n\nThey *swallow* `mice` [here](http://x \"t\").\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn x() {}\n```\n> quote\n\n1. one\n   - two\n\n[^1]: note\n<div>html</div>\n";
    let words: [&[u8]; 14] =
        [b"#", b"```", b"~~~", b"---\n", b"| ", b"[", b"](", b"![", b"> ", b"- ", b"\t", b"\r\n", b"\xff", b"<!--"];
    fuzz("markdown", &[seed], &words, load("a.md"));
}

#[test]
fn text() {
    let seeds: [&[u8]; 3] =
        [b"Owls.\n\nThey swallow mice.\n", b"\xff\xfeO\x00w\x00l\x00", "Eulen \u{fffd} \u{202e} \u{200b}".as_bytes()];
    fuzz("text", &seeds, &[b"\r", b"\x00", b"\xef\xbb\xbf", b"\x1b[31m", b"\xc3", b"\x0c"], load("a.txt"));
}

const CONTAINER: &[u8] = br#"<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles><rootfile full-path="o/c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"#;
const PACKAGE: &[u8] = br#"<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Owls</dc:title><dc:creator>A. B.</dc:creator></metadata><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/><item id="n" href="n.xhtml" properties="nav" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>"#;

#[test]
fn epub_packages() {
    fuzz("epub", &[PACKAGE, CONTAINER], &MARKUP, |bytes| {
        let with = |container: &[u8], package: &[u8]| {
            let entries = [
                ("mimetype", &b"application/epub+zip"[..]),
                ("META-INF/container.xml", container),
                ("o/c.opf", package),
                ("o/a.xhtml", HTML),
            ];
            drop(parse("a.epub", &zipped(&entries), &ParseLimits::default()));
        };
        with(CONTAINER, bytes);
        with(bytes, PACKAGE);
    });
}

const WORDS_DOCUMENT: &[u8] = br#"<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Owls</w:t></w:r></w:p><w:p><w:r><w:t xml:space="preserve">They swallow </w:t><w:tab/><w:br/></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:body></w:document>"#;

#[test]
fn docx_documents() {
    fuzz("docx", &[WORDS_DOCUMENT], &MARKUP, |bytes| {
        let kinds =
            br#"<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>"#;
        let entries = [("[Content_Types].xml", &kinds[..]), ("word/document.xml", bytes)];
        drop(parse("a.docx", &zipped(&entries), &ParseLimits::default()));
    });
}

#[test]
fn archives() {
    let whole = zipped(&[
        ("mimetype", b"application/epub+zip"),
        ("META-INF/container.xml", CONTAINER),
        ("o/c.opf", PACKAGE),
        ("o/a.xhtml", HTML),
    ]);
    fuzz(
        "archive",
        &[&whole],
        &[b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\xff\xff\xff\xff", b"../"],
        load("a.epub"),
    );
}

#[test]
fn pdf() {
    let Ok(libraries) = std::env::var("REVERIE_TEST_LIBRARIES") else {
        return skips::skip("REVERIE_TEST_LIBRARIES is not set: no libpdfium");
    };
    rag::load::bind_pdfium(&Path::new(&libraries).join("libpdfium.so")).unwrap();
    let seed = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj\n4 0 obj<</Length 44>>stream\nBT /F1 24 Tf 72 700 Td (Owls swallow mice.) Tj ET\nendstream endobj\n5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R/Size 6>>\n%%EOF\n";
    let words: [&[u8]; 10] = [
        b"obj",
        b"endobj",
        b"stream\n",
        b"<<",
        b">>",
        b"/Kids[3 0 R 3 0 R]",
        b"2 0 R",
        b"-1",
        b"999999999999",
        b"/Filter/FlateDecode",
    ];
    fuzz("pdf", &[seed], &words, load("a.pdf"));
}

#[test]
fn experiments() {
    let seed = include_bytes!("../formats/0.1/experiment.toml");
    let more = b"name = \"a\"\nsearch = { race = { share = 0.3 } }\n[corpus]\nsource = \"d\"\n[[space]]\nchunker = [\"sentence\", { recursive = { chunk_size = 9 } }]\nembedder = \"e\"\nretriever = [{ hybrid = { top_k = 3 } }, \"mmr\"]\n[models.e]\nembedding.static = { model = \"m\" }\n[evaluate]\nmetrics = [\"recall\"]\nbudget = { usd = 1.5 }\n[engine.ray]\nstages = { embed = { max = 3 } }\n[track]\nmlflow = { uri = \"http://x\" }\n";
    let words: [&[u8]; 14] = [
        b"[",
        b"]",
        b"{",
        b"}",
        b"=",
        b"\"",
        b"\n",
        b"[[space]]\n",
        b"inf",
        b"-1",
        b"9223372036854775808",
        b"\\u0000",
        b"1e999",
        b"nan",
    ];
    fuzz("experiment", &[seed, more], &words, |bytes| {
        drop(lab::Experiment::parse(&String::from_utf8_lossy(bytes), "."));
    });
}

#[test]
fn golden_questions() {
    let jsonl = include_bytes!("../formats/0.1/golden.jsonl");
    let csv = b"id,question,reference,document,quote,turns\na,Why?,so,x.txt,\"a, b\",\nb,\"Who \"\"he\"\"?\",,,,\n";
    let words: [&[u8]; 10] = [b"\"", b",", b"\n", b"\r\n", b"{", b"}", b"null", b"[[[[", b"\xff", b"\\ud800"];
    for (name, seed) in [("a.jsonl", &jsonl[..]), ("a.csv", &csv[..])] {
        fuzz(&name[2..], &[seed], &words, |bytes| {
            if let Ok(file) = eval::dataset::DatasetFile::read(name, bytes) {
                drop(file.to_bytes());
            }
        });
    }
}

#[test]
fn indexes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/0.1/store/artifacts/c2");
    let bm25 = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let bm25 = std::fs::read(bm25).unwrap();
    let now =
        rag::index::Bm25Index::build(&[crate::corpus::OTTERS, crate::corpus::OWLS, "Owls hunt at night."]).to_bytes();
    let seeds: [&[u8]; 2] = [&bm25, &now];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.bm25");
    fuzz("index", &seeds, &[b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\x01\x00\x00\x00"], |bytes| {
        for kind in IndexKind::ALL {
            drop(kind.verify_bytes(bytes));
        }
        // A mapped file is opened without its checksum.
        std::fs::write(&path, bytes).unwrap();
        drop(IndexKind::Bm25.open(std::slice::from_ref(&path)));
    });
}

#[test]
fn journals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let whole = include_bytes!("../formats/0.1/store/journal.db");
    fuzz("journal", &[whole], &[b"\xff\xff\xff\xff", b"\x00", b"CREATE TABLE", b"{\"", b"null"], |bytes| {
        std::fs::write(&path, bytes).unwrap();
        if let Ok(journal) = store::Journal::open(&path) {
            drop(journal.verify());
        }
        // A damaged journal is kept beside the new one.
        for left in std::fs::read_dir(folder.path()).unwrap() {
            drop(std::fs::remove_file(left.unwrap().path()));
        }
    });
}

#[test]
fn tables() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/0.1/store/artifacts");
    let inner = std::fs::read_dir(folder).unwrap().flat_map(|entry| std::fs::read_dir(entry.unwrap().path()).unwrap());
    let files = inner.map(|entry| entry.unwrap().path());
    let tables: Vec<Vec<u8>> =
        files.filter(|path| path.extension().unwrap() == "parquet").map(|path| std::fs::read(path).unwrap()).collect();
    let seeds: Vec<&[u8]> = tables.iter().map(Vec::as_slice).collect();
    fuzz("table", &seeds, &[b"PAR1", b"\xff\xff\xff\xff", b"\x00", b"\x15\x02", b"ARROW:schema"], |bytes| {
        drop(lab::artifact::decode_vectors(bytes.to_vec().into()));
        drop(lab::artifact::decode::<lab::artifact::AnswerRow>(bytes.to_vec().into()));
    });
}
