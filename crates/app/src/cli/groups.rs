//! The list of verbs in `reverie --help`, in groups. Clap has no headings for
//! subcommands, so the list is made here from the command itself.

use clap::Command;
use std::fmt::Write;

/// The verbs by what a person wants.
const GROUPS: &[(&str, &[&str])] = &[
    ("Run", &["demo", "init", "plan", "run", "query", "score", "track"]),
    ("Look", &["leaderboard", "runs", "show", "compare", "finalists", "document", "components", "schema"]),
    ("Golden questions", &["golden"]),
    ("Serve", &["promote", "check", "serve", "keys"]),
    ("Judges", &["judge", "calibrate", "noise"]),
    ("Models", &["models", "doctor"]),
    ("Store", &["store", "journal"]),
    ("Shell", &["completions", "manual"]),
];

/// The command with its verbs in groups.
pub fn grouped(command: Command) -> Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut list = String::new();
    for (group, verbs) in GROUPS {
        let _ = writeln!(list, "{header}{group}:{header:#}");
        for verb in verbs.iter().filter_map(|verb| command.find_subcommand(verb)) {
            let (name, about) = (verb.get_name(), verb.get_about().map(ToString::to_string).unwrap_or_default());
            let _ = writeln!(list, "  {literal}{name:<12}{literal:#} {about}");
        }
        list.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    #[test]
    fn every_verb_is_in_one_group_and_every_group_has_only_verbs() {
        let command = super::super::Arguments::command();
        let verbs: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        assert_eq!(listed.len(), verbs.len(), "a verb is listed twice or not at all");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), verbs);
    }

    #[test]
    fn the_command_holds_together() {
        super::super::command().debug_assert();
    }
}
