//! What each format gives for a fixed file is pinned in `pins/load.txt`; see
//! `pins_tests.rs`.

use super::{super::*, pdf, zipped};
use crate::pins_tests::{check, text};
use serde_json::Value;
use store::{Key, testing::Pin};

/// Headings, lists, tables, code, links and what is not to be read.
const HTML: &str = "<!DOCTYPE html><html lang='en'><head><title>Mills &amp; rye</title><meta name='author' content='A. Writer'>
<style>p { color: red }</style><script>var x = '<p>not this</p>';</script></head><body><nav><a href='/'>Home</a></nav><main>
<h1>Mills</h1><p>A mill <b>grinds</b> <a href='rye.html'>rye</a>,&nbsp;not&#8203; stones.<br>New line.</p><h2 id=x>Parts</h2>
<ul><li>wheel<li>stone<ol><li>upper</li><li>lower</li></ol></ul><table><caption>Sizes</caption><tr><th>part</th><th>m</th></tr>
<tr><td rowspan=2>wheel</td><td>3</td></tr><tr><td>4</td></tr></table><pre><code># no heading
  grind --fine</code></pre><blockquote><p>Old <em>mills</em> turn slowly.</p></blockquote><dl><dt>rye<dd>a grass</dl>
<h3>Empty</h3><h2>Überall</h2><p>中文句子。<img src=a.png alt='a mill'> &lt;tag&gt; 5 * 3 _x_</p></main><footer>Imprint</footer></body></html>";

const DOCX: &[(&str, &str)] = &[
    ("[Content_Types].xml", "<Types/>"),
    (
        "docProps/core.xml",
        "<cp:coreProperties><dc:title>Mills</dc:title><dc:creator>A. Writer</dc:creator></cp:coreProperties>",
    ),
    (
        "word/styles.xml",
        "<w:styles><w:style w:type='paragraph' w:styleId='H1'><w:name w:val='heading 1'/></w:style>
         <w:style w:type='paragraph' w:styleId='H2'><w:name w:val='heading 2'/></w:style></w:styles>",
    ),
    (
        "word/document.xml",
        "<w:document><w:body><w:p><w:pPr><w:pStyle w:val='H1'/></w:pPr><w:r><w:t>Mills</w:t></w:r></w:p>
         <w:p><w:r><w:t xml:space='preserve'>A mill </w:t></w:r><w:r><w:t>grinds rye.</w:t><w:tab/><w:t>Ünïcode</w:t></w:r></w:p>
         <w:p><w:pPr><w:numPr><w:ilvl w:val='0'/><w:numId w:val='1'/></w:numPr></w:pPr><w:r><w:t>wheel</w:t></w:r></w:p>
         <w:tbl><w:tr><w:tc><w:p><w:r><w:t>part</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>m</w:t></w:r></w:p></w:tc></w:tr>
         <w:tr><w:tc><w:p><w:r><w:t>wheel</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>3</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
         <w:p><w:r><w:br w:type='page'/></w:r></w:p>
         <w:p><w:pPr><w:pStyle w:val='H2'/></w:pPr><w:r><w:t>Parts</w:t></w:r></w:p><w:p><w:r><w:t>Second page.</w:t></w:r></w:p>
         </w:body></w:document>",
    ),
];

const EPUB: &[(&str, &str)] = &[
    ("mimetype", "application/epub+zip"),
    ("META-INF/container.xml", "<container><rootfile full-path='b/c.opf'/></container>"),
    (
        "b/c.opf",
        "<package><dc:title>Mills</dc:title><dc:creator>A. Writer</dc:creator>
         <item id='n' href='nav.xhtml' media-type='application/xhtml+xml' properties='nav'/>
         <item id='a' href='a.xhtml' media-type='application/xhtml+xml'/>
         <item id='b' href='b.xhtml' media-type='application/xhtml+xml'/>
         <itemref idref='a'/><itemref idref='b'/></package>",
    ),
    (
        "b/nav.xhtml",
        "<html><body><nav epub:type='toc'><ol><li><a href='a.xhtml'>First</a></li><li><a href='b.xhtml#s'>Second</a>
         </li></ol></nav></body></html>",
    ),
    ("b/a.xhtml", "<html><body><h1>Mills</h1><p>A mill grinds rye.</p><h2>Parts</h2><p>Wheel.</p></body></html>"),
    (
        "b/b.xhtml",
        "<html><body><p>Before.</p><h1 id='s'>Überall</h1><p>Rye <i>grows</i>.</p><span epub:type='pagebreak' title='7'/>
         <p>On page 7.</p></body></html>",
    ),
];

/// A file of each format, and what it was made from. There is no way to leave
/// one out: a new format is an error here.
fn sample(format: Format) -> (&'static str, Vec<u8>, Value) {
    let plain = |bytes: &[u8]| (bytes.to_vec(), serde_json::json!(Key::of_bytes(bytes)));
    let archive = |entries: &[(&str, &str)]| (zipped(entries), serde_json::json!(entries));
    let (path, (bytes, source)) = match format {
        Format::Text => ("a.txt", plain(b"\xEF\xBB\xBFOne line.\r\nAnother \xFF one.\n\n\n\nLast\x0C page")),
        Format::Markdown => ("a.md", plain(format!("---\ntitle: Mills\n---\n{}", text()).as_bytes())),
        Format::Html => ("a.html", plain(HTML.as_bytes())),
        Format::Docx => ("a.docx", archive(DOCX)),
        Format::Epub => ("a.epub", archive(EPUB)),
        Format::Pdf => ("a.pdf", plain(&pdf::sample())),
    };
    (path, bytes, source)
}

#[test]
fn loaders_are_pinned() {
    let (mut pins, mut skipped) = (Vec::new(), Vec::new());
    for format in [Format::Text, Format::Markdown, Format::Html, Format::Docx, Format::Epub, Format::Pdf] {
        let (path, bytes, source) = sample(format);
        if format == Format::Pdf && !pdf::has_library() {
            skipped.push("pdf");
            continue;
        }
        let document = parse(path, &bytes, &Limits::default()).unwrap();
        assert_eq!(document.format, format);
        // How archives are packed is not what is tried.
        let mut document = serde_json::to_value(document).unwrap();
        document["content"] = Value::Null;
        let name = document["format"].as_str().unwrap().to_owned();
        pins.push(Pin::new(&name, VERSION, &source, &document).unwrap());
    }
    check("load", &pins, &skipped);
}
