//! One document of the corpus as it is parsed, for whoever quotes from it.

use crate::{
    Error, Session, error_chain, nearest,
    prepare::corpus::{bind_pdf_library, source},
    task::compute,
};
use rag::{
    Document,
    load::{ReadError, parse},
};
use store::Key;

/// Paths that are named where one is not there.
const NAMED: usize = 5;

/// Reads and parses one file of a session's corpus: its text is what chunks are
/// made of, and what the evidence of golden questions is quoted from.
///
/// # Errors
/// If the corpus cannot be listed, has no such file, or the file gives no
/// document.
pub async fn document(session: &Session, path: &str) -> Result<Document, Error> {
    let mut mistakes = Vec::new();
    let Some(source) = source(session, &mut mistakes) else { return Err(Error::Refused(mistakes)) };
    let files = source.survey().await?.files;
    let Some(file) = files.iter().find(|file| file.path == path) else {
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
    bind_pdf_library(&session.context().directory, &[(file.clone(), Key::of_bytes(path.as_bytes()))], &mut mistakes)?;
    if !mistakes.is_empty() {
        return Err(Error::Refused(mistakes));
    }
    let limits = session.experiment.corpus.limits.clone();
    let bytes = source.read(file, &limits).await.map_err(|error| match error {
        ReadError::Rejected(reason) => Error::Unusable(format!("{path} gives no document: {}", error_chain(&reason))),
        failed => Error::Unusable(format!("{path} cannot be read now: {failed}")),
    })?;
    let name = path.to_owned();
    let parsed = compute(move || parse(&name, &bytes, &limits)).await?;
    parsed.map_err(|reason| Error::Unusable(format!("{path} gives no document: {}", error_chain(&reason))))
}
