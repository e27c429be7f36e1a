//! The list of verbs in `reverie --help`, in groups. Clap has no headings for
//! subcommands, so the list is made here from the command itself.

use clap::Command;
use std::fmt::Write;

/// The command with its verbs in groups.
pub(super) fn group_verbs(command: Command, groups: &[(&str, &[&str])]) -> Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut list = String::new();
    for (group, verbs) in groups {
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
