//! The pages of a store over HTTP: runs, what they found, how they are doing, and acts of steering.

use crate::{
    SCRIPT, STYLE,
    ask::{AskRequest, AskedPipelines},
    blocking::blocking,
    documents::{self, DocumentCache},
    error::PageError,
    golden::{DecisionRequest, GoldenPages, ListQuery, NewQuestionRequest, PresenceRequest},
    live_stream::{LiveRuns, with_time},
    report::plain_leaderboard,
    run_data::OpenRuns,
    votes::VotePages,
};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Query, State, rejection::BytesRejection},
    http::{Extensions, StatusCode, header},
    response::{IntoResponse, Response, sse::Event},
    routing::{get, post},
};
use futures::{StreamExt, stream};
use lab::{Act, KnownRun, LabelRequest, Session, VoteRequest, known_runs, live_run, now_ms};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use serve::{GuardedRoutes, caller_name, event_stream};
use std::{convert::Infallible, sync::Arc};
use tokio::sync::watch;

/// Pages load nothing from other origins, and no other page may frame them. Pictures of pages of documents are in the data.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const PAGE: &str = include_str!("service/page.html");
/// The largest file of golden questions that is imported, in bytes.
const IMPORT_BYTES: usize = 20 << 20;

/// The pages of a store.
pub struct PageService {
    session: Arc<Session>,
    /// Whether acts of steering may be posted: not if the store can only be read.
    can_steer: bool,
    /// Whether whoever looks at runs needs a key.
    needs_key: bool,
    runs: OpenRuns,
    live: LiveRuns,
    documents: DocumentCache,
    golden: GoldenPages,
    votes: VotePages,
    asked: AskedPipelines,
    /// Whether the pages are about to end.
    is_ending: watch::Sender<bool>,
}

impl PageService {
    /// The pages of a session's store. `can_steer` is false if the store can only be read; `needs_key` says whether the
    /// service has keys, so that the page itself, which needs none, shows nothing.
    pub fn new(session: Arc<Session>, can_steer: bool, needs_key: bool) -> Self {
        Self {
            golden: GoldenPages::new(session.clone()),
            votes: VotePages::new(session.clone()),
            session,
            can_steer,
            needs_key,
            runs: OpenRuns::default(),
            live: LiveRuns::default(),
            documents: DocumentCache::default(),
            asked: AskedPipelines::default(),
            is_ending: watch::Sender::new(false),
        }
    }

    /// Ends the streams of events. Pages never close theirs, so the service would wait for them at its end.
    pub fn end_streams(&self) {
        self.is_ending.send_replace(true);
    }

    /// Is ready when streams of events have to end.
    fn ending(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut is_ending = self.is_ending.subscribe();
        async move { drop(is_ending.wait_for(|is_ending| *is_ending).await) }
    }

    /// The routes of the pages, by who may use them.
    pub fn routes(self: Arc<Self>) -> GuardedRoutes {
        let service = self;
        let open = Router::new()
            .route("/", get(page))
            .route("/app.js", get(async || file("text/javascript; charset=utf-8", SCRIPT)))
            .route("/app.css", get(async || file("text/css; charset=utf-8", STYLE)))
            .route("/favicon.ico", get(async || StatusCode::NO_CONTENT));
        let ask = Router::new()
            .route("/api/runs", get(runs))
            .route("/api/runs/{run}/overview", get(overview))
            .route("/api/runs/{run}/parts/{name}", get(part))
            .route("/api/runs/{run}/live", get(live))
            .route("/api/runs/{run}/trials", get(planned_trials))
            .route("/api/documents", get(documents))
            .route("/api/documents/text", get(document_text))
            .route("/api/documents/page.png", get(document_page))
            .route("/api/runs/{run}/document", get(document_in_run))
            .route("/api/golden", get(golden))
            .route("/api/golden/question", get(golden_question))
            .route("/api/golden/news", get(golden_news))
            .route("/api/golden/export", get(golden_export))
            .route("/api/runs/{run}/votes/next", get(next_ballot))
            .route("/api/runs/{run}/votes", get(vote_standing));
        let review = Router::new()
            .route("/api/golden/decisions", post(decide))
            .route("/api/golden/questions", post(add_question))
            .route("/api/golden/import", post(import_questions).layer(DefaultBodyLimit::max(IMPORT_BYTES)))
            .route("/api/golden/present", post(set_present))
            .route("/api/runs/{run}/votes", post(vote))
            .route("/api/labels", get(labels).post(label));
        let admin =
            Router::new().route("/api/runs/{run}/acts", post(act)).route("/api/runs/{run}/ask", post(ask_trials));
        GuardedRoutes {
            open: open.with_state(service.clone()),
            ask: ask.with_state(service.clone()),
            review: review.with_state(service.clone()),
            admin: admin.with_state(service),
        }
    }

    /// Writes what is not written yet, at the end.
    pub async fn finish(&self) {
        self.golden.finish().await;
    }

    /// Refuses the name of a run that the store does not have: names become parts of paths.
    fn check_name(run: &str) -> Result<(), PageError> {
        let is_name = !run.is_empty() && run.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        if is_name && !run.starts_with('.') {
            Ok(())
        } else {
            Err(PageError::not_found(format!("there is no run `{run}`")))
        }
    }
}

type Service = State<Arc<PageService>>;

fn file(kind: &'static str, content: impl IntoResponse) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], content)
}

fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}

/// The page. A browser without scripts sees the last leaderboard; only where no key is needed.
async fn page(State(service): Service) -> Response {
    let plain = match lab::latest_record(&service.session).await {
        Ok(record) if !service.needs_key => plain_leaderboard(record.board()),
        _ => "<p>This page needs scripts.</p>".to_owned(),
    };
    let page = PAGE.replacen("<!--plain-->", &plain, 1);
    let policy = [(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY)];
    (policy, file("text/html; charset=utf-8", page)).into_response()
}

async fn runs(State(service): Service) -> Result<Json<Value>, PageError> {
    let runs: Vec<KnownRun> = known_runs(&service.session).await?;
    let store = lab::Workspace::address(&service.session.experiment);
    Ok(Json(json!({ "store": store, "can_steer": service.can_steer, "runs": runs })))
}

async fn overview(State(service): Service, Path(run): Path<String>) -> Result<Response, PageError> {
    PageService::check_name(&run)?;
    Ok(json_text(service.runs.get(&service.session, &run).await?.overview.clone()))
}

/// The overview that a part has to belong to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartQuery {
    /// None for a part of whatever is there now.
    #[serde(default)]
    stamp: Option<String>,
}

async fn part(
    State(service): Service,
    Path((run, name)): Path<(String, String)>,
    Query(query): Query<PartQuery>,
) -> Result<Response, PageError> {
    PageService::check_name(&run)?;
    let data = service.runs.get(&service.session, &run).await?;
    Ok(json_text(blocking(move || data.part(&name, query.stamp.as_deref())).await??))
}

/// The settings of a run's trials: a page offers them when a copy of a trial is added.
async fn planned_trials(State(service): Service, Path(run): Path<String>) -> Result<Json<Value>, PageError> {
    PageService::check_name(&run)?;
    Ok(Json(json!({ "trials": lab::planned_choices(&service.session, &run).await? })))
}

/// How a run is doing: a whole [`lab::LiveRun`] in each event.
async fn live(State(service): Service, Path(run): Path<String>) -> Result<Response, PageError> {
    PageService::check_name(&run)?;
    if live_run(&service.session, &run).await?.is_none() {
        return Err(PageError::not_found(format!("the run `{run}` has not written how it is doing")));
    }
    let news = service.live.watch(&service.session, &run);
    // What is known already is the first event.
    let events = stream::unfold((news, true), |(mut news, is_first)| async move {
        loop {
            if !(is_first && news.borrow().is_some()) {
                news.changed().await.ok()?;
            }
            let text = news.borrow_and_update().clone();
            if let Some(text) = text {
                let event = Event::default().data(with_time(&text, now_ms()));
                return Some((Ok::<_, Infallible>(event), (news, false)));
            }
        }
    });
    Ok(event_stream(events.take_until(service.ending())))
}

/// Posts an act: the fields of an [`Act`], and `by`, who wants it, if no key says that.
async fn act(
    State(service): Service,
    Path(run): Path<String>,
    extensions: Extensions,
    Json(mut request): Json<Map<String, Value>>,
) -> Result<Json<Value>, PageError> {
    PageService::check_name(&run)?;
    if !service.can_steer {
        return Err(PageError::conflict("this store can only be read, so its runs cannot be steered from here"));
    }
    let state = live_run(&service.session, &run).await?.map(|live| live.state);
    if !state.is_some_and(lab::LiveState::is_live) {
        return Err(PageError::conflict(format!("no process is at work on the run `{run}`")));
    }
    let named = request.remove("by");
    let by = actor(&extensions, named.as_ref().and_then(Value::as_str)).unwrap_or_else(|| "a page".to_owned());
    let act = Act::deserialize(Value::Object(request))
        .map_err(|error| PageError::invalid(format!("that is no act: {error}")))?;
    let number = service.session.workspace().post_act(&run, &by, act).await?;
    Ok(Json(json!({ "number": number })))
}

/// The refusal of somebody who gives no name.
fn nameless() -> PageError {
    PageError::invalid("`by` is missing: the name of the person")
}

/// Who acts: the name of the key, or else the name that the page gives; none if it gives none.
fn actor(extensions: &Extensions, named: Option<&str>) -> Option<String> {
    let caller = caller_name(extensions);
    let named = named.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    if caller.is_empty() { named } else { Some(caller.to_string()) }
}

/// The documents of the last run.
async fn documents(State(service): Service) -> Result<Json<Value>, PageError> {
    let record = lab::latest_record(&service.session).await?;
    let names = lab::parser_names(&service.session);
    let parsers: Vec<Value> =
        (1..).zip(names).map(|(number, name): (usize, String)| json!({ "number": number, "name": name })).collect();
    Ok(Json(json!({ "run": record.id(), "parsers": parsers, "documents": documents::list(&record)? })))
}

/// A document, and the parser that reads it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentQuery {
    path: String,
    /// The number of the parser in the experiment, from 1.
    #[serde(default = "first")]
    parser: usize,
}

fn first() -> usize {
    1
}

async fn document_text(State(service): Service, Query(query): Query<DocumentQuery>) -> Result<Response, PageError> {
    let questions = match lab::latest_record(&service.session).await {
        Ok(record) => record.questions().to_vec(),
        Err(_) => Vec::new(),
    };
    let text = service.documents.text(&service.session, &query.path, query.parser, &questions).await?;
    Ok(Json(text).into_response())
}

async fn document_in_run(
    State(service): Service,
    Path(run): Path<String>,
    Query(query): Query<DocumentQuery>,
) -> Result<Response, PageError> {
    PageService::check_name(&run)?;
    let record = lab::record_of(&service.session, &run).await?;
    Ok(Json(documents::document_in_run(&service.session, &record, &query.path).await?).into_response())
}

/// A page of a document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DrawnPageQuery {
    path: String,
    page: u32,
    /// A text that is marked on it.
    #[serde(default)]
    mark: Option<String>,
}

async fn document_page(State(service): Service, Query(query): Query<DrawnPageQuery>) -> Result<Response, PageError> {
    let texts = query.mark.into_iter().filter(|text| !text.is_empty()).collect();
    let view = lab::page_view(&service.session, &query.path, query.page, texts, lab::VIEW_DOTS).await?;
    let view = view.ok_or_else(|| PageError::not_found(format!("{}: this page cannot be drawn", query.path)))?;
    let picture = view.marked().to_png().map_err(|error| PageError::conflict(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "image/png"), (header::CACHE_CONTROL, "no-cache")], picture).into_response())
}

/// Asks trials of a run a question. Their models may cost money, so this needs the scope of those who steer.
async fn ask_trials(
    State(service): Service,
    Path(run): Path<String>,
    Json(request): Json<AskRequest>,
) -> Result<Response, PageError> {
    PageService::check_name(&run)?;
    Ok(Json(service.asked.ask(&service.session, &run, request).await?).into_response())
}

async fn golden(State(service): Service, Query(known): Query<ListQuery>) -> Result<Response, PageError> {
    Ok(Json(blocking(move || service.golden.list(&known)).await??).into_response())
}

/// A golden question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionQuery {
    id: String,
}

async fn golden_question(State(service): Service, Query(query): Query<QuestionQuery>) -> Result<Response, PageError> {
    Ok(Json(service.golden.question(&query.id, &service.documents).await?).into_response())
}

async fn golden_export(State(service): Service) -> Result<Response, PageError> {
    let lines = service.golden.export()?;
    let headers = [
        (header::CONTENT_TYPE, "application/jsonl"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"golden.jsonl\""),
    ];
    Ok((headers, lines).into_response())
}

/// An event for each change of the golden questions, so that pages ask for them again.
async fn golden_news(State(service): Service) -> Response {
    let events = stream::unfold(service.golden.news(), |mut news| async move {
        news.changed().await.ok()?;
        let number = *news.borrow_and_update();
        Some((Ok::<_, Infallible>(Event::default().data(number.to_string())), news))
    });
    event_stream(events.take_until(service.ending()))
}

async fn decide(
    State(service): Service,
    extensions: Extensions,
    Json(request): Json<DecisionRequest>,
) -> Result<Response, PageError> {
    let by = actor(&extensions, request.by.as_deref()).ok_or_else(nameless)?;
    Ok(Json(service.golden.decide(by, request).await?).into_response())
}

async fn add_question(
    State(service): Service,
    extensions: Extensions,
    Json(request): Json<NewQuestionRequest>,
) -> Result<Response, PageError> {
    let by = actor(&extensions, request.by.as_deref()).ok_or_else(nameless)?;
    Ok(Json(service.golden.add(by, request, &service.documents).await?).into_response())
}

/// An imported file: its name, whose ending is that of its format, and who imports it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImportQuery {
    name: String,
    #[serde(default)]
    by: Option<String>,
}

/// Adds the questions of a file, which is the body of the request.
async fn import_questions(
    State(service): Service,
    extensions: Extensions,
    Query(query): Query<ImportQuery>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, PageError> {
    let by = actor(&extensions, query.by.as_deref()).ok_or_else(nameless)?;
    let bytes = body.map_err(|refused| match refused.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            PageError::too_large(format!("the file has more than {} MB: split it", IMPORT_BYTES >> 20))
        }
        _ => PageError::invalid(refused.to_string()),
    })?;
    Ok(Json(service.golden.import(by, query.name, bytes).await?).into_response())
}

async fn set_present(
    State(service): Service,
    extensions: Extensions,
    Json(request): Json<PresenceRequest>,
) -> Result<Response, PageError> {
    let by = actor(&extensions, request.by.as_deref()).ok_or_else(nameless)?;
    Ok(Json(service.golden.set_present(by, request)).into_response())
}

/// Who votes, if no key says that.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BallotQuery {
    #[serde(default)]
    by: Option<String>,
}

async fn next_ballot(
    State(service): Service,
    Path(run): Path<String>,
    extensions: Extensions,
    Query(query): Query<BallotQuery>,
) -> Result<Response, PageError> {
    PageService::check_name(&run)?;
    let by = actor(&extensions, query.by.as_deref()).ok_or_else(nameless)?;
    Ok(Json(service.votes.next(&run, by).await?).into_response())
}

async fn vote_standing(State(service): Service, Path(run): Path<String>) -> Result<Response, PageError> {
    PageService::check_name(&run)?;
    Ok(Json(service.votes.standing(&run).await?).into_response())
}

async fn vote(
    State(service): Service,
    Path(run): Path<String>,
    extensions: Extensions,
    Json(request): Json<VoteRequest>,
) -> Result<Response, PageError> {
    PageService::check_name(&run)?;
    let by = actor(&extensions, request.by.as_deref()).ok_or_else(nameless)?;
    Ok(Json(service.votes.vote(&run, by, request).await?).into_response())
}

/// A question of a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelQuery {
    run: String,
    question: String,
}

async fn labels(State(service): Service, Query(query): Query<LabelQuery>) -> Result<Response, PageError> {
    PageService::check_name(&query.run)?;
    Ok(Json(service.votes.labels(&query.run, query.question).await?).into_response())
}

async fn label(
    State(service): Service,
    extensions: Extensions,
    Json(request): Json<LabelRequest>,
) -> Result<Response, PageError> {
    PageService::check_name(&request.run)?;
    let by = actor(&extensions, request.by.as_deref()).ok_or_else(nameless)?;
    Ok(Json(service.votes.label(by, request).await?).into_response())
}
