//! `cargo xtask tidy`: checks invariants that the compiler cannot check. `cargo
//! xtask skips FILE`: counts and names the skipped tests.

mod imports;
mod layers;
mod type_names;

use layers::{DIRECTION, LAYERS, OTHER_STAGES};
use std::{
    collections::HashSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// Words that only the crate `app` may use, and why.
const BANNED_IN_LIBRARIES: &[(&str, &str)] = &[
    ("println!", "only `app` prints"),
    ("eprintln!", "only `app` prints"),
    ("env::var", "only `app` reads the environment"),
    ("env::args", "only `app` reads the command line"),
    ("env::current_dir", "only `app` knows where it was started"),
    ("process::exit", "only `app` ends the process"),
];

/// Names in a store, which only one file may build and read. The store's own
/// names are constants of `crates/store/src/names.rs`.
const NAMES: &[&str] =
    &["\"artifacts/", "\"partial/", "\"questions/{", "\"runs/{", "join(\"runs\")", "join(\"artifacts\")"];
const LAYOUT: &str = "crates/lab/src/layout.rs";

/// Crates that do not know by which command people call them:
/// `crates/app/src/advice.rs` adds the command that fixes an error.
const WITHOUT_COMMANDS: &[&str] = &[
    "crates/executor/",
    "crates/store/",
    "crates/databases/",
    "crates/models/",
    "crates/rag/",
    "crates/eval/",
    "crates/lab/",
    "crates/serve/",
];

/// The reasons for which a test may be skipped in CI; any other reason is a
/// fault of the machine or of its setup.
const ALLOWED_SKIPS: &[&str] = &[
    // Weights of up to 1 GB: `make test` pulls only the networks for pictures.
    "REVERIE_TEST_MODELS is not set",
    "model `all-minilm-l6-v2` is not on this machine",
    "model `multilingual-e5-small` is not on this machine",
    // PostgreSQL comes from the system, and nothing here installs into the system.
    "PostgreSQL is neither in",
];

/// Words that no committed file may hold.
const BANNED_EVERYWHERE: &[(&str, &str)] = &[
    ("pypi.org", "ask the package tool for its index instead of naming a registry's host"),
    ("pythonhosted", "ask the package tool for its index instead of naming a registry's host"),
    ("crates.io", "registries are named by their tools"),
    ("registry.npmjs", "registries are named by their tools"),
    ("deb.debian.org", "registries are named by their tools"),
];

fn main() -> ExitCode {
    let mut complaints = Vec::new();
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            direction(&root, &mut complaints);
            cycles(&root, &mut complaints);
            layers(&root, &mut complaints);
            type_names::check(&root, &mut complaints);
            unused(&root, &mut complaints);
            files(&root, &mut complaints);
            formatting(&root, &mut complaints);
        }
        Some("skips") => skips(std::env::args().nth(2).as_deref(), &mut complaints),
        _ => complaints.push("usage: cargo xtask tidy, or cargo xtask skips FILE".to_owned()),
    }
    for complaint in &complaints {
        let _ = writeln!(std::io::stderr(), "{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Crates depend only on those that [`DIRECTION`] allows.
fn direction(root: &Path, complaints: &mut Vec<String>) {
    for (name, allowed) in DIRECTION {
        for (kind, dependency) in dependencies(&folder(root, name)) {
            let is_known = DIRECTION.iter().any(|(known, _)| *known == dependency);
            if kind == "dependencies" && is_known && !allowed.contains(&dependency.as_str()) {
                complaints.push(format!("crates/{name} may not depend on `{dependency}`: see ARCHITECTURE.md"));
            }
        }
    }
}

/// The modules of a folder do not import each other in a cycle.
fn cycles(root: &Path, complaints: &mut Vec<String>) {
    for (name, _) in DIRECTION {
        for cycle in imports::cycles(&folder(root, name).join("src")) {
            let modules: Vec<&str> = cycle.modules.iter().map(String::as_str).collect();
            let ways: Vec<String> = cycle.imports.iter().map(|(way, place)| format!("  {way}: {place}")).collect();
            complaints.push(format!(
                "{name}: the modules {} of `{}` import each other in a cycle; move the shared code to a lower module:\n{}",
                modules.join(", "),
                cycle.folder,
                ways.join("\n")
            ));
        }
    }
}

/// The modules of a crate import only modules of lower layers, or modules that are listed before them in their layer.
fn layers(root: &Path, complaints: &mut Vec<String>) {
    let table = fs::read_to_string(folder(root, "rag").join("src/lib.rs")).unwrap_or_default();
    for (name, rows) in LAYERS {
        let order: Vec<&str> = rows.iter().flat_map(|row| row.split_whitespace()).collect();
        let place = |name: &str| order.iter().position(|listed| *listed == name);
        let rank = |module: &str| place(module).or_else(|| place(OTHER_STAGES).filter(|_| is_stage(&table, module)));
        let crate_imports = imports::between_top_modules(&folder(root, name).join("src"));
        for module in crate_imports.modules.iter().filter(|module| rank(module).is_none()) {
            complaints.push(format!("{name}: the module `{module}` is in no layer: add it to xtask/src/layers.rs"));
        }
        let is_missing = |module: &&&str| **module != OTHER_STAGES && !crate_imports.modules.contains(**module);
        for module in order.iter().filter(is_missing) {
            complaints.push(format!("{name}: there is no module `{module}`: remove it from xtask/src/layers.rs"));
        }
        for ((from, to), place) in &crate_imports.imports {
            if rank(from) < rank(to) {
                complaints.push(format!(
                    "{name}: `{from}` may not import `{to}`, which xtask/src/layers.rs lists after it: {place}"
                ));
            }
        }
    }
}

/// Whether a module is the folder of a stage in the table of `rag/src/lib.rs`.
fn is_stage(table: &str, module: &str) -> bool {
    table.lines().any(|line| line.contains("=>") && line.contains(&format!(", in {module}, ")))
}

fn folder(root: &Path, name: &str) -> PathBuf {
    let is_tool = matches!(name, "fuzz" | "simulator" | "skips" | "xtask");
    if is_tool { root.join(name) } else { root.join("crates").join(name) }
}

/// What a crate's manifest lists, each with the last word of its section:
/// `dependencies`, `dev-dependencies`.
fn dependencies(folder: &Path) -> Vec<(String, String)> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').rsplit('.').next().unwrap_or_default();
        } else if section.ends_with("dependencies") && line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            found.push((section.to_owned(), name.to_owned()));
        }
    }
    found
}

/// Each dependency is named somewhere in the crate: an unused one only costs compile
/// time.
fn unused(root: &Path, complaints: &mut Vec<String>) {
    for (name, _) in DIRECTION {
        let folder = folder(root, name);
        let sources: String =
            tracked(&folder, "*.rs").iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        let words: HashSet<&str> = sources.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for (kind, dependency) in dependencies(&folder) {
            if !words.contains(dependency.replace('-', "_").as_str()) {
                complaints.push(format!("crate `{name}`: `{dependency}` of [{kind}] is used nowhere: take it out"));
            }
        }
    }
}

/// Names the skipped tests; in CI an unexpected one is a failure.
fn skips(file: Option<&str>, complaints: &mut Vec<String>) {
    let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    let _ = writeln!(std::io::stdout(), "{} tests were skipped", lines.len());
    for line in lines {
        let _ = writeln!(std::io::stdout(), "  {line}");
        let expected = ALLOWED_SKIPS.iter().any(|reason| line.contains(reason));
        if !expected && std::env::var_os("CI").is_some() {
            complaints.push(format!("skipped in CI: {line}"));
        }
    }
}

fn tracked(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", pattern])
        .current_dir(root)
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().map(|line| root.join(line)).filter(|path| path.is_file()).collect()
}

/// Checks the files: every Rust file says what it is for, libraries do not
/// print or read the environment, and no file holds a banned word.
fn files(root: &Path, complaints: &mut Vec<String>) {
    for path in tracked(root, "*") {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if name == "xtask/src/main.rs" || name.ends_with("Cargo.lock") {
            continue;
        }
        for (word, reason) in BANNED_EVERYWHERE {
            if text.contains(word) {
                complaints.push(format!("{name}: `{word}`: {reason}"));
            }
        }
        if !name.ends_with(".rs") {
            continue;
        }
        if !text.starts_with("//!") {
            complaints.push(format!("{name}: starts without `//!`: say what the file is for"));
        }
        let library = name.starts_with("crates/") && name.contains("/src/") && !name.starts_with("crates/app/");
        let test = name.contains("/tests/") || name.ends_with("tests.rs");
        if library && !test {
            // Tests may read the environment and print why they were skipped.
            let code = without_tests(&text);
            for (word, reason) in BANNED_IN_LIBRARIES.iter().filter(|(word, _)| code.contains(word)) {
                complaints.push(format!("{name}: `{word}`: {reason}"));
            }
        }
        if name.starts_with("crates/") && name.contains("/src/") && !test {
            store_names(&name, &without_tests(&text), complaints);
        }
    }
}

/// Checks that names of a store are built in one file only, and that libraries
/// name no commands; comments may do both.
fn store_names(name: &str, code: &str, complaints: &mut Vec<String>) {
    let lines = || code.lines().filter(|line| !line.trim_start().starts_with("//"));
    for word in NAMES.iter().filter(|word| name != LAYOUT && lines().any(|line| line.contains(**word))) {
        complaints.push(format!("{name}: `{word}`: names of a store are built in {LAYOUT}"));
    }
    let is_without = WITHOUT_COMMANDS.iter().any(|folder| name.starts_with(folder));
    if is_without && lines().any(|line| line.contains("`reverie ")) {
        complaints.push(format!("{name}: names a command: crates/app/src/advice.rs says what to run"));
    }
}

/// The text without items that are compiled for tests only. Such an item ends
/// at a `;` on its first line, or where its brace closes, which rustfmt puts
/// below the line that opened it.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let first = lines.by_ref().find(|line| !line.trim_start().starts_with('#')).unwrap_or_default();
        if !first.ends_with([';', '}', ',']) {
            let closing = [format!("{indent}}}"), format!("{indent}}};"), format!("{indent});")];
            lines.by_ref().find(|line| closing.iter().any(|end| line == end));
        }
    }
    kept
}

/// `cargo fmt` does not see modules that macros declare, so every file is given to rustfmt.
fn formatting(root: &Path, complaints: &mut Vec<String>) {
    let files = tracked(root, "*.rs");
    let output =
        Command::new("rustfmt").args(["--check", "-l", "--edition", "2024"]).args(&files).current_dir(root).output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let list = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            complaints.push(format!("not formatted (run `make format`):\n{list}"));
        }
        Err(error) => complaints.push(format!("rustfmt cannot be run: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_stage, without_tests};
    use std::process::Command;

    #[test]
    fn all_parts_of_make_test_run_and_one_that_fails_is_counted_and_told_by_the_exit_code() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/parts");
        let run = |parts: &[(&str, &str)]| {
            let parts = parts.iter().flat_map(|(name, command)| [*name, *command]);
            let output = Command::new("bash").arg(script).args(parts).output().expect("bash runs it");
            (output.status.success(), String::from_utf8(output.stdout).expect("text"))
        };
        let rust = "printf '     Summary [ 2.1s] 7 tests run: 5 passed, 2 failed, 3 skipped\\n'; false";
        let python = "echo '=== 4 passed, 1 skipped in 0.5s ==='";
        let (ok, said) = run(&[("tidy", "true"), ("Rust", rust), ("Python", python), ("clippy", "exit 3")]);
        assert!(!ok, "{said}");
        assert!(said.ends_with("10 passed, 3 failed, 4 skipped\n"), "{said}");
        let table = said.rsplit_once("seconds\n").expect("a table").1;
        let row = |name: &str| {
            let row = table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {said}"));
            row.split_whitespace().skip(1).take(3).map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(["tidy", "Rust", "Python", "clippy"].map(row), ["1 0 0", "5 2 3", "4 0 1", "0 1 0"]);
        // Tests that pass do not hide that their part ended with an error.
        let (ok, said) = run(&[("Python", "echo '2 passed in 0.1s'; exit 1")]);
        assert!(!ok && said.ends_with("2 passed, 1 failed, 0 skipped\n"), "{said}");
        let (ok, said) = run(&[("tidy", "true"), ("Python", python)]);
        assert!(ok && said.ends_with("5 passed, 0 failed, 1 skipped\n"), "{said}");
    }

    #[test]
    fn a_stage_is_a_line_of_the_table() {
        let table = include_str!("../../crates/rag/src/lib.rs");
        assert!(is_stage(table, "rerank") && is_stage(table, "chunk"));
        assert!(!is_stage(table, "load") && !is_stage(table, "component"));
    }

    #[test]
    fn only_what_is_compiled_for_tests_is_left_out() {
        let text = "fn a() {}\n#[cfg(test)]\nmod one;\nfn b() {}\n#[cfg(test)]\nmod two {\n    fn c() {\n    }\n}\nfn d() {}\n";
        assert_eq!(without_tests(text), "fn a() {}\nfn b() {}\nfn d() {}\n");
    }
}
