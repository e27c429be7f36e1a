//! Programs that answer questions, tried with real processes.

use super::{
    super::testing::{answer, answer_at_last, ask, context, model_context},
    *,
};
use std::{os::unix::fs::symlink, time::Duration};

/// Longer than anything takes on a busy machine: only what hangs takes as long.
const PATIENCE: f64 = 300.0;

/// A program in Python in a folder of its own, to which `answered` says what it does with each `call`.
struct ProgramFolder {
    folder: tempfile::TempDir,
    config: Config,
}

impl ProgramFolder {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rag.py"), script).unwrap();
        let config = Config {
            program: "python3".to_owned(),
            args: vec!["-u".to_owned(), "rag.py".to_owned()],
            timeout_seconds: PATIENCE,
            ..Config::default()
        };
        Self { folder, config }
    }

    /// For each line in turn, `body` runs with `call` and `say`, which writes a reply line.
    fn answering(body: &str) -> Self {
        Self::new(&format!(
            "import json, os, sys, time\ndef say(value):\n    print(json.dumps(value, ensure_ascii=False))\n\
             for line in sys.stdin:\n    call = json.loads(line)\n    id, question = call['id'], call['question']\n    {}\n",
            body.replace('\n', "\n    ")
        ))
    }

    fn build(&self) -> Arc<dyn System> {
        self.config.build(&context(&model_context(), self.folder.path())).unwrap()
    }

    fn identity(&self) -> Identity {
        self.config.identity(&context(&model_context(), self.folder.path())).unwrap()
    }
}

async fn error_of(body: &str) -> Error {
    answer(&ProgramFolder::answering(body).build(), "why?").await.unwrap_err()
}

#[tokio::test]
async fn a_program_gets_the_whole_request_and_its_reply_is_read() {
    let program = ProgramFolder::answering(
        "say({'id': id, 'answer': json.dumps(call), 'passages': ['Löwe 🦁', {'text': 't', 'document': 'a.md', 'page': 2}], 'usage': {'cost_usd': 0.5}, 'trace': 'x'})",
    );
    let parameters = BTreeMap::from([("top_k".to_owned(), json!(3))]);
    let reply = ask(&program.build(), "Größe?\n„ja“", &parameters).await.unwrap();
    let request: Value = serde_json::from_str(&reply.answer.unwrap()).unwrap();
    let messages = json!([
        { "role": "user", "content": "before" }, { "role": "assistant", "content": "yes" },
        { "role": "user", "content": "Größe?\n„ja“" },
    ]);
    let expected =
        json!({ "id": 1, "question": "Größe?\n„ja“", "messages": messages, "seed": 5, "parameters": { "top_k": 3 } });
    assert_eq!(request, expected);
    let passages = reply.passages.unwrap();
    assert_eq!((passages[0].text.as_str(), passages[1].page), ("Löwe 🦁", Some(2)));
    assert_eq!((reply.usage.cost_usd, reply.trace.as_deref()), (Some(0.5), Some("x")));
}

#[tokio::test]
async fn sixteen_questions_are_in_flight_and_each_gets_its_own_reply() {
    // It replies in the wrong order, once all sixteen are there.
    let mut program = ProgramFolder::new(
        "import json, sys\ncalls = [json.loads(sys.stdin.readline()) for _ in range(16)]\nfor call in reversed(calls):\n    print(json.dumps({'id': call['id'], 'answer': call['question']}))\nsys.stdin.read()",
    );
    program.config.concurrency = 16;
    let system = program.build();
    let asked = futures::future::join_all((0..16).map(|number| {
        let system = system.clone();
        async move { answer(&system, &format!("question {number}")).await.unwrap() }
    }));
    let expected: Vec<String> = (0..16).map(|number| format!("question {number}")).collect();
    assert_eq!(asked.await, expected);
}

#[tokio::test]
async fn a_program_gets_only_the_variables_that_are_named_and_their_values_do_not_come_back() {
    let body = "say({'id': id, 'answer': ' '.join(sorted(os.environ)) + ' ' + os.environ.get('RAG_KEY', '')})";
    let mut program = ProgramFolder::answering(body);
    let names = answer(&program.build(), "which?").await.unwrap();
    // Cargo sets variables for tests.
    let is_passed_on = |name: &str| ["CARGO", "RUST", "RAG"].iter().any(|beginning| name.starts_with(beginning));
    assert!(names.contains("PATH") && !names.split_whitespace().any(is_passed_on), "{names}");
    program.config.env = vec!["RAG_KEY".to_owned()];
    let names = answer(&program.build(), "which?").await.unwrap();
    assert!(names.contains("RAG_KEY") && names.ends_with("[secret]"), "{names}");
    program.config.env = vec!["REVERIE_NOT_SET".to_owned()];
    let error = answer(&program.build(), "which?").await.unwrap_err();
    assert!(matches!(&error, Error::Config(text) if text.contains("`REVERIE_NOT_SET`, which is not set")), "{error}");
}

#[tokio::test]
async fn an_error_of_the_program_says_whether_another_attempt_may_help() {
    let busy = error_of("say({'id': id, 'error': 'busy', 'retry': True})").await;
    assert!(busy.is_transient(), "{busy}");
    assert_eq!(busy.to_string(), "the function `python3` of [systems.app]: it replied with an error: busy");
    assert!(!error_of("say({'id': id, 'error': 'no index'})").await.is_transient());
    let unusable = error_of("say({'id': id, 'output': 'x'})").await;
    assert!(unusable.to_string().contains("`reply` has no field `output`") && !unusable.is_transient(), "{unusable}");
}

#[tokio::test]
async fn what_is_no_reply_to_the_question_is_an_error_with_the_end_of_standard_error() {
    let noise = error_of("print('loading the index', file=sys.stderr)\nprint('INFO ready')").await;
    assert!(matches!(noise, Error::Malformed { .. }));
    for part in
        ["`INFO ready`", "logs to standard error", "“loading the index”", "the program `python3` of [systems.app]"]
    {
        assert!(noise.to_string().contains(part), "{noise}");
    }
    let other = error_of("say({'id': id + 1, 'answer': 'of another question'})").await;
    assert!(matches!(&other, Error::Malformed { reason, .. } if reason.contains("the id 2, which was never asked")));
    let mut long = ProgramFolder::answering("say({'id': id, 'answer': 'x' * 5000})");
    long.config.max_response_bytes = 1000;
    let error = answer(&long.build(), "long?").await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 1000, .. }) && error.to_string().contains("max_response_bytes"));
}

#[tokio::test]
async fn a_reply_that_comes_twice_is_an_error_of_the_next_question() {
    let program = ProgramFolder::answering(
        "if question == 'second':\n    say({'id': id - 1, 'answer': 'again'})\nelse:\n    say({'id': id, 'answer': 'first'})",
    );
    let system = program.build();
    assert_eq!(answer(&system, "first").await.unwrap(), "first");
    let error = answer(&system, "second").await.unwrap_err();
    assert!(matches!(&error, Error::Malformed { reason, .. } if reason.contains("the id 1 twice")), "{error}");
    assert_eq!(answer(&system, "first").await.unwrap(), "first", "it is started again");
}

#[tokio::test]
async fn a_program_that_is_missing_or_cannot_be_run_says_what_to_do() {
    let error = async |program: &str| {
        let mut missing = ProgramFolder::new("");
        missing.config.program = program.to_owned();
        std::fs::write(missing.folder.path().join("data.txt"), "text").unwrap();
        let error = answer(&missing.build(), "there?").await.unwrap_err();
        assert!(matches!(error, Error::Config(_)) && !error.is_transient(), "{error}");
        error.to_string()
    };
    let text = error("./rag").await;
    assert!(text.starts_with("[systems.app] command: `./rag` does not start: No such file"), "{text}");
    assert!(text.contains("there is no /"), "{text}");
    assert!(error("reverie-no-such-program").await.contains("write `./reverie-no-such-program` if it lies"));
    assert!(error("./data.txt").await.contains("make it executable: chmod +x"));
}

#[tokio::test]
async fn a_program_that_always_ends_is_not_started_a_fourth_time() {
    let program = ProgramFolder::new(
        "import sys\nopen('starts', 'a').write('x')\nprint('no index at ./data', file=sys.stderr)\nsys.exit(3)",
    );
    let system = program.build();
    let starts = || std::fs::read_to_string(program.folder.path().join("starts")).unwrap_or_default().len();
    let first = answer(&system, "why?").await.unwrap_err();
    assert!(first.is_transient(), "{first}");
    for part in ["it ended (exit status: 3) before it replied", "“no index at ./data”", "started again"] {
        assert!(first.to_string().contains(part), "{first}");
    }
    let last = answer_at_last(&system, "why?").await.unwrap_err();
    assert!(!last.is_transient() && starts() == 3, "{last}");
    assert!(last.to_string().contains("3 times in a row without a reply"), "{last}");
    assert!(last.to_string().contains("| python3 -u rag.py"), "{last}");
    let later = answer(&system, "and now?").await.unwrap_err().to_string();
    assert!(later.contains("“no index at ./data”") && starts() == 3, "{later}");
}

#[tokio::test]
async fn a_program_that_ends_after_each_reply_is_started_for_each_question() {
    let program = ProgramFolder::answering("say({'id': id, 'answer': question})\nsys.exit(0)");
    let system = program.build();
    for number in 0..6 {
        let question = format!("question {number}");
        assert_eq!(answer_at_last(&system, &question).await.unwrap(), question);
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_within_its_limit() {
    let mut program = ProgramFolder::answering(
        "open('pid', 'w').write(str(os.getpid()))\nprint('waiting for a lock', file=sys.stderr)\nif question == 'hang':\n    time.sleep(600)\nsay({'id': id, 'answer': 'here'})",
    );
    program.config.timeout_seconds = 1.0;
    let system = program.build();
    let began = Instant::now();
    let error = answer(&system, "hang").await.unwrap_err();
    let Error::Timeout { model, after } = &error else { panic!("{error}") };
    assert_eq!(*after, Duration::from_secs(1));
    assert!(model.contains("standard error") && error.to_string().contains("raise its `timeout_seconds`"), "{error}");
    assert!(began.elapsed().as_secs_f64() < PATIENCE);
    assert_eq!(answer_at_last(&system, "fine").await.ok().as_deref().unwrap_or("here"), "here");
}

#[tokio::test]
async fn a_program_that_is_killed_in_the_middle_is_started_again_and_no_question_is_lost() {
    let mut program = ProgramFolder::answering(
        "if question == 'question 5' and not os.path.exists('died'):\n    open('died', 'w').close()\n    os.kill(os.getpid(), 9)\ntime.sleep(0.01)\nsay({'id': id, 'answer': question})",
    );
    program.config.concurrency = 4;
    let system = program.build();
    let asked = futures::future::join_all((0..32).map(|number| {
        let system = system.clone();
        async move { answer_at_last(&system, &format!("question {number}")).await.unwrap() }
    }));
    let expected: Vec<String> = (0..32).map(|number| format!("question {number}")).collect();
    assert_eq!(asked.await, expected);
    assert!(program.folder.path().join("died").exists());
}

#[tokio::test]
async fn a_program_is_found_from_the_folder_of_the_experiment_file() {
    let mut program = ProgramFolder::new("");
    symlink("/bin/sh", program.folder.path().join("rag")).unwrap();
    std::fs::write(
        program.folder.path().join("rag.sh"),
        "while read -r line; do\n  id=$(echo \"$line\" | sed 's/^{\"id\":\\([0-9]*\\),.*/\\1/')\n  echo \"{\\\"id\\\": $id, \\\"answer\\\": \\\"by sh\\\"}\"\ndone\n",
    )
    .unwrap();
    (program.config.program, program.config.args) = ("./rag".to_owned(), vec!["rag.sh".to_owned()]);
    assert_eq!(answer(&program.build(), "who?").await.unwrap(), "by sh");
}

#[test]
fn the_identity_changes_with_the_program_its_arguments_and_the_version() {
    let mut program = ProgramFolder::new("");
    let file = program.folder.path().join("rag");
    std::fs::write(&file, "one").unwrap();
    program.config.program = "./rag".to_owned();
    let first = program.identity();
    assert_eq!((first.provider.as_str(), first.model.as_str()), ("command", "rag"));
    assert!(first.revision.starts_with("command:") && first.is_remote());
    assert_eq!(first.parameters, json!({ "version": "1" }));
    std::fs::write(&file, "two").unwrap();
    let second = program.identity();
    assert_ne!(second.revision, first.revision);
    program.config.args.push("--fast".to_owned());
    assert_ne!(program.identity().revision, second.revision);
    program.config.timeout_seconds = 7.0;
    program.config.concurrency = 9;
    assert!(!program.config.key_settings().to_string().contains('7'));
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_by_their_key() {
    let check = |change: fn(&mut Config)| {
        let mut config = Config { program: "rag".to_owned(), ..Config::default() };
        change(&mut config);
        config.check(&BTreeMap::new()).unwrap_err()
    };
    assert!(check(|config| config.program.clear()).contains("`program` is missing"));
    assert!(check(|config| config.program = "bin/rag".to_owned()).contains("write `./bin/rag`"));
    assert!(check(|config| config.concurrency = 0).contains("`concurrency`"));
    assert!(check(|config| config.timeout_seconds = 0.0).contains("`timeout_seconds`"));
    assert!(check(|config| config.max_response_bytes = 0).contains("`max_response_bytes`"));
    assert!(check(|config| config.env = vec!["A=b".to_owned()]).contains("`A=b` is no name"));
    let source = VersionSource { url: "http://h/".to_owned(), path: String::new(), header: String::new() };
    let error = ProgramFolder::new("").build().ask_version(&source).await.unwrap_err().to_string();
    assert!(error.contains("[systems.app]") && error.contains("version = \"…\""), "{error}");
}
