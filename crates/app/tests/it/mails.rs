//! Mails and mailboxes: each mail and each attachment is a document of its own, from the plan to the answer and until it is
//! forgotten.

use crate::{parse::pdf, serve::Service, workspace::Workspace};
use serde_json::Value;

const SPACE: &str = "chunker = [{ sentence = { chunk_size = 64 } }]\nretriever = [{ bm25 = { top_k = 3 } }]";
const MAIL: &str = "From: Ada Mill <ada@example.org>\nTo: bo@example.org\nSubject: Badgers\nDate: Tue, 5 Mar 2024 09:30:00 +0100\n\
    MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nBadgers dig setts in the clay behind the mill.\n--b\n\
    Content-Disposition: attachment; filename=setts.csv\n\nsett,badgers\nold quarry,seventeen\n--b\n\
    Content-Disposition: attachment; filename=photo.bin\nContent-Transfer-Encoding: base64\n\nAAECAwQFBgcICQoLDA0ODxAREhMUFQ==\n--b--\n";
const BOX: &str = "From a Tue Mar  5 09:30:00 2024\nFrom: cy@example.org\nSubject: Newts\nDate: Wed, 6 Mar 2024 09:30:00 +0100\n\n\
    Newts spawn in the mill pond in April.\n\nFrom a Tue Mar  5 09:30:00 2024\nFrom: di@example.org\nSubject: Stoats\n\
    Date: Thu, 7 Mar 2024 09:30:00 +0100\n\nStoats turn white in winter.\n";

fn with_mails() -> Workspace {
    let workspace = Workspace::new();
    workspace.experiment(SPACE, "[dataset]\npath = \"golden.jsonl\"\n[evaluate]\nmetrics = [\"recall\"]");
    std::fs::create_dir_all(workspace.file("documents/inbox")).unwrap();
    workspace.write("documents/inbox/badgers.eml", MAIL);
    workspace.write("documents/archive.mbox", BOX);
    let question = |id: &str, question: &str, document: &str, quote: &str| serde_json::json!({ "id": id, "question": question, "answer": quote, "evidence": [{ "document": document, "quote": quote }] });
    let questions = [
        question(
            "setts",
            "How many badgers live in the old quarry?",
            "inbox/badgers.eml/setts.csv",
            "old quarry | seventeen",
        ),
        question(
            "newts",
            "Where do newts spawn?",
            "archive.mbox/2024-03-06 Newts.eml",
            "Newts spawn in the mill pond in April.",
        ),
    ];
    let golden = std::fs::read_to_string(workspace.file("golden.jsonl")).unwrap();
    workspace.write(
        "golden.jsonl",
        golden.trim_end().to_owned() + "\n" + &questions.map(|question| format!("{question}\n")).concat(),
    );
    workspace
}

#[test]
fn golden_evidence_in_attachments_and_mails_of_a_mailbox_is_found() {
    let workspace = with_mails();
    let run = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(run["trials"][0]["metrics"]["recall"]["mean"], 1.0, "{run}");
    let rejected = run["rejected"].as_array().unwrap();
    assert_eq!((rejected.len(), &rejected[0]["path"]), (1, &Value::from("inbox/badgers.eml/photo.bin")), "{run}");
    let documents = |told: &Value| told["documents"].as_u64().unwrap();
    assert_eq!(documents(&run), 7, "{run}");
    let answer = workspace.run(&["query", "Who digs setts in the clay?", "--json"]).succeeds().json();
    let passage = &answer["passages"][0];
    assert_eq!(passage["document"], "inbox/badgers.eml", "{answer}");
    let mail = workspace.run(&["document", "inbox/badgers.eml", "--json"]).succeeds().json();
    assert_eq!(mail["metadata"]["from"], "Ada Mill <ada@example.org>");
    let again = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(again["executed"], 0, "{again}");
    // A mailbox that grows is read again, and the mails that were in it keep their names.
    workspace.write("documents/archive.mbox", BOX.to_owned() + "\nFrom a Tue Mar  5 09:30:00 2024\nSubject: Newts\nDate: Wed, 6 Mar 2024 11:00:00 +0100\n\nNewts sleep.\n");
    let grown = workspace.run(&["run", "--json"]).succeeds().json();
    assert_eq!(
        (documents(&grown), &grown["trials"][0]["metrics"]["recall"]["mean"]),
        (documents(&run) + 1, &Value::from(1.0)),
        "{grown}"
    );
}

#[test]
fn a_mail_and_each_file_in_it_is_shown_by_its_path() {
    let workspace = with_mails();
    let mail = workspace.run(&["document", "inbox/badgers.eml"]).succeeds();
    let head = "# Badgers\n\nFrom: Ada Mill <ada@example.org>\nTo: bo@example.org\nDate: 2024-03-05 09:30 +01:00\n\
        Attachments: setts.csv, photo.bin\n\nBadgers dig setts";
    assert!(mail.out.starts_with(head), "{}", mail.out);
    let table = workspace.run(&["document", "inbox/badgers.eml/setts.csv"]).succeeds();
    assert!(table.out.starts_with("| sett | badgers |"), "{}", table.out);
    let newts = workspace.run(&["document", "archive.mbox/2024-03-06 Newts.eml"]).succeeds();
    assert!(newts.out.contains("Newts spawn in the mill pond"), "{}", newts.out);
    let whole = workspace.run(&["document", "archive.mbox"]).ends_with(1);
    assert!(whole.err.contains("in it are 2 files, such as archive.mbox/2024-03-06 Newts.eml"), "{}", whole.err);
    let other = workspace.run(&["document", "inbox/badgers.eml/nothing.txt"]).ends_with(1);
    assert!(other.err.contains("in inbox/badgers.eml are 3 files"), "{}", other.err);
}

#[test]
fn a_mail_is_forgotten_with_its_attachments_and_a_mailbox_with_its_mails() {
    let workspace = with_mails();
    workspace.run(&["run"]).succeeds();
    let within = workspace.run(&["forget", "inbox/badgers.eml/setts.csv", "--dry-run", "--json"]);
    assert!(
        within.err.contains("inbox/badgers.eml") || within.out.contains("inbox/badgers.eml"),
        "{} {}",
        within.out,
        within.err
    );
    std::fs::remove_file(workspace.file("documents/inbox/badgers.eml")).unwrap();
    std::fs::remove_file(workspace.file("documents/archive.mbox")).unwrap();
    let forgotten =
        workspace.run(&["forget", "inbox/badgers.eml", "archive.mbox", "--dry-run", "--json"]).succeeds().json();
    let mut paths: Vec<&str> =
        forgotten["documents"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    let expected = [
        "archive.mbox",
        "archive.mbox/2024-03-06 Newts.eml",
        "archive.mbox/2024-03-07 Stoats.eml",
        "inbox/badgers.eml",
        "inbox/badgers.eml/photo.bin",
        "inbox/badgers.eml/setts.csv",
    ];
    assert_eq!(paths, expected, "{forgotten}");
}

#[test]
fn a_sampled_plan_counts_the_documents_in_mails() {
    let workspace = with_mails();
    let sampled = workspace.run(&["plan", "--sample", "--json"]).succeeds().json();
    assert_eq!(sampled["documents"]["estimate"], 7, "{sampled}");
}

#[tokio::test]
async fn a_passage_is_marked_on_the_page_of_its_document() {
    if std::env::var_os("REVERIE_TEST_LIBRARIES").is_none() {
        return skips::skip("REVERIE_TEST_LIBRARIES is not set: no libpdfium");
    }
    let workspace = Workspace::new();
    workspace.experiment(&format!("parse = \"layout\"\n{SPACE}"), "[dataset]\npath = \"golden.jsonl\"\n");
    workspace.write("documents/birds.pdf", pdf(2));
    let encoded = {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(pdf(1))
    };
    let mail = "Subject: x\nFrom: a\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: application/pdf; name=eagles.pdf\n\
        Content-Transfer-Encoding: base64\n\n";
    workspace.write("documents/birds.eml", format!("{mail}{encoded}\n--b--\n"));
    let page = workspace
        .run(&["document", "birds.pdf", "--page", "2", "--image", "page.png", "--mark", "2400 g", "--json"])
        .succeeds();
    let json = page.json();
    let mark = &json["mark_boxes"][0][0];
    let at = |side: &str| mark[side].as_f64().unwrap();
    // The words stand 200 points from the left and 660 from below on a page of 612 × 792.
    assert!(
        (at("left") - 200.0 / 612.0).abs() < 0.01 && (at("bottom") - (792.0 - 660.0) / 792.0).abs() < 0.01,
        "{json}"
    );
    assert_eq!(
        json["table_boxes"][0].as_array().unwrap().len(),
        6,
        "a box for each cell of the rows on this page: {json}"
    );
    assert!(std::fs::read(workspace.file("page.png")).unwrap().starts_with(b"\x89PNG"));
    let missing = workspace.run(&["document", "owls.txt", "--page", "1", "--image", "page.png"]).ends_with(2);
    assert!(missing.err.contains("its format has no pages"), "{}", missing.err);

    workspace.run(&["run"]).succeeds();
    let service = Service::start(&workspace, &[]);
    for file in ["birds.pdf", "birds.eml/eagles.pdf"] {
        let found = service.json("/rag/retrieve?query=eagle+owl+2400+hare&top_k=3").await;
        let passages = found["passages"].as_array().unwrap();
        let source = passages.iter().find(|passage| passage["file"] == file).unwrap_or_else(|| panic!("{found}"));
        let id = source["id"].as_str().unwrap();
        assert_eq!(service.json(&format!("/rag/sources/{id}")).await["has_page_image"], true);
        let place = service.json(&format!("/rag/sources/{id}/page")).await;
        assert!(place["page"] == source["page"] && place["boxes"].as_array().unwrap().len() >= 3, "{place}");
        let picture = service.get(&format!("/rag/sources/{id}/page.png")).await;
        assert_eq!(picture.headers()["content-type"], "image/png");
        assert!(picture.bytes().await.unwrap().starts_with(b"\x89PNG"));
        assert_eq!(service.get(&format!("/rag/sources/{id}/page.png?number=99")).await.status(), 404);
    }
    // The page is drawn anew as soon as its document has changed.
    let picture = async || {
        let found = service.json("/rag/retrieve?query=eagle+owl+2400+hare&top_k=3").await;
        let passages = found["passages"].as_array().unwrap();
        let source = passages.iter().find(|passage| passage["file"] == "birds.pdf").unwrap();
        let id = source["id"].as_str().unwrap();
        service.get(&format!("/rag/sources/{id}/page.png")).await.bytes().await.unwrap()
    };
    let before = picture().await;
    assert!(before == picture().await, "a page that has not changed has the same picture");
    let changed = String::from_utf8(pdf(2)).unwrap().replace("2400 g", "9999 g");
    workspace.write("documents/birds.pdf", changed);
    assert!(before != picture().await, "the picture is that of the changed document");
    let owls = service.json("/rag/retrieve?query=owls+hunt+at+night").await;
    let id = owls["passages"][0]["id"].as_str().unwrap();
    assert_eq!(service.get(&format!("/rag/sources/{id}/page")).await.status(), 404);
    // The document is gone: its text is still served, and its pages are not, not even the one just drawn.
    std::fs::remove_file(workspace.file("documents/birds.pdf")).unwrap();
    let found = service.json("/rag/retrieve?query=eagle+owl+2400+hare&top_k=3").await;
    let source = found["passages"].as_array().unwrap().iter().find(|passage| passage["file"] == "birds.pdf").unwrap();
    let gone = service.get(&format!("/rag/sources/{}/page.png", source["id"].as_str().unwrap())).await;
    assert_eq!(gone.status(), 404);
}
