//! `markdown`: chunks follow the headings.
//!
//! One section is one chunk; a section that is too large is cut between
//! sentences, but never inside a table or fenced code unless that alone is too
//! large; small sections under one heading share a chunk. For manuals and other
//! texts with headings (Markdown, HTML, EPUB and DOCX keep them); a PDF or a
//! plain text is one section, cut like `sentence`.
//! Source: header-aware splitting as in LangChain's `MarkdownHeaderTextSplitter`
//! and LlamaIndex's `MarkdownNodeParser`; packing and protected blocks are ours.

use super::{
    Chunker,
    outline::{Outline, link},
    sentences::SentenceFinder,
    split::{Cut, Joiner, Splitter, check_sizes, cut_by_size, not_set, overlap_follows_size, trim},
};
use crate::{
    Chunk, Component, Context, Document, Error, Span,
    analysis::{Language, LanguageChoice},
    component::settings,
};
use async_trait::async_trait;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

pub(super) const VERSION: u32 = 3;

settings! {
    /// Settings of `markdown`.
    // `overlap_follows_size!` below implements serde's traits; `sentence.rs` says how.
    #[serde(remote = "Self")]
    pub struct Config {
        /// The size of a chunk, in tokens of `cl100k_base`. Default 512.
        pub chunk_size: u32 = 512,
        /// The most that a chunk repeats of the one before within a section that
        /// is too large, in tokens. Default: a fifth of
        /// `chunk_size`, at most 50.
        // Only a mark: `overlap_follows_size!` replaces it by the default that the text above names.
        #[serde(default = "not_set")]
        #[schemars(with = "Option<u32>", extend("default" = null))]
        pub chunk_overlap: u32 = 50,
        /// Whether small sections under one heading share a chunk. Default true.
        pub merge_sections: bool = true,
        /// The language whose rules find sentences, by its English name in small letters, such
        /// as `german`. Default `auto`: the language of each document, if it is recognised, else English.
        pub language: LanguageChoice = LanguageChoice::Auto,
    }
}

overlap_follows_size!(|config| config.chunk_size);

impl Component for Config {
    fn named_language(&self) -> Option<Language> {
        self.language.language()
    }

    cut_by_size!(|size| size);
}

impl Config {
    pub(super) fn build(&self, _: &Context<'_>) -> Result<Box<dyn Chunker>, Error> {
        check_sizes("chunker markdown", "chunk_size", self.chunk_size, Self::default().chunk_size, self.chunk_overlap)?;
        let splitter = |cuts| Splitter::by_tokens(cuts, self.chunk_size, self.chunk_overlap);
        let lines = vec![Cut::Before("\n".to_owned()), Cut::Before(" ".to_owned()), Cut::Characters];
        Ok(Box::new(MarkdownChunker {
            prose: splitter(Cut::of_sentences(self.language, "\n\n", " ")),
            blocks: splitter(lines),
            merge_sections: self.merge_sections,
        }))
    }
}

struct MarkdownChunker {
    prose: Splitter,
    /// Cuts tables and code that are too large between their lines.
    blocks: Splitter,
    merge_sections: bool,
}

/// A heading with the text up to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MarkdownSection {
    span: Span,
    /// The titles from the outermost heading to this one; none before the first.
    path: Vec<String>,
}

/// What a document's Markdown says about where it may be cut.
#[derive(Debug, Default)]
struct Structure {
    sections: Vec<MarkdownSection>,
    /// Tables and fenced code, in order.
    blocks: Vec<Span>,
}

#[async_trait]
impl Chunker for MarkdownChunker {
    async fn chunk(&self, document: &Document) -> Result<Vec<Chunk>, Error> {
        let text = &document.text;
        let structure = if document.is_markdown() {
            Structure::of(text)
        } else {
            let whole = Span { start: 0, end: text.len() };
            Structure { sections: vec![MarkdownSection { span: whole, path: Vec::new() }], blocks: Vec::new() }
        };
        let outline = Outline::new(document);
        let finder = self.prose.finder(text);
        let mut chunks = Vec::new();
        for section in self.group(text, structure.sections) {
            for span in self.split(text, section.span, finder, &structure.blocks) {
                let number = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
                chunks.push(outline.chunk(number, span));
            }
        }
        link(&mut chunks);
        Ok(chunks)
    }
}

impl MarkdownChunker {
    /// Joins small sections that stand under one heading, as many as fit.
    fn group(&self, text: &str, sections: Vec<MarkdownSection>) -> Vec<MarkdownSection> {
        let mut groups: Vec<MarkdownSection> = Vec::new();
        // The path of the open group's first section, and the group's tokens.
        let mut first: Option<(Vec<String>, usize)> = None;
        for section in sections {
            let body = &text[section.span.start..section.span.end];
            let count = self.prose.count(body);
            let joined = match (&first, count, groups.last_mut()) {
                (Some((path, sum)), Some(count), Some(group))
                    if self.merge_sections
                        && sum + count <= self.prose.size
                        && (is_below(&section.path, path) || are_siblings(&section.path, path)) =>
                {
                    group.span.end = section.span.end;
                    Some(sum + count)
                }
                _ => None,
            };
            if let (Some(sum), Some((_, total))) = (joined, &mut first) {
                *total = sum;
            } else {
                first = count.map(|count| (section.path.clone(), count));
                groups.push(section);
            }
        }
        groups
    }

    fn split(&self, text: &str, within: Span, finder: SentenceFinder, blocks: &[Span]) -> Vec<Span> {
        if self.prose.count(&text[within.start..within.end]).is_some() {
            return trim(text, within).into_iter().collect();
        }
        let mut joiner = Joiner::new(text, self.prose.size, self.prose.overlap);
        let mut at = within.start;
        for block in &blocks[blocks.partition_point(|block| block.start < within.start)..] {
            if block.end > within.end {
                break;
            }
            if at < block.start {
                self.cut_prose(text, Span { start: at, end: block.start }, finder, &mut joiner);
            }
            // A block that fits is one piece; one that does not is cut too.
            self.blocks.cut(text, *block, finder, &mut joiner);
            at = block.end;
        }
        if at < within.end {
            self.cut_prose(text, Span { start: at, end: within.end }, finder, &mut joiner);
        }
        joiner.finish()
    }

    /// Cuts prose at its paragraphs and sentences even where all of it would
    /// fit, so that chunks are filled evenly.
    fn cut_prose(&self, text: &str, span: Span, finder: SentenceFinder, joiner: &mut Joiner<'_>) {
        let mut start = span.start;
        for paragraph in text[span.start..span.end].split_inclusive("\n\n") {
            let end = start + paragraph.len();
            self.prose.cut(text, Span { start, end }, finder, joiner);
            start = end;
        }
    }
}

impl Structure {
    fn of(text: &str) -> Self {
        let mut structure = Self::default();
        // The open section: where it starts, where its heading ends.
        let (mut start, mut body) = (0, 0);
        // Level and title of the open section's heading and those above it.
        let mut above: Vec<(usize, String)> = Vec::new();
        let mut in_heading = false;
        let mut depth = 0usize;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                // Only what stands in no list or quote is structure.
                Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                    let level = level as usize;
                    let at = line_start(text, range.start);
                    // A bare heading stays with the deeper one that follows.
                    let is_bare = text[body..at].trim().is_empty();
                    let leads = is_bare && above.last().is_some_and(|(last, _)| *last < level);
                    if !leads && start < at {
                        let span = Span { start, end: at };
                        structure.sections.push(MarkdownSection { span, path: titles(&above) });
                        start = at;
                    }
                    body = range.end;
                    above.retain(|(last, _)| *last < level);
                    above.push((level, String::new()));
                    in_heading = true;
                }
                Event::End(TagEnd::Heading(_)) => in_heading = false,
                Event::Text(part) | Event::Code(part) if in_heading => {
                    above.last_mut().into_iter().for_each(|(_, title)| title.push_str(&part));
                }
                Event::SoftBreak | Event::HardBreak if in_heading => {
                    above.last_mut().into_iter().for_each(|(_, title)| title.push(' '));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_)) | Tag::Table(_)) => {
                    let block = Span { start: line_start(text, range.start), end: range.end };
                    if structure.blocks.last().is_none_or(|last| last.end <= block.start) {
                        structure.blocks.push(block);
                    }
                }
                Event::Start(Tag::BlockQuote(_) | Tag::List(_)) => depth += 1,
                Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_)) => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        structure.sections.push(MarkdownSection { span: Span { start, end: text.len() }, path: titles(&above) });
        structure
    }
}

fn titles(above: &[(usize, String)]) -> Vec<String> {
    let clean = |title: &String| title.split_whitespace().collect::<Vec<_>>().join(" ");
    above.iter().map(|(_, title)| clean(title)).filter(|title| !title.is_empty()).collect()
}

/// The start of the line of a byte, so that indentation stays with its block.
fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |line_end| line_end + 1)
}

/// Whether a section stands under the heading of another.
fn is_below(path: &[String], above: &[String]) -> bool {
    !above.is_empty() && path.starts_with(above)
}

/// Whether two sections stand under the same heading.
fn are_siblings(a: &[String], b: &[String]) -> bool {
    a.len() > 1 && a.len() == b.len() && a[..a.len() - 1] == b[..b.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, chunk::conformance_tests::text_document};

    fn chunks(config: &Config, text: &str) -> Vec<Chunk> {
        let headings = crate::load::markdown_headings(text);
        let document = Document { format: Format::Markdown, headings, ..text_document(text) };
        config.build(&Context::default()).unwrap().chunk_now(&document).unwrap()
    }

    fn headings(chunks: &[Chunk]) -> Vec<&str> {
        chunks.iter().map(|chunk| chunk.heading.as_deref().unwrap_or("")).collect()
    }

    const MANUAL: &str =
        "Preface.\n\n# Install\n\n## Linux\n\nRun apt.\n\n## Windows\n\nRun setup.\n\nUse\n===\n\nStart it.";

    #[test]
    fn each_section_is_a_chunk_with_its_headings() {
        let chunks = chunks(&Config { merge_sections: false, ..Config::default() }, MANUAL);
        assert_eq!(headings(&chunks), ["", "Install > Linux", "Install > Windows", "Use"]);
        assert_eq!(chunks[1].text, "# Install\n\n## Linux\n\nRun apt.");
    }

    #[test]
    fn small_sections_under_one_heading_share_a_chunk() {
        let chunks = chunks(&Config::default(), MANUAL);
        assert_eq!(headings(&chunks), ["", "Install > Linux; Windows", "Use"]);
        assert!(chunks[1].text.starts_with("# Install") && chunks[1].text.ends_with("Run setup."));
    }

    #[test]
    fn code_and_tables_stay_whole_while_they_fit() {
        let code = "```sh\nfirst. second, third\n\n# not a heading\n\nfourth. fifth\n```";
        let table = "| a | b |\n|---|---|\n| one. | two. |\n| three. | four. |";
        let prose = "Some words stand here. ".repeat(10);
        let text = format!("# Title\n\n{prose}\n\n{code}\n\n{prose}\n\n{table}\n\n{prose}");
        let chunks =
            chunks(&Config { chunk_size: 40, chunk_overlap: 0, merge_sections: true, ..Config::default() }, &text);
        assert!(chunks.len() > 5);
        for block in [code, table] {
            assert_eq!(chunks.iter().filter(|chunk| chunk.text.contains(block)).count(), 1, "{block}");
        }
        assert!(headings(&chunks).iter().all(|heading| *heading == "Title"));
    }

    #[test]
    fn code_that_does_not_fit_is_cut_between_lines() {
        let lines: String = (0..40).map(|i| format!("command number {i} with words\n")).collect();
        let chunks = chunks(
            &Config { chunk_size: 40, chunk_overlap: 0, merge_sections: true, ..Config::default() },
            &format!("```\n{lines}```"),
        );
        assert!(chunks.len() > 3);
        assert!(chunks.iter().all(|chunk| chunk.text.starts_with("command") || chunk.text.starts_with("```")));
    }

    #[test]
    fn plain_text_is_one_section() {
        let chunks =
            Config::default().build(&Context::default()).unwrap().chunk_now(&text_document("# a\nb\n# c\nd")).unwrap();
        assert_eq!((chunks.len(), chunks[0].heading.as_deref()), (1, None));
    }
}
