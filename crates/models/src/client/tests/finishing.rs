//! Calls that were in flight when they were cancelled.

use super::*;

#[tokio::test]
async fn a_call_that_has_begun_is_kept_after_a_cancellation_and_none_follows() {
    let (_folder, journal) = journal();
    for dropped in [false, true] {
        let toy = Arc::new(Toy { concurrency: 1, ..Toy::gated() });
        let asked = if dropped { "a" } else { "b" };
        let cancel = CancellationToken::new();
        let client = client(Some(journal.clone())).with_cancellation(cancel.clone());
        let chat = client.chat(toy.clone());
        let (first, second) = (request(asked), request("another"));
        {
            let waiting = async {
                toy.begun.notified().await;
                chat.chat(&second).await
            };
            let mut calls = Box::pin(async { tokio::join!(chat.chat(&first), waiting) });
            let begun = async {
                while client.inner.flights.in_flight().len() < 2 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                () = begun => {}
                _ = &mut calls => panic!("the gate is closed"),
            }
            cancel.cancel();
            if !dropped {
                let (first, second) = calls.await;
                assert!(matches!((first, second), (Err(Error::Cancelled), Err(Error::Cancelled))));
            }
        }
        assert!(client.n_finishing() >= 1);
        toy.gate.as_ref().expect("a gate").notify_one();
        assert_eq!(client.drain(|_| ()).await, 0);
        assert_eq!((client.n_finishing(), toy.n_calls()), (0, 1), "the call that waited for a place was not made");
        // Whoever asks again has the answer that was paid.
        let later = super::client(Some(journal.clone())).chat(toy.clone());
        assert_eq!(later.chat(&first).await.expect("an answer").text, "1");
        assert_eq!(toy.n_calls(), 1);
    }
}

#[tokio::test]
async fn who_asks_again_while_a_cancelled_call_goes_on_waits_for_its_answer() {
    let (_folder, journal) = journal();
    let toy = Arc::new(Toy::gated());
    let cancel = CancellationToken::new();
    let stopped = client(Some(journal.clone())).with_cancellation(cancel.clone());
    let (chat, asked) = (stopped.chat(toy.clone()), request("asked again"));
    let conduct = async {
        toy.begun.notified().await;
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(chat.chat(&asked), conduct);
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    assert_eq!(stopped.n_finishing(), 1);
    let later = client(Some(journal)).chat(toy.clone());
    let opened = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        toy.gate.as_ref().expect("a gate").notify_one();
    };
    let (answered, ()) = tokio::join!(later.chat(&asked), opened);
    assert_eq!((answered.expect("an answer").text.as_str(), toy.n_calls()), ("1", 1));
}

#[tokio::test]
async fn a_call_that_fails_after_a_cancellation_is_not_made_again() {
    let (_folder, journal) = journal();
    let toy = Arc::new(Toy { outcomes: Mutex::new(vec![Some(server_error(500))]), ..Toy::gated() });
    let cancel = CancellationToken::new();
    let client = client(Some(journal)).with_cancellation(cancel.clone());
    let (chat, request) = (client.chat(toy.clone()), request("a"));
    let conduct = async {
        toy.begun.notified().await;
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(chat.chat(&request), conduct);
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    toy.gate.as_ref().expect("a gate").notify_one();
    client.drain(|_| ()).await;
    assert_eq!((client.n_finishing(), toy.n_calls()), (0, 1));
}
