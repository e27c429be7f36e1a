//! Builds the page application in `web/` with Node, into the folder of this crate's build output. Nothing built is in git.
//!
//! Node is, in this order: the program that the variable `REVERIE_NODE` names, that of `make` in `.tools`, that of the
//! system.

use std::{
    error::Error,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

/// What the page is built from.
const SOURCES: &[&str] = &["src", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", ".npmrc"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=REVERIE_NODE");
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let (web, out) = (root.join("web"), PathBuf::from(std::env::var("OUT_DIR")?));
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", web.join(source).display());
    }
    let node = Node::find(&root);
    // Two builds, such as those of two target folders, would install the same packages at once.
    let lock = File::create(web.join(".install.lock"))?;
    lock.lock()?;
    if !has_packages(&web) {
        node.npm(&web, &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])?;
    }
    let mut build = node.command();
    build.arg(web.join("node_modules/vite/bin/vite.js")).args(["build", "--logLevel", "warn"]);
    run(build.current_dir(&web).env("WEB_OUT", &out))?;
    Ok(())
}

/// Whether the packages of the lock file are installed: npm writes a copy of it beside them.
fn has_packages(web: &Path) -> bool {
    let changed = |path: &str| web.join(path).metadata().and_then(|file| file.modified()).ok();
    match (changed("node_modules/.package-lock.json"), changed("package-lock.json")) {
        (Some(installed), Some(locked)) => installed >= locked,
        _ => false,
    }
}

struct Node {
    program: PathBuf,
    /// npm as a script of this Node, if it came with it.
    npm: Option<PathBuf>,
}

impl Node {
    fn find(root: &Path) -> Self {
        let named = std::env::var_os("REVERIE_NODE").map(PathBuf::from);
        let of_make = Some(root.join(".tools/node/bin/node")).filter(|program| program.exists());
        let program = named.or(of_make).unwrap_or_else(|| PathBuf::from("node"));
        let folder = program.parent().and_then(Path::parent);
        let npm = folder.map(|folder| folder.join("lib/node_modules/npm/bin/npm-cli.js")).filter(|npm| npm.exists());
        Self { program, npm }
    }

    fn command(&self) -> Command {
        Command::new(&self.program)
    }

    fn npm(&self, folder: &Path, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
        let mut npm = match &self.npm {
            Some(script) => {
                let mut node = self.command();
                node.arg(script);
                node
            }
            None => Command::new("npm"),
        };
        run(npm.args(arguments).current_dir(folder))
    }
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let output = command.output().map_err(|error| {
        format!(
            "the page of `reverie ui` is built with Node, and {} did not start ({error}); `make build` brings Node into \
             .tools, or name one in REVERIE_NODE",
            command.get_program().display()
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Err(format!("{command:?} failed:\n{}\n{}", text(&output.stdout), text(&output.stderr)).into())
}
