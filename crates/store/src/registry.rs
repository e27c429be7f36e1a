//! One list per kind of component: the whole registration of a component is
//! one line in its folder's `mod.rs`. It is here because this is the lowest
//! crate that all crates with components share (`models`, `rag`, `eval`, `lab`).
//!
//! [`registry!`](crate::registry!) declares the components, with their docs for
//! people; [`ReadSettingsFile`] is how a component gets a file that its settings name.

/// Reads a file that settings name, given its path as the settings write it.
pub type ReadSettingsFile<'a> = &'a dyn Fn(&str) -> Result<String, SettingsFileError>;

/// Why a file that settings name cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SettingsFileError {
    /// The experiment is in a bundle, which lacks the file of this path.
    #[error("{0} is not in the bundle, which holds what its experiment needs")]
    NotInBundle(String),
    /// The system does not read it.
    #[error("{path} cannot be read: {source}")]
    Unreadable {
        /// Its path on this machine.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The docs at the top of a file of Rust: its lines with `//!`, a blank line
/// between paragraphs, without links to other items.
pub fn docs(source: &str) -> String {
    let lines =
        source.lines().map_while(|line| line.strip_prefix("//!")).map(|line| line.strip_prefix(' ').unwrap_or(line));
    let mut text = lines.collect::<Vec<_>>().join("\n");
    // `[a word](crate::its::place)` is for rustdoc.
    let mut from = 0;
    while let Some(at) = text[from..].find("](").map(|at| from + at + 1) {
        let Some(end) = text[at..].find(')').map(|end| at + end) else { break };
        if text[at..end].contains("::") {
            text.replace_range(at..=end, "");
        }
        from = at;
    }
    text.replace("[`", "`").replace("`]", "`")
}

/// The first paragraph of docs, on one line.
pub fn first_paragraph(docs: &str) -> String {
    docs.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Declares the components of one kind.
///
/// Expands to a private module per component, the enum of their `Config`s
/// (tagged by name in a file: `{ sentence = { chunk_size = 256 } }`), the
/// list of names, and `build`, which makes the component.
///
/// Each module holds `pub(super) const VERSION: u32`, `pub struct Config`
/// (`Debug + Clone + PartialEq + Default + Serialize + Deserialize`, with
/// `#[serde(default, deny_unknown_fields)]`) and
/// `impl Config { pub(super) fn build(&self, cx: Context) -> Result<Box<dyn Trait>, Error> }`.
///
/// `Openai => chat_openai in remote` names a module that the module `remote`
/// declares: the insides of that folder stay private.
///
/// Further derives of the enum are written above it. With `#[derive(schemars::JsonSchema)]` there and on each
/// `Config`, the names, types, defaults and descriptions of all settings are available; the classes of the Python
/// package are written from them.
#[macro_export]
macro_rules! registry {
    (@declare $module:ident) => { mod $module; };
    (@declare $module:ident in $folder:ident) => {};
    (@source $module:ident) => { include_str!(concat!(stringify!($module), ".rs")) };
    (@source $module:ident in $folder:ident) => {
        include_str!(concat!("../", stringify!($folder), "/", stringify!($module), ".rs"))
    };
    (
        $(#[$meta:meta])*
        $visibility:vis enum $Enum:ident builds $built:ty, from $context:ty, or $error:ty {
            $( $(#[$variant_meta:meta])* $Variant:ident => $module:ident $(in $folder:ident)? ),+ $(,)?
        }
    ) => {
        $( $crate::registry! { @declare $module $(in $folder)? } )+

        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        $visibility enum $Enum {
            $(
                #[doc = concat!("The component `", stringify!($module), "`.")]
                $(#[$variant_meta])*
                $Variant($($folder::)? $module::Config),
            )+
        }

        impl $Enum {
            /// The names of all components of this kind, in the order of registration.
            $visibility const NAMES: &'static [&'static str] = &[ $( stringify!($module) ),+ ];

            /// What each component is for, in that order: the docs at the top of its file.
            $visibility fn docs() -> Vec<String> {
                vec![ $( $crate::registry::docs($crate::registry! { @source $module $(in $folder)? }) ),+ ]
            }

            /// The component's name, as it is written in a file.
            $visibility fn name(&self) -> &'static str {
                match self { $( Self::$Variant(_) => stringify!($module), )+ }
            }

            /// The version of the component's algorithm: part of every task key.
            $visibility fn version(&self) -> u32 {
                match self { $( Self::$Variant(_) => $($folder::)? $module::VERSION, )+ }
            }

            /// Every component with its default settings.
            $visibility fn defaults() -> Vec<Self> {
                vec![ $( Self::$Variant($($folder::)? $module::Config::default()) ),+ ]
            }

            /// Makes the component, or says what is wrong with its settings.
            ///
            /// # Errors
            /// An impossible combination of settings, or a part that is missing.
            $visibility fn build(&self, cx: $context) -> ::std::result::Result<$built, $error> {
                match self { $( Self::$Variant(config) => config.build(cx), )+ }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::docs;

    #[test]
    fn docs_are_the_lines_at_the_top_without_links_to_items() {
        let source = "//! `x`: cuts at [`Blank`](crate::Blank) lines.\n//!\n//! - as [here](https://example.org) and [`there`](super::There)\n\nuse y;\n//! no";
        assert_eq!(docs(source), "`x`: cuts at `Blank` lines.\n\n- as [here](https://example.org) and `there`");
        assert_eq!(docs("use y;"), "");
    }
}
