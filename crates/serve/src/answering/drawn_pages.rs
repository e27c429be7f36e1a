//! Pages of documents, drawn to be looked at. A client requests the boxes and the picture of a page separately, and reading a
//! scanned page takes a second, so pages that were drawn are kept for an hour. A kept page is shown only while its document
//! has the same bytes.

use super::{admission::AdmissionQueue, deadline::Deadline, served::ServedPipeline};
use crate::error::ApiError;
use quick_cache::{Weighter, sync::Cache};
use rag::load::PageView;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use store::{Key, KeyBuilder};

/// Pages that are drawn at once: each uses several cores.
const AT_ONCE: usize = 2;
/// Documents that are read at once, to see whether they have changed.
const READ_AT_ONCE: usize = 4;
/// Requests that may wait for others.
const WAITING: usize = 32;
/// The pictures that are kept, in bytes: some ten pages of paper.
const KEPT_BYTES: u64 = 48 << 20;
/// How long a page is kept. It may lack what could not be read at that time.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// A page of a document, and the passage that is marked on it.
#[derive(Debug, Clone)]
pub(crate) struct WantedPage {
    pub(crate) file: String,
    pub(crate) number: u32,
    pub(crate) passage: String,
}

/// A page that is kept.
#[derive(Clone)]
struct DrawnPage {
    view: Arc<PageView>,
    since: Instant,
}

/// The weight of a page: the size of its picture in bytes.
#[derive(Clone)]
struct PictureSize;

impl Weighter<Key, DrawnPage> for PictureSize {
    fn weight(&self, _: &Key, page: &DrawnPage) -> u64 {
        page.view.picture.pixels.len() as u64 + 500
    }
}

/// The pages that were drawn last.
pub(crate) struct DrawnPages {
    pages: Cache<Key, DrawnPage, PictureSize>,
    drawing: AdmissionQueue,
    reading: AdmissionQueue,
}

impl DrawnPages {
    pub(crate) fn new() -> Self {
        Self {
            pages: Cache::with_weighter(16, KEPT_BYTES, PictureSize),
            drawing: AdmissionQueue::new(AT_ONCE, WAITING),
            reading: AdmissionQueue::new(READ_AT_ONCE, WAITING),
        }
    }

    /// Draws a page of a document of a pipeline. A request that reaches its deadline fails, but the drawing goes on: it keeps
    /// its permit, and the next request for the page gets the result. None if the document has no such page or cannot be
    /// reached.
    ///
    /// # Errors
    /// If the document is damaged, or cannot be read now; 503 if too many are read or drawn, 504 at the deadline.
    pub(crate) async fn draw(
        self: &Arc<Self>,
        served: &ServedPipeline,
        wanted: &WantedPage,
        deadline: &Deadline,
    ) -> Result<Option<Arc<PageView>>, ApiError> {
        let Some(content) = self.content_key(served, &wanted.file, deadline).await? else { return Ok(None) };
        let key = KeyBuilder::new("page").field("version", &served.version).field("file", &wanted.file);
        let key =
            key.field("content", &content).field("number", &wanted.number).field("passage", &wanted.passage).finish();
        let (pipeline, wanted) = (served.pipeline.clone(), wanted.clone());
        let draw = async move {
            match pipeline.open_document(&wanted.file).await? {
                // A document that has changed since is not kept under the key of its former content.
                Some(document) if document.content_key().await? == content => {
                    document.view(wanted.number, vec![wanted.passage], lab::VIEW_DOTS).await
                }
                _ => Ok(None),
            }
        };
        self.once(key, deadline, draw).await
    }

    /// A key of the bytes that a document has now; none if it cannot be reached. A request that reaches its deadline fails,
    /// but the reading keeps its permit to the end.
    async fn content_key(
        self: &Arc<Self>,
        served: &ServedPipeline,
        file: &str,
        deadline: &Deadline,
    ) -> Result<Option<Key>, ApiError> {
        let (pages, pipeline) = (self.clone(), served.pipeline.clone());
        let (file, until) = (file.to_owned(), *deadline);
        let reading = tokio::spawn(async move {
            let _permit = pages.reading.enter(until.left()).await?;
            match pipeline.open_document(&file).await? {
                Some(document) => Ok::<_, ApiError>(Some(document.content_key().await?)),
                None => Ok(None),
            }
        });
        let ended = async { reading.await.map_err(|error| lab::Error::Unusable(error.to_string())) };
        deadline.limit(ended).await?
    }

    async fn once(
        self: &Arc<Self>,
        key: Key,
        deadline: &Deadline,
        draw: impl Future<Output = Result<Option<PageView>, lab::Error>> + Send + 'static,
    ) -> Result<Option<Arc<PageView>>, ApiError> {
        if self.pages.get(&key).is_some_and(|page| page.since.elapsed() > KEPT_FOR) {
            self.pages.remove(&key);
        }
        let (drawn, until) = (self.clone(), *deadline);
        let drawing = tokio::spawn(async move {
            let page = async {
                // The request has ended, so nobody needs the page.
                if until.left().is_zero() {
                    return Err(Some(drawn.drawing.waited_too_long()));
                }
                let _permit = drawn.drawing.enter(until.left()).await.map_err(Some)?;
                // That there is no such page is not kept.
                let view = draw.await.map_err(|error| Some(ApiError::from(error)))?.ok_or(None)?;
                Ok(DrawnPage { view: Arc::new(view), since: Instant::now() })
            };
            drawn.pages.get_or_insert_async(&key, page).await
        });
        let ended = async { drawing.await.map_err(|error| lab::Error::Unusable(error.to_string())) };
        match deadline.limit(ended).await? {
            Ok(page) => Ok(Some(page.view)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use models::Picture;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    fn key(page: u32) -> Key {
        KeyBuilder::new("page").field("number", &page).finish()
    }

    fn view(page: u32) -> PageView {
        let picture = Picture { width: 1, height: 1, channels: 3, pixels: vec![0; 3] };
        PageView { page, picture, boxes: Vec::new(), lines: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_drawn_once_for_all_who_ask_also_after_one_has_left() {
        let (pages, drawn) = (Arc::new(DrawnPages::new()), Arc::new(AtomicUsize::new(0)));
        let draw = |seconds| {
            let drawn = drawn.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                drawn.fetch_add(1, Relaxed);
                Ok(Some(view(1)))
            }
        };
        let (short, long) = (Deadline::after(Duration::from_secs(1)), Deadline::after(Duration::from_secs(60)));
        let (left, waited) = tokio::join!(pages.once(key(1), &short, draw(5)), pages.once(key(1), &long, draw(5)));
        assert_eq!(left.unwrap_err().status.as_u16(), 504);
        assert_eq!(waited.unwrap().unwrap().page, 1);
        assert!(pages.once(key(1), &long, draw(5)).await.unwrap().is_some());
        assert_eq!(drawn.load(Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_not_kept_and_few_pages_are_drawn_at_once() {
        let pages = Arc::new(DrawnPages::new());
        // Ten requests want a page that cannot be drawn. It is not tried again after their deadline.
        let (short, tried) = (Deadline::after(Duration::from_secs(5)), Arc::new(AtomicUsize::new(0)));
        let fails = (0..10).map(|_| {
            let (tried, pages, short) = (tried.clone(), &pages, &short);
            let draw = async move {
                tried.fetch_add(1, Relaxed);
                tokio::time::sleep(Duration::from_secs(4)).await;
                Err(lab::Error::Unusable("damaged".to_owned()))
            };
            async move { pages.once(key(9), short, draw).await.unwrap_err() }
        });
        futures::future::join_all(fails).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(tried.load(Relaxed), 2);
        let deadline = Deadline::after(Duration::from_secs(60));
        let failed = pages.once(key(1), &deadline, async { Err(lab::Error::Unusable("damaged".to_owned())) }).await;
        assert!(failed.is_err());
        assert!(pages.once(key(1), &deadline, async { Ok(Some(view(1))) }).await.unwrap().is_some());
        assert!(pages.once(key(2), &deadline, async { Ok(None) }).await.unwrap().is_none());
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let draws = (10..16).map(|number| {
            let (now, most) = (now.clone(), most.clone());
            let draw = async move {
                most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Relaxed);
                Ok(Some(view(number)))
            };
            let (pages, deadline) = (&pages, &deadline);
            async move { pages.once(key(number), deadline, draw).await.unwrap().unwrap().page }
        });
        assert_eq!(futures::future::join_all(draws).await, (10..16).collect::<Vec<_>>());
        assert_eq!(most.load(Relaxed), AT_ONCE);
    }
}
