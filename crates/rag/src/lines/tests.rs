//! Processes that answer lines, tried with real ones.

use super::*;
use serde_json::json;
use std::path::Path;

/// Longer than anything takes on a busy machine: only what hangs takes as long.
const PATIENCE: Duration = Duration::from_secs(300);

fn start(script: &str, is_guarded: bool) -> LineProcess {
    let mut command = Command::new("python3");
    command.args(["-u", "-c", script]);
    let protocol = LineProtocol {
        number: "id",
        max_bytes: 1 << 10,
        refuses_strays: true,
        is_guarded,
        secrets: vec!["hush-hush".to_owned()],
    };
    LineProcess::start(command, protocol, Some(Box::new(|_, _| {}))).unwrap()
}

fn call(process: &LineProcess, value: &Value) -> CallOutcome {
    process.call(|id| json!({ "id": id, "value": value }), None, PATIENCE, |_| LateCall::EndProcess)
}

fn ended(process: &LineProcess, value: &Value) -> ProcessEnd {
    match call(process, value) {
        CallOutcome::Ended(reason) => reason,
        other => panic!("{other:?}"),
    }
}

const ECHO: &str = "import sys, json\nfor line in sys.stdin:\n    print(json.dumps(json.loads(line)))";

#[test]
fn replies_come_back_to_their_calls_in_any_order() {
    let backwards = "import sys, json\nlines = [json.loads(sys.stdin.readline()) for _ in range(16)]\nfor line in reversed(lines):\n    print(json.dumps(line))\nsys.stdin.read()";
    let process = start(backwards, true);
    thread::scope(|scope| {
        let calls = (0..16).map(|number| {
            let process = &process;
            scope.spawn(move || match call(process, &json!(number)) {
                CallOutcome::Reply(reply) => assert_eq!(reply["value"], number),
                other => panic!("{other:?}"),
            })
        });
        calls.collect::<Vec<_>>().into_iter().for_each(|call| call.join().unwrap());
    });
}

#[test]
fn what_is_no_reply_ends_the_process_with_its_reason() {
    let answering = |line: &str| {
        let process = start(&format!("import sys\nsys.stdin.readline()\nprint({line})\nsys.stdin.read()"), true);
        ended(&process, &json!(1))
    };
    assert_eq!(answering("'INFO ready'"), ProcessEnd::NoReply("INFO ready".to_owned()));
    assert_eq!(answering("'{\"value\": 1}'"), ProcessEnd::NoReply("{\"value\": 1}".to_owned()));
    assert_eq!(answering("'x' * 2000"), ProcessEnd::TooLong(1 << 10));
    assert_eq!(answering("'{\"id\": 9}'"), ProcessEnd::UnknownCall(9));
    let exits = start("import sys\nsys.stdin.readline()\nsys.exit(3)", true);
    assert_eq!(ended(&exits, &json!(1)).to_string(), "ended (exit status: 3)");
    let breaks_off = start("import sys\nsys.stdin.readline()\nprint('{\"id\": 1', end='')", true);
    assert_eq!(ended(&breaks_off, &json!(1)).to_string(), "ended (exit status: 0)");
    let twice = start(
        "import sys\nsys.stdin.readline()\nprint('{\"id\": 1}')\nsys.stdin.readline()\nprint('{\"id\": 1}')\nsys.stdin.read()",
        true,
    );
    assert!(matches!(call(&twice, &json!(1)), CallOutcome::Reply(_)));
    assert_eq!(ended(&twice, &json!(2)), ProcessEnd::RepeatedReply(1));
    assert!(twice.is_over());
}

#[test]
fn secrets_are_removed_from_replies_and_from_the_last_printed_lines() {
    let script = format!("import sys\nprint('key hush-hush', file=sys.stderr)\n{ECHO}");
    let process = start(&script, true);
    match call(&process, &json!("hush-hush é")) {
        CallOutcome::Reply(reply) => assert_eq!(reply["value"], "[secret] é"),
        other => panic!("{other:?}"),
    }
    process.end();
    assert_eq!(process.printed_tail(PATIENCE), "key [secret]");
}

#[test]
fn a_late_call_is_given_up_alone_while_others_are_answered() {
    let script = "import sys, json, threading, time\ndef run(call):\n    if call['value'] == 'late':\n        time.sleep(600)\n    print(json.dumps(call))\nfor line in sys.stdin:\n    threading.Thread(target=run, args=[json.loads(line)], daemon=True).start()";
    let process = start(script, true);
    assert!(matches!(call(&process, &json!(1)), CallOutcome::Reply(_)), "it has started");
    let late = |most| {
        let request = |id| json!({ "id": id, "value": "late" });
        process.call(request, None, Duration::from_secs(3), |_| LateCall::GiveUp { most })
    };
    thread::scope(|scope| {
        let waiting = scope.spawn(|| late(2));
        while !waiting.is_finished() {
            assert!(matches!(call(&process, &json!(2)), CallOutcome::Reply(_)));
        }
        assert!(matches!(waiting.join().unwrap(), CallOutcome::TimedOut(None)));
    });
    assert!(!process.is_over(), "it answers others");
    assert!(matches!(late(2), CallOutcome::TimedOut(None)));
    assert!(process.is_over(), "it answered nothing else meanwhile");
}

/// Whether there is such a process that is not only a name.
fn is_there(pid: &str) -> bool {
    let asked = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    !matches!(String::from_utf8_lossy(&asked.stdout).trim().chars().next(), None | Some('Z'))
}

fn wait_for(is_done: impl Fn() -> bool, what: &str) {
    let began = Instant::now();
    while !is_done() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

fn pids(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn stubborn(path: &Path) -> String {
    format!(
        "import os, subprocess, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nchild = subprocess.Popen(['sleep', '600'])\n\
         with open({path:?}, 'w') as file:\n    print(os.getpid(), file=file)\n    print(child.pid, file=file)\nwhile True: pass"
    )
}

#[test]
fn a_process_ends_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pids");
    let process = start(&stubborn(&path), true);
    wait_for(|| pids(&path).len() == 2, "it starts");
    drop(process);
    wait_for(|| !pids(&path).iter().any(|pid| is_there(pid)), "all end");
}

/// What [`a_guarded_process_ends_with_a_program_that_is_killed`] kills: run by it, in a process of its own.
#[test]
#[ignore = "another test runs it"]
fn a_program_that_waits_for_a_process() {
    let path = std::env::var("REVERIE_TEST_PIDS").unwrap();
    let process = start(&stubborn(Path::new(&path)), true);
    let _ = call(&process, &json!(1));
}

#[test]
fn a_guarded_process_ends_with_a_program_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pids");
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "lines::tests::a_program_that_waits_for_a_process"])
        .env("REVERIE_TEST_PIDS", &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| pids(&path).len() == 2, "it starts");
    program.kill().unwrap();
    program.wait().unwrap();
    wait_for(|| !pids(&path).iter().any(|pid| is_there(pid)), "all end");
}
