//! How many requests per second the simulator answers on one core: a server with one
//! thread, another thread whose connections always have a request in flight, and the
//! processor time of the server's thread.
//!
//! `cargo run --release -p simulator --example simulator_load -- [REQUESTS] [CONNECTIONS]`
#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so and end")]

use simulator::{RunningSimulator, SimulatorSettings, Stats, start};
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Builder,
    sync::oneshot,
};

/// Processor time of this thread; ticks are a hundredth of a second.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    // The name in parentheses may hold spaces; user and system time follow it.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

async fn connection(address: &str, requests: usize, first: usize) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("an option");
    let mut buffer = vec![0; 64 * 1024];
    for number in first..first + requests {
        let question = format!("Question {number:08}: what does this section say?");
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{question}"}}],"max_tokens":16}}"#);
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await.expect("sent");
        let mut filled = 0;
        loop {
            let read = stream.read(&mut buffer[filled..]).await.expect("an answer");
            assert!(read > 0, "the connection ended");
            filled += read;
            let text = std::str::from_utf8(&buffer[..filled]).expect("text");
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.and_then(|length| length.parse().ok()).expect("a length") {
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                break;
            }
        }
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<usize>().expect("a number"));
    let (requests, connections) = (numbers.next().unwrap_or(100_000), numbers.next().unwrap_or(64));
    let (url_sender, url) = mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = std::thread::spawn(move || -> (Stats, Duration) {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let running: RunningSimulator = start(SimulatorSettings::default()).await.expect("a server");
            url_sender.send(running.url.clone()).expect("a listener");
            let _ = stopped.await;
            (running.stats(), processor_time())
        })
    });
    let address = url.recv().expect("a server").replace("http://", "");
    let each = requests / connections;
    let started = Instant::now();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let all = (0..connections).map(|i| connection(&address, each, i * each));
        futures::future::join_all(all).await;
    });
    let seconds = started.elapsed().as_secs_f64();
    let _ = stop.send(());
    let (stats, processor) = server.join().expect("its counts");
    println!(
        "{} requests, {} different, in {seconds:.2} s = {:.0}/s; {:.2} s of processor time = {:.0} per second of one core",
        stats.answered,
        stats.unique_answered,
        stats.answered as f64 / seconds,
        processor.as_secs_f64(),
        stats.answered as f64 / processor.as_secs_f64()
    );
}
