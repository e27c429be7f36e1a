//! What serde says about a value that does not fit, without the names of Rust's
//! types: a person who writes TOML does not know them.

/// A message of serde in the words of TOML.
pub(super) fn plain(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("wanted exactly 1 element") {
        let found = if rest.contains("more than") { "several" } else { "none" };
        return format!("expected a table with one name in it, found {found}");
    }
    if message.starts_with("data did not match any variant of untagged enum") {
        return "this value has none of the forms that are understood here".to_owned();
    }
    let Some((found, expected)) = message.split_once(", expected ") else { return message.to_owned() };
    if !found.starts_with("invalid ") {
        return message.to_owned();
    }
    let found = match found.strip_prefix("invalid type: ") {
        Some("map") => "invalid type: table".to_owned(),
        Some("sequence") => "invalid type: list".to_owned(),
        _ => found.replacen("floating point `", "number `", 1),
    };
    format!("{found}, expected {}", kind(expected))
}

/// What was expected.
fn kind(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number that is not below 0",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a nonzero u32" | "a nonzero u64" | "a nonzero usize" => "a whole number of at least 1",
        "a map" | "map" => "a table",
        "a sequence" | "sequence" => "a list",
        "str" | "a borrowed string" | "string" => "a string",
        "bool" => "true or false",
        "a boolean" => "true or false",
        _ if expected.starts_with("struct ") => "a table",
        _ if expected.starts_with("enum ") => "a name, or a table with one name in it",
        _ if expected.starts_with("tuple ") => "a list",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_rust_become_words_of_toml() {
        for (said, shown) in [
            (
                "invalid type: string \"big\", expected usize",
                "invalid type: string \"big\", expected a whole number that is not below 0",
            ),
            ("invalid type: integer `3`, expected struct Weights", "invalid type: integer `3`, expected a table"),
            ("invalid type: floating point `0.5`, expected i64", "invalid type: number `0.5`, expected a whole number"),
            ("invalid type: map, expected a sequence", "invalid type: table, expected a list"),
            ("unknown field `x`, expected `y` or `z`", "unknown field `x`, expected `y` or `z`"),
            ("missing field `path`", "missing field `path`"),
        ] {
            assert_eq!(plain(said), shown);
        }
    }
}
