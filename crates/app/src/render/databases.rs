//! What Reverie has written into databases.

use super::{count, table, visible_line};
use comfy_table::Cell;
use lab::{AliasSwap, DatabaseCheck, DatabaseCollection, PromotedIndex, SearchAgreement};
use std::fmt::Write;

/// The share of the nearest chunks that a search finds, in words.
fn agreement(found: &SearchAgreement) -> String {
    format!(
        "{:.1} % of the nearest chunks are found ({} of {} searches for {} find all)",
        100.0 * found.recall,
        count(found.complete),
        count(found.searches),
        found.top,
    )
}

/// Where a promoted trial's vectors are, in lines.
pub fn promoted_index(index: &PromotedIndex) -> String {
    let collection = &index.collection;
    let mut text = format!(
        "its {} chunks are in {}, `{}`: {}\n",
        count(collection.rows),
        collection.address,
        collection.collection,
        agreement(&index.found)
    );
    if let Some(alias) = &index.alias {
        let _ = writeln!(text, "other programs find them as `{alias}`");
    }
    text
}

/// A check of a bundle's database.
pub fn database_check(check: &DatabaseCheck) -> String {
    let place = format!("{}, `{}`", check.address, check.collection);
    match (&check.problem, &check.now) {
        (None, Some(now)) => format!("PASS  {} in {place}: {}", check.experiment, agreement(now)),
        (problem, _) => {
            let problem = problem.as_deref().unwrap_or("was not searched");
            format!(
                "FAIL  {} in {place}: {problem}\npromote {} again with --into: the collection is read back, and filled again \
                 if it differs",
                check.experiment, check.trial
            )
        }
    }
}

/// Where an alias points now, and before.
pub fn alias_swap(swap: &AliasSwap) -> String {
    match &swap.from {
        Some(from) if *from == swap.to => format!("{} points to {} already", swap.alias, swap.to),
        Some(from) => format!("{} points to {}, and pointed to {from} before", swap.alias, swap.to),
        None => format!("{} is new, and points to {}", swap.alias, swap.to),
    }
}

/// The collections of a database that Reverie has made.
pub fn database_collections(address: &str, collections: &[DatabaseCollection]) -> String {
    if collections.is_empty() {
        return format!("{address}: Reverie has made no collection there");
    }
    let mut listed = table(&["collection", "alias", "previous", "from", "chunks", "dimensions"], 4);
    for collection in collections {
        let fact = |name: &str| collection.facts[name].as_str();
        let from = match (fact("experiment"), fact("trial")) {
            (Some(experiment), Some(trial)) => format!("{trial} of {experiment}"),
            _ => "a trial of a run".to_owned(),
        };
        listed.add_row([
            Cell::new(visible_line(&collection.name)),
            Cell::new(visible_line(&collection.aliases.join(", "))),
            Cell::new(visible_line(&collection.previous.values().cloned().collect::<Vec<_>>().join(", "))),
            Cell::new(visible_line(&from)),
            Cell::new(collection.records.map_or("being filled".to_owned(), |records| count(records as usize))),
            Cell::new(collection.dimensions),
        ]);
    }
    format!("{address}\n{listed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_says_where_it_points_and_pointed() {
        let swap = |from: Option<&str>| {
            alias_swap(&AliasSwap { alias: "docs".into(), to: "b".into(), from: from.map(str::to_owned) })
        };
        assert_eq!(swap(None), "docs is new, and points to b");
        assert_eq!(swap(Some("a")), "docs points to b, and pointed to a before");
        assert_eq!(swap(Some("b")), "docs points to b already");
    }
}
