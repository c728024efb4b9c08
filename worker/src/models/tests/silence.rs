//! How long a server may say nothing. Without sockets, so that the clock is the test's own.

use bytes::Bytes;
use futures::StreamExt;
use tokio::time::Instant;

use super::super::remote::read as answered;
use super::*;

const CHAT: ProviderKind = ProviderKind::OpenaiChat;
const ANSWER: &str = r#"data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
const PART: &str = r#"data: {"choices":[{"delta":{"content":"hi"}}]}"#;

/// What comes of pieces, each so many seconds after the one before, on a connection that stays open; and in how many seconds.
async fn heard<const N: usize>(pieces: [(u64, &'static str); N]) -> (Result<String, ModelError>, u64) {
    let begin = Instant::now();
    let body = async_stream::stream! {
        for (seconds, piece) in pieces {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            yield Ok(Bytes::from(format!("{piece}\n\n")));
        }
        std::future::pending::<()>().await;
    };
    let reading = Reading::new(remote(CHAT, "http://localhost").reader(ToolNames::new(&[])), Outgoing::new(1), None);
    let mut events = answered(reading, body.boxed());
    let mut assembler = Assembler::default();
    loop {
        if let Some(turn) = assembler.take(events.next().await.expect("an end")) {
            return (turn.map(|turn| turn.text).map_err(|failure| failure.error), begin.elapsed().as_secs());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_gone_after_a_minute_and_one_that_only_comments_is_not() {
    let hi = || Ok("hi".to_owned());
    let gone = Err(ModelError::Transient);
    assert_eq!(heard([(59, ANSWER)]).await, (hi(), 59 + 5));
    assert_eq!(heard([(61, ANSWER)]).await, (gone.clone(), 60));
    assert_eq!(heard([(0, PART), (61, ANSWER)]).await, (gone, 60));
    // Once it has stopped, nothing but its usage is of interest.
    assert_eq!(heard([(0, ANSWER), (2, ": ping"), (2, ": ping"), (2, ": ping"), (2, ": ping")]).await, (hi(), 5));
    // Whoever thinks for three minutes says that it does.
    for life in [": ping", "event: ping\ndata: ", r#"data: {"choices":[]}"#] {
        assert_eq!(heard([(50, life), (50, life), (50, life), (50, ANSWER)]).await, (hi(), 200 + 5), "{life}");
    }
}
