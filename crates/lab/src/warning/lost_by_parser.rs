//! `lost-by-parser`: golden evidence that the documents of one parser do not hold, and those of another do.

use super::{Finding, ParserFacts, RunFacts, WarningKind, WarningTime};
use crate::number::{count, counted};

pub(super) const KIND: WarningKind = WarningKind {
    title: "evidence lost by a parser",
    meaning: "A parser of these trials did not read the evidence of some golden questions, or gave no document of its file, \
              and another parser did. The trials cannot find it: it counts as not found.",
    action: "look at one of the documents as this parser reads it; leave the parser out, or use it for other formats",
    found: WarningTime::Before,
    needs_chunks: false,
    find,
};

fn find(facts: &RunFacts) -> Vec<Finding> {
    facts.corpus.parsers.iter().filter(|parser| parser.lost > 0).map(finding).collect()
}

fn finding(facts: &ParserFacts) -> Finding {
    let ParserFacts { parser, lost, questions, rejected, first_rejected, trials, .. } = facts;
    let verb = if *lost == 1 { "has" } else { "have" };
    let why = match first_rejected {
        None => String::new(),
        Some((path, reason)) if *rejected == 1 => format!("; of 1 file it gives no document: {path}: {reason}"),
        Some((path, reason)) => {
            format!("; of {} files it gives no document, such as {path}: {reason}", count(*rejected))
        }
    };
    let of = counted(*questions, "question");
    let text =
        format!("{} of {of} {verb} evidence that `{parser}` does not read, and another parser does{why}", count(*lost));
    Finding::of_trials(trials.clone(), text, *lost, Some(*questions))
}

#[cfg(test)]
mod tests {
    use super::super::{
        CorpusFacts, WarningCode,
        fixture::{only, told},
    };
    use super::*;

    const CODE: WarningCode = WarningCode::LostByParser;

    fn corpus(parsers: Vec<ParserFacts>) -> RunFacts {
        RunFacts { corpus: CorpusFacts { parsers, ..CorpusFacts::default() }, ..RunFacts::default() }
    }

    #[test]
    fn the_parser_and_its_trials_are_named_with_what_it_lost() {
        let parser = ParserFacts {
            parser: "command".to_owned(),
            documents: 9,
            rejected: 2,
            first_rejected: Some(("a.pdf".to_owned(), "encrypted".to_owned())),
            questions: 30,
            lost: 3,
            trials: vec!["t02".to_owned(), "t04".to_owned()],
        };
        let found = only(CODE, &corpus(vec![ParserFacts { lost: 0, ..parser.clone() }, parser]));
        assert!(
            found.text.contains("3 of 30 questions have evidence that `command` does not read, and another parser does; of 2 files it gives no document, such as a.pdf: encrypted"),
            "{}",
            found.text
        );
        assert_eq!(found.trials, ["t02", "t04"]);
    }

    #[test]
    fn one_parser_loses_nothing_to_another() {
        assert!(told(CODE, &corpus(Vec::new())).is_empty());
    }
}
