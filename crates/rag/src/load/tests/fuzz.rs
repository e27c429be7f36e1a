//! Workbooks, slides, OpenDocument files, RTF and tables of values that are nearly right: no panic, and no file that takes
//! longer than a person waits. The other formats are fuzzed in the tests of `app`.

use super::super::{archive::tests::zipped, *};
use ::fuzz::{MARKUP, run as fuzz};

fn load(name: &'static str) -> impl FnMut(&[u8]) {
    move |bytes| drop(parse(name, bytes, &ParseLimits::default()))
}

/// Fuzzes one part of an archive in which the other parts are sound.
fn fuzz_part(name: &'static str, part: &str, seed: &[u8], others: &[(&str, &[u8])]) {
    let ending = name.rsplit('.').next().unwrap_or(name);
    fuzz(ending, &[seed], &MARKUP, |bytes| {
        let entries: Vec<(&str, &[u8])> = others.iter().copied().chain([(part, bytes)]).collect();
        drop(parse(name, &zipped(&entries), &ParseLimits::default()));
    });
}

const RELATIONS: &[u8] = br#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#;
const SHEET_RELATIONS: &[u8] = br#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#;
const WORKBOOK: &[u8] =
    br#"<workbook xmlns:r="r"><sheets><sheet name="Owls" sheetId="1" r:id="r1"/></sheets></workbook>"#;
const SHEET: &[u8] = br#"<worksheet><dimension ref="A1:C3"/><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>mass</t></is></c></row><row r="2"><c r="A2" t="str"><f>A1</f><v>barn</v></c><c r="B2" s="1"><v>45413.5</v></c><c r="C2" t="e"><v>#N/A</v></c></row></sheetData><mergeCells><mergeCell ref="B1:C1"/></mergeCells></worksheet>"#;
const STRINGS: &[u8] = br#"<sst uniqueCount="1"><si><t>owl</t></si></sst>"#;
const STYLES: &[u8] = br#"<styleSheet><numFmts><numFmt numFmtId="164" formatCode="yyyy-mm-dd"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs></styleSheet>"#;

/// The parts of a workbook, except one.
fn parts_of_workbook(without: &str) -> Vec<(&'static str, &'static [u8])> {
    let all = [
        ("_rels/.rels", RELATIONS),
        ("xl/workbook.xml", WORKBOOK),
        ("xl/_rels/workbook.xml.rels", SHEET_RELATIONS),
        ("xl/sharedStrings.xml", STRINGS),
        ("xl/styles.xml", STYLES),
        ("xl/worksheets/sheet1.xml", SHEET),
    ];
    all.into_iter().filter(|(name, _)| *name != without).collect()
}

#[test]
fn xlsx_sheets() {
    fuzz_part("a.xlsx", "xl/worksheets/sheet1.xml", SHEET, &parts_of_workbook("xl/worksheets/sheet1.xml"));
}

#[test]
fn xlsx_other_parts() {
    for (part, seed) in [("xl/sharedStrings.xml", STRINGS), ("xl/styles.xml", STYLES), ("xl/workbook.xml", WORKBOOK)] {
        fuzz_part("a.xlsx", part, seed, &parts_of_workbook(part));
    }
}

const SLIDE: &[u8] = br#"<p:sld><p:sp><p:nvSpPr><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>Owls</a:t></a:r></a:p></p:txBody></p:sp><a:tbl><a:tblPr firstRow="1"/><a:tr><a:tc gridSpan="2" rowSpan="2"><a:txBody><a:p><a:r><a:t>a</a:t></a:r></a:p></a:txBody></a:tc><a:tc hMerge="1"/></a:tr><a:tr><a:tc vMerge="1"/><a:tc/></a:tr></a:tbl></p:sld>"#;

#[test]
fn pptx_slides() {
    let relations = br#"<Relationships><Relationship Id="r1" Type="t/slide" Target="slides/s.xml"/></Relationships>"#;
    let presentation = br#"<p:presentation><p:sldIdLst><p:sldId id="1" r:id="r1"/></p:sldIdLst></p:presentation>"#;
    let others = [("ppt/presentation.xml", &presentation[..]), ("ppt/_rels/presentation.xml.rels", &relations[..])];
    fuzz_part("a.pptx", "ppt/slides/s.xml", SLIDE, &others);
}

#[test]
fn open_documents() {
    let text = br#"<office:document-content><office:body><office:text><text:h text:outline-level="1">Owls</text:h><text:list><text:list-item><text:p>one<text:s text:c="3"/><text:note><text:note-body><text:p>note</text:p></text:note-body></text:note></text:p></text:list-item></text:list><table:table><table:table-row><table:table-cell table:number-columns-spanned="2" table:number-rows-spanned="2"><text:p>a</text:p></table:table-cell><table:covered-table-cell/></table:table-row></table:table></office:text></office:body></office:document-content>"#;
    let slides = br#"<office:document-content><office:body><office:presentation><draw:page draw:name="a"><draw:frame presentation:class="title"><draw:text-box><text:p>Owls</text:p></draw:text-box></draw:frame><presentation:notes><draw:frame><text:p>say</text:p></draw:frame></presentation:notes></draw:page></office:presentation></office:body></office:document-content>"#;
    let sheets = br#"<office:document-content><office:body><office:spreadsheet><table:table table:name="a"><table:table-row table:number-rows-repeated="3"><table:table-cell office:value-type="float" office:value="1e300" table:number-columns-repeated="2"><text:p>1</text:p></table:table-cell><table:covered-table-cell table:number-columns-repeated="4294967295"/></table:table-row></table:table></office:spreadsheet></office:body></office:document-content>"#;
    for (name, kind, seed) in
        [("a.odt", "text", &text[..]), ("a.odp", "presentation", &slides[..]), ("a.ods", "spreadsheet", &sheets[..])]
    {
        let mimetype = format!("application/vnd.oasis.opendocument.{kind}");
        fuzz_part(name, "content.xml", seed, &[("mimetype", mimetype.as_bytes())]);
    }
}

#[test]
fn rich_text() {
    let seed = br"{\rtf1\ansi\ansicpg1252\uc1{\fonttbl{\f0\fcharset204 A;}}{\stylesheet{\s1 heading 1;}}\pard\s1 Owls\par{\footnote a}\u8364?\'e4\trowd\clmgf\cellx1\clmrg\cellx2\intbl a\cell b\cell\row\page{\pict\bin3 abc}{\*\x y}\par}";
    let words: [&[u8]; 12] = [
        b"{",
        b"}",
        b"\\",
        b"\\bin99999999 ",
        b"\\u-1",
        b"\\uc99",
        b"\\'",
        b"\\row",
        b"\\cell",
        b"\\par",
        b"\\*",
        b"\xff",
    ];
    fuzz("rtf", &[seed], &words, load("a.rtf"));
}

#[test]
fn separated_values() {
    let seeds: [&[u8]; 3] = [b"a,b\n1,\"2\n3\"\n", b"a;b\n\"1\"\"2\";3\n", b"a\tb\n1\t2\n"];
    let words: [&[u8]; 6] = [b"\"", b",", b";", b"\t", b"\n", b"\xff"];
    fuzz("csv", &seeds, &words, load("a.csv"));
    fuzz("tsv", &seeds, &words, load("a.tsv"));
}

#[test]
fn mails_and_mailboxes() {
    let seed = b"From a Tue Mar  5 09:30:00 2024\nFrom: =?utf-8?q?A=C3=A4?= <a@x>\nSubject: a\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: multipart/alternative; boundary=c\n\n--c\n\na =\nb=C3=A4\n--c\nContent-Type: text/html; charset=utf-7\nContent-Transfer-Encoding: base64\n\nPHA+YTwvcD4=\n--c--\n--b\nContent-Type: message/rfc822\n\nSubject: b\n\nc\n--b\nContent-Disposition: attachment; filename*0=a; filename*1=.csv\n\na,b\n--b--\n\nFrom a Tue Mar  5 09:30:00 2024\nTo: b\n\nd";
    let words: [&[u8]; 12] = [
        b"--b\n",
        b"--b--\n",
        b"boundary=",
        b"Content-Type: ",
        b"message/rfc822\n\n",
        b"base64\n\n",
        b"=\n",
        b"\n\n",
        b">From ",
        b"From a 2024 10:30\n",
        b"=?utf-8?b?",
        b"filename*0*=",
    ];
    fuzz("mbox", &[seed], &words, |bytes| drop(super::documents_in("a.mbox", bytes)));
    fuzz("eml", &[&seed[32..]], &words, |bytes| drop(super::documents_in("a.eml", bytes)));
}
