//! Functions of the user's own, tried with a real interpreter: what they give, raise and print, and when they end.

use super::*;
use std::{path::Path, process::Command};

/// Longer than anything takes on a busy machine: only what hangs takes as long.
const PATIENCE: Duration = Duration::from_secs(300);
/// Limits that are tried one after the other, in seconds: on a busy machine an
/// interpreter may need more than the first of them to start.
const LIMITS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];

fn limited(source: &str, timeout_seconds: f64) -> Result<Function, FunctionMistake> {
    let script = Script { file: "f.py", source, function: "f", interpreter: None, timeout_seconds, concurrency: None };
    Function::new("metric", script, &["a", "b"])
}

fn function(source: &str) -> Result<Function, FunctionMistake> {
    limited(source, 60.0)
}

/// Held by tests that count failures in a row, or reset the counts of all functions.
static FAILURE_COUNTS: Mutex<()> = Mutex::new(());

#[test]
fn a_function_is_called_by_name_and_its_prints_are_no_answer() {
    let double =
        function("def f(b, *, a: list = ()):\n    print('noise')\n    return [2 * x for x in a] + [b]\n").unwrap();
    assert_eq!(double.parameters(), ["a", "b"]);
    assert_eq!(double.call(&json!({ "a": [1, 2], "b": "é" })).unwrap(), json!([2, 4, "é"]));
}

#[test]
fn a_function_of_the_same_source_is_in_the_same_process_and_a_changed_one_is_not() {
    let source = "import os\nseen = []\ndef f(a):\n    seen.append(a)\n    return [os.getpid(), len(seen)]\n";
    let first = function(source).unwrap().call(&json!({ "a": 1 })).unwrap();
    let again = function(source).unwrap().call(&json!({ "a": 2 })).unwrap();
    assert_eq!((&again[0], &again[1]), (&first[0], &json!(2)));
    let other = function(&source.replace("len", "sum")).unwrap().call(&json!({ "a": 1 })).unwrap();
    assert_ne!(other[0], first[0]);
}

#[test]
fn what_it_raises_is_told_and_one_that_ended_the_interpreter_is_called_again() {
    let moody = function("import os\ndef f(a):\n    if a == 0: os._exit(3)\n    return 1 / (a - 1)\n").unwrap();
    assert!(moody.call(&json!({ "a": 1 })).unwrap_err().message.contains("ZeroDivisionError"));
    assert!(moody.call(&json!({ "a": 0 })).unwrap_err().message.contains("its interpreter ended (exit status: 3)"));
    assert_eq!(moody.call(&json!({ "a": 2 })).unwrap(), json!(1.0));
    let infinite = function("def f(a):\n    return float('inf')\n").unwrap();
    assert!(infinite.call(&json!({ "a": 1 })).unwrap_err().message.contains("ValueError"));
}

#[test]
fn what_programs_print_is_no_answer_and_an_interpreter_that_died_between_calls_is_none_missed() {
    let loud = function(
        "def f(a):\n    import os, subprocess\n    subprocess.run(['echo', '{\"value\": 7}'])\n    return [a, os.getpid()]\n",
    )
    .unwrap();
    let mut first = loud.call(&json!({ "a": 1 })).unwrap();
    assert_eq!(first[0], 1);
    let pid = first[1].take().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(loud.call(&json!({ "a": 2 })).unwrap(), json!([2, pid.parse::<u64>().unwrap()]), "Ctrl-C");
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    ends(&pid);
    assert_eq!(loud.call(&json!({ "a": 3 })).unwrap()[0], 3);
}

#[test]
fn signatures_are_read_as_python_reads_them() {
    let source =
        "def f(\n    a: dict[str, int] = {},  # first, (of two)\n    /, *,\n    b=(1, ')'),\n) -> int:\n    return 0\n";
    assert_eq!(function(source).unwrap().parameters(), ["a", "b"]);
}

#[test]
fn definitions_are_found_wherever_python_allows_them() {
    let signature = |source: &str| {
        let script =
            Script { file: "f.py", source, function: "f", interpreter: None, timeout_seconds: 1.0, concurrency: None };
        script.signature(&["a", "b"])
    };
    let (a, b, optional_b) = (("a", false), ("b", false), ("b", true));
    for (source, expected) in [
        ("def f(a, key=lambda x, y: x): ...", vec![a]),
        ("def f(a, b=lambda x, y=lambda: 1: {lambda: 1: x}): ...", vec![a, optional_b]),
        ("def f[T](a: T): ...", vec![a]),
        ("def f[T: (int, str), *S, **P](a, b=[1, 2][0]): ...", vec![a, optional_b]),
        ("async \\\n  def f(a): ...", vec![a]),
        ("if True:\n    def f(a): ...\nelse:\n\tdef f(b): ...", vec![b]),
        ("try:\n    import fast\nexcept ImportError:\n    def f(a, b): ...", vec![a, b]),
        ("class C:\n    def f(self, a): ...\n\nf = C().f", vec![a]),
        ("class C:\n    '''Of\nC'''\n    @staticmethod\n    def f(b): ...\nf = C.f", vec![b]),
        ("def f(a): ...\nclass C:\n    def f(self, b): ...\n\ndef g():\n    def f(b): ...\n    return f", vec![a]),
        ("def make():\n    def f(a): ...\n    return f\n\nf = make()", vec![a]),
        ("text = \"\"\"\ndef f(b): ...\n\"\"\"\ndef f(a): ...\n'''\ndef f(b): ...\n'''", vec![a]),
        ("list = [\n    1, # def f(b)\n]\ndef f(a): ...", vec![a]),
        (
            "def f(\n    a, # ), b\n    c='),', d=\"\"\"),\n\"\"\", e=r'\\\\', g=rb\"\\\"),\", b=0,\n): ...",
            vec![a, optional_b],
        ),
        ("def f(a, c=f'{{)}}', b=f\"{c['),'](\"),\"):'>{4}}),\"): ...", vec![a, optional_b]),
        ("def f(a: 'x=1', b: lambda x=1: x, c=1 == 2): ...", vec![a, b]),
        ("def f(a: (1 if (x := 2) else 3), b: 1 <= 2): ...", vec![a, b]),
        ("def f(a, /, *rest, b: int = 3, **more): ...", vec![a, optional_b]),
        ("def größe(b): ...\ndef f(a, größe=lambda: 'é'): ...", vec![a]),
        ("def f(a):\r\n    def f(b): ...\r\n    return f(a)\r\n", vec![a]),
    ] {
        assert_eq!(signature(source), Ok(expected), "{source}");
    }
    for source in
        ["class C:\n    def f(self, a): ...", "'def f(a): ...'", "# def f(a): ...", "def g():\n  def f(a): ..."]
    {
        assert!(signature(source).unwrap_err().to_string().contains("has no function `f`"), "{source}");
    }
    assert!(
        signature("def f(a, c, key=lambda x, y: x): ...").unwrap_err().to_string().contains("unknown parameter `c`")
    );
    // Source that ends early is Python's error, and must not be ours.
    for source in
        ["def", "async", "def f", "def f[", "def f(a, b=lambda", "def f(a='''", "def f(a=f'{", "def f(a=f'{a:"]
    {
        _ = signature(source);
    }
}

#[test]
fn methods_and_indented_functions_are_called() {
    let under_if = function("if True:\n    def f(a, key=lambda x, y: x):\n        return key(a, 0)\n").unwrap();
    assert_eq!(under_if.call(&json!({ "a": 4 })).unwrap(), 4);
    let method = function("class C:\n    def f(self, a):\n        return a + 1\n\nf = C().f\n").unwrap();
    assert_eq!(method.call(&json!({ "a": 4 })).unwrap(), 5);
}

#[test]
fn what_nobody_gives_may_have_a_default_and_the_last_definition_counts() {
    let source =
        "def f(c):\n    return c\n\ndef f(a: dict['x=', int], most: int = 3, *rest, **more):\n    return a + most\n";
    let adds = function(source).unwrap();
    assert_eq!(adds.parameters(), ["a"]);
    assert_eq!(adds.call(&json!({ "a": 4 })).unwrap(), 7);
}

#[test]
fn what_an_async_def_returns_is_awaited_in_one_event_loop() {
    let source = "import asyncio\nloops = set()\n\nasync def f(a):\n    await asyncio.sleep(0)\n    loops.add(id(asyncio.get_running_loop()))\n    if a == 3:\n        raise ValueError('no three')\n    return [a, len(loops)]\n";
    let waits = function(source).unwrap();
    assert_eq!(waits.call(&json!({ "a": 1 })).unwrap(), json!([1, 1]));
    assert!(waits.call(&json!({ "a": 3 })).unwrap_err().message.contains("no three"));
    assert_eq!(waits.call(&json!({ "a": 2 })).unwrap(), json!([2, 1]));
}

#[tokio::test]
async fn calls_of_an_async_def_run_side_by_side_up_to_the_limit() {
    // Each call waits until `b` calls are in flight, so a slow start of calls cannot lower the maximum. One call too
    // many then has 50 ms to be noticed.
    let source = "import asyncio\nnow = most = 0\n\nasync def f(a, b):\n    global now, most\n    now += 1\n    most = max(most, now)\n    while most < b:\n        await asyncio.sleep(0.001)\n    await asyncio.sleep(0.05)\n    now -= 1\n    return most\n";
    let most = async |concurrency| {
        let script =
            Script { file: "f.py", source, function: "f", interpreter: None, timeout_seconds: 300.0, concurrency };
        let waits = Arc::new(Function::new("metric", script, &["a", "b"]).unwrap());
        let in_flight = concurrency.unwrap_or(CONCURRENCY);
        let calls = (0..40).map(|i| {
            let waits = waits.clone();
            async move { waits.call_async(json!({ "a": i, "b": in_flight })).await.unwrap().as_u64().unwrap() }
        });
        futures::future::join_all(calls).await.into_iter().max().unwrap()
    };
    assert_eq!(most(None).await, CONCURRENCY as u64);
    assert_eq!(most(Some(3)).await, 3);
    assert_eq!(most(Some(1)).await, 1);
}

#[test]
fn one_of_several_calls_that_takes_too_long_does_not_end_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, may_end) = (folder.path().join("begun"), folder.path().join("may_end"));
    let source = format!(
        "import asyncio, os\n\nasync def f(a):\n    if a == 0:\n        await asyncio.sleep(3600)\n    if a == 2:\n        \
         with open({begun:?}, 'w') as file:\n            print(a, file=file)\n        \
         while not os.path.exists({may_end:?}):\n            await asyncio.sleep(0.01)\n    return os.getpid()\n"
    );
    // The limit is no part of a process' setup: both functions share one process.
    let (hasty, patient) = (limited(&source, 1.0).unwrap(), Arc::new(limited(&source, 300.0).unwrap()));
    let first = patient.call(&json!({ "a": 1 })).unwrap();
    let called = patient.clone();
    let other = std::thread::spawn(move || called.call(&json!({ "a": 2 })));
    written(&begun, 1);
    let late = hasty.call(&json!({ "a": 0 })).unwrap_err();
    assert_eq!((late.kind, late.message.contains("did not return within 1 s")), (FailureKind::TimedOut, true));
    std::fs::write(&may_end, "").unwrap();
    assert_eq!(other.join().unwrap().unwrap(), first, "it is the same process");
}

#[test]
fn a_concurrency_that_is_none_is_refused() {
    let script = |concurrency| Script {
        file: "f.py",
        source: "def f(a):\n    return a\n",
        function: "f",
        interpreter: None,
        timeout_seconds: 1.0,
        concurrency: Some(concurrency),
    };
    for wrong in [0, 257] {
        let error = Function::new("metric", script(wrong), &["a"]).unwrap_err().to_string();
        assert!(error.contains("1 to 256"), "{error}");
    }
}

#[test]
fn a_source_without_the_function_or_with_unknown_parameters_is_refused() {
    let refused = |source: &str| function(source).unwrap_err().to_string();
    assert!(refused("def other(a):\n    return 1\n").contains("has no function `f`"));
    assert!(refused("def f(a, c):\n    return 1\n").contains("has the unknown parameter `c`; the known ones are a, b"));
    assert!(refused("def f():\n    return 1\n").contains("takes no parameter"));
    assert!(refused(" ").contains("f.py is empty"));
}

/// Waits until there is no such process, or it only waits to be looked at.
fn ends(pid: &str) {
    let began = Instant::now();
    while is_there(pid) {
        assert!(began.elapsed() < PATIENCE, "process {pid} goes on");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

fn is_there(pid: &str) -> bool {
    let asked = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8(asked.stdout).unwrap();
    !matches!(state.trim().chars().next(), None | Some('Z'))
}

/// The lines of a file that a function wrote, once there are so many.
fn written(path: &Path, count: usize) -> Vec<String> {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.len() >= count {
            return lines;
        }
        assert!(began.elapsed() < PATIENCE, "only {lines:?}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn one_that_never_returns_is_ended_with_all_it_started_and_says_so() {
    let _alone = lock(&FAILURE_COUNTS);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pids");
    // A program that it started, and a C function that keeps the interpreter's lock.
    for forever in ["while True: pass", "__import__('re').match('(a+)+$', 'a' * 64 + 'b')"] {
        let source = format!(
            "import os, subprocess\ndef f(a):\n    if a == 0: return 0\n    with open({path:?}, 'w') as file:\n        \
             print(os.getpid(), file=file)\n        print(subprocess.Popen(['sleep', '600']).pid, file=file)\n    {forever}\n"
        );
        let is_written = || std::fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 2);
        for limit in LIMITS {
            reset_failures();
            let endless = limited(&source, limit).unwrap();
            let failure = on_behalf_of_blocking(&Some("t03".into()), || endless.call(&json!({ "a": 1 }))).unwrap_err();
            assert_eq!(failure.kind, FailureKind::TimedOut);
            if !is_written() && limit < LIMITS[LIMITS.len() - 1] {
                continue;
            }
            let expected = format!("the function `f` of f.py: did not return within {limit} s for t03");
            assert!(failure.to_string().starts_with(&expected), "{failure}");
            for pid in written(&path, 2) {
                ends(&pid);
            }
            std::fs::remove_file(&path).unwrap();
            break;
        }
        let patient = function(&source).unwrap();
        assert_eq!(patient.call(&json!({ "a": 0 })).unwrap(), 0, "the next call has a process of its own");
    }
}

#[test]
fn one_that_never_returns_three_times_in_a_row_is_left_alone() {
    let _alone = lock(&FAILURE_COUNTS);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls");
    let source = format!(
        "import time\ndef f(a):\n    with open({path:?}, 'a') as file:\n        print(a, file=file)\n    time.sleep(a)\n    return 7\n"
    );
    // Of one source, and so in one process.
    let (hasty, patient) = (limited(&source, 1.5).unwrap(), function(&source).unwrap());
    let failed = || hasty.call(&json!({ "a": 600 })).unwrap_err().message;
    let returned = || patient.call(&json!({ "a": 0 })).unwrap();
    assert!(failed().contains("within 1.5 s") && failed().contains("within 1.5 s"));
    assert_eq!(returned(), 7, "one that returns is forgiven");
    (0..3).for_each(|_| assert!(failed().contains("within 1.5 s")));
    assert!(lock(&hasty.process.timeouts).paused_until.is_some(), "after three failures in a row");
    // On a busy machine 15 s may pass before the next call.
    lock(&hasty.process.timeouts).paused_until = Some(Instant::now() + PATIENCE);
    let called = || std::fs::read_to_string(&path).unwrap_or_default().lines().count();
    let before = called();
    assert!(failed().contains("3 times in a row"));
    assert_eq!(called(), before, "it was not called");
    reset_failures();
    assert_eq!(returned(), 7);
}

#[test]
fn a_source_that_cannot_be_run_is_tried_again_by_the_next_run() {
    let _alone = lock(&FAILURE_COUNTS);
    let folder = tempfile::tempdir().unwrap();
    let source = format!(
        "import sys\nsys.path.insert(0, {:?})\nimport oats_of_the_mill\ndef f(a):\n    return oats_of_the_mill.N\n",
        folder.path()
    );
    let needy = limited(&source, 60.0).unwrap();
    let failure = needy.call(&json!({ "a": 1 })).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Raised);
    assert!(failure.message.contains("No module named 'oats_of_the_mill' (it runs in /"), "{failure}");
    assert!(failure.message.ends_with("(line 3)"), "{failure}");
    assert!(failure.traceback.unwrap().contains("File \"f.py\", line 3"));
    std::fs::write(folder.path().join("oats_of_the_mill.py"), "N = 12\n").unwrap();
    assert!(needy.call(&json!({ "a": 1 })).is_err(), "not for each question anew");
    // A notebook tries others meanwhile.
    for number in 0..=MAX_IDLE_PROCESSES {
        function(&format!("def f(a):\n    return a + {number}\n")).unwrap();
    }
    reset_failures();
    assert_eq!(needy.call(&json!({ "a": 1 })).unwrap(), 12);
}

#[test]
fn a_traceback_shows_the_users_lines_and_none_of_ours() {
    let source = "def inner(a):\n    return 1 / a\n\ndef f(a):\n    return inner(a)\n";
    let failure = function(source).unwrap().call(&json!({ "a": 0 })).unwrap_err();
    assert_eq!((failure.stage.as_str(), failure.function.as_str()), ("metric", "f"));
    assert_eq!(failure.message, "ZeroDivisionError: division by zero (line 2)");
    let traceback = failure.traceback.unwrap();
    assert!(traceback.contains("return inner(a)") && traceback.contains("return 1 / a"), "{traceback}");
    assert!(!traceback.contains("<string>"), "{traceback}");
}

#[test]
fn what_it_prints_is_told_with_its_name_and_caller() {
    let (told, heard) = std::sync::mpsc::channel();
    let told = Mutex::new(told);
    set_sink(Arc::new(move |printed| drop(told.lock().unwrap().send(printed.to_string()))));
    let loud = "import os, sys\ndef f(a):\n    print('one')\n    print('two\\rthree', file=sys.stderr)\n    os.system('echo four')\n    return input if a else None\n";
    let loud = function(loud).unwrap();
    on_behalf_of_blocking(&Some("t01, t02".into()), || loud.call(&json!({ "a": 0 }))).unwrap();
    let heard: Vec<String> = (0..4).map(|_| heard.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(heard, ["one", "two", "three", "four"].map(|line| format!("[f, t01, t02] {line}")));
}

/// In a process of its own, since an interruption is for all of one.
#[test]
fn an_interruption_ends_what_computes_and_nothing_else() {
    let test = "python::tests::an_interruption_in_a_process_of_its_own";
    let program = std::env::current_exe().unwrap();
    let done = Command::new(program).args(["--ignored", "--exact", test]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "another test runs it"]
fn an_interruption_in_a_process_of_its_own() {
    let endless = Arc::new(function("import time\ndef f(a):\n    time.sleep(600)\n").unwrap());
    let idle = function("import os\ndef f(a):\n    return os.getpid()\n").unwrap();
    let pid = idle.call(&json!({ "a": 1 })).unwrap();
    let called = endless.clone();
    let waiting = std::thread::spawn(move || called.call(&json!({ "a": 1 })));
    let began = Instant::now();
    while !waiting.is_finished() {
        assert!(began.elapsed() < PATIENCE);
        interrupt();
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert_eq!(waiting.join().unwrap().unwrap_err().kind, FailureKind::Ended);
    assert_eq!(idle.call(&json!({ "a": 1 })).unwrap(), pid);
}

#[test]
fn a_large_request_to_one_that_does_not_read_is_ended_in_time_too() {
    let stubborn = limited("import time\ntime.sleep(600)\ndef f(a):\n    return 1\n", 1.0).unwrap();
    let began = Instant::now();
    let failure = stubborn.call(&json!({ "a": "x".repeat(4 << 20) })).unwrap_err();
    assert!(failure.message.contains("was not loaded") && began.elapsed() < PATIENCE, "{failure}");
}

/// What [`nothing_outlives_a_program_that_is_killed`] kills: run by it, in a
/// process of its own.
#[test]
#[ignore = "another test runs it"]
fn a_program_that_waits_for_a_function() {
    let path = std::env::var("REVERIE_TEST_PIDS").unwrap();
    let source = format!(
        "import os, subprocess\ndef f(a):\n    with open({path:?}, 'w') as file:\n        \
         print(os.getpid(), file=file)\n        print(subprocess.Popen(['sleep', '600']).pid, file=file)\n    {}\n",
        std::env::var("REVERIE_TEST_BODY").unwrap()
    );
    let _ = limited(&source, 600.0).unwrap().call(&json!({ "a": 1 }));
}

#[test]
fn nothing_outlives_a_program_that_is_killed() {
    for body in ["while True: pass", "__import__('re').match('(a+)+$', 'a' * 64 + 'b')"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pids");
        let mut program = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "python::tests::a_program_that_waits_for_a_function"])
            .env("REVERIE_TEST_PIDS", &path)
            .env("REVERIE_TEST_BODY", body)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let pids = written(&path, 2);
        assert!(pids.iter().all(|pid| is_there(pid)));
        program.kill().unwrap();
        program.wait().unwrap();
        pids.iter().for_each(|pid| ends(pid));
    }
}
