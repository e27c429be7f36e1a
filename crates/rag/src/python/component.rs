//! Settings that name a function of the user's own, and what components that run
//! one have in common.

use super::{Failure, Function, Script};
use crate::Error;
use serde_json::Value;
use std::{fmt, sync::Arc, time::Duration};

/// Declares the settings of a component or metric that runs a function of the
/// user's own: the settings that name the function, and the component's own ones
/// before and after them, each with its default.
///
/// In a file all are keys of one table. serde's `flatten` does not work together
/// with `deny_unknown_fields`: errors for misspelt keys would lack the place and
/// the known names. So the macro writes the shared fields into each struct.
///
/// ```text
/// function_settings! {
///     /// Settings of `python`.
///     pub struct Config;
///     before file { /** What it is called. */ pub name: Option<String> = None, }
///     /// The function. Default `count`.
///     function = "count";
///     after timeout_seconds { /** How far it counts. Default 3. */ pub most: usize = 3, }
/// }
/// ```
#[macro_export]
macro_rules! function_settings {
    (
        $(#[$meta:meta])*
        $visible:vis struct $Config:ident;
        $( before file { $( $(#[$meta_1:meta])* pub $own_1:ident: $Own1:ty = $default_1:expr, )* } )?
        $(#[$about_function:meta])*
        function = $function:literal;
        $( after timeout_seconds { $( $(#[$meta_2:meta])* pub $own_2:ident: $Own2:ty = $default_2:expr, )* } )?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        $visible struct $Config {
            $( $( $(#[$meta_1])* pub $own_1: $Own1, )* )?
            /// The file with the function, relative to the experiment file.
            pub file: String,
            /// What the file holds; filled in when the experiment is read, never by hand.
            #[schemars(skip)]
            pub source: String,
            $(#[$about_function])*
            pub function: String,
            /// The program that runs it. Default: the Python that started Reverie, else
            /// that of the active virtual environment, else `python3`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub interpreter: Option<String>,
            /// How long one call may take, in seconds. Default 300; no part of any key.
            pub timeout_seconds: f64,
            /// How many calls of an `async def` run at once, 1 to 256. Default 16; no
            /// part of any key. Other functions are called one at a time.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub concurrency: Option<usize>,
            $( $( $(#[$meta_2])* pub $own_2: $Own2, )* )?
        }

        impl Default for $Config {
            fn default() -> Self {
                Self {
                    $( $( $own_1: $default_1, )* )?
                    file: String::new(),
                    source: String::new(),
                    function: $function.to_owned(),
                    interpreter: None,
                    timeout_seconds: $crate::python::TIMEOUT_SECONDS,
                    concurrency: None,
                    $( $( $own_2: $default_2, )* )?
                }
            }
        }

        impl $Config {
            fn script(&self) -> $crate::python::Script<'_> {
                $crate::python::Script {
                    file: &self.file,
                    source: &self.source,
                    function: &self.function,
                    interpreter: self.interpreter.as_deref(),
                    timeout_seconds: self.timeout_seconds,
                    concurrency: self.concurrency,
                }
            }
        }
    };
}

/// The methods of [`Component`](crate::Component) that follow from such settings,
/// inside their `impl`. With the names of the function's possible arguments, the
/// function is looked up as soon as its file is read.
macro_rules! runs_function {
    ($( $known:expr )?) => {
        fn runs_function(&self) -> bool {
            true
        }
        fn settings_outside_key(&self) -> &'static [&'static str] {
            $crate::python::OUTSIDE_KEY
        }
        fn read_files(&mut self, read: ::store::registry::ReadSettingsFile<'_>) -> Result<(), $crate::FileError> {
            $crate::python::read_source(&self.file, &mut self.source, read)?;
            $( self.script().parameters($known)?; )?
            Ok(())
        }
    };
}

pub(crate) use runs_function;

/// A function that a component runs. The errors are those of [`Function`], with the
/// component's name.
pub(crate) struct StageFunction {
    /// Such as `chunker python`.
    component: &'static str,
    function: Arc<Function>,
}

impl StageFunction {
    /// A function that takes some of the `known` arguments. No process is started yet.
    pub(crate) fn new(component: &'static str, script: Script<'_>, known: &[&'static str]) -> Result<Self, Error> {
        let stage = component.split_once(' ').map_or(component, |(stage, _)| stage);
        match Function::new(stage, script, known) {
            Ok(function) => Ok(Self { component, function: Arc::new(function) }),
            Err(error) => Err(Error::Config { component, reason: error.to_string() }),
        }
    }

    /// The arguments that it takes, by name.
    pub(crate) fn arguments(&self, value: impl Fn(&str) -> Value) -> Value {
        self.function.parameters().iter().map(|&name| (name, value(name))).collect()
    }

    /// Calls it for a `subject` such as a document's path, and waits.
    pub(crate) fn call(&self, arguments: &Value, subject: Option<&str>) -> Result<Value, Error> {
        self.function.call(arguments).map_err(|failure| self.failed(failure, subject))
    }

    /// Calls it on a thread that may block.
    pub(crate) async fn call_async(&self, arguments: Value) -> Result<Value, Error> {
        self.function.call_async(arguments).await.map_err(|failure| self.failed(failure, None))
    }

    /// [`StageFunction::call_async`] with the time that the function took.
    pub(crate) async fn call_timed(&self, arguments: Value) -> Result<(Value, Duration), Error> {
        self.function.call_timed(arguments).await.map_err(|failure| self.failed(failure, None))
    }

    /// The error for a returned value that cannot be used.
    pub(crate) fn unusable(&self, reason: impl fmt::Display, subject: Option<&str>) -> Error {
        self.failed(self.function.bad_return_value(reason.to_string()), subject)
    }

    fn failed(&self, failure: Box<Failure>, subject: Option<&str>) -> Error {
        Error::Function { component: self.component, subject: subject.map(str::to_owned), failure }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    function_settings! {
        /// Settings of a function that counts.
        struct Config;
        before file {
            /// What it is called.
            pub name: Option<String> = None,
        }
        /// The function. Default `count`.
        function = "count";
        after timeout_seconds {
            /// How far it counts.
            pub most: usize = 3,
        }
    }

    #[test]
    fn own_settings_stand_around_the_shared_ones() {
        let written = serde_json::to_string(&Config::default()).unwrap();
        assert_eq!(
            written,
            r#"{"name":null,"file":"","source":"","function":"count","timeout_seconds":300.0,"most":3}"#
        );
        let schema = schemars::schema_for!(Config).to_value();
        assert_eq!(schema["description"], "Settings of a function that counts.");
        assert_eq!(schema["properties"]["function"]["description"], "The function. Default `count`.");
        assert_eq!(schema["properties"]["most"]["default"], 3);
    }

    #[test]
    fn what_is_misspelt_is_told_with_the_names_that_there_are() {
        let error = serde_json::from_value::<Config>(json!({ "file": "count.py", "mots": 7 })).unwrap_err().to_string();
        assert!(error.contains("`mots`") && error.contains("`timeout_seconds`"), "{error}");
    }

    #[test]
    fn the_function_is_the_one_that_the_settings_name() {
        let source = "def tally(text):\n    return len(text)\n".to_owned();
        let config = Config { source, function: "tally".to_owned(), ..Config::default() };
        assert_eq!(config.script().parameters(&["most", "text"]).unwrap(), ["text"]);
    }
}
