//! Thousands of scripts of what pipelines and clients do, in virtual time.

use super::{super::lanes::CandidateLane, *};
use futures::future::join_all;
use models::AnswerPiece;
use rag::pipeline::PipelineEvent;
use std::sync::atomic::AtomicUsize;
use tokio::time::sleep;

/// What a pipeline does with one question. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    /// Searches, waits, writes so many pieces with a pause before each.
    Answer {
        search: u64,
        first: u64,
        pieces: u64,
        pause: u64,
    },
    HangInSearch,
    /// Finds passages, and writes nothing.
    HangBeforeWriting,
    /// Writes a piece, and then nothing.
    HangWhileWriting,
    /// The provider fails before or after the first piece.
    Fail {
        after_a_piece: bool,
    },
    /// The provider takes no more calls.
    Overload,
    /// The provider refuses this question.
    Refuse,
    Panic {
        after_a_piece: bool,
    },
}

/// A pipeline that follows a script.
struct PipelineScript {
    name: &'static str,
    acts: Vec<Act>,
    asked: AtomicUsize,
    running: AtomicUsize,
}

/// Counts a question as running until it is dropped.
struct RunningCount<'a>(&'a AtomicUsize);

impl Drop for RunningCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl PipelineScript {
    fn new(name: &'static str, acts: Vec<Act>) -> Arc<Self> {
        Arc::new(Self { name, acts, asked: AtomicUsize::new(0), running: AtomicUsize::new(0) })
    }

    /// The act for a question: its id is a number.
    fn act(&self, question: &UserQuestion) -> Act {
        self.acts[question.id.parse::<usize>().unwrap() % self.acts.len()]
    }
}

impl AnswerPipeline for PipelineScript {
    fn version(&self) -> &str {
        self.name
    }

    fn writes_answers(&self) -> bool {
        true
    }

    fn span(&self) -> Span {
        Span::none()
    }

    async fn find(&self, question: &UserQuestion) -> Result<rag::pipeline::QueryResult, lab::Error> {
        self.running.fetch_add(1, Relaxed);
        let _running = RunningCount(&self.running);
        match self.act(question) {
            Act::HangInSearch => std::future::pending().await,
            Act::Fail { .. } => Err(lab::Error::Model(models::Error::Server {
                endpoint: "m".into(),
                status: 500,
                message: "down".into(),
                retry_after: None,
            })),
            _ => Ok(rag::pipeline::QueryResult {
                remarks: vec![self.name.to_owned()],
                ..rag::pipeline::QueryResult::default()
            }),
        }
    }

    async fn ask(
        &self,
        question: &UserQuestion,
        on_event: impl Fn(PipelineEvent) + Send + Sync,
    ) -> Result<(), lab::Error> {
        self.asked.fetch_add(1, Relaxed);
        self.running.fetch_add(1, Relaxed);
        let _running = RunningCount(&self.running);
        let wait = |ms| sleep(Duration::from_millis(ms));
        let failed = |error: models::Error| Err(lab::Error::Model(error));
        let down =
            models::Error::Server { endpoint: "m".into(), status: 500, message: "down".into(), retry_after: None };
        let piece = |text: &str| on_event(PipelineEvent::Piece(AnswerPiece::Text(text.into())));
        let hang = std::future::pending::<Result<(), lab::Error>>;
        let act = self.act(question);
        if act == Act::HangInSearch {
            return hang().await;
        }
        let search = if let Act::Answer { search, .. } = act { search } else { 10 };
        wait(search).await;
        on_event(PipelineEvent::PassagesFound(Vec::new()));
        match act {
            Act::Answer { first, pieces, pause, .. } => {
                wait(first).await;
                let mut text = String::new();
                for _ in 0..pieces {
                    wait(pause).await;
                    piece(self.name);
                    text += self.name;
                }
                on_event(PipelineEvent::Answered(answer(&text)));
                Ok(())
            }
            Act::HangInSearch | Act::HangBeforeWriting => hang().await,
            Act::HangWhileWriting => {
                piece(self.name);
                hang().await
            }
            Act::Fail { after_a_piece } => {
                if after_a_piece {
                    piece(self.name);
                }
                wait(5).await;
                failed(down)
            }
            Act::Overload => failed(models::Error::Cancelled),
            Act::Refuse => failed(models::Error::Refused { endpoint: "m".into(), status: 400, message: "no".into() }),
            Act::Panic { after_a_piece } => {
                if after_a_piece {
                    piece(self.name);
                }
                panic!("a mistake that was planned")
            }
        }
    }
}

fn answer(text: &str) -> Answer {
    Answer { text: text.to_owned(), ..Answer::default() }
}

/// Notes the ids of sampled questions, and counts those that were compared with a shadow's answer.
#[derive(Default)]
struct NotingSink {
    share: f64,
    kept: Mutex<Vec<(String, bool)>>,
    compared: AtomicUsize,
}

impl SampleSink<PipelineScript> for NotingSink {
    fn share(&self) -> f64 {
        self.share
    }

    fn take(&self, sampled: SampledAnswer<PipelineScript>) {
        match sampled.is_sampled {
            true => self.kept.lock().unwrap().push((sampled.question.id.to_string(), sampled.shadow.is_some())),
            false => assert!(sampled.shadow.is_some(), "it is neither written nor compared"),
        }
        self.compared.fetch_add(usize::from(sampled.shadow.is_some()), Relaxed);
    }
}

struct World {
    dispatcher: Arc<LaneDispatcher<PipelineScript>>,
    sink: Arc<NotingSink>,
    lanes: LaneSet<PipelineScript>,
}

const DEADLINE: Duration = Duration::from_secs(12);
const FIRST_TOKEN: Duration = Duration::from_secs(3);

fn world(lanes: LaneSet<PipelineScript>, sample: f64, change: impl FnOnce(&mut ServiceSettings)) -> World {
    let mut settings = settings();
    change(&mut settings);
    let sink = Arc::new(NotingSink { share: sample, ..NotingSink::default() });
    let metrics = Arc::new(Metrics::new("test"));
    let log = Arc::new(OperatorLog::new(metrics.clone()));
    let dispatcher = Arc::new(LaneDispatcher::new(lanes.clone(), sink.clone(), metrics, log, &settings));
    World { dispatcher, sink, lanes }
}

fn settings() -> ServiceSettings {
    ServiceSettings {
        deadline: DEADLINE,
        first_token: FIRST_TOKEN,
        answers_at_once: 8,
        queue: 32,
        ..ServiceSettings::default()
    }
}

fn lane(name: &'static str, role: LaneRole, acts: Vec<Act>) -> Arc<Lane<PipelineScript>> {
    Lane::new(PipelineScript::new(name, acts), role, &settings())
}

fn question(number: usize) -> UserQuestion {
    UserQuestion {
        id: number.to_string().into(),
        text: format!("q{number}"),
        history: Vec::new(),
        max_passages: usize::MAX,
    }
}

/// What a client got.
#[derive(Debug, Default)]
struct ClientResult {
    text: String,
    /// The answer's text.
    answered: Option<String>,
    error: Option<ApiError>,
    seconds: f64,
    has_left: bool,
}

impl World {
    async fn ask(&self, number: usize, delivery: Delivery, leaves_after: Option<Duration>) -> ClientResult {
        let (got, begun) = (Mutex::new(ClientResult::default()), Instant::now());
        let send = |event: AnswerEvent<PipelineScript>| {
            let mut got = got.lock().unwrap();
            match event {
                AnswerEvent::Passages(_) => {}
                AnswerEvent::Text(text) => got.text += &text,
                AnswerEvent::Done(answer) => got.answered = Some(answer.text),
            }
        };
        let question = question(number);
        let work = self.dispatcher.answer(&question, delivery, &send);
        let outcome = match leaves_after {
            Some(after) => tokio::time::timeout(after, work).await.ok(),
            None => Some(work.await),
        };
        let mut got = got.into_inner().unwrap();
        got.has_left = outcome.is_none();
        got.error = outcome.and_then(Result::err);
        got.seconds = begun.elapsed().as_secs_f64();
        got
    }

    fn running(&self) -> usize {
        let lanes = &self.lanes;
        let all =
            [Some(&lanes.serving), lanes.candidate.as_ref().map(|candidate| &candidate.lane), lanes.fallback.as_ref()];
        all.into_iter().flatten().map(|lane| lane.pipeline.running.load(Relaxed)).sum()
    }
}

const QUICK: Act = Act::Answer { search: 5, first: 20, pieces: 3, pause: 5 };

/// The SplitMix64 generator.
struct SplitMix(u64);

impl SplitMix {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    fn act(&mut self) -> Act {
        match self.below(11) {
            0 => Act::HangInSearch,
            1 => Act::HangBeforeWriting,
            2 => Act::HangWhileWriting,
            3 => Act::Fail { after_a_piece: false },
            4 => Act::Fail { after_a_piece: true },
            5 => Act::Overload,
            6 => Act::Refuse,
            7 => Act::Panic { after_a_piece: self.below(2) == 0 },
            8 => Act::Answer { search: 5, first: 2500, pieces: 4, pause: 900 },
            _ => Act::Answer {
                search: self.below(300),
                first: self.below(800),
                pieces: self.below(5),
                pause: self.below(200),
            },
        }
    }

    fn acts(&mut self) -> Vec<Act> {
        // One act for all, as in an outage, or a mixture.
        let number = if self.below(3) == 0 { 1 } else { 1 + self.below(12) };
        (0..number).map(|_| self.act()).collect()
    }
}

/// Plays one script: lanes that misbehave, questions that come at once or one by one,
/// clients that stay or leave. In half of the scripts the fallback answers quickly.
async fn play(seed: u64) {
    let mut random = SplitMix(seed);
    let has_healthy_fallback = random.below(2) == 0;
    let fallback = match random.below(4) {
        _ if has_healthy_fallback => Some(vec![QUICK]),
        0 => None,
        _ => Some(random.acts()),
    };
    let (share, is_shadow) = (random.below(5) as f64 / 4.0, random.below(2) == 0);
    let role = if is_shadow { LaneRole::Shadow } else { LaneRole::Canary };
    let candidate = (random.below(3) > 0).then(|| {
        let script = PipelineScript::new("c", random.acts());
        let mut candidate = CandidateLane::new(script, share, is_shadow, &settings());
        candidate.lane = Lane::new(candidate.lane.pipeline.clone(), role, &settings());
        candidate
    });
    let lanes = LaneSet {
        serving: lane("s", LaneRole::Serving, random.acts()),
        candidate,
        fallback: fallback.map(|acts| lane("f", LaneRole::Fallback, acts)),
    };
    let sample = random.below(11) as f64 / 10.0;
    let world = world(lanes, sample, |_| {});
    let (questions, spread) = (20 + random.below(40) as usize, 1 + random.below(20_000));
    let plans: Vec<(u64, Delivery, Option<Duration>)> = (0..questions)
        .map(|_| {
            let leaves = (random.below(5) == 0).then(|| Duration::from_millis(random.below(5000)));
            let delivery = if random.below(2) == 0 { Delivery::Streamed } else { Delivery::Whole };
            (random.below(spread), delivery, leaves)
        })
        .collect();
    let asks = plans.iter().enumerate().map(|(number, (at, delivery, leaves))| {
        let world = &world;
        async move {
            sleep(Duration::from_millis(*at)).await;
            world.ask(number, *delivery, *leaves).await
        }
    });
    let all = join_all(asks).await;
    let at = |number: usize| format!("seed {seed}, question {number}: {:?} got {:?}", plans[number], all[number]);
    for (number, got) in all.iter().enumerate() {
        assert!(got.seconds <= DEADLINE.as_secs_f64() + 0.01, "one deadline: {}", at(number));
        if got.has_left {
            continue;
        }
        assert!(got.answered.is_some() != got.error.is_some(), "an answer or an error: {}", at(number));
        if plans[number].1 == Delivery::Streamed {
            if let Some(answered) = &got.answered {
                assert_eq!(answered, &got.text, "all of it was sent, from one pipeline: {}", at(number));
            }
        } else {
            assert_eq!(got.text, "", "{}", at(number));
        }
        if let Some(error) = &got.error {
            // A stream that has begun cannot be restarted, admission may come too late, and a refused question is not
            // passed on.
            let came_late = got.seconds > DEADLINE.as_secs_f64() - 0.2;
            let is_not_admitted = came_late || error.message.contains("requests are worked on");
            let may_fail = !got.text.is_empty() || error.is_question_refused() || is_not_admitted;
            assert!(!has_healthy_fallback || may_fail, "the fallback could have answered: {}", at(number));
            assert!(error.status.is_server_error(), "{}", at(number));
        }
    }
    // Shadows may still be asked for as long as an answer may take.
    sleep(DEADLINE).await;
    assert_eq!(
        (world.dispatcher.admission.busy(), world.dispatcher.admission.waiting(), world.running()),
        (0, 0, 0),
        "seed {seed}"
    );
    let answered = world.dispatcher.answered.load(Relaxed);
    let expected = (0..answered).filter(|number| is_in_share(*number, sample)).count();
    assert_eq!(world.sink.kept.lock().unwrap().len(), expected, "seed {seed}: a share is that share");
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[test]
fn thousands_of_scripts_of_hangs_failures_floods_and_leaving_clients_keep_what_is_promised() {
    std::panic::set_hook(Box::new(|info| {
        if !info.to_string().contains("planned") {
            eprintln!("{info}");
        }
    }));
    for seed in 0..4000 {
        paused().block_on(play(seed));
    }
}

#[test]
fn the_fallback_answers_all_while_the_served_model_hangs() {
    for act in [Act::HangInSearch, Act::HangBeforeWriting] {
        for delivery in [Delivery::Streamed, Delivery::Whole] {
            paused().block_on(async {
                let lanes = LaneSet {
                    serving: lane("s", LaneRole::Serving, vec![act]),
                    candidate: None,
                    fallback: Some(lane("f", LaneRole::Fallback, vec![QUICK])),
                };
                let world = world(lanes, 0.0, |_| {});
                for number in 0..100 {
                    let got = world.ask(number, delivery, None).await;
                    assert_eq!(got.answered.as_deref(), Some("fff"), "{act:?} {delivery:?} {number}: {got:?}");
                    sleep(Duration::from_secs(1)).await;
                }
                let asked = world.lanes.serving.pipeline.asked.load(Relaxed);
                // The breaker saves most of them the wait, where the model is at fault.
                assert!(act != Act::HangBeforeWriting || asked < 40, "{asked} questions waited for a model that hangs");
            });
        }
    }
}

#[test]
fn a_search_that_hangs_or_fails_is_done_by_the_next_pipeline() {
    for act in [Act::HangInSearch, Act::Fail { after_a_piece: false }] {
        for is_canary in [true, false] {
            paused().block_on(async {
                let bad = vec![act];
                let candidate = CandidateLane::new(PipelineScript::new("c", bad.clone()), 1.0, false, &settings());
                let lanes = match is_canary {
                    true => LaneSet {
                        serving: lane("s", LaneRole::Serving, vec![QUICK]),
                        candidate: Some(candidate),
                        fallback: None,
                    },
                    false => LaneSet {
                        serving: lane("s", LaneRole::Serving, bad),
                        candidate: None,
                        fallback: Some(lane("f", LaneRole::Fallback, vec![QUICK])),
                    },
                };
                let world = world(lanes, 0.0, |_| {});
                let (begun, mut waited) = (Instant::now(), 0);
                for number in 0..100 {
                    let started = Instant::now();
                    let found = world.dispatcher.find(&question(number), Deadline::after(DEADLINE)).await;
                    let expected = if is_canary { "s" } else { "f" };
                    assert_eq!(found.map(|(_, found)| found.remarks).ok(), Some(vec![expected.to_owned()]), "{number}");
                    assert!(started.elapsed() <= DEADLINE, "one deadline");
                    waited += usize::from(started.elapsed() > Duration::ZERO);
                    sleep(Duration::from_secs(1)).await;
                }
                assert!(waited < 40, "{waited} of 100 searches waited for it in {:?}", begun.elapsed());
                assert_eq!(world.running(), 0);
            });
        }
    }
}

#[test]
fn a_search_that_nobody_else_can_do_is_tried_each_time() {
    paused().block_on(async {
        let lanes = LaneSet {
            serving: lane("s", LaneRole::Serving, vec![Act::Fail { after_a_piece: false }]),
            candidate: None,
            fallback: None,
        };
        let world = world(lanes, 0.0, |_| {});
        for number in 0..20 {
            let found = world.dispatcher.find(&question(number), Deadline::after(DEADLINE)).await;
            assert_eq!(found.map(drop).unwrap_err().status.as_u16(), 502);
        }
    });
}

#[test]
fn a_canary_that_hangs_is_noticed_by_nobody_but_its_metrics() {
    paused().block_on(async {
        let candidate =
            CandidateLane::new(PipelineScript::new("c", vec![Act::HangBeforeWriting]), 0.5, false, &settings());
        let lanes =
            LaneSet { serving: lane("s", LaneRole::Serving, vec![QUICK]), candidate: Some(candidate), fallback: None };
        let world = world(lanes, 0.0, |_| {});
        for number in 0..100 {
            assert_eq!(world.ask(number, Delivery::Streamed, None).await.answered.as_deref(), Some("sss"));
        }
    });
}

#[test]
fn a_shadow_changes_neither_the_sample_nor_its_share() {
    for (share, sample, kept) in [(1.0, 0.1, 10), (0.5, 0.25, 25), (1.0, 1.0, 100), (0.3, 0.0, 0)] {
        paused().block_on(async {
            let candidate = CandidateLane::new(PipelineScript::new("c", vec![QUICK]), share, true, &settings());
            let lanes = LaneSet {
                serving: lane("s", LaneRole::Serving, vec![QUICK]),
                candidate: Some(candidate),
                fallback: None,
            };
            let world = world(lanes, sample, |_| {});
            for number in 0..100 {
                world.ask(number, Delivery::Whole, None).await;
                sleep(Duration::from_secs(1)).await;
            }
            let shadow = world.lanes.candidate.as_ref().unwrap().lane.pipeline.asked.load(Relaxed);
            assert_eq!(shadow, (share * 100.0) as usize, "shadows of {share}");
            assert_eq!(world.sink.compared.load(Relaxed), shadow, "each answer of a shadow is compared");
            let sampled = world.sink.kept.lock().unwrap();
            assert_eq!(sampled.len(), kept, "{sample} beside a shadow of {share}");
            if share >= sample {
                let compared = sampled.iter().filter(|(_, compared)| *compared).count();
                assert!(compared * 2 >= kept, "{compared} of {kept} have a shadow's answer to be compared with");
            }
        });
    }
}

#[test]
fn a_client_that_leaves_gives_its_place_and_its_call_back_in_that_moment() {
    paused().block_on(async {
        let lanes = LaneSet {
            serving: lane("s", LaneRole::Serving, vec![Act::Answer { search: 1, first: 300, pieces: 3, pause: 5 }]),
            candidate: None,
            fallback: None,
        };
        let world = world(lanes, 0.0, |settings| (settings.answers_at_once, settings.queue) = (4, 0));
        for number in 0..100 {
            let flood =
                (0..4).map(|more| world.ask(number * 4 + more, Delivery::Streamed, Some(Duration::from_millis(20))));
            assert!(join_all(flood).await.iter().all(|got| got.has_left));
            assert_eq!((world.dispatcher.admission.busy(), world.running()), (0, 0));
        }
        assert_eq!(
            world.ask(0, Delivery::Streamed, None).await.answered.as_deref(),
            Some("sss"),
            "there is room at once"
        );
    });
}

#[test]
fn the_time_in_the_queue_counts_and_a_deadline_is_one_deadline() {
    paused().block_on(async {
        let slow = Act::Answer { search: 1, first: 1900, pieces: 20, pause: 1000 };
        let lanes = LaneSet {
            serving: lane("s", LaneRole::Serving, vec![slow]),
            candidate: None,
            fallback: Some(lane("f", LaneRole::Fallback, vec![slow])),
        };
        let world = world(lanes, 0.0, |settings| settings.answers_at_once = 1);
        let all = join_all((0..4).map(|number| world.ask(number, Delivery::Whole, None))).await;
        for got in all {
            assert!((got.seconds - DEADLINE.as_secs_f64()).abs() < 0.01, "{got:?}");
            assert!(matches!(got.error.unwrap().status.as_u16(), 503 | 504));
        }
    });
}

#[test]
fn a_slow_search_and_a_model_that_still_writes_do_not_open_the_breaker() {
    for act in [Act::HangInSearch, Act::Answer { search: 1, first: 1, pieces: 1000, pause: 1000 }] {
        paused().block_on(async {
            let lanes = LaneSet { serving: lane("s", LaneRole::Serving, vec![act]), candidate: None, fallback: None };
            let world = world(lanes, 0.0, |_| {});
            for number in 0..8 {
                let error = world.ask(number, Delivery::Whole, None).await.error.unwrap();
                assert_eq!(error.status.as_u16(), 504, "{act:?}");
            }
            assert!(!world.lanes.serving.breaker.is_open(), "{act:?}");
        });
    }
}

#[test]
fn a_panic_is_an_error_of_its_question_and_the_next_pipeline_is_asked() {
    paused().block_on(async {
        let panics = || lane("s", LaneRole::Serving, vec![Act::Panic { after_a_piece: true }]);
        let alone = world(LaneSet { serving: panics(), candidate: None, fallback: None }, 0.0, |_| {});
        let got = alone.ask(0, Delivery::Streamed, None).await;
        assert_eq!((got.text.as_str(), got.answered.is_some()), ("s", false));
        let error = got.error.unwrap();
        assert!(
            error.status.as_u16() == 500 && error.detail.as_deref().unwrap().contains("a mistake that was planned")
        );
        assert!(!error.message.contains("planned"), "its text is for the operator: {}", error.message);
        let fallback = Some(lane("f", LaneRole::Fallback, vec![QUICK]));
        let world = world(LaneSet { serving: panics(), candidate: None, fallback }, 0.0, |_| {});
        assert_eq!(world.ask(0, Delivery::Whole, None).await.answered.as_deref(), Some("fff"));
    });
}
