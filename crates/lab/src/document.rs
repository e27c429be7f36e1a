//! Parsed documents, for callers that quote from them: one of a session's corpus, or all at an
//! address.

use crate::{
    Error, Session, Setup,
    blocking::compute,
    error_chain, nearest,
    parser_needs::{check_models_of_parsers, prepare_parsers},
    task::read,
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use rag::{
    Choice, Context, Document,
    load::{self, LoadError, ParseLimits, ReadError, Rejected, Source, SourceFile},
    parse::{ParseConfig, ParseError, Parser as _},
};

/// Paths that are listed if the requested one does not exist.
const NAMED: usize = 5;

/// Reads and parses one file of a session's corpus: its text is what chunks are
/// made of, and what the evidence of golden questions is quoted from. `parser` is the number of the parser in the
/// experiment, from 1.
///
/// # Errors
/// If the corpus cannot be listed, has no such file, or the file gives no
/// document; if there is no such parser.
pub async fn document(session: &Session, path: &str, parser: usize) -> Result<Document, Error> {
    let parsers = session.experiment.space.parsers();
    let number = parser.wrapping_sub(1);
    if number >= parsers.len().max(1) {
        let names: Vec<String> =
            (1..).zip(&parsers).map(|(number, parser)| format!("{number} {}", parser.name())).collect();
        let there = match names.len() {
            0 | 1 => "there is 1 parser".to_owned(),
            count => format!("there are {count} parsers: {}", names.join(", ")),
        };
        return Err(Error::NotFound(format!("the experiment has no parser {parser}: {there}")));
    }
    let parser = parsers.get(number).filter(|parser| !parser.is_default());
    let mut mistakes = Vec::new();
    let chosen = parser.map_or(&[][..], std::slice::from_ref);
    check_models_of_parsers(chosen, &session.context().directory, &mut mistakes);
    let parser = parser.map(|parser| parser.build(&Context::default())).transpose()?;
    Error::refuse(mistakes)?;
    let bytes = read_file(session, path, chosen).await?;
    let (name, limits) = (path.to_owned(), session.experiment.corpus.limits.clone());
    let parse = move || match parser {
        Some(parser) => parser.parse(&name, &bytes, &limits),
        None => Ok(load::parse(&name, &bytes, &limits)?),
    };
    compute(parse).await?.map_err(|reason| match reason {
        ParseError::Component(error) => error.into(),
        reason => Error::Unusable(format!("{path} gives no document: {}", error_chain(&reason))),
    })
}

/// The names of an experiment's parsers, by their numbers from 1.
pub fn parser_names(session: &Session) -> Vec<String> {
    let parsers = session.experiment.space.parsers().len().max(1);
    (1..=parsers).map(|number| parser_name(session, number)).collect()
}

/// The name of a parser by its number in the experiment, from 1.
pub fn parser_name(session: &Session, parser: usize) -> String {
    let parsers = session.experiment.space.parsers();
    parsers.get(parser.wrapping_sub(1)).map_or("text", |parser| parser.name()).to_owned()
}

/// Reads a file of a session's corpus, or a file in one, such as an attachment of a mail. These parsers are to read it.
///
/// # Errors
/// If the corpus cannot be listed, has no such file, or it cannot be read.
pub(crate) async fn read_file(session: &Session, path: &str, parsers: &[&ParseConfig]) -> Result<Bytes, Error> {
    let mut mistakes = Vec::new();
    let Some(source) = session.corpus_source(&mut mistakes) else { return Err(Error::Refused(mistakes)) };
    let files = source.survey().await?.files;
    // The path of a file in a mail begins with that of the mail.
    let holds = |file: &&SourceFile| path.strip_prefix(file.path.as_str()).is_some_and(|rest| rest.starts_with('/'));
    let Some(file) = files.iter().find(|file| file.path == path).or_else(|| files.iter().find(holds)) else {
        let known = || files.iter().map(|file| file.path.as_str());
        let ends: Vec<&str> = known().filter(|known| known.ends_with(path) || path.ends_with(known)).collect();
        let meant = match (ends.first(), nearest(path, known())) {
            (Some(first), _) => format!("; did you mean `{first}`?"),
            (None, Some(near)) => format!("; did you mean `{near}`?"),
            (None, None) => {
                let first: Vec<&str> = known().take(NAMED).collect();
                format!("; there are {} files, such as {}", files.len(), first.join(", "))
            }
        };
        return Err(Error::NotFound(format!("the corpus has no file `{path}`{meant}")));
    };
    prepare_parsers(&session.context().directory, parsers, [path], &mut mistakes)?;
    Error::refuse(mistakes)?;
    let limits = session.experiment.corpus.limits.clone();
    let bytes = source.read(file, &limits).await.map_err(|error| match error {
        ReadError::Rejected(reason) => Error::Unusable(format!("{path} gives no document: {}", error_chain(&reason))),
        failed => Error::Unusable(format!("{path} cannot be read now: {failed}")),
    })?;
    let (outer, wanted) = (file.path.clone(), path.to_owned());
    let lookup = compute(move || load::find_file(&outer, &bytes, &wanted, &limits)).await?;
    match (lookup.found, lookup.others) {
        (Some(Ok(bytes)), _) => Ok(bytes),
        (Some(Err(reason)), _) => Err(Error::Unusable(format!("{path} gives no document: {}", error_chain(&reason)))),
        (None, others) => {
            let first: Vec<&str> = others.iter().take(NAMED).map(String::as_str).collect();
            let there = format!("{} files, such as {}", others.len(), first.join(", "));
            Err(Error::NotFound(match path == file.path {
                true => format!("{path} has no text of its own: in it are {there}"),
                false => format!("the corpus has no file `{path}`; in {} are {there}", file.path),
            }))
        }
    }
}

/// Reads and parses all files at an address, such as `corpus.source` of an
/// experiment: a folder, a file, a pattern or a URL. Returns the documents by
/// path, and the files that give none.
///
/// # Errors
/// If the address cannot be listed, or the library that reads its PDF files is
/// not here.
pub async fn documents(address: &str, setup: &Setup) -> Result<(Vec<Document>, Vec<Rejected>), Error> {
    let refused = |error: rag::Error| Error::Refused(vec![error_chain(&error)]);
    let source = Source::parse(address, &[], &[], &setup.store_options).map_err(refused)?;
    let listing = source.survey().await.map_err(refused)?;
    let mut mistakes = Vec::new();
    prepare_parsers(&setup.directory, &[], listing.files.iter().map(|file| file.path.as_str()), &mut mistakes)?;
    Error::refuse(mistakes)?;
    let mut rejected = listing.rejected;
    let unread = |path: String, reason: String| Rejected { path, reason: LoadError::Unreadable(reason) };
    rejected.extend(listing.unread.into_iter().map(|file| unread(file.path, file.reason)));
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let parsed = stream::iter(listing.files).map(|file| read_and_parse(&source, file)).buffered(at_once);
    let mut parsed = std::pin::pin!(parsed);
    let mut documents = Vec::new();
    while let Some(read) = parsed.next().await {
        let (more, without) = read?;
        documents.extend(more);
        rejected.extend(without);
    }
    Ok((documents, rejected))
}

/// The documents of a file and of the files in it, and which of these give none.
async fn read_and_parse(source: &Source, file: SourceFile) -> Result<(Vec<Document>, Vec<Rejected>), Error> {
    let (path, limits) = (file.path.clone(), ParseLimits::default());
    let bytes = match read::content(source, &file, &limits).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(reason)) => return Ok((Vec::new(), vec![Rejected { path, reason }])),
        Err(unread) => return Ok((Vec::new(), vec![Rejected { path, reason: LoadError::Unreadable(unread.reason) }])),
    };
    let parse = move || {
        let (mut documents, mut rejected) = (Vec::new(), Vec::new());
        load::parse_files(&path, Ok(&bytes), &limits, &mut |path, parsed| match parsed {
            Ok(document) => documents.push(document),
            Err(reason) => rejected.push(Rejected { path: path.to_owned(), reason }),
        });
        (documents, rejected)
    };
    compute(parse).await
}
