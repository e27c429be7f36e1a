//! What every chunker must do with every text, checked over the registry.

use super::{ChunkerConfig, TokenCounter, classes::is_blank};
use crate::{
    Chunk, ChunkTable, Component, Context, Document, Format, Hit, InputSize, Page, Span,
    analysis::{cut_before, may_cut},
    pins_tests::small_chunks,
};
use serde_json::json;

/// A document of plain text, for tests.
pub(super) fn text_document(text: &str) -> Document {
    Document {
        path: "folder/file.txt".to_owned(),
        content: store::Key::of_bytes(text.as_bytes()),
        format: Format::Text,
        title: None,
        author: None,
        text: text.to_owned(),
        pages: Vec::new(),
        metadata: Default::default(),
        headings: Vec::new(),
        tables: Vec::new(),
        problems: Vec::new(),
    }
}

pub(super) fn nasty_texts() -> Vec<String> {
    let prose = "The quick brown fox jumps. Over it, e.g. a dog; sleeps! \"Does it?\" (Yes.) ";
    vec![
        String::new(),
        " \r\n\t\u{a0}\u{3000}\u{2028}".to_owned(),
        "x".to_owned(),
        ".".to_owned(),
        "中文句子没有空格。这是第二句话！真的吗？是的，".repeat(200),
        "👩‍👩‍👧🦀🇩🇪e\u{301}".repeat(500),
        "x".repeat(1 << 20),
        format!("{} {}", "supercalifragilistic".repeat(4000), prose),
        "line one\r\nline two.\r\n\r\n\r\n".repeat(300),
        prose.repeat(300),
        format!("\u{feff}{}\u{1c}\u{1d}", prose),
        (1..40).map(|i| format!("{} Level {i}\n\n{prose}\n", "#".repeat(i.min(9)))).collect(),
        format!(
            "# Head\n```\n{}```\n| a | b |\n|---|---|\n{}\n## Tail\n- # item\n> # quote\n",
            prose.repeat(90),
            "| c | d |\n".repeat(400)
        ),
        "# \n## \n#\n```\nnever closed\n# x\n".repeat(20),
        "word\n\n".repeat(3000),
        "<|endoftext|>'s 's <b>&amp;</b> 1234567890\u{85}".repeat(100),
        "!?.".repeat(5000),
        ". . . . ".repeat(5000),
        "a.\u{a0}.\u{a0}.\u{a0}".repeat(2000),
    ]
}

/// Texts that have grapheme clusters of several characters at places where chunkers cut.
fn texts_of_clusters() -> Vec<String> {
    vec![
        "e\u{301}, \u{301}a,\u{301}b\n\u{301}c. \u{301}D".repeat(300),
        "मैं क्षेत्र में हूँ। ".repeat(300),
        "\u{200f}ما هذا؟ نعم۔ apt-get 2.0 الآن. ".repeat(300),
        "ระบบจัดการแพ็กเกจจะแก้ไขการพึ่งพาโดยอัตโนมัติ ".repeat(300),
        "\u{1112}\u{1161}\u{11ab}🇩🇪🇫🇷ｶﾞ\u{200b}".repeat(600),
        format!("e{} x", "\u{301}".repeat(100)),
    ]
}

/// Every component as it comes, and with chunks so small that everything is cut.
fn configs() -> Vec<(ChunkerConfig, Option<usize>)> {
    // A function of the user's own has no default.
    let complete = ChunkerConfig::defaults().into_iter().filter(|config| config.build(&Context::default()).is_ok());
    let complete = complete.filter(|config| !config.is_nothing());
    let mut configs: Vec<_> = complete.map(|config| (config, None)).collect();
    for (json, size) in [
        (r#"{"sentence":{"chunk_size":16,"chunk_overlap":5}}"#, 16),
        (r#"{"sentence":{"chunk_size":4,"chunk_overlap":4}}"#, 4),
        (r#"{"hierarchical":{"chunk_sizes":[64,32,16],"chunk_overlap":4}}"#, 16),
        (r#"{"token":{"chunk_size":16,"chunk_overlap":4}}"#, 16),
        (r#"{"recursive":{"chunk_size":16,"chunk_overlap":4}}"#, 16),
        (r#"{"markdown":{"chunk_size":16,"chunk_overlap":4}}"#, 16),
        (r#"{"markdown":{"chunk_size":64,"chunk_overlap":0,"merge_sections":false}}"#, 64),
    ] {
        configs.push((serde_json::from_str(json).unwrap(), Some(size)));
    }
    for name in ChunkerConfig::NAMES {
        let settings = small_chunks(name, 16, 4);
        let is_listed = configs.iter().any(|(config, size)| config.name() == *name && size.is_some());
        if !is_listed && settings.get("chunk_size").is_some() {
            configs.push((serde_json::from_value(json!({ *name: settings })).unwrap(), Some(16)));
        }
    }
    // `semantic` needs a model; its file checks the same of it. `none` cuts nothing.
    let tried = |name: &&str| configs.iter().any(|(config, _)| config.name() == *name);
    let untried: Vec<&str> = ChunkerConfig::NAMES.iter().copied().filter(|name| !tried(name)).collect();
    assert_eq!(untried, ["semantic", "python", "none"]);
    configs
}

pub(super) fn check(document: &Document, chunks: &[Chunk], size: Option<usize>, name: &str) {
    let text = &document.text;
    let mut covered = 0;
    ChunkTable::checked(chunks.to_vec()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut last: Option<&Chunk> = None;
    for (number, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk.number as usize, number, "{name}");
        assert_eq!(text.get(chunk.span.start..chunk.span.end), Some(chunk.text.as_str()), "{name}");
        assert!(!chunk.text.trim_matches(is_blank).is_empty(), "{name}");
        assert_eq!(chunk.page, document.page_at(chunk.span.start).map(|page| page.number), "{name}");
        if !chunk.searchable {
            continue;
        }
        // The first leaf of a parent may lie before the end of the parent
        // before it: parents overlap too.
        if let Some(last) = last.filter(|last| last.parent == chunk.parent) {
            assert!(last.span.start <= chunk.span.start && last.span.end <= chunk.span.end, "{name}");
        }
        last = Some(chunk);
        if chunk.span.start > covered {
            assert!(text[covered..chunk.span.start].chars().all(is_blank), "{name}: a gap at {covered}");
        }
        covered = covered.max(chunk.span.end);
        if let Some(size) = size {
            let count = TokenCounter::shared().count(&chunk.text);
            assert!(count <= size, "{name}: {count} tokens in {:?}", chunk.text);
        }
    }
    assert!(text[covered..].chars().all(is_blank), "{name}: the end after {covered} is in no chunk");
}

#[test]
fn chunks_of_any_text_are_sound() {
    for (config, size) in configs() {
        let chunker = config.build(&Context::default()).unwrap();
        for mut text in nasty_texts() {
            // Tiny chunks of a megabyte would only take time.
            if size.is_some() {
                text = text.chars().take(40_000).collect();
            }
            for format in [Format::Text, Format::Markdown] {
                let headings = crate::load::markdown_headings(&text);
                let mut document = Document { format, headings, ..text_document(&text) };
                let half = (text.len() / 2..).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                document.pages = [(1, 0, half), (2, half, text.len())]
                    .map(|(number, start, end)| Page { number, span: Span { start, end } })
                    .to_vec();
                let start: String = text.chars().take(20).collect();
                check(&document, &chunker.chunk_now(&document).unwrap(), size, &format!("{config:?} on {start:?}"));
            }
        }
    }
}

#[test]
fn no_chunk_is_cut_within_a_grapheme_cluster_unless_the_cluster_is_larger() {
    for (config, size) in configs() {
        let chunker = config.build(&Context::default()).unwrap();
        for text in nasty_texts().into_iter().chain(texts_of_clusters()) {
            let text: String = text.chars().take(10_000).collect();
            let document = Document { format: Format::Markdown, ..text_document(&text) };
            for chunk in chunker.chunk_now(&document).unwrap() {
                for at in [chunk.span.start, chunk.span.end].into_iter().filter(|&at| !may_cut(&text, at)) {
                    let start = cut_before(&text, at);
                    let end = (at..).find(|&at| may_cut(&text, at)).unwrap();
                    let cluster = &text[start..end];
                    // White space at the ends of a chunk is dropped, even if it is in a cluster with an accent.
                    let is_trimmed = cluster.starts_with(is_blank);
                    let is_large = size.is_some_and(|size| TokenCounter::shared().count(cluster) > size);
                    assert!(is_trimmed || is_large, "{config:?}: {cluster:?}");
                }
            }
        }
    }
}

#[test]
fn a_named_language_cuts_where_the_detected_one_does() {
    let text = "Das Paket hängt z. B. von anderen Paketen ab, die am 3. Oktober erschienen sind. Dr. Müller pflegt sie seit \
                mehreren Jahren. Wer eine ältere Version behalten will, hält das Paket fest, damit es bei keiner \
                Aktualisierung des Systems angefasst wird. Danach ist alles in Ordnung.";
    let cut = |settings: serde_json::Value| -> Vec<String> {
        let config: ChunkerConfig = serde_json::from_value(settings).unwrap();
        let chunks = config.build(&Context::default()).unwrap().chunk_now(&text_document(text)).unwrap();
        chunks.into_iter().filter(|chunk| chunk.searchable).map(|chunk| chunk.text).collect()
    };
    for name in ["sentence", "markdown", "hierarchical", "sentence_window"] {
        let with = |language: &str| {
            let mut settings = json!({ "language": language });
            match name {
                "hierarchical" => settings["chunk_sizes"] = json!([64, 24]),
                "sentence_window" => {}
                _ => settings["chunk_size"] = json!(24),
            }
            cut(json!({ name: settings }))
        };
        assert_eq!(with("auto"), with("german"), "{name}");
    }
    let sentences = |language: &str| cut(json!({ "sentence_window": { "language": language } }));
    assert_eq!((sentences("german").len(), sentences("auto").len()), (4, 4));
    assert!(sentences("english").iter().any(|sentence| sentence.starts_with("Müller")));
    let refused = serde_json::from_value::<ChunkerConfig>(json!({ "sentence": { "language": "germn" } }));
    assert!(refused.unwrap_err().to_string().contains("germn"));
}

#[test]
fn context_is_text_of_the_document_and_keeps_the_hits() {
    let text = nasty_texts().swap_remove(9);
    for (config, _) in configs() {
        let chunker = config.build(&Context::default()).unwrap();
        let document = text_document(&text);
        let table =
            ChunkTable::new([chunker.chunk_now(&document).unwrap(), chunker.chunk_now(&document).unwrap()].concat());
        let rows = table.searchable().iter().step_by(3).take(12).copied();
        let hits: Vec<Hit> = rows.enumerate().map(|(i, row)| Hit { row, score: 1.0 / (i + 1) as f32 }).collect();
        let passages = chunker.context(hits.clone(), &table);
        assert!(passages.is_sorted_by(|a, b| a.score >= b.score), "{config:?}");
        for passage in &passages {
            assert_eq!(text.get(passage.span.start..passage.span.end), Some(passage.text.as_str()), "{config:?}");
            assert!(!passage.rows.is_empty(), "{config:?}");
        }
        let kept = |hit: &Hit| passages.iter().any(|passage| passage.rows.contains(&hit.row));
        assert!(hits.iter().all(kept), "{config:?}");
        assert!(chunker.context(Vec::new(), &table).is_empty());
    }
}

#[test]
fn what_is_estimated_of_prose_is_at_least_what_is_cut_and_found() {
    // A table is one long sentence.
    let lines = include_str!("../../../../ARCHITECTURE.md").lines().filter(|line| !line.starts_with('|'));
    let text = &lines.collect::<Vec<_>>().join("\n");
    let tokens = |text: &str| TokenCounter::shared().count(text) as u64;
    let document =
        Document { format: Format::Markdown, headings: crate::load::markdown_headings(text), ..text_document(text) };
    for (config, _) in configs().into_iter().filter(|(_, size)| size.is_none()) {
        let chunker = config.build(&Context::default()).unwrap();
        let table = ChunkTable::new(chunker.chunk_now(&document).unwrap());
        let searched = || table.searchable().iter().map(|&row| table.chunk(row));
        let cut = config.estimate_chunks(InputSize { text_tokens: tokens(text), ..InputSize::default() });
        let of_chunks: u64 = searched().map(|chunk| tokens(chunk.text)).sum();
        assert!(searched().count() as u64 <= cut.passages, "{config:?}: {} in {cut:?}", searched().count());
        assert!(of_chunks <= cut.passage_tokens * 21 / 20, "{config:?}: {of_chunks} in {cut:?}");
        assert!(cut.passages <= 4 * searched().count() as u64, "{config:?}: {cut:?} is far from the truth");
        for start in 0..20 {
            let rows = table.searchable().iter().skip(7 * start).take(5).copied();
            let hits: Vec<Hit> = rows.map(|row| Hit { row, score: 1.0 }).collect();
            let given = config.estimate_output(InputSize::default().with_passages(hits.len()));
            let found: u64 = chunker.context(hits, &table).iter().map(|passage| tokens(&passage.text)).sum();
            assert!(found <= given.passage_tokens, "{config:?}: {found} in {given:?}");
        }
    }
}

#[test]
fn unknown_settings_are_refused() {
    for name in ChunkerConfig::NAMES {
        let json = format!(r#"{{"{name}":{{"no_such_setting":1}}}}"#);
        assert!(serde_json::from_str::<ChunkerConfig>(&json).is_err(), "{name}");
        assert!(serde_json::from_str::<ChunkerConfig>(&format!(r#"{{"{name}":{{}}}}"#)).is_ok(), "{name}");
    }
}

#[test]
fn an_overlap_that_is_not_set_follows_the_size_and_is_part_of_the_settings() {
    for (settings, expected) in [
        (r#"{"sentence":{}}"#, 200),
        (r#"{"sentence":{"chunk_size":1024}}"#, 200),
        (r#"{"sentence":{"chunk_size":4096}}"#, 200),
        (r#"{"sentence":{"chunk_size":256}}"#, 51),
        (r#"{"sentence":{"chunk_size":4}}"#, 0),
        (r#"{"sentence":{"chunk_size":256,"chunk_overlap":200}}"#, 200),
        (r#"{"token":{"chunk_size":512}}"#, 20),
        (r#"{"token":{"chunk_size":64}}"#, 12),
        (r#"{"recursive":{}}"#, 50),
        (r#"{"recursive":{"chunk_size":128}}"#, 25),
        (r#"{"markdown":{"chunk_size":100}}"#, 20),
        (r#"{"hierarchical":{}}"#, 20),
        (r#"{"hierarchical":{"chunk_sizes":[64,16]}}"#, 3),
    ] {
        let config: ChunkerConfig = serde_json::from_str(settings).unwrap();
        let resolved = serde_json::to_value(&config).unwrap();
        assert_eq!(resolved[config.name()]["chunk_overlap"], expected, "{settings}");
        assert!(config.build(&Context::default()).is_ok(), "{settings}");
    }
    for config in ChunkerConfig::defaults() {
        let text = format!(r#"{{"{}":{{}}}}"#, config.name());
        if let Ok(read) = serde_json::from_str::<ChunkerConfig>(&text) {
            assert_eq!(read, config, "what is not set is the default");
        }
    }
}
