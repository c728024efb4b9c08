use baton_core::Principal;
use futures::Stream;

use super::*;
use crate::connection::Stall;
use crate::streams::Streams;

const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

fn persisted(sequence: i64) -> Frame {
    Frame::Persisted { sequence, run_id: None, event_type: None, bytes: format!("id: {sequence}\n\n").into() }
}

fn transient() -> Frame {
    Frame::Transient { run_id: uuid::Uuid::nil(), bytes: Bytes::from_static(b"event: message.delta\n\n") }
}

fn writer(frames: impl Stream<Item = Result<Vec<Frame>, StreamError>> + Send + 'static) -> Writer {
    stalling_writer(Stall::default(), frames)
}

fn stalling_writer(stall: Stall, frames: impl Stream<Item = Result<Vec<Frame>, StreamError>> + Send + 'static) -> Writer {
    Writer {
        place: Streams::new(1).take_place(&Principal::dev(), stall).unwrap(),
        phase: Phase::Opening,
        frames: Box::pin(frames),
        last_sequence: 3,
        retry_ms: 700,
        heartbeat: HEARTBEAT,
        write_timeout: WRITE_TIMEOUT,
        written_at: Instant::now(),
        shutdown: CancellationToken::new(),
        clock: Clock::system(),
        expires_at: None,
    }
}

async fn next(writer: &mut Writer) -> Option<String> {
    writer.next_chunk().await.map(|chunk| String::from_utf8(chunk.to_vec()).unwrap())
}

async fn all(mut writer: Writer) -> Vec<String> {
    let mut chunks = Vec::new();
    while let Some(chunk) = next(&mut writer).await {
        chunks.push(chunk);
    }
    chunks
}

const OPENING: &str = "retry: 700\n: open\n\n";

#[tokio::test]
async fn frames_that_are_ready_together_leave_as_one_chunk() {
    let frames = stream::iter([Ok(vec![persisted(4), transient(), persisted(5)]), Ok(vec![persisted(6)])]);
    let expected = [OPENING, "id: 4\n\nevent: message.delta\n\nid: 5\n\n", "id: 6\n\n"];
    assert_eq!(all(writer(frames)).await, expected);
}

#[tokio::test]
async fn case_c20_silence_is_filled_in_every_phase() {
    let mut writer = writer(stream::pending());
    writer.heartbeat = Duration::from_millis(1);
    assert_eq!(next(&mut writer).await.as_deref(), Some(OPENING));
    for _ in 0..3 {
        assert_eq!(next(&mut writer).await.as_deref(), Some(": hb\n\n"));
    }
}

#[tokio::test]
async fn the_end_of_the_server_is_said_with_the_newest_stored_event() {
    let mut writer = writer(stream::iter([Ok(vec![persisted(9), transient()])]).chain(stream::pending()));
    next(&mut writer).await;
    next(&mut writer).await;
    writer.shutdown.cancel();
    assert_eq!(next(&mut writer).await.as_deref(), Some("event: stream.closing\ndata: {\"last_sequence\":9}\n\n"));
    assert_eq!(next(&mut writer).await, None);
}

#[tokio::test]
async fn a_stream_ends_with_its_credential_however_much_there_is_to_say() {
    let now = OffsetDateTime::UNIX_EPOCH;
    let mut writer = writer(stream::repeat_with(|| Ok(vec![persisted(9)])));
    (writer.clock, writer.expires_at) = (Clock::manual(now), Some(now + Duration::from_secs(60)));
    assert_eq!(next(&mut writer).await.as_deref(), Some(OPENING));
    assert_eq!(next(&mut writer).await.as_deref(), Some("id: 9\n\n"));
    writer.clock.advance(Duration::from_secs(60));
    assert_eq!(next(&mut writer).await.as_deref(), Some("event: stream.closing\ndata: {\"last_sequence\":9}\n\n"));
    assert_eq!(next(&mut writer).await, None);
}

#[tokio::test]
async fn a_stream_that_never_began_closes_with_its_cursor() {
    let writer = writer(stream::iter([Ok(vec![persisted(9)])]));
    writer.shutdown.cancel();
    assert_eq!(all(writer).await, [OPENING, "event: stream.closing\ndata: {\"last_sequence\":3}\n\n"]);
}

#[tokio::test]
async fn a_stream_that_the_log_has_left_behind_says_so() {
    let frames = writer(stream::iter([Ok(vec![persisted(4)]), Err(StreamError::Overflow)]));
    assert_eq!(all(frames).await, [OPENING, "id: 4\n\n", "event: stream.overflow\ndata: {\"last_sequence\":4}\n\n"]);
}

#[tokio::test]
async fn case_c24_a_client_that_took_nothing_for_too_long_is_told_to_resume() {
    let overflow = "event: stream.overflow\ndata: {\"last_sequence\":4}\n\n";
    let frames = || stream::iter([Ok(vec![persisted(4)]), Ok(vec![persisted(5)])]).chain(stream::pending());
    // The socket says so while there is nothing to write,
    let stall = Stall::default();
    let mut quiet = stalling_writer(stall.clone(), stream::iter([Ok(vec![persisted(4)])]).chain(stream::pending()));
    next(&mut quiet).await;
    next(&mut quiet).await;
    stall.0.cancel();
    assert_eq!(next(&mut quiet).await.as_deref(), Some(overflow));
    assert_eq!(next(&mut quiet).await, None);
    // or there was no room for the next chunk.
    let mut full = writer(frames());
    next(&mut full).await;
    next(&mut full).await;
    full.write_timeout = Duration::ZERO;
    assert_eq!(next(&mut full).await.as_deref(), Some(overflow));
    assert_eq!(next(&mut full).await, None);
}

#[tokio::test]
async fn a_failure_ends_a_stream_and_says_nothing_of_itself() {
    let failing =
        writer(stream::iter([Ok(vec![persisted(4)]), Err(Error::internal("the secret").into()), Ok(vec![persisted(5)])]));
    let expected = [OPENING, "id: 4\n\n", "event: stream.closing\ndata: {\"last_sequence\":4}\n\n"];
    assert_eq!(all(failing).await, expected);
    let panicking = writer(
        stream::iter([4, 0]).map(|sequence| if sequence == 0 { panic!("the secret") } else { Ok(vec![persisted(sequence)]) }),
    );
    assert_eq!(all(panicking).await, expected);
}

#[test]
fn clients_return_at_different_times() {
    let clock = Clock::system();
    let drawn: Vec<u128> = (0..100).map(|_| retry_ms(&clock)).collect();
    assert!(drawn.iter().all(|ms| (RETRY_MS_MIN..=RETRY_MS_MAX).contains(ms)));
    assert!(drawn.iter().any(|ms| *ms != drawn[0]));
}
