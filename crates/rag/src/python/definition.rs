//! Finds the definition of a function in Python source, and reads its parameters without starting an interpreter:
//! `inspect.signature` would have to run the user's file, and every check of an experiment, every plan and every editor
//! that completes one needs the parameters, also where the interpreter or the file's imports are missing.
//!
//! The source is cut into tokens (names, strings, symbols, line ends), so that brackets, strings and comments cannot be
//! mistaken for syntax. A definition may be indented, as under `if`. Definitions in a class or in another function
//! count only if the module itself uses the name too, as in `score = Scorer().score`.

/// A `def` or `async def`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FunctionDefinition {
    pub is_async: bool,
    /// The parameters without `*rest`, `**rest`, and without the `self` or `cls` of a method.
    pub parameters: Vec<FunctionParameter>,
    /// Whether it has `**rest`, which takes arguments of any name.
    pub takes_more: bool,
    /// Whether it has `*rest`.
    pub takes_positions: bool,
}

/// A parameter that a caller can set by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FunctionParameter {
    pub name: String,
    pub has_default: bool,
}

/// Finds the definition that Python uses when it looks up `function` after it has run `source`: the last one of the
/// module.
pub(super) fn find_definition(source: &str, function: &str) -> Option<FunctionDefinition> {
    let mut reader = SourceReader { tokens: PythonTokens { source, at: 0, begin: 0 }, enclosing: Vec::new() };
    let (mut of_module, mut nested, mut is_used_by_module) = (None, None, false);
    while let Some(statement) = reader.next_statement(function) {
        match statement {
            Statement::Definition(definition, DefinitionScope::Module) => of_module = Some(definition),
            Statement::Definition(definition, _) => nested = Some(definition),
            Statement::UsesName => is_used_by_module = true,
            Statement::Other => {}
        }
    }
    of_module.or(nested.filter(|_| is_used_by_module))
}

/// Whether source uses a name outside strings and comments.
pub(super) fn uses_name(source: &str, name: &str) -> bool {
    let mut tokens = PythonTokens { source, at: 0, begin: 0 };
    std::iter::from_fn(|| tokens.next_token()).any(|token| token == PythonToken::Name(name))
}

/// Where a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DefinitionScope {
    Module,
    Class,
    Function,
}

/// What matters of a statement, or of the head of a block.
enum Statement {
    /// A definition of the function.
    Definition(FunctionDefinition, DefinitionScope),
    /// A statement of the module with the name of the function in it.
    UsesName,
    Other,
}

/// The prefixes of strings, in lower case.
const PREFIXES: [&str; 11] = ["r", "u", "b", "f", "t", "br", "rb", "fr", "rf", "tr", "rt"];

struct SourceReader<'a> {
    tokens: PythonTokens<'a>,
    /// The indentation and kind of the classes and functions around the present statement, from the outermost.
    enclosing: Vec<(usize, DefinitionScope)>,
}

impl SourceReader<'_> {
    /// Reads a statement up to the end of its last line; none at the end of the source.
    fn next_statement(&mut self, function: &str) -> Option<Statement> {
        let mut token = self.tokens.next_token()?;
        while token == PythonToken::LineEnd {
            token = self.tokens.next_token()?;
        }
        let indentation = self.tokens.indentation();
        self.enclosing.retain(|(outer, _)| *outer < indentation);
        // A class in a function is local to that function.
        let scope = self.enclosing.iter().map(|(_, kind)| *kind).max().unwrap_or(DefinitionScope::Module);
        let is_async = token == PythonToken::Name("async");
        if is_async {
            token = self.tokens.next_token()?;
        }
        if token == PythonToken::Name("class") {
            self.enclosing.push((indentation, DefinitionScope::Class));
        }
        if token != PythonToken::Name("def") {
            let uses_name = self.finish_statement(Some(token), function);
            return Some(if uses_name && scope == DefinitionScope::Module {
                Statement::UsesName
            } else {
                Statement::Other
            });
        }
        self.enclosing.push((indentation, DefinitionScope::Function));
        let is_wanted = self.tokens.next_token()? == PythonToken::Name(function);
        let mut token = self.tokens.next_token();
        if token == Some(PythonToken::Symbol(b'[')) {
            // Type parameters, as in `def score[T](passages)`.
            self.skip_brackets();
            token = self.tokens.next_token();
        }
        if !is_wanted || token != Some(PythonToken::Symbol(b'(')) {
            self.finish_statement(token, function);
            return Some(Statement::Other);
        }
        let (mut parameters, stars) = self.read_parameters();
        if scope == DefinitionScope::Class
            && parameters.first().is_some_and(|first| ["self", "cls"].contains(&first.name.as_str()))
        {
            parameters.remove(0);
        }
        self.finish_statement(None, function);
        let [takes_positions, takes_more] = stars;
        Some(Statement::Definition(FunctionDefinition { is_async, parameters, takes_more, takes_positions }, scope))
    }

    /// Skips the rest of a statement, from `token` on. Returns whether it has the name of the function in it, other
    /// than as an attribute.
    fn finish_statement(&mut self, token: Option<PythonToken<'_>>, function: &str) -> bool {
        let (mut depth, mut uses_name, mut is_attribute) = (0_usize, false, false);
        let mut next = token.or_else(|| self.tokens.next_token());
        while let Some(token) = next {
            match token {
                PythonToken::LineEnd if depth == 0 => break,
                PythonToken::Symbol(b'(' | b'[' | b'{') => depth += 1,
                PythonToken::Symbol(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
                PythonToken::Name(name) => uses_name |= name == function && !is_attribute,
                _ => {}
            }
            is_attribute = token == PythonToken::Symbol(b'.');
            next = self.tokens.next_token();
        }
        uses_name
    }

    /// Skips past the bracket that closes the one just read.
    fn skip_brackets(&mut self) {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.tokens.next_token() {
                Some(PythonToken::Symbol(b'(' | b'[' | b'{')) => depth += 1,
                Some(PythonToken::Symbol(b')' | b']' | b'}')) => depth -= 1,
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Reads parameters from behind the opening bracket to behind the closing one; also whether there are parameters
    /// with one star and with two.
    fn read_parameters(&mut self) -> (Vec<FunctionParameter>, [bool; 2]) {
        let mut parameters = Vec::new();
        // The stars before the present parameter.
        let (mut stars, mut found) = (0_usize, [false; 2]);
        let mut parameter: Option<FunctionParameter> = None;
        // Whether the present parameter has a token already, and the depth of each `lambda` whose `:` is to come.
        let (mut is_begun, mut depth, mut lambdas) = (false, 0_usize, Vec::<usize>::new());
        while let Some(token) = self.tokens.next_token() {
            match token {
                PythonToken::LineEnd => continue,
                PythonToken::Symbol(b')') if depth == 0 => break,
                PythonToken::Symbol(b',') if depth == 0 && lambdas.is_empty() => {
                    parameters.extend(parameter.take());
                    (is_begun, stars) = (false, 0);
                    continue;
                }
                PythonToken::Name(name) if !is_begun => {
                    parameter = Some(FunctionParameter { name: name.to_owned(), has_default: false });
                }
                PythonToken::Symbol(b'*') if !is_begun || (stars == 1 && depth == 0) => stars += 1,
                PythonToken::Name(_) if (1..=2).contains(&stars) => {
                    if let Some(star) = found.get_mut(stars - 1) {
                        *star = true;
                    }
                    stars = 0;
                }
                PythonToken::Name("lambda") => lambdas.push(depth),
                PythonToken::Symbol(b':') if lambdas.last() == Some(&depth) => _ = lambdas.pop(),
                PythonToken::Symbol(b'=') if depth == 0 && lambdas.is_empty() => {
                    if let Some(parameter) = &mut parameter {
                        parameter.has_default = true;
                    }
                }
                PythonToken::Symbol(b'(' | b'[' | b'{') => depth += 1,
                PythonToken::Symbol(b')' | b']' | b'}') => {
                    depth = depth.saturating_sub(1);
                    lambdas.retain(|lambda| *lambda <= depth);
                }
                _ => {}
            }
            // What begins with `*` or `/` has no name that a caller can set.
            is_begun = true;
        }
        parameters.extend(parameter);
        (parameters, found)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PythonToken<'a> {
    /// A name, keyword or number.
    Name(&'a str),
    /// A string with its prefix.
    Text,
    /// One character of an operator or a bracket.
    Symbol(u8),
    /// `==`, `!=`, `<=`, `>=` or `:=`, which are neither a `=` nor a `:`.
    TwoSymbols,
    /// The end of a line, unless a backslash joins it with the next one.
    LineEnd,
}

/// Cuts Python source into tokens; leaves out comments and white space.
struct PythonTokens<'a> {
    source: &'a str,
    /// The byte behind the token that was read last.
    at: usize,
    /// The byte where that token begins.
    begin: usize,
}

impl<'a> PythonTokens<'a> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.source.as_bytes().get(at).copied()
    }

    /// The columns of white space before the token that was read last.
    fn indentation(&self) -> usize {
        let before = self.source.as_bytes().get(..self.begin).unwrap_or_default();
        let line = before.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).map_or(0, |end| end + 1);
        before.iter().skip(line).fold(0, |column, byte| match byte {
            b'\t' => (column / 8 + 1) * 8,
            b'\x0c' => 0,
            _ => column + 1,
        })
    }

    fn next_token(&mut self) -> Option<PythonToken<'a>> {
        self.skip_space();
        let begin = self.at;
        let token = self.read_token()?;
        // Reading a formatted string reads the tokens in it.
        self.begin = begin;
        Some(token)
    }

    /// Skips white space, comments, and line ends behind a backslash.
    fn skip_space(&mut self) {
        while let Some(byte) = self.byte(self.at) {
            match byte {
                b' ' | b'\t' | b'\x0c' => self.at += 1,
                b'#' => {
                    while self.byte(self.at).is_some_and(|byte| !matches!(byte, b'\n' | b'\r')) {
                        self.at += 1;
                    }
                }
                b'\\' => self.skip_escaped(),
                _ => return,
            }
        }
    }

    /// Skips a backslash with the character behind it, or with the line end of one or two characters.
    fn skip_escaped(&mut self) {
        let is_pair = self.byte(self.at + 1) == Some(b'\r') && self.byte(self.at + 2) == Some(b'\n');
        self.at += if is_pair { 3 } else { 2 };
    }

    fn read_token(&mut self) -> Option<PythonToken<'a>> {
        let (byte, begin) = (self.byte(self.at)?, self.at);
        self.at += 1;
        Some(match byte {
            b'\n' | b'\r' => PythonToken::LineEnd,
            b'\'' | b'"' => {
                self.skip_text(byte, false);
                PythonToken::Text
            }
            b'=' | b'!' | b'<' | b'>' | b':' if self.byte(self.at) == Some(b'=') => {
                self.at += 1;
                PythonToken::TwoSymbols
            }
            _ if is_of_name(byte) => {
                while self.byte(self.at).is_some_and(is_of_name) {
                    self.at += 1;
                }
                let name = self.source.get(begin..self.at).unwrap_or_default();
                let prefix = name.to_ascii_lowercase();
                match self.byte(self.at) {
                    Some(quote @ (b'\'' | b'"')) if PREFIXES.contains(&prefix.as_str()) => {
                        self.at += 1;
                        self.skip_text(quote, prefix.contains(['f', 't']));
                        PythonToken::Text
                    }
                    _ => PythonToken::Name(name),
                }
            }
            _ => PythonToken::Symbol(byte),
        })
    }

    /// Skips a string from behind its first quote. In one with a prefix `f` or `t`, values in braces may hold strings
    /// with the same quote.
    fn skip_text(&mut self, quote: u8, is_formatted: bool) {
        let is_triple = self.byte(self.at) == Some(quote) && self.byte(self.at + 1) == Some(quote);
        if is_triple {
            self.at += 2;
        }
        self.skip_literal(quote, is_triple, is_formatted, false);
    }

    /// Skips the literal part of a string to behind its closing quote, or, in the format after the `:` of a value, up
    /// to the brace that closes it. Without a closing quote, a string ends with its line.
    fn skip_literal(&mut self, quote: u8, is_triple: bool, is_formatted: bool, is_format: bool) {
        while let Some(byte) = self.byte(self.at) {
            let next = self.byte(self.at + 1);
            match byte {
                b'\\' if !is_formatted || !matches!(next, Some(b'{' | b'}')) => self.skip_escaped(),
                b'\n' | b'\r' if !is_triple => return,
                b'{' if is_formatted && next == Some(b'{') && !is_format => self.at += 2,
                b'{' if is_formatted => {
                    self.at += 1;
                    self.skip_value(quote, is_triple);
                }
                b'}' if is_format => return,
                _ if byte == quote && !is_triple => {
                    self.at += usize::from(!is_format);
                    return;
                }
                _ if byte == quote && next == Some(quote) && self.byte(self.at + 2) == Some(quote) => {
                    self.at += if is_format { 0 } else { 3 };
                    return;
                }
                _ => self.at += 1,
            }
        }
    }

    /// Skips a value of a formatted string from behind `{` to behind `}`.
    fn skip_value(&mut self, quote: u8, is_triple: bool) {
        let mut depth = 0_usize;
        while let Some(token) = self.next_token() {
            match token {
                PythonToken::Symbol(b'(' | b'[' | b'{') => depth += 1,
                PythonToken::Symbol(b'}') if depth == 0 => return,
                PythonToken::Symbol(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
                PythonToken::Symbol(b':') if depth == 0 => {
                    self.skip_literal(quote, is_triple, true, true);
                    if self.byte(self.at) == Some(b'}') {
                        self.at += 1;
                    }
                    return;
                }
                _ => {}
            }
        }
    }
}

/// Whether a byte may be part of a name or number: names may hold letters of any script.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}
