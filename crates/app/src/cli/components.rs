//! `reverie components`: what can stand in an experiment file.

use super::{Context, Failure};
use crate::render::{self, ComponentDocs, Layout};

/// List every component, or show one with its settings and when to use it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  reverie components
  reverie components hybrid
  reverie components reranker.python")]
pub struct Arguments {
    /// A kind such as `retriever`, a component such as `hybrid`, or both with a point.
    name: Option<String>,
}

pub fn run(cx: &Context, arguments: &Arguments) -> Result<u8, Failure> {
    let all = render::components();
    let chosen = match &arguments.name {
        None => all.iter().collect(),
        Some(name) => named(&all, name)?,
    };
    let layout = Layout::of_terminal();
    if cx.json {
        cx.print_json(&chosen)?;
    } else if arguments.name.as_ref().is_none_or(|name| all.iter().any(|one| one.kind == name)) {
        let chosen: Vec<ComponentDocs> = chosen.into_iter().cloned().collect();
        cx.print(render::component_list(&chosen, &layout));
    } else {
        let texts: Vec<String> = chosen.iter().map(|one| render::component(one, &layout)).collect();
        cx.print(texts.join("\n\n"));
    }
    Ok(0)
}

fn named<'a>(all: &'a [ComponentDocs], name: &str) -> Result<Vec<&'a ComponentDocs>, Failure> {
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
        return Err(Failure::usage(format!("there is no component `{name}`; {hint}")));
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
            assert!(named(&all, one.name).is_ok(), "{}", one.name);
            assert_eq!(named(&all, &both).map(|found| found.len()).unwrap_or_default(), 1, "{both}");
        }
    }
}
