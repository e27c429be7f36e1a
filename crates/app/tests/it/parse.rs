//! The axis `parse`: parsers of one's own beside ours, in one experiment.

use crate::workspace::Workspace;
use serde_json::{Value, json};

const RECALL: &str = "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\", \"ndcg\"]";

/// An experiment whose files are read by default and by a shell script, which gets the path of the file as `$1`.
fn experiment(workspace: &Workspace, pattern: &str, script: &str) {
    let args = json!(["-c", script, "parse", "{file}"]);
    let parser =
        format!("{{ {pattern} = {{ command = {{ program = \"/bin/sh\", args = {args} }} }}, default = \"text\" }}");
    let space = format!(
        "parse = [\"text\", {parser}]\nchunker = [{{ sentence = {{ chunk_size = 32, chunk_overlap = 0 }} }}]\nretriever = [{{ \
         bm25 = {{ top_k = 3 }} }}]"
    );
    workspace.experiment(&space, RECALL);
}

fn trial<'a>(run: &'a Value, id: &str) -> &'a Value {
    run["trials"].as_array().unwrap().iter().find(|trial| trial["trial"]["id"] == id).unwrap()
}

fn recall(run: &Value, id: &str) -> f64 {
    trial(run, id)["metrics"]["recall"]["mean"].as_f64().unwrap()
}

fn warnings<'a>(run: &'a Value, code: &str) -> Vec<&'a Value> {
    run["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] == code).collect()
}

#[test]
fn a_parser_that_reads_the_same_words_scores_the_same() {
    let workspace = Workspace::new();
    // It adds a heading, so every place is another one.
    experiment(&workspace, "text", "printf '# Read by a script\\n\\n'; cat \"$1\"");
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(run["trials"].as_array().unwrap().len(), 2, "{run}");
    assert_eq!((recall(&run, "t01"), recall(&run, "t02")), (1.0, 1.0), "{run}");
    assert!(warnings(&run, "lost-by-parser").is_empty(), "{run}");
    assert_eq!(trial(&run, "t02")["trial"]["labels"]["parse"], "text=command default=text");
    let again = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(again["executed"], 0, "nothing is parsed again: {again}");
}

#[test]
fn evidence_that_only_one_parser_reads_counts_against_the_other_and_is_told() {
    let workspace = Workspace::new();
    experiment(&workspace, "text", "tr a-z A-Z < \"$1\"");
    let plan = workspace.run(&["plan", "--json"]).succeeds().json();
    let told = warnings(&plan, "lost-by-parser");
    assert_eq!((told.len(), &told[0]["trials"]), (1, &json!(["t02"])), "{plan}");
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!((recall(&run, "t01"), recall(&run, "t02")), (1.0, 0.75), "{run}");
    let show = workspace.run(&["show", "t02", "owl"]).succeeds();
    assert!(show.out.contains("lost: not read (text=command default=text)"), "{}", show.out);
    assert!(show.out.contains("not in the text that the trial's parser reads"), "{}", show.out);
    // The first parser may be the one that does not read it.
    let file = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let (first, second) = (file.find("\"text\", {").unwrap(), file.find("} }]\nretriever").unwrap());
    let parser = &file[first + "\"text\", ".len()..file[..second].rfind("]\nchunker").unwrap()];
    workspace.write("experiment.toml", file.replace(&format!("\"text\", {parser}"), &format!("{parser}, \"text\"")));
    let turned = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!((recall(&turned, "t01"), recall(&turned, "t02")), (0.75, 1.0), "{turned}");
}

#[test]
fn a_file_that_one_parser_refuses_is_a_document_of_the_other() {
    let workspace = Workspace::new();
    experiment(&workspace, "html", "echo 'no such font' >&2; exit 4");
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!((recall(&run, "t01"), recall(&run, "t02")), (1.0, 0.5), "{run}");
    let told = warnings(&run, "lost-by-parser")[0]["text"].as_str().unwrap();
    assert!(
        told.contains("2 of 4 questions") && told.contains("whales.html") && told.contains("no such font"),
        "{told}"
    );
}

#[test]
fn a_parser_that_reads_nothing_is_refused_before_the_run() {
    let workspace = Workspace::new();
    experiment(&workspace, "\"**\"", "exit 1");
    workspace.run(&["run"]).refused_with(&["space.parse: `**=command default=text` gives no document of any file"]);
    experiment(&workspace, "pfd", "cat \"$1\"");
    workspace.run(&["plan"]).refused_with(&["`pfd` is no format"]);
    let space =
        "parse = { command = { program = \"/no/such/program\" } }\nchunker = \"sentence\"\nretriever = \"bm25\"";
    workspace.experiment(space, RECALL);
    let failed = workspace.run(&["run"]).ends_with(1);
    assert!(failed.err.contains("parse command: `/no/such/program` cannot be started"), "{}", failed.err);
}

#[test]
fn a_document_is_shown_as_each_parser_reads_it() {
    let workspace = Workspace::new();
    experiment(&workspace, "text", "tr a-z A-Z < \"$1\"");
    let first = workspace.run(&["document", "owls.txt"]).succeeds();
    assert!(first.out.starts_with("Owls hunt at night."), "{}", first.out);
    let second = workspace.run(&["document", "owls.txt", "--parser", "2"]).succeeds();
    assert!(second.out.starts_with("OWLS HUNT AT NIGHT."), "{}", second.out);
    let third = workspace.run(&["document", "owls.txt", "--parser", "3"]).ends_with(1);
    assert!(third.err.contains("there are 2 parsers: 1 text, 2 text=command default=text"), "{}", third.err);
}

/// A PDF of as many pages, each with a table of three rows without lines around its cells.
pub fn pdf(pages: usize) -> Vec<u8> {
    let cell = |x: u32, y: u32, words: &str| format!("BT /F 10 Tf {x} {y} Td ({words}) Tj ET\n");
    let rows = [["bird", "weighs", "eats"], ["barn owl", "550 g", "four mice"], ["eagle owl", "2400 g", "a hare"]];
    let content: String = rows
        .iter()
        .zip([700, 680, 660])
        .flat_map(|(row, y)| row.iter().zip([72, 200, 330]).map(move |(words, x)| cell(x, y, words)))
        .collect();
    let kids: Vec<String> = (0..pages).map(|page| format!("{} 0 R", page + 5)).collect();
    let mut file = format!(
        "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n\
         2 0 obj<</Type/Pages/Kids[{}]/Count {pages}>>endobj\n\
         3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n\
         4 0 obj<</Length {}>>stream\n{content}\nendstream endobj\n",
        kids.join(" "),
        content.len()
    );
    for page in 0..pages {
        file += &format!(
            "{} 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F 3 0 R>>>>>>\
             endobj\n",
            page + 5
        );
    }
    (file + "trailer<</Root 1 0 R>>\n%%EOF\n").into_bytes()
}

#[test]
fn a_table_of_a_pdf_is_lines_by_text_and_rows_by_layout() {
    if std::env::var_os("REVERIE_TEST_LIBRARIES").is_none() {
        return skips::skip("REVERIE_TEST_LIBRARIES is not set: no libpdfium");
    }
    let workspace = Workspace::new();
    let space = "parse = [\"text\", \"layout\"]\nchunker = \"sentence\"\nretriever = \"bm25\"";
    workspace.experiment(space, RECALL);
    workspace.write("documents/birds.pdf", pdf(1));
    let lines = workspace.run(&["document", "birds.pdf"]).succeeds();
    assert!(!lines.out.contains('|') && lines.out.contains("barn owl"), "{}", lines.out);
    let rows = workspace.run(&["document", "birds.pdf", "--parser", "2"]).succeeds();
    let table = "| bird | weighs | eats |\n| --- | --- | --- |\n| barn owl | 550 g | four mice |";
    assert!(rows.out.contains(table), "{}", rows.out);
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!((recall(&run, "t01"), recall(&run, "t02")), (1.0, 1.0), "{run}");
}

#[test]
fn a_large_pdf_is_read_whole_by_several_processes() {
    if std::env::var_os("REVERIE_TEST_LIBRARIES").is_none() {
        return skips::skip("REVERIE_TEST_LIBRARIES is not set: no libpdfium");
    }
    let workspace = Workspace::new();
    workspace.experiment("parse = \"layout\"\nchunker = \"sentence\"\nretriever = \"bm25\"", RECALL);
    workspace.write("documents/birds.pdf", pdf(300));
    let document = workspace.run(&["document", "birds.pdf", "--json"]).succeeds().json();
    let pages = document["pages"].as_array().unwrap();
    assert_eq!(pages.len(), 300);
    assert!(pages.iter().zip(1..).all(|(page, number)| page["number"] == number));
    let text = document["text"].as_str().unwrap();
    // The tables of all pages are one, as a table over several pages is.
    assert_eq!((text.matches("barn owl").count(), text.matches("bird").count()), (300, 1), "{}", &text[..500]);
}

#[test]
fn a_page_is_read_as_a_picture() {
    let (Ok(models), Some(_)) = (std::env::var("REVERIE_TEST_MODELS"), std::env::var_os("REVERIE_TEST_LIBRARIES"))
    else {
        return skips::skip("REVERIE_TEST_MODELS and REVERIE_TEST_LIBRARIES are not set: no networks for pictures");
    };
    let workspace = Workspace::new();
    let space = "parse = [{ pdf = { ocr = { all_pages = true } } }]\nchunker = \"sentence\"\nretriever = \"bm25\"";
    workspace.experiment(space, RECALL);
    workspace.write("documents/birds.pdf", pdf(1));
    workspace.run(&["plan"]).refused_with(&["space.parse", "pp-ocrv6-small"]);
    let home = workspace.file("home/models");
    std::fs::create_dir_all(&home).unwrap();
    let network = std::path::Path::new(&models).join("pp-ocrv6-small");
    std::os::unix::fs::symlink(network, home.join("pp-ocrv6-small")).unwrap();
    let document = workspace.run(&["document", "birds.pdf", "--json"]).succeeds().json();
    let table = "| bird | weighs | eats |\n| --- | --- | --- |\n| barn owl | 550 g | four mice |\n| eagle owl | 2400 g | a hare |";
    assert_eq!(document["text"], table, "{document}");
    assert_eq!(document["problems"], Value::Null, "it was read with confidence: {document}");
    // A picture of the page has no letters, so its lines are read, each with its confidence.
    workspace.run(&["document", "birds.pdf", "--page", "1", "--image", "documents/birds.png"]).succeeds();
    workspace.experiment("parse = \"ocr\"\nchunker = \"sentence\"\nretriever = \"bm25\"", RECALL);
    let experiment = std::fs::read_to_string(workspace.file("experiment.toml")).unwrap();
    let experiment = experiment.replace("[corpus]\n", "[corpus]\ninclude = [\"**/*.png\"]\n");
    workspace.write("experiment.toml", experiment);
    let page = workspace.run(&["document", "birds.png", "--page", "1", "--json"]).succeeds().json();
    let lines = page["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["text"] == "barn owl").unwrap_or_else(|| panic!("{page}"));
    assert!(line["confidence"].as_f64().is_some_and(|sure| sure > 0.8 && sure <= 1.0), "{line}");
    assert!(line["area"]["left"].as_f64() < line["area"]["right"].as_f64(), "{line}");
}
