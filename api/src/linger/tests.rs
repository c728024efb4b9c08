use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::post;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Sends a body to a handler that never reads it, all of it before the answer is looked at; the first line of the answer.
async fn answer_to(body_bytes: usize) -> String {
    let limits = Arc::new(Server::default());
    let router =
        Router::new().route("/", post(|| async { StatusCode::IM_A_TEAPOT })).layer(from_fn_with_state(limits, until_sent));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let server = tokio::spawn(axum::serve(listener, router).into_future());
    let head = format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {body_bytes}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&vec![b'x'; body_bytes]).await.unwrap();
    let mut answer = [0; 1024];
    let read = client.read(&mut answer).await.unwrap();
    server.abort();
    String::from_utf8_lossy(&answer[..read]).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_client_that_is_still_sending_sees_its_answer() {
    assert_eq!(answer_to(DROPPED_BYTES_MAX).await, "HTTP/1.1 418 I'm a teapot");
}

/// Whether a body without an end is let go of.
async fn lets_go(is_sent: bool) -> bool {
    let (held, mut is_gone) = tokio::sync::mpsc::channel::<()>(1);
    let endless = futures::stream::repeat_with(move || {
        let _ = &held;
        Ok::<_, axum::Error>(Bytes::from_static(&[0; 64 * 1024]))
    });
    drop(Lingering { unread: Some(Body::from_stream(endless).into_data_stream()), is_sent, overdue: never() });
    // Far beyond what it takes, and no more than a bound: the wait ends when the body is dropped.
    tokio::time::timeout(Duration::from_secs(30), is_gone.recv()).await.is_ok()
}

#[tokio::test]
async fn reading_on_has_an_end() {
    assert!(lets_go(true).await);
    assert!(lets_go(false).await);
}

fn never() -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(Duration::from_secs(3600)))
}

#[tokio::test]
async fn a_body_that_does_not_come_breaks_off() {
    let silent = Body::from_stream(futures::stream::pending::<Result<Bytes, axum::Error>>()).into_data_stream();
    let mut body = Lingering { unread: Some(silent), is_sent: false, overdue: Box::pin(tokio::time::sleep(Duration::ZERO)) };
    let error = body.next().await.unwrap().unwrap_err();
    assert!(error.into_inner().is::<TooSlow>());
    assert!(body.next().await.is_none());
}
