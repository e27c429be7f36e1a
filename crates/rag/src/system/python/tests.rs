//! Functions and objects that answer questions, tried with a real interpreter.

use super::{
    super::{
        ReplyPassage,
        testing::{answer, answer_at_last, ask, context, model_context},
    },
    *,
};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine: only what hangs takes as long.
const PATIENCE: Duration = Duration::from_secs(300);

fn config(source: &str) -> Config {
    Config { file: "rag.py".to_owned(), source: source.to_owned(), ..Config::default() }
}

fn build(config: &Config) -> Arc<dyn System> {
    config.build(&context(&model_context(), Path::new("."))).unwrap()
}

async fn reply(source: &str) -> Result<SystemReply, Error> {
    ask(&build(&config(source)), "why?", &BTreeMap::new()).await
}

async fn answered(source: &str) -> String {
    reply(source).await.unwrap().answer.unwrap()
}

async fn refused(source: &str) -> Error {
    reply(source).await.unwrap_err()
}

/// What a passage is, in short.
fn place(passage: &ReplyPassage) -> (&str, Option<&str>, Option<u32>, Option<f64>) {
    (&passage.text, passage.document.as_deref(), passage.page, passage.score)
}

#[tokio::test]
async fn a_function_gets_the_arguments_that_it_names() {
    let parameters = BTreeMap::from([("top_k".to_owned(), json!(3)), ("mode".to_owned(), json!("fast"))]);
    let asked = async |signature: &str, body: &str| {
        let source = format!("def answer({signature}):\n    return str({body})\n");
        ask(&build(&config(&source)), "Größe? 🦁", &parameters).await.map(|reply| reply.answer.unwrap_or_default())
    };
    let all =
        asked("question, history, seed, id, top_k, mode", "[question, len(history), seed, id, top_k, mode]").await;
    assert_eq!(all.unwrap(), "['Größe? 🦁', 2, 5, 'q1', 3, 'fast']");
    let messages = asked("messages, **more", "[len(messages), messages[-1]['content'], sorted(more)]").await.unwrap();
    assert_eq!(messages, "[3, 'Größe? 🦁', ['mode', 'top_k']]");
    assert_eq!(asked("text, *, mode, top_k=9", "[text, mode, top_k]").await.unwrap(), "['Größe? 🦁', 'fast', 3]");
    assert_eq!(asked("**everything", "sorted(everything)").await.unwrap(), "['mode', 'question', 'top_k']");
    assert_eq!(asked("*values, **more", "[values, more['question']]").await.unwrap(), "[(), 'Größe? 🦁']");
    let error = asked("question, mode", "question").await.unwrap_err().to_string();
    assert!(error.contains("`answer` has no parameter `top_k`, which the experiment sets"), "{error}");
}

#[tokio::test]
async fn what_it_returns_is_read_in_each_form() {
    assert_eq!(answered("def answer(question):\n    return question").await, "why?");
    assert_eq!(answered("async def answer(question):\n    return question").await, "why?");
    let pair = reply("def answer(question):\n    return 'a', ['p', {'text': 't', 'page': 2, 'score': float('nan')}]\n");
    let pair = pair.await.unwrap();
    let passages = pair.passages.unwrap();
    assert_eq!((pair.answer.as_deref(), place(&passages[0])), (Some("a"), ("p", None, None, None)));
    assert_eq!(place(&passages[1]), ("t", None, Some(2), None));
    let whole = "def answer(question):\n    return {'answer': 'a', 'passages': [], 'usage': {'input_tokens': 3, 'output_tokens': 4, 'total_tokens': 7}, 'trace': 12}\n";
    let whole = reply(whole).await.unwrap();
    assert_eq!((whole.usage.tokens.unwrap().total(), whole.trace.as_deref()), (7, Some("12")));
    assert_eq!(whole.passages, Some(Vec::new()));
}

#[tokio::test]
async fn the_texts_of_generators_are_joined_and_a_dictionary_gives_the_rest() {
    let body = "answer(question):\n    yield 'Lö'\n    yield 'we'\n    yield {'passages': ['p'], 'usage': {'cost_usd': 0.5}}\n";
    for keyword in ["def", "async def"] {
        let reply = reply(&format!("{keyword} {body}")).await.unwrap();
        assert_eq!((reply.answer.as_deref(), reply.usage.cost_usd), (Some("Löwe"), Some(0.5)));
        assert_eq!(reply.passages.unwrap()[0].text, "p");
    }
    let later = "def answer(question):\n    async def pieces():\n        yield 'late'\n    return pieces()\n";
    assert_eq!(answered(later).await, "late", "a plain function may return an asynchronous generator");
    assert_eq!(answered("def answer(question):\n    return iter(())").await, "");
    let error = refused("def answer(question):\n    yield 5").await.to_string();
    assert!(error.contains("it yielded 5, of type int"), "{error}");
}

/// Classes with the methods and attributes of LlamaIndex and LangChain.
const PACKAGES: &str = "
class Node:
    def __init__(self, text, metadata): self.text, self.metadata, self.node_id = text, metadata, 'n1'
    def get_content(self): return self.text
class NodeWithScore:
    def __init__(self, node, score): self.node, self.score = node, score
class Response:
    def __init__(self, response, source_nodes): self.response, self.source_nodes = response, source_nodes
class Document:
    def __init__(self, page_content, metadata): self.page_content, self.metadata, self.id = page_content, metadata, None
class Message:
    def __init__(self, content): self.content, self.usage_metadata = content, {'input_tokens': 2, 'output_tokens': 1}
nodes = [NodeWithScore(Node('t', {'file_name': 'a.md', 'file_path': 'x/a.md', 'page_label': '3'}), 0.5),
    NodeWithScore(Node('u', {'page_label': 'iv'}), None)]
";

#[tokio::test]
async fn query_engines_are_asked_by_their_methods() {
    let asked = async |body: &str| reply(&format!("{PACKAGES}{body}\nanswer = Engine()\n")).await.unwrap();
    let engine = asked("class Engine:\n    def query(self, text): return Response('about ' + text, nodes)").await;
    assert_eq!(engine.answer.as_deref(), Some("about why?"));
    let passages = engine.passages.unwrap();
    assert_eq!(place(&passages[0]), ("t", Some("x/a.md"), Some(3), Some(0.5)));
    assert_eq!((passages[0].id.as_deref(), place(&passages[1])), (Some("n1"), ("u", None, None, None)));
    let both = "class Engine:\n    def query(self, text): return Response('sync', [])\n    async def aquery(self, text): return Response('async', [])";
    assert_eq!(asked(both).await.answer.as_deref(), Some("async"));
    let base = both.replace("return Response('async', [])", "raise NotImplementedError");
    assert_eq!(asked(&base).await.answer.as_deref(), Some("sync"));
    let streaming = "class Streaming:\n    source_nodes = nodes\n    def get_response(self): return Response('streamed', nodes)\nclass Engine:\n    def query(self, text): return Streaming()";
    let streaming = asked(streaming).await;
    assert_eq!(
        (streaming.answer.as_deref(), streaming.passages.map(|passages| passages.len())),
        (Some("streamed"), Some(2))
    );
    let method = format!(
        "{PACKAGES}class Engine:\n    def query(self, anything): return Response(anything, [])\nengine = Engine()\n"
    );
    let dotted = Config { function: "engine.query".to_owned(), ..config(&method) };
    assert_eq!(answer(&build(&dotted), "by method").await.unwrap(), "by method");
}

#[tokio::test]
async fn chains_are_asked_with_the_input_that_they_name() {
    let asked = async |schema: &str, returned: &str| {
        let source = format!(
            "{PACKAGES}\nclass Chain:\n    func = None\n    def get_input_jsonschema(self): return {schema}\n    def invoke(self, given): return {returned}\nanswer = Chain()\n"
        );
        reply(&source).await.unwrap()
    };
    assert_eq!(asked("{'type': 'string'}", "given").await.answer.as_deref(), Some("why?"));
    let fields = "{'type': 'object', 'properties': {'chat_history': {}, 'input': {}}}";
    let echo = "{**given, 'answer': given['input'] + str(given['chat_history']), 'context': [Document('t', {'source': 'a.pdf', 'page': 0})]}";
    let chain = asked(fields, echo).await;
    assert_eq!(chain.answer.as_deref(), Some("why?[('user', 'before'), ('assistant', 'yes')]"));
    assert_eq!(place(&chain.passages.unwrap()[0]), ("t", Some("a.pdf"), Some(1), None));
    let message = asked("{}", "Message([{'type': 'text', 'text': 'in '}, 'parts'])").await;
    assert_eq!(
        (message.answer.as_deref(), message.usage.tokens.map(|usage| usage.total())),
        (Some("in parts"), Some(3))
    );
    let scored = asked("{}", "('a', [(Document('t', {'source': 'a.md', 'page_label': '7'}), 0.25)])").await;
    assert_eq!(place(&scored.passages.unwrap()[0]), ("t", Some("a.md"), Some(7), Some(0.25)));
}

#[tokio::test]
async fn a_chat_engine_gets_the_messages_before_the_question_and_one_question_after_the_other() {
    // A module of this name stands for LlamaIndex.
    let source = "import sys, types\n\
                  for name in ('llama_index', 'llama_index.core', 'llama_index.core.llms'):\n    \
                      sys.modules[name] = types.ModuleType(name)\n\
                  class ChatMessage:\n    def __init__(self, role, content): self.text = f'{role}: {content}'\n\
                  sys.modules['llama_index.core.llms'].ChatMessage = ChatMessage\n\
                  class Engine:\n    chat_history, running = [], 0\n    def reset(self): pass\n    \
                      def chat(self, message, chat_history=None):\n        self.running += 1\n        \
                      assert self.running == 1\n        history = ', '.join(each.text for each in chat_history)\n        \
                      self.running -= 1\n        return f'{message} after {history}'\n    \
                      async def achat(self, message, chat_history=None): raise ValueError('not asked')\n\
                  answer = Engine()\n";
    let system = build(&Config { concurrency: Some(4), ..config(source) });
    let asked = futures::future::join_all((0..4).map(|_| answer(&system, "why?"))).await;
    for answered in asked {
        assert_eq!(answered.unwrap(), "why? after user: before, assistant: yes");
    }
}

#[tokio::test]
async fn an_object_with_a_text_and_passages_is_a_reply() {
    let source = "class Passage:\n    text, document, page, score = 't', 'a.md', 7, float('nan')\n\
                  class Answer:\n    text, passages = 'a', [Passage()]\n\
                  def answer(question):\n    return Answer()\n";
    let reply = reply(source).await.unwrap();
    assert_eq!(reply.answer.as_deref(), Some("a"));
    assert_eq!(place(&reply.passages.unwrap()[0]), ("t", Some("a.md"), Some(7), None));
}

#[tokio::test]
async fn what_cannot_be_used_is_named() {
    for (source, expected) in [
        ("def answer(question):\n    return None", "it returned None, of type NoneType: a text is wanted"),
        ("def answer(question):\n    return 'a', 'b'", "its passages are 'b', of type str: a list is wanted"),
        ("def answer(question):\n    return 'a', ['p', 5]", "passages[1] is 5, of type int"),
        ("def answer(question):\n    return {'answer': 5}", "its answer is 5, of type int"),
        ("def answer(question):\n    return {'answer': 'a', 'sources': []}", "`reply` has no field `sources`"),
        (
            "def answer(question):\n    return {'answer': 'a', 'passages': [{'page': 'x', 'text': ''}]}",
            "`passages[0].page`",
        ),
        ("class answer:\n    pass", "`answer` is a class: name an object of it"),
        ("answer = 5", "it must be a function, or an object with `query` or `invoke`"),
        ("def answer():\n    return 'a'", "takes no question"),
    ] {
        let error = refused(source).await;
        assert!(error.to_string().contains(expected) && !error.is_transient(), "{source}: {error}");
        assert!(error.to_string().starts_with("the function `answer` of rag.py: "), "{error}");
    }
}

#[tokio::test]
async fn an_exception_comes_with_its_class_line_and_traceback() {
    let error =
        refused("def inner(text):\n    return 1 / 0\n\ndef answer(question):\n    return inner(question)\n").await;
    let Error::Function(failed) = &error else { panic!("{error}") };
    assert_eq!(failed.message, "ZeroDivisionError: division by zero (line 2)");
    assert!(failed.traceback.as_deref().unwrap().contains("return inner(question)") && !failed.is_transient);
    assert!(!failed.traceback.as_deref().unwrap().contains("system_error"), "{failed:?}");
    let missing = refused("import oats_of_the_mill\nanswer = 1\n").await.to_string();
    assert!(missing.contains("No module named 'oats_of_the_mill'") && missing.contains("(line 1)"), "{missing}");
}

#[tokio::test]
async fn rate_limits_and_broken_connections_may_pass() {
    let raising = |body: &str| {
        format!("class Refused(Exception):\n    {body}\ndef answer(question):\n    raise Refused('slow down')\n")
    };
    let limited = refused(&raising("status_code = 429\n    retry_after = 2.5")).await;
    let Error::RateLimited { endpoint, message, retry_after } = &limited else { panic!("{limited}") };
    assert_eq!(
        (endpoint.as_str(), *retry_after),
        ("the function `answer` of rag.py", Some(Duration::from_millis(2500)))
    );
    assert!(message.starts_with("Refused: slow down"), "{message}");
    assert!(refused(&raising("status_code = 503")).await.is_transient());
    assert!(!refused(&raising("status_code = 401")).await.is_transient());
    assert!(refused("def answer(question):\n    raise ConnectionError('gone')").await.is_transient());
    let at_import =
        refused("class Refused(Exception):\n    status_code = 429\nraise Refused()\ndef answer(question): ...").await;
    assert!(!at_import.is_transient(), "the file is not run again: {at_import}");
}

/// Each call waits until `most` calls are in flight.
fn counting(keyword: &str, pause: &str, most: usize) -> String {
    format!(
        "import asyncio, threading, time\nnow = most = 0\nlock = threading.Lock()\n{keyword} answer(question):\n    global now, most\n    \
         with lock:\n        now += 1\n        most = max(most, now)\n    while most < {most}:\n        {pause}(0.002)\n    {pause}(0.05)\n    \
         with lock:\n        now -= 1\n    return f'{{most}} {{question}}'\n"
    )
}

#[tokio::test]
async fn so_many_questions_run_at_once_as_the_function_takes() {
    let most = async |keyword: &str, pause: &str, concurrency: Option<usize>, expected: usize| {
        let config = Config { concurrency, ..config(&counting(keyword, pause, expected)) };
        let system = build(&config);
        let asked = futures::future::join_all((0..40).map(|number| {
            let system = system.clone();
            async move { (number, answer(&system, &format!("question {number}")).await.unwrap()) }
        }));
        let mut seen = 0;
        for (number, answered) in asked.await {
            let (most, question) = answered.split_once(' ').unwrap();
            assert_eq!(question, format!("question {number}"), "each gets its own answer");
            seen = seen.max(most.parse::<usize>().unwrap());
        }
        assert_eq!((seen, system.service().limits().maximum()), (expected, expected));
    };
    most("async def", "await asyncio.sleep", None, 16).await;
    most("async def", "await asyncio.sleep", Some(3), 3).await;
    most("def", "time.sleep", None, 1).await;
    most("def", "time.sleep", Some(16), 16).await;
}

#[tokio::test]
async fn an_object_turns_out_to_run_side_by_side_or_not() {
    let engine = |keyword: &str, name: &str, pause: &str, most| {
        let source = counting(keyword, pause, most).replace("answer(question)", "ask(question)");
        let call = if name == "aquery" { "return await ask(text)" } else { "return ask(text)" };
        config(&format!("{source}class Engine:\n    {keyword} {name}(self, text): {call}\nanswer = Engine()\n"))
    };
    for (config, expected) in [
        (engine("async def", "aquery", "await asyncio.sleep", 16), "16"),
        (engine("def", "query", "time.sleep", 1), "1"),
    ] {
        let system = build(&config);
        let asked = futures::future::join_all((0..32).map(|_| answer(&system, "q"))).await;
        assert!(asked.into_iter().all(|answered| answered.unwrap().split(' ').next().unwrap().len() <= 2));
        assert_eq!(answer(&system, "last").await.unwrap(), format!("{expected} last"));
    }
}

#[tokio::test]
async fn a_function_that_hangs_is_stopped_within_its_limit() {
    let source = "import asyncio, time, os\nKEYWORD answer(question):\n    if question == 'hang':\n        PAUSE(600)\n    return question\n";
    for (keyword, pause, concurrency) in
        [("def", "time.sleep", None), ("async def", "await asyncio.sleep", None), ("def", "time.sleep", Some(4))]
    {
        let source = source.replace("KEYWORD", keyword).replace("PAUSE", pause);
        // The limit is no part of the process' setup: both systems share one process, which has started before.
        let patient = build(&Config { concurrency, ..config(&source) });
        assert_eq!(answer(&patient, "first").await.unwrap(), "first");
        let hasty = build(&Config { timeout_seconds: 1.0, concurrency, ..config(&source) });
        let began = Instant::now();
        let error = answer(&hasty, "hang").await.unwrap_err();
        let Error::Timeout { model, after } = &error else { panic!("{error}") };
        assert_eq!((model.as_str(), *after), ("the function `answer` of rag.py", Duration::from_secs(1)));
        assert!(began.elapsed() < PATIENCE);
        assert_eq!(answer(&patient, "next").await.unwrap(), "next");
    }
}

#[tokio::test]
async fn one_of_several_threads_that_hangs_does_not_end_the_calls_of_the_others() {
    let source = "import os, time\ndef answer(question):\n    if question == 'hang':\n        time.sleep(600)\n    return str(os.getpid())\n";
    let (patient, hasty) = (
        build(&Config { concurrency: Some(8), ..config(source) }),
        build(&Config { concurrency: Some(8), timeout_seconds: 1.0, ..config(source) }),
    );
    let process = answer(&patient, "who?").await.unwrap();
    for _ in 0..2 {
        assert!(matches!(answer(&hasty, "hang").await, Err(Error::Timeout { .. })));
    }
    assert_eq!(answer(&patient, "who?").await.unwrap(), process, "two of eight threads are lost");
}

#[tokio::test]
async fn a_process_that_dies_in_the_middle_is_started_again_and_no_question_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let died = folder.path().join("died");
    let source = format!(
        "import asyncio, os\nasync def answer(question):\n    if question == 'question 5' and not os.path.exists({died:?}):\n        \
         open({died:?}, 'w').close()\n        os._exit(9)\n    await asyncio.sleep(0.02)\n    return question\n"
    );
    let system = build(&config(&source));
    let asked = futures::future::join_all((0..32).map(|number| {
        let system = system.clone();
        async move { answer_at_last(&system, &format!("question {number}")).await.unwrap() }
    }));
    let expected: Vec<String> = (0..32).map(|number| format!("question {number}")).collect();
    assert_eq!(asked.await, expected);
    assert!(died.exists());
}

#[tokio::test]
async fn a_module_is_imported_from_the_folder_of_the_experiment_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("app")).unwrap();
    let source = "from .parts import NAME\n\ndef answer(question, id):\n    if question == 'fail':\n        raise ValueError('no')\n    return NAME + id\n";
    std::fs::write(folder.path().join("app/rag.py"), source).unwrap();
    std::fs::write(folder.path().join("app/parts.py"), "NAME = 'of the module '\n").unwrap();
    let config = Config { module: "app.rag".to_owned(), ..Config::default() };
    let models = model_context();
    let cx = context(&models, folder.path());
    let system = config.build(&cx).unwrap();
    assert_eq!(answer(&system, "who?").await.unwrap(), "of the module q1");
    let error = answer(&system, "fail").await.unwrap_err().to_string();
    assert_eq!(error, "the function `answer` of app.rag: ValueError: no (line 5)");
    let identity = config.identity(&cx).unwrap();
    assert_eq!((identity.model.as_str(), &identity.parameters), ("app.rag:answer", &json!({ "version": "1" })));
    assert!(identity.revision.starts_with("function:") && identity.is_remote());
    let missing = Config { module: "app.nothing".to_owned(), ..Config::default() }.build(&cx).unwrap();
    let error = answer(&missing, "who?").await.unwrap_err().to_string();
    assert!(error.contains("No module named 'app.nothing'"), "{error}");
    let nameless = Config { function: "reply".to_owned(), ..config }.build(&cx).unwrap();
    let error = answer(&nameless, "who?").await.unwrap_err().to_string();
    assert!(error.contains("the module app.rag has no `reply`: set `function`"), "{error}");
}

#[tokio::test]
async fn a_file_finds_what_lies_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("code")).unwrap();
    std::fs::write(folder.path().join("code/beside_rag.py"), "NAME = 'beside'\n").unwrap();
    let source = "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom beside_rag import NAME\n\n@dataclass\nclass Hit:\n    text: str\n\ndef answer(question):\n    return Hit(NAME).text + __file__\n";
    let config = Config { file: "code/rag.py".to_owned(), ..config(source) };
    let models = model_context();
    let answered = answer(&config.build(&context(&models, folder.path())).unwrap(), "who?").await.unwrap();
    assert!(answered.starts_with("beside/") && answered.ends_with("/code/rag.py"), "{answered}");
}

#[test]
fn the_settings_say_what_the_function_gets() {
    let known = |source: &str| {
        let config = config(source);
        let names = config.parameters().map(|names| names.into_iter().collect::<Vec<_>>().join(" "));
        (names, config.sends_history())
    };
    assert_eq!(known("def answer(question, top_k=3): ..."), (Some("top_k".to_owned()), false));
    assert_eq!(known("def answer(messages, **more): ..."), (None, true));
    assert_eq!(known("def answer(*values, **more): ..."), (None, true));
    assert_eq!(known("def answer(question: str, *, k: int): ..."), (Some("k".to_owned()), false));
    assert_eq!(known("answer = build_engine()"), (None, true));
    let parameters = |name: &str| BTreeMap::from([(name.to_owned(), vec![json!(3)])]);
    let simple = config("def answer(question, top_k=3): ...");
    assert_eq!(simple.check(&parameters("top_k")), Ok(()));
    assert!(simple.check(&parameters("k")).unwrap_err().contains("`answer` in rag.py has no parameter `k`"));
    assert!(simple.check(&parameters("seed")).unwrap_err().contains("take another name"));
}

#[test]
fn the_request_holds_only_what_the_function_gets() {
    let request = |source: &str| {
        let question = SystemQuestion { id: "q1", text: "why?", history: &[], seed: 5, parameters: &BTreeMap::new() };
        build(&config(source)).request(&question)
    };
    assert_eq!(request("def answer(question): ..."), json!({ "question": "why?", "parameters": {} }));
    let all = json!({ "question": "why?", "parameters": {}, "messages": [{ "role": "user", "content": "why?" }], "seed": 5, "id": "q1" });
    assert_eq!(request("def answer(question, history, seed, id): ..."), all);
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_by_their_key() {
    let check = |config: Config| config.check(&BTreeMap::new()).unwrap_err();
    assert!(check(Config::default()).contains("`file` is missing"));
    assert!(check(Config { module: "app".to_owned(), ..config("def answer(question): ...") }).contains("both there"));
    assert!(check(Config { module: "app/rag".to_owned(), ..Config::default() }).contains("`module` must be a name"));
    assert!(check(Config { function: "a()".to_owned(), ..config("a = 1") }).contains("`function` must be a name"));
    assert!(check(Config { concurrency: Some(0), ..config("def answer(q): ...") }).contains("`concurrency`"));
    assert!(check(config("def other(question): ...")).contains("rag.py has no function `answer`"));
    let mut read = Config { file: "rag.py".to_owned(), ..Config::default() };
    read.read_files(&|_| Ok("def answer(question): ...".to_owned())).unwrap();
    assert_eq!(read.check(&BTreeMap::new()), Ok(()));
    let source = VersionSource { url: "http://h/".to_owned(), path: String::new(), header: String::new() };
    let error = build(&read).ask_version(&source).await.unwrap_err().to_string();
    assert!(error.contains("version = \"…\"") && error.contains("[systems.app]"), "{error}");
}
