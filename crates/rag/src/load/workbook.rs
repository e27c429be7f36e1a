//! `load::workbook`: what XLSX and XLS share: how the value of a cell is written, and the checks before the library
//! reads a workbook.

use super::LoadError;
use super::archive::Archive;
use calamine::{Data, Dimensions};
use std::collections::HashMap;

/// The part with the texts of cells.
const SHARED_STRINGS: &str = "sharedstrings.xml";
/// How much of the part with the texts says how many there are.
const HEAD: usize = 4096;
/// The fewest bytes of a text in that part: `<si/>`.
const SHORTEST_TEXT: usize = 5;

/// Unpacks every part once, within the limits, because the library that reads workbooks knows none; and refuses a
/// number of texts that the part cannot hold, because the library reserves memory for it.
///
/// # Errors
/// If a part is larger than the limits allow, or lies about its texts.
pub(super) fn check_parts(archive: &mut Archive<'_>) -> Result<(), LoadError> {
    let names: Vec<String> = archive.names().collect();
    for name in names {
        let Some(bytes) = archive.read(&name)? else { continue };
        if !name.to_ascii_lowercase().ends_with(SHARED_STRINGS) {
            continue;
        }
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]);
        let declared = head.split_once("uniqueCount").map(|(_, rest)| {
            let digits = rest.trim_start_matches([' ', '=', '"', '\'', '\t', '\n', '\r']);
            let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
            // What is too large for a number is too large for the part.
            digits[..end].parse::<usize>().unwrap_or(if end > 0 { usize::MAX } else { 0 })
        });
        if declared.is_some_and(|texts| texts > bytes.len() / SHORTEST_TEXT) {
            return Err(LoadError::Broken(format!("{name} declares more texts than it can hold")));
        }
    }
    Ok(())
}

/// How many rows and columns the cell at a place covers, for a sheet's merged cells.
pub(super) fn covered_by(merged: &[Dimensions]) -> HashMap<(u32, u32), (u32, u32)> {
    let covers = |area: &Dimensions| {
        let length = |first: u32, last: u32| last.saturating_sub(first).saturating_add(1);
        (length(area.start.0, area.end.0), length(area.start.1, area.end.1))
    };
    merged.iter().map(|area| (area.start, covers(area))).collect()
}

/// The value of a cell as text: dates as `2024-05-01`, whole numbers without decimals, others with the digits that
/// Excel keeps. A number in percent is shown as one.
pub(super) fn text_of(value: Data, is_percent: bool) -> String {
    match value {
        Data::Empty => String::new(),
        Data::String(text) => text,
        Data::Bool(value) => if value { "TRUE" } else { "FALSE" }.to_owned(),
        Data::Int(number) if !is_percent => number.to_string(),
        Data::Int(number) => format!("{}%", number_text(number as f64 * 100.0)),
        Data::Float(number) if is_percent => format!("{}%", number_text(number * 100.0)),
        Data::Float(number) => number_text(number),
        Data::DateTime(moment) if moment.is_duration() => duration_text(moment.as_f64()),
        Data::DateTime(moment) => {
            let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
            let time = if second == 0 {
                format!("{hour:02}:{minute:02}")
            } else {
                format!("{hour:02}:{minute:02}:{second:02}")
            };
            let is_day = moment.as_f64() >= 1.0;
            match (is_day, moment.as_f64().fract() == 0.0) {
                (false, _) => time,
                (true, true) => format!("{year:04}-{month:02}-{day:02}"),
                (true, false) => format!("{year:04}-{month:02}-{day:02} {time}"),
            }
        }
        Data::DateTimeIso(text) | Data::DurationIso(text) => text,
        Data::Error(error) => error.to_string(),
    }
}

/// A number with at most 15 digits, which is what Excel keeps: `0.3` and not `0.30000000000000004`.
pub(super) fn number_text(number: f64) -> String {
    let plain = number.to_string();
    if plain.len() <= 15 || !number.is_finite() {
        return plain;
    }
    format!("{number:.14e}").parse::<f64>().map_or(plain, |rounded| rounded.to_string())
}

/// A length of time in days as `26:30` or `26:30:05`.
fn duration_text(days: f64) -> String {
    let seconds = (days * 86_400.0).round() as i64;
    let (sign, seconds) = if seconds < 0 { ("-", seconds.unsigned_abs()) } else { ("", seconds.unsigned_abs()) };
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if seconds == 0 {
        format!("{sign}{hours}:{minutes:02}")
    } else {
        format!("{sign}{hours}:{minutes:02}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::ParseLimits;
    use crate::load::archive::tests::zipped;
    use calamine::{ExcelDateTime, ExcelDateTimeType};

    #[test]
    fn values_are_written_as_a_person_reads_them() {
        let moment = |value, kind| Data::DateTime(ExcelDateTime::new(value, kind, false));
        let at = |value| moment(value, ExcelDateTimeType::DateTime);
        for (value, is_percent, expected) in [
            (Data::Float(3.0), false, "3"),
            (Data::Float(0.1 + 0.2), false, "0.3"),
            (Data::Float(1e21), false, "1000000000000000000000"),
            (Data::Float(0.07), true, "7%"),
            (Data::Float(0.125), true, "12.5%"),
            (Data::Int(1), true, "100%"),
            (Data::Bool(true), false, "TRUE"),
            (at(45_413.0), false, "2024-05-01"),
            (at(45_413.5), false, "2024-05-01 12:00"),
            (at(0.25), false, "06:00"),
            (moment(1.104_224_537, ExcelDateTimeType::TimeDelta), false, "26:30:05"),
            (Data::Empty, false, ""),
        ] {
            assert_eq!(text_of(value.clone(), is_percent), expected, "{value:?}");
        }
    }

    #[test]
    fn a_part_that_declares_more_texts_than_it_can_hold_is_broken() {
        for declared in ["999999999999", "99999999999999999999999999"] {
            let strings = format!("<sst uniqueCount=\"{declared}\"><si><t>a</t></si></sst>");
            let bytes = zipped(&[("xl/sharedStrings.xml", &strings)]);
            let mut archive = Archive::open(&bytes, &ParseLimits::default()).unwrap();
            assert!(matches!(check_parts(&mut archive), Err(LoadError::Broken(_))), "{declared}");
        }
    }
}
