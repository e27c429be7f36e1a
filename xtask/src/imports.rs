//! The imports between the modules of a crate, read from its text, and the
//! cycles among them. A folder and its files are one module to those beside
//! it, so cycles are looked for among the modules of each folder.

use crate::without_tests;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The path of a module below the crate's root; the root itself is empty.
type Module = Vec<String>;

/// Modules of one folder that all import each other, directly or through others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ImportCycle {
    /// The folder, such as `client`; empty for the crate's root.
    pub(crate) folder: String,
    /// The modules.
    pub(crate) modules: BTreeSet<String>,
    /// For each import within the cycle: `from → to`, and one place where it is.
    pub(crate) imports: Vec<(String, String)>,
}

/// By folder: the importing and the imported module, and an import.
type Edges = BTreeMap<Module, BTreeMap<(String, String), String>>;

/// The imports between the modules at the top of a crate.
pub(crate) struct TopImports {
    /// The modules.
    pub(crate) modules: BTreeSet<String>,
    /// Who imports whom, and one place where it does.
    pub(crate) imports: BTreeMap<(String, String), String>,
}

/// The imports between the modules at the top of a crate.
pub(crate) fn between_top_modules(src: &Path) -> TopImports {
    let files = files(src);
    let modules = files.keys().filter_map(|module| module.first().cloned()).collect();
    TopImports { modules, imports: edges(&files).remove(&Module::new()).unwrap_or_default() }
}

/// The cycles among the modules of a crate.
pub(crate) fn cycles(src: &Path) -> Vec<ImportCycle> {
    edges(&files(src)).iter().flat_map(|(folder, edges)| cycles_of(&folder.join("::"), edges)).collect()
}

fn edges(files: &BTreeMap<Module, Vec<String>>) -> Edges {
    let exports = Exports::of(files);
    let mut edges = Edges::new();
    for (module, tokens) in files {
        for import in imports(tokens).into_iter().filter(|import| !import.is_export) {
            let Some(path) = absolute(module, &import.path, files) else { continue };
            let target = exports.home(files, &path, 0);
            let shared = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                let place = format!("{} imports {}", module.join("::"), path.join("::"));
                let folder = edges.entry(module[..shared].to_vec()).or_default();
                folder.entry((from.clone(), to.clone())).or_insert(place);
            }
        }
    }
    edges
}

fn cycles_of(folder: &str, edges: &BTreeMap<(String, String), String>) -> Vec<ImportCycle> {
    let nodes: BTreeSet<&String> = edges.keys().flat_map(|(from, to)| [from, to]).collect();
    let reached = |start: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(node) = open.pop() {
            for (_, to) in edges.keys().filter(|(from, _)| from == node) {
                if seen.insert(to) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<&String>> = nodes.iter().map(|node| (*node, reached(node))).collect();
    let mut found: Vec<ImportCycle> = Vec::new();
    for node in nodes {
        let is_mutual = |other: &&&String| reach[node].contains(**other) && reach[**other].contains(node);
        let modules: BTreeSet<String> = reach.keys().filter(is_mutual).map(|module| (*module).clone()).collect();
        if modules.len() < 2 || found.iter().any(|cycle| cycle.modules == modules) {
            continue;
        }
        let within = |((from, to), _): &(&(String, String), &String)| modules.contains(from) && modules.contains(to);
        let imports = edges.iter().filter(within).map(|((from, to), place)| (format!("{from} → {to}"), place.clone()));
        found.push(ImportCycle { folder: folder.to_owned(), imports: imports.collect(), modules });
    }
    found
}

/// The modules of a crate, each with the words and signs of its code. What is
/// compiled for tests only is left out.
fn files(src: &Path) -> BTreeMap<Module, Vec<String>> {
    let (mut found, mut folders, mut tests) = (BTreeMap::new(), vec![src.to_owned()], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let (Ok(text), Ok(below)) = (fs::read_to_string(&path), path.strip_prefix(src)) else { continue };
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let mut module: Module =
                below.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
            module.pop_if(|last| last == "mod");
            if matches!(&module[..], [root] if root == "lib" || root == "main") {
                module.clear();
            }
            let code = tokens(&without_tests(&text));
            let declared: BTreeSet<String> = declared(&code);
            for name in self::declared(&tokens(&text)).difference(&declared) {
                tests.insert([module.clone(), vec![name.clone()]].concat());
            }
            found.insert(module, code);
        }
    }
    let is_test = |module: &Module| {
        let named = module.last().is_some_and(|name| name.ends_with("tests") || name == "testing");
        named || tests.iter().any(|test| module.starts_with(test))
    };
    found.retain(|module, _| !is_test(module));
    found
}

/// The modules that code declares in files of their own.
fn declared(tokens: &[String]) -> BTreeSet<String> {
    let modules = tokens.windows(3).filter(|words| words[0] == "mod" && words[2] == ";");
    modules.map(|words| words[1].clone()).collect()
}

/// The words and signs of code, without comments and texts.
fn tokens(text: &str) -> Vec<String> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let raw = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r');
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = raw.filter(|raw| raw.trim_start_matches('#').starts_with('"')) {
            let hashes = raw.len() - raw.trim_start_matches('#').len();
            let close = format!("\"{}", "#".repeat(hashes));
            let start = rest.len() - raw.len() + hashes + 1;
            rest[start..].find(&close).map_or(rest.len(), |end| start + end + close.len())
        } else if first == '"' {
            let mut escaped = false;
            let close = rest[1..].find(|c: char| {
                let is_end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                is_end
            });
            close.map_or(rest.len(), |end| end + 2)
        } else if first == '\'' {
            // A character, or else the name of a lifetime.
            let body = &rest[1..];
            let escape = body.strip_prefix('\\').and_then(|body| body[1..].find('\'')).map(|end| end + 4);
            let plain = body.chars().next().map(|c| c.len_utf8() + 1).filter(|end| rest[*end..].starts_with('\''));
            escape.or(plain.map(|end| end + 1)).unwrap_or(1)
        } else if word > 0 {
            tokens.push(rest[..word].to_owned());
            word
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[end.min(rest.len())..];
    }
    tokens
}

/// A path that code names.
struct Import {
    path: Vec<String>,
    /// The name under which it is known here.
    name: String,
    /// Whether it is passed on, by `pub use`.
    is_export: bool,
}

fn imports(tokens: &[String]) -> Vec<Import> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map_or("", |before| tokens[before].as_str());
        let is_use = tokens[at] == "use" && before != "::";
        let is_path = ["crate", "super", "self"].contains(&tokens[at].as_str())
            && tokens.get(at + 1).is_some_and(|next| next == "::")
            && before != "::";
        if !is_use && !is_path {
            at += 1;
            continue;
        }
        let is_export = is_use && is_visible(&tokens[..at]);
        let mut paths = Vec::new();
        let end = expand(tokens, at + usize::from(is_use), &[], &mut paths);
        found.extend(paths.into_iter().map(|(path, name)| Import { path, name, is_export }));
        at = end.max(at + 1);
    }
    found
}

/// Whether `pub` or `pub(…)` comes last.
fn is_visible(before: &[String]) -> bool {
    match before.last().map(String::as_str) {
        Some("pub") => true,
        Some(")") => {
            let open = before.iter().rposition(|token| token == "(");
            open.and_then(|open| open.checked_sub(1)).is_some_and(|word| before[word] == "pub")
        }
        _ => false,
    }
}

/// All paths of a tree such as `a::{b, c as d}`, each with its name; returns
/// where it ends.
fn expand(tokens: &[String], mut at: usize, prefix: &[String], found: &mut Vec<(Vec<String>, String)>) -> usize {
    let is_word =
        |at: usize| tokens.get(at).is_some_and(|token| token.starts_with(|c: char| c.is_alphabetic() || c == '_'));
    match tokens.get(at).map(String::as_str) {
        Some("{") => {
            at += 1;
            while at < tokens.len() && tokens[at] != "}" {
                at = if tokens[at] == "," { at + 1 } else { expand(tokens, at, prefix, found) };
            }
            at + 1
        }
        Some("*") => {
            found.push((prefix.to_vec(), "*".to_owned()));
            at + 1
        }
        Some(word) if is_word(at) => {
            let path = [prefix, &[word.to_owned()]].concat();
            let goes_on = tokens.get(at + 1).is_some_and(|sign| sign == "::")
                && (is_word(at + 2) || tokens.get(at + 2).is_some_and(|token| token == "{" || token == "*"));
            if goes_on {
                return expand(tokens, at + 2, &path, found);
            }
            let alias = tokens.get(at + 1).is_some_and(|word| word == "as").then(|| tokens.get(at + 2)).flatten();
            // `a::{self}` is `a`.
            let path = if word == "self" && !prefix.is_empty() { prefix.to_vec() } else { path };
            let name = alias.or(path.last()).cloned().unwrap_or_default();
            found.push((path, name));
            at + if alias.is_some() { 3 } else { 1 }
        }
        _ => at + 1,
    }
}

/// A path from the crate's root; none if it leads to another crate.
fn absolute(module: &Module, path: &[String], files: &BTreeMap<Module, Vec<String>>) -> Option<Module> {
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let above = module.len().checked_sub(ups)?;
            Some([&module[..above], &path[ups..]].concat())
        }
        child => {
            let is_child = files.contains_key(&[module.clone(), vec![child.to_owned()]].concat());
            is_child.then(|| [module, path].concat())
        }
    }
}

/// What modules pass on.
struct Exports(BTreeMap<Module, Vec<(String, Module)>>);

impl Exports {
    fn of(files: &BTreeMap<Module, Vec<String>>) -> Self {
        let of_module = |(module, tokens): (&Module, &Vec<String>)| {
            let exports = imports(tokens).into_iter().filter(|import| import.is_export);
            let known = exports.filter_map(|import| Some((import.name, absolute(module, &import.path, files)?)));
            (module.clone(), known.collect())
        };
        Self(files.iter().map(of_module).collect())
    }

    /// The module in which a path ends: where the item is defined, not where it
    /// is passed on.
    fn home(&self, files: &BTreeMap<Module, Vec<String>>, path: &Module, depth: usize) -> Module {
        let longest = (0..=path.len()).rev().find(|end| files.contains_key(&path[..*end])).unwrap_or_default();
        let module = path[..longest].to_vec();
        let (Some(name), true) = (path.get(longest), depth < 8) else { return module };
        for (known, target) in self.0.get(&module).into_iter().flatten() {
            if known == name && target != path {
                let target = [target.as_slice(), &path[longest + 1..]].concat();
                return self.home(files, &target, depth + 1);
            }
            let defines = |tokens: &Vec<String>| {
                let kinds = ["struct", "enum", "fn", "trait", "type", "const", "static", "mod"];
                tokens.windows(2).any(|words| kinds.contains(&words[0].as_str()) && words[1] == *name)
            };
            if known == "*" && files.get(target).is_some_and(defines) {
                return target.clone();
            }
        }
        module
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder of a crate of these files.
    fn written(files: &[(&str, &str)]) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("imports-{}-{:p}", std::process::id(), files));
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            fs::write(path, text).expect("it is written");
        }
        folder
    }

    /// The cycles of a crate of these files.
    fn found(files: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
        let folder = written(files);
        let cycles = cycles(&folder);
        fs::remove_dir_all(folder).expect("it is removed");
        cycles.into_iter().map(|cycle| (cycle.folder, cycle.modules.into_iter().collect())).collect()
    }

    #[test]
    fn modules_that_need_one_another_are_a_cycle_whichever_way_they_name_it() {
        let cycle = [(String::new(), vec!["a".to_owned(), "b".to_owned()])];
        for (a, b) in [
            ("use crate::b::B;", "use crate::a::{self, A};"),
            ("fn f(b: crate::b::B) {}", "use super::a as other;"),
            // By way of the root, which passes it on.
            ("use crate::{B, C};", "use super::A;"),
            ("use crate::b::deep::D;", "use crate::a::*;"),
        ] {
            let root = "mod a;\nmod b;\nmod c;\npub use a::A;\npub use b::{B, deep::D as E};\n";
            let files = [
                ("lib.rs", root),
                ("a.rs", a),
                ("b.rs", b),
                ("b/deep.rs", "pub struct D;"),
                ("c.rs", "use crate::{a::A, b::B};"),
            ];
            assert_eq!(found(&files), cycle, "{a} {b}");
        }
    }

    #[test]
    fn cycles_within_a_folder_are_found_and_what_is_said_or_tested_makes_none() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            (
                "a.rs",
                "mod one;\nmod two;\nuse one::One;\npub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
            ),
            ("a/one.rs", "use super::{A, two::Two};\n"),
            ("a/two.rs", "use super::one::One;\n"),
            (
                "b.rs",
                "// use crate::a::A;\nconst S: &str = \"crate::a::A\";\nconst C: char = '\"';\nuse crate::a::A;\n",
            ),
        ];
        assert_eq!(found(&files), [("a".to_owned(), vec!["one".to_owned(), "two".to_owned()])]);
        assert!(
            found(&[("lib.rs", "mod a;\nmod b;\n"), ("a.rs", "use crate::b::B;\n"), ("b.rs", "pub struct B;\n")])
                .is_empty()
        );
    }

    #[test]
    fn imports_between_modules_at_the_top_have_a_direction() {
        let files = [
            ("lib.rs", "mod low;\nmod high;\n"),
            ("low/deep.rs", "use crate::high::H;"),
            ("low.rs", "mod deep;"),
            ("high.rs", "pub struct H;"),
        ];
        let folder = written(&files);
        let found = between_top_modules(&folder);
        fs::remove_dir_all(folder).expect("it is removed");
        assert_eq!(found.modules.into_iter().collect::<Vec<_>>(), ["high", "low"]);
        let place = "low::deep imports high::H".to_owned();
        assert_eq!(found.imports.into_iter().collect::<Vec<_>>(), [(("low".to_owned(), "high".to_owned()), place)]);
    }
}
