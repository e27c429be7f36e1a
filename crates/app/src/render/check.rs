//! A check against a bundle: for the terminal, as Markdown for a pull request,
//! and as JUnit's XML for programs that show tests.

use super::{combination, difference_of_means, left, number_or_dash, p_value, table, visible_line};
use comfy_table::Cell;
use lab::check::{Check, CheckVerdict, CheckedMetric, CheckedTrial, MetricOutcome};
use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
};
use std::{fmt::Write, io};

const HEADER: [&str; 6] = ["metric", "bundle", "this run", "difference [95 %]", "p", "questions"];

/// The verdict in a word.
fn verdict_word(verdict: CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Pass => "PASS",
        CheckVerdict::Fail => "FAIL",
        CheckVerdict::Inconclusive => "INCONCLUSIVE",
    }
}

/// The outcome of a metric in words; empty for a metric that is only shown.
fn outcome(metric: &CheckedMetric) -> &'static str {
    match metric.outcome {
        MetricOutcome::Passed => "pass",
        MetricOutcome::Worse => "worse",
        MetricOutcome::Inconclusive => "inconclusive",
        MetricOutcome::TooFew => "too few questions",
        MetricOutcome::Shown => "",
    }
}

fn side(side: &CheckedTrial) -> String {
    format!("{} of run {}: {}", side.trial, side.run, combination(&side.labels))
}

/// A metric's cells, under [`HEADER`].
fn cells(metric: &CheckedMetric) -> [String; 6] {
    let less = if metric.higher_is_better { "" } else { " (less is better)" };
    [
        format!("{}{less}", metric.metric),
        number_or_dash(metric.bundle, 3),
        number_or_dash(metric.run, 3),
        difference_of_means(metric.difference, metric.interval),
        p_value(metric.corrected),
        format!("{} of {}", metric.scored, metric.asked),
    ]
}

/// The remarks below the table: on each metric of the objective, on the questions,
/// and the notes of the check.
fn remarks(check: &Check) -> Vec<String> {
    let in_objective = check.metrics.iter().filter(|metric| metric.outcome != MetricOutcome::Shown);
    let mut remarks: Vec<String> = in_objective.map(|metric| metric.sentence.clone()).collect();
    if check.metrics.iter().any(|metric| metric.outcome == MetricOutcome::Shown) {
        remarks.push("metrics without p are not in the objective and do not affect the verdict".to_owned());
    }
    if check.only_in_bundle + check.only_in_run > 0 {
        remarks.push(format!(
            "{} questions are compared; {} are only in the bundle, {} only in this run, and left out",
            check.questions, check.only_in_bundle, check.only_in_run
        ));
    }
    remarks.extend(check.notes.iter().map(|note| format!("note: {note}")));
    remarks.extend(super::warning_lines(&check.warnings));
    remarks
}

/// The check in a terminal.
pub fn check(check: &Check) -> String {
    let mut text = format!(
        "{}: {}\n  bundle    {}\n  this run  {}\n",
        verdict_word(check.verdict),
        check.sentence,
        side(&check.bundle),
        side(&check.run)
    );
    let mut lines = table(&[HEADER.as_slice(), &[""]].concat(), 1);
    for metric in &check.metrics {
        lines.add_row(cells(metric).map(Cell::new).into_iter().chain([left(outcome(metric))]));
    }
    let _ = writeln!(text, "{lines}");
    for remark in remarks(check) {
        let _ = writeln!(text, "- {remark}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// The check as Markdown for a comment, with a mark by which a program can find it
/// again.
pub fn check_markdown(check: &Check) -> String {
    let mut text = format!(
        "<!-- reverie check {} -->\n### reverie check: {}\n\n{}\n\n",
        // A name must not end the HTML comment.
        check.experiment.replace("--", "-").replace('>', ""),
        verdict_word(check.verdict),
        escape(&check.sentence)
    );
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    text += &row(&[HEADER.map(str::to_owned).as_slice(), &[String::new()]].concat());
    text += "|:--|--:|--:|--:|--:|--:|:--|\n";
    for metric in &check.metrics {
        let cells = cells(metric).map(|cell| escape(&cell));
        text += &row(&[cells.as_slice(), &[outcome(metric).to_owned()]].concat());
    }
    text.push('\n');
    for remark in remarks(check) {
        let _ = writeln!(text, "- {}", escape(&remark));
    }
    let _ = write!(text, "\nbundle: {}  \nthis run: {}\n", escape(&side(&check.bundle)), escape(&side(&check.run)));
    text
}

/// Escapes layout, HTML and mentions (`@name`, `#1`) for Markdown.
fn escape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + 16);
    for character in visible_line(text).chars() {
        match character {
            '@' => plain.push_str("&#64;"),
            '#' => plain.push_str("&#35;"),
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => {
                plain.push('\\');
                plain.push(character);
            }
            character => plain.push(character),
        }
    }
    plain
}

/// The check as a test suite of JUnit: a case for each metric of the objective.
///
/// # Errors
/// If it cannot be written.
pub fn check_junit(check: &Check) -> io::Result<Vec<u8>> {
    let in_objective: Vec<&CheckedMetric> =
        check.metrics.iter().filter(|metric| metric.outcome != MetricOutcome::Shown).collect();
    let count = |outcome| in_objective.iter().filter(|metric| metric.outcome == outcome).count();
    let counts = [
        ("tests", in_objective.len().to_string()),
        ("failures", count(MetricOutcome::Worse).to_string()),
        ("errors", "0".to_owned()),
        ("skipped", (count(MetricOutcome::Inconclusive) + count(MetricOutcome::TooFew)).to_string()),
        ("time", "0".to_owned()),
    ];
    let attributes = || counts.iter().map(|(name, value)| (*name, value.as_str()));
    let name = xml_text(&format!("reverie check {}", check.experiment));
    let about =
        xml_text(&format!("{}\nbundle: {}\nthis run: {}", check.sentence, side(&check.bundle), side(&check.run)));
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suites = writer.create_element("testsuites").with_attribute(("name", "reverie check"));
    suites.with_attributes(attributes()).write_inner_content(|writer| {
        let suite = writer.create_element("testsuite").with_attribute(("name", name.as_str()));
        suite.with_attributes(attributes()).write_inner_content(|writer| {
            for metric in &in_objective {
                let (title, sentence) = (xml_text(&metric.metric), xml_text(&metric.sentence));
                let case = writer.create_element("testcase").with_attribute(("classname", name.as_str()));
                let case = case.with_attribute(("name", title.as_str())).with_attribute(("time", "0"));
                case.write_inner_content(|writer| {
                    let message = ("message", sentence.as_str());
                    match metric.outcome {
                        MetricOutcome::Worse => {
                            let failure = writer.create_element("failure").with_attribute(message);
                            failure.with_attribute(("type", "worse")).write_text_content(BytesText::new(&sentence))?;
                        }
                        MetricOutcome::Inconclusive | MetricOutcome::TooFew => {
                            writer.create_element("skipped").with_attribute(message).write_empty()?;
                        }
                        MetricOutcome::Passed | MetricOutcome::Shown => {
                            writer.create_element("system-out").write_text_content(BytesText::new(&sentence))?;
                        }
                    }
                    Ok(())
                })?;
            }
            writer.create_element("system-out").write_text_content(BytesText::new(&about))?;
            Ok(())
        })?;
        Ok(())
    })?;
    let mut xml = writer.into_inner();
    xml.push(b'\n');
    Ok(xml)
}

/// A text without the characters that XML does not allow, escaped or not.
fn xml_text(text: &str) -> String {
    super::visible(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quick_xml::{Reader, events::attributes::Attribute};
    use std::collections::BTreeMap;

    /// A metric whose name and sentence hold what each format gives a meaning.
    const NASTY: &str = "a<b>&\"'|`*_ ]]> @all #1 -->\u{1}\u{ffff}\u{202e}";

    fn metric(name: &str, outcome: MetricOutcome) -> CheckedMetric {
        CheckedMetric {
            metric: name.to_owned(),
            outcome,
            sentence: format!("{name} is told"),
            higher_is_better: name != "tokens",
            bundle: Some(0.75),
            run: Some(0.5),
            difference: Some(-0.25),
            interval: Some(eval::statistics::Interval { low: -0.4, high: -0.1 }),
            p_value: Some(0.0001),
            corrected: (outcome != MetricOutcome::Shown).then_some(0.0002),
            scored: 70,
            asked: 75,
            detectable_loss: Some(0.06),
            fewest_losses: 6,
        }
    }

    fn example() -> Check {
        let side = |run: &str| CheckedTrial {
            run: run.to_owned(),
            run_time_ms: 0,
            trial: "t01".to_owned(),
            labels: BTreeMap::from([("chunker".to_owned(), "sentence".to_owned())]),
        };
        Check {
            experiment: "books".to_owned(),
            verdict: CheckVerdict::Fail,
            sentence: "t01 is worse".to_owned(),
            bundle: side("r1"),
            run: side("r2"),
            margin: 0.0,
            questions: 75,
            only_in_bundle: 2,
            only_in_run: 0,
            chosen_by: 0,
            metrics: vec![
                metric(NASTY, MetricOutcome::Worse),
                metric("recall", MetricOutcome::Inconclusive),
                metric("mrr", MetricOutcome::Passed),
                metric("tokens", MetricOutcome::Shown),
            ],
            notes: vec!["other documents".to_owned()],
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_xml_holds_a_case_for_each_metric_that_judges_and_every_text_as_it_is() {
        let xml = String::from_utf8(check_junit(&example()).unwrap()).unwrap();
        let mut reader = Reader::from_str(&xml);
        let (mut names, mut found) = (Vec::new(), Vec::new());
        loop {
            let event = reader.read_event().unwrap();
            let (Event::Start(element) | Event::Empty(element)) = &event else {
                if event == Event::Eof {
                    break;
                }
                continue;
            };
            let name = element.name().as_ref().to_owned();
            let attributes: Vec<Attribute<'_>> = element.attributes().map(|attribute| attribute.unwrap()).collect();
            let value = |key: &str| {
                let attribute = attributes.iter().find(|attribute| attribute.key.as_ref() == key)?;
                Some(quick_xml::escape::unescape(&attribute.value).unwrap().into_owned())
            };
            if name == "testsuite" {
                let counts = ["tests", "failures", "errors", "skipped"].map(|key| value(key).unwrap());
                assert_eq!(counts, ["3", "1", "0", "1"]);
            }
            if name == "testcase" {
                found.push(value("name").unwrap());
            }
            names.push(name);
        }
        assert_eq!(found[1..], ["recall", "mrr"]);
        assert_eq!(
            found[0],
            NASTY.replace('\u{1}', "\\x01").replace('\u{ffff}', "\u{fffd}").replace('\u{202e}', "\\u{202e}")
        );
        let inside: Vec<&str> = names.iter().map(String::as_str).collect();
        let expected = [
            "testsuites",
            "testsuite",
            "testcase",
            "failure",
            "testcase",
            "skipped",
            "testcase",
            "system-out",
            "system-out",
        ];
        assert_eq!(inside, expected);
    }

    #[test]
    fn too_few_questions_are_told_in_every_form() {
        let open = Check {
            verdict: CheckVerdict::Inconclusive,
            metrics: vec![metric("ndcg", MetricOutcome::TooFew), metric("recall", MetricOutcome::Passed)],
            ..example()
        };
        let xml = String::from_utf8(check_junit(&open).unwrap()).unwrap();
        assert!(
            xml.contains("failures=\"0\" errors=\"0\" skipped=\"1\"") && xml.contains("<skipped message=\"ndcg"),
            "{xml}"
        );
        for text in [check(&open), check_markdown(&open)] {
            assert!(text.contains("INCONCLUSIVE") && text.contains("too few questions"), "{text}");
        }
    }

    #[test]
    fn markdown_has_one_row_for_each_metric_and_names_mean_nothing_else() {
        let text = check_markdown(&example());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), 2 + 4, "{text}");
        let bars = |row: &str| row.replace("\\|", "").matches('|').count();
        assert!(rows.iter().all(|row| bars(row) == 8), "{text}");
        assert!(text.contains("a&lt;b&gt;&amp;\"'\\|\\`\\*\\_ \\]\\]&gt; &#64;all &#35;1 --&gt;"), "{text}");
        assert!(text.contains("### reverie check: FAIL") && text.contains("- note: other documents"), "{text}");
    }

    #[test]
    fn the_terminal_shows_the_verdict_first_and_what_was_left_out() {
        let text = check(&example());
        assert!(text.starts_with("FAIL: t01 is worse\n"), "{text}");
        assert!(text.contains("-0.250 [-0.400, -0.100]") && text.contains("< 0.001"), "{text}");
        assert!(text.contains("75 questions are compared; 2 are only in the bundle, 0 only in this run"), "{text}");
        assert!(text.contains("tokens (less is better)"), "{text}");
    }
}
