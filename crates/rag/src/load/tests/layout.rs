//! PDFs as `layout` reads them. They are made here, letter by letter and line by line.

use super::super::*;
use super::pdf::{has_library, page_with, pdf};
use super::{assert_pages_fit, assert_tables_fit};
use crate::types::TableFault;

/// A PDF of pages with these contents, 600 points wide and 800 high. `/F` is the text, `/B` bold, `/M` for listings.
fn pages(contents: &[String]) -> Vec<u8> {
    let font = |name: &str| format!("<< /Type /Font /Subtype /Type1 /BaseFont /{name} >>");
    let numbers = 6..6 + contents.len();
    let kids: Vec<String> = numbers.clone().map(|number| format!("{number} 0 R")).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), contents.len()),
        font("Helvetica"),
        font("Helvetica-Bold"),
        font("Courier"),
    ];
    objects.extend(numbers.clone().map(|number| {
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {} 0 R
            /Resources << /Font << /F 3 0 R /B 4 0 R /M 5 0 R >> >> >>",
            number + contents.len()
        )
    }));
    objects.extend(contents.iter().map(|content| page_with(content)));
    pdf(&objects, "")
}

/// A line of text at a place from the lower left corner.
fn text(font: &str, size: u32, x: u32, y: u32, words: &str) -> String {
    format!("BT /{font} {size} Tf {x} {y} Td ({words}) Tj ET\n")
}

/// Lines of text below each other.
fn lines(x: u32, top: u32, lines: &[&str]) -> String {
    lines.iter().zip(0..).map(|(line, number)| text("F", 10, x, top - 12 * number, line)).collect()
}

/// Cells 100 points wide and 20 high, from their upper left corner.
fn cells(x: u32, top: u32, rows: &[&[&str]]) -> String {
    let mut content = String::new();
    for (row, number) in rows.iter().zip(0..) {
        for (cell, column) in row.iter().zip(0..) {
            content += &text("F", 10, x + 100 * column + 4, top - 20 * number - 14, cell);
        }
    }
    content
}

/// The lines around such cells.
fn borders(x: u32, top: u32, rows: u32, columns: u32) -> String {
    let (right, bottom) = (x + 100 * columns, top - 20 * rows);
    let level = (0..=rows).map(|row| format!("{x} {0} m {right} {0} l S\n", top - 20 * row));
    let upright = (0..=columns).map(|column| format!("{0} {top} m {0} {bottom} l S\n", x + 100 * column));
    level.chain(upright).collect()
}

fn read(contents: &[String]) -> Document {
    let document = parse_layout("a.pdf", &pages(contents), &ParseLimits::default()).unwrap();
    assert_pages_fit(&document);
    assert_tables_fit(&document);
    document
}

const PARTS: [&[&str]; 3] = [&["part", "mass", "count"], &["wheel", "12 kg", "4"], &["stone", "900 kg", "2"]];
const WORDS: [&str; 4] = [
    "The mill at the upper weir was built in the year of the flood,",
    "and its two stones have ground rye and barley ever since, except",
    "for the winters in which the river froze from bank to bank and no",
    "wheel would turn.",
];

#[test]
fn a_drawn_table_has_rows_and_columns_and_the_text_around_it_none() {
    if !has_library() {
        return;
    }
    let content = lines(50, 760, &WORDS) + &cells(50, 700, &PARTS) + &borders(50, 700, 3, 3) + &lines(50, 600, &WORDS);
    let document = read(&[content]);
    let rows = "| part | mass | count |\n| --- | --- | --- |\n| wheel | 12 kg | 4 |\n| stone | 900 kg | 2 |";
    let paragraph = WORDS.join(" ");
    assert_eq!(document.text, format!("{paragraph}\n\n{rows}\n\n{paragraph}"));
    let [table] = &document.tables[..] else { panic!("{:?}", document.tables) };
    assert_eq!((table.page, table.header_rows), (Some(1), 1));
    assert!(table.faults.is_empty() && document.problems.is_empty());
}

#[test]
fn a_table_without_lines_is_found_by_the_gaps_between_its_columns() {
    if !has_library() {
        return;
    }
    let document = read(&[lines(50, 760, &WORDS) + &cells(50, 700, &PARTS)]);
    assert!(document.text.ends_with("| wheel | 12 kg | 4 |\n| stone | 900 kg | 2 |"), "{}", document.text);
}

#[test]
fn a_cell_over_two_columns_stands_in_both() {
    if !has_library() {
        return;
    }
    let rows: [&[&str]; 3] = [&["", "2024", ""], &["city", "Q1", "Q2"], &["Oslo", "7", "8"]];
    // The line between the second and the third column begins below the first row.
    let upright = "50 700 m 50 640 l S 150 700 m 150 640 l S 250 680 m 250 640 l S 350 700 m 350 640 l S\n";
    let level: String = [700, 680, 660, 640].map(|y| format!("50 {y} m 350 {y} l S\n")).concat();
    let document = read(&[cells(50, 700, &rows) + &level + upright]);
    assert_eq!(document.text, "|  | 2024 | 2024 |\n| --- | --- | --- |\n| city | Q1 | Q2 |\n| Oslo | 7 | 8 |");
    assert_eq!(document.tables[0].merged.len(), 1);
}

#[test]
fn what_stands_at_the_top_of_pages_far_apart_is_no_running_text() {
    if !has_library() {
        return;
    }
    let page = |number: u32| {
        let example = if [1, 12].contains(&number) { text("F", 10, 50, 770, "Example:") } else { String::new() };
        text("F", 9, 50, 785, "The upper mill") + &example + &lines(50, 690, &WORDS)
    };
    let document = read(&(1..=12).map(page).collect::<Vec<_>>());
    assert_eq!(document.text.matches("The upper mill").count(), 0, "{}", document.text);
    assert_eq!(document.text.matches("Example:").count(), 2, "{}", document.text);
}

#[test]
fn titles_with_numbers_are_headings_also_below_and_between_tables() {
    if !has_library() {
        return;
    }
    let title = |y: u32, number: &str, words: &str| text("B", 14, 50, y, number) + &text("B", 14, 150, y, words);
    let three = [title(760, "2.1", "Wheels"), title(738, "2.2", "Stones"), title(716, "2.3", "Weirs")].concat();
    let document = read(&[three + &lines(50, 690, &WORDS)]);
    assert!(document.tables.is_empty(), "{}", document.text);
    let below = cells(50, 700, &PARTS) + &title(620, "3", "Stones") + &cells(50, 610, &PARTS);
    let document = read(&[lines(50, 760, &WORDS) + &below + &lines(50, 500, &WORDS)]);
    assert_eq!(document.tables.len(), 2, "{}", document.text);
    assert!(document.text.contains("# 3 Stones\n\n| part | mass | count |"), "{}", document.text);
    // Lines above and below the whole page bound no table.
    let around = "50 770 m 550 770 l S 50 590 m 550 590 l S\n".to_owned() + &lines(50, 500, &WORDS);
    let document = read(&[around + &cells(50, 760, &PARTS) + &title(680, "3", "Stones") + &cells(50, 670, &PARTS)]);
    assert_eq!(document.tables.len(), 2, "{}", document.text);
    assert!(document.text.contains("# 3 Stones\n\n| part | mass | count |"), "{}", document.text);
}

#[test]
fn small_text_is_a_footnote_only_below_other_text() {
    if !has_library() {
        return;
    }
    let small = |top: u32| -> String {
        let lines = ["1 The upper one.", "2 The lower one.", "3 Both of them."];
        lines.iter().zip(0..).map(|(line, number)| text("F", 7, 50, top - 20 * number, line)).collect()
    };
    let body = || (0..10).map(|number| lines(50, 750 - 60 * number, &WORDS)).collect::<String>();
    let document = read(&[body() + &small(120), small(750)]);
    assert_eq!(document.text.matches("[^1]: The upper one.").count(), 1, "{}", document.text);
    assert_eq!(document.text.matches("1 The upper one.").count(), 1, "{}", document.text);
}

#[test]
fn a_row_with_a_narrow_gap_below_the_columns_goes_on_with_their_table() {
    if !has_library() {
        return;
    }
    let row = |number: u32, left: &str, right: &str| {
        text("F", 10, 50, 700 - 12 * number, left) + &text("F", 10, 156, 700 - 12 * number, right)
    };
    let names =
        [("equi", "edge_delete"), ("facet_delete", "notch"), ("pop_edge_to_pop_tri", "pop_quad_to_quad_at_once")];
    let names = names.iter().chain(&[("where", "edgeswap"), ("fix", "unfix")]);
    let document = read(&[names.zip(0..).map(|((left, right), number)| row(number, left, right)).collect()]);
    assert_eq!(document.tables.len(), 1, "{}", document.text);
    let table =
        ["| facet_delete | notch |", "| pop_edge_to_pop_tri | pop_quad_to_quad_at_once |", "| where | edgeswap |"];
    assert!(document.text.contains(&table.join("\n")), "{}", document.text);
}

#[test]
fn lines_beside_a_heading_of_the_other_columns_are_rows() {
    if !has_library() {
        return;
    }
    let at = |x: u32, texts: &[&str]| -> String {
        texts.iter().zip(0..).map(|(words, number)| text("F", 10, x, 648 - 12 * number, words)).collect()
    };
    let words = cells(50, 700, &[&["key", "what it does"], &["", "of editing"]])
        + &at(54, &["^B", "^F", "^K"])
        + &at(154, &["back", "forward", "to the end"]);
    // The first column is open below the heading of the second.
    let level = "50 700 m 250 700 l S 50 680 m 250 680 l S 150 660 m 250 660 l S 50 600 m 250 600 l S\n";
    let upright = "50 700 m 50 600 l S 150 700 m 150 600 l S 250 700 m 250 600 l S\n";
    let document = read(&[words + level + upright]);
    let rows = "| key | what it does |\n| --- | --- |\n|  | of editing |\n| ^B | back |\n| ^F | forward |\n| ^K | to the end |";
    assert_eq!(document.text, rows);
}

#[test]
fn a_table_over_two_pages_is_one_and_each_page_has_its_rows() {
    if !has_library() {
        return;
    }
    let more: [&[&str]; 2] = [&["part", "mass", "count"], &["shaft", "80 kg", "1"]];
    let first = lines(50, 760, &WORDS) + &cells(50, 100, &PARTS) + &borders(50, 100, 3, 3);
    let second = cells(50, 760, &more) + &borders(50, 760, 2, 3) + &lines(50, 600, &WORDS);
    let document = read(&[first, second]);
    assert_eq!(document.tables.len(), 1, "{}", document.text);
    assert!(document.text.contains("| stone | 900 kg | 2 |\n| shaft | 80 kg | 1 |"), "{}", document.text);
    let page = |words: &str| document.page_at(document.text.find(words).unwrap()).unwrap().number;
    assert_eq!((page("stone"), page("shaft")), (1, 2));
}

#[test]
fn columns_are_read_one_after_the_other() {
    if !has_library() {
        return;
    }
    let left = [
        "On the left side of the page the miller",
        "counts his sacks of rye every evening,",
        "and writes their number into a book.",
    ];
    let right = [
        "On the right side of the page his wife",
        "counts the coins that they were paid,",
        "and writes nothing into any book.",
    ];
    let document = read(&[lines(50, 700, &left) + &lines(320, 700, &right)]);
    assert_eq!(document.text, format!("{}\n\n{}", left.join(" "), right.join(" ")));
}

#[test]
fn larger_and_bold_lines_are_headings_and_numbers_of_pages_are_left_out() {
    if !has_library() {
        return;
    }
    let page = |number: u32, heading: String| {
        text("F", 9, 50, 780, "The book of mills")
            + &heading
            + &lines(50, 700, &WORDS)
            + &text("F", 9, 290, 20, &number.to_string())
    };
    let document = read(&[
        page(1, text("F", 18, 50, 740, "Mills")),
        page(2, text("B", 10, 50, 740, "Wind mills")),
        page(3, String::new()),
    ]);
    let paragraph = WORDS.join(" ");
    assert_eq!(document.text, format!("# Mills\n\n{paragraph}\n\n## Wind mills\n\n{paragraph}\n\n{paragraph}"));
    let titles: Vec<(u32, &str)> =
        document.headings.iter().map(|heading| (heading.level, heading.title.as_str())).collect();
    assert_eq!(titles, [(1, "Mills"), (2, "Wind mills")]);
}

#[test]
fn lists_listings_and_fields_of_forms_keep_their_lines() {
    if !has_library() {
        return;
    }
    let list = lines(50, 700, &["1. Open the gate.", "2. Let the water in."]);
    let listing = text("M", 10, 50, 640, "while true:") + &text("M", 10, 74, 628, "grind\\(rye\\)");
    let tick = "50 560 8 8 re S 50 560 m 58 568 l S 50 568 m 58 560 l S 120 560 8 8 re S\n".to_owned()
        + &text("F", 10, 64, 561, "rye")
        + &text("F", 10, 134, 561, "barley");
    let document = read(&[lines(50, 760, &WORDS) + &list + &listing + &tick]);
    let expected =
        "1. Open the gate.\n2. Let the water in.\n\n```\nwhile true:\n    grind(rye)\n```\n\n[x] rye [ ] barley";
    assert!(document.text.ends_with(expected), "{}", document.text);
}

#[test]
fn a_word_that_was_divided_over_lines_and_pages_is_whole() {
    if !has_library() {
        return;
    }
    let first = [
        "The miller who had the old water mill at the upper weir re-",
        "paired it every year before the harvest, and then he would be-",
    ];
    let second = ["gin to grind the rye of all the farms that lie along the river", "from the weir down to the sea."];
    let document = read(&[lines(50, 100, &first), lines(50, 760, &second)]);
    assert!(
        document.text.contains("repaired it") && document.text.contains("would begin to grind"),
        "{}",
        document.text
    );
    assert_eq!(document.page_at(document.text.find("to grind").unwrap()).unwrap().number, 2);
}

#[test]
fn rows_whose_cells_do_not_fit_together_are_told() {
    if !has_library() {
        return;
    }
    let rows: [&[&str]; 4] =
        [&["part", "mass", "count"], &["wheel", "12 kg", "4"], &["", "", "or 5"], &["stone", "9 kg", "2"]];
    let document = read(&[cells(50, 700, &rows) + &borders(50, 700, 4, 3)]);
    assert_eq!(document.tables[0].faults, [TableFault::UnevenRows]);
    let [problem] = &document.problems[..] else { panic!("{:?}", document.problems) };
    assert_eq!(
        problem.detail,
        "a table of 4 rows and 3 columns may be wrong: a row has a single cell, which is not its first"
    );
}

#[test]
fn rows_of_a_table_at_the_end_of_a_page_stay_though_they_are_repeated() {
    if !has_library() {
        return;
    }
    let page = |first: u32| {
        let order = |number: u32| format!("order {}", first + number);
        let (one, two) = (order(0), order(1));
        let rows: [&[&str]; 3] = [&["date", "what", "currency"], &["01.01.", &one, "EUR"], &["02.01.", &two, "EUR"]];
        cells(50, 780, &rows)
    };
    let document = read(&[page(17), page(117)]);
    let expected =
        "| date | what | currency |\n| --- | --- | --- |\n| 01.01. | order 17 | EUR |\n| 02.01. | order 18 | EUR |";
    assert!(document.text.starts_with(expected), "{}", document.text);
    assert_eq!(document.text.matches("EUR").count(), 4, "{}", document.text);
}

#[test]
fn a_footnote_below_a_table_that_goes_on_keeps_the_order_of_the_pages() {
    if !has_library() {
        return;
    }
    let more: [&[&str]; 2] = [&["part", "mass", "count"], &["shaft", "80 kg", "1"]];
    let note = text("F", 7, 50, 60, "1 Without the axle.");
    let first = lines(50, 760, &WORDS) + &cells(50, 200, &PARTS) + &borders(50, 200, 3, 3) + &note;
    let second = cells(50, 700, &more) + &borders(50, 700, 2, 3) + &lines(50, 600, &WORDS);
    let document = read(&[first, second]);
    assert!(document.text.contains("[^1]: Without the axle."), "{}", document.text);
    assert_eq!(document.page_at(document.text.find("Without").unwrap()).unwrap().number, 1);
}

#[test]
fn letters_that_are_turned_or_far_away_are_no_headings_and_no_panic() {
    if !has_library() {
        return;
    }
    let turned = "BT /F 10 Tf 0 1 -1 0 580 300 Tm (A stamp runs up the side) Tj ET\n";
    let far = "BT /F 10 Tf 1 0 0 1 72 30000000000.0 Tm (far) Tj ET BT /F 30000000000 Tf 72 400 Td (large) Tj ET\n";
    let document = read(&[lines(50, 700, &WORDS) + turned + far]);
    assert_eq!(document.text, format!("{}\n\nA stamp runs up the side", WORDS.join(" ")));
}

#[test]
fn damaged_pdfs_never_panic() {
    if !has_library() {
        return;
    }
    let whole = pages(&[lines(50, 760, &WORDS) + &cells(50, 700, &PARTS) + &borders(50, 700, 3, 3)]);
    for at in (0..whole.len()).step_by(11) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xA5;
        for bytes in [&whole[..at], &damaged] {
            if let Ok(document) = parse_layout("a.pdf", bytes, &ParseLimits::default()) {
                assert_pages_fit(&document);
                assert_tables_fit(&document);
            }
        }
    }
}
