//! `reverie components`: the components that an experiment file may use.

use crate::{
    command::CommandContext,
    failure::CommandFailure,
    render::{self, ComponentDocs, TableLayout},
};

/// List every component, or show one with its settings and when to use it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie components
  reverie components hybrid
  reverie components reranker.python")]
pub struct ComponentsArguments {
    /// A kind such as `retriever`, a component such as `hybrid`, or both joined by a dot.
    name: Option<String>,
}

/// Sentences are broken into lines of this many characters where no terminal says its width.
const WIDTH_OF_PIPES: usize = 120;

pub async fn run(cx: &CommandContext, arguments: ComponentsArguments) -> Result<u8, CommandFailure> {
    let all = render::components();
    let chosen = match &arguments.name {
        None => all.iter().collect(),
        Some(name) => find_components(&all, name)?,
    };
    let layout = TableLayout::of_terminal().or_of_width(WIDTH_OF_PIPES);
    let is_list = arguments.name.as_ref().is_none_or(|name| all.iter().any(|one| one.kind == name));
    cx.finish(&chosen, |chosen| match is_list {
        true => render::component_list(chosen, &layout),
        false => chosen.iter().map(|one| render::component(one, &layout)).collect::<Vec<_>>().join("\n\n"),
    })
}

fn find_components<'a>(all: &'a [ComponentDocs], name: &str) -> Result<Vec<&'a ComponentDocs>, CommandFailure> {
    let is_it = |one: &&ComponentDocs| match name.split_once('.') {
        Some((kind, name)) => one.kind == kind && one.name == name,
        None => one.kind == name || one.name == name,
    };
    let found: Vec<&ComponentDocs> = all.iter().filter(is_it).collect();
    if found.is_empty() {
        let mut known: Vec<&str> = all.iter().flat_map(|one| [one.kind, one.name]).collect();
        known.sort_unstable();
        known.dedup();
        let hint = lab::nearest(name, known.iter().copied());
        let hint =
            hint.map_or_else(|| format!("there are {}", known.join(", ")), |word| format!("did you mean `{word}`?"));
        return Err(CommandFailure::usage(format!("there is no component `{name}`; {hint}")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_is_found_by_its_name_and_by_kind_and_name() {
        let all = render::components();
        for one in &all {
            let both = format!("{}.{}", one.kind, one.name);
            assert!(find_components(&all, one.name).is_ok(), "{}", one.name);
            assert_eq!(find_components(&all, &both).map(|found| found.len()).unwrap_or_default(), 1, "{both}");
        }
    }
}
