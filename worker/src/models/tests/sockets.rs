//! Providers over real connections.

use baton_devmodel::{Answer, Fault, ModelDouble, Play, Turn as Said};
use futures::StreamExt;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

/// The outcome of one call, and the text that came of it.
async fn call(remote: &Remote) -> Result<Turn, Failure> {
    let mut stream = remote.stream(request(vec![user("a")]));
    let mut assembler = Assembler::default();
    let outcome = async {
        loop {
            if let Some(turn) = assembler.take(stream.next().await.expect("an end")) {
                return turn;
            }
        }
    };
    tokio::time::timeout(PATIENCE, outcome).await.expect("in time")
}

#[tokio::test]
async fn gate_d1_over_sockets_every_fault_is_what_it_is() {
    let double = ModelDouble::start().await.unwrap();
    for kind in KINDS {
        let remote = remote(kind, &double.url());
        for fault in Fault::PROMPT {
            double.answer_with(move |request| Answer::turn(request.format(), &Said::text("In 杭州 🦀, at length"), Some(fault)));
            let expected = match fault {
                Fault::Drip => Ok("In 杭州 🦀, at length".to_owned()),
                Fault::Garbage | Fault::NotUtf8 => Err(ModelError::Protocol),
                Fault::Empty => Err(ModelError::Empty),
                _ => Err(ModelError::Transient),
            };
            let outcome = call(&remote).await;
            assert_eq!(outcome.map(|turn| turn.text).map_err(|failure| failure.error), expected, "{kind:?} {fault:?}");
        }
    }
    let requests = double.requests();
    assert_eq!(requests.len(), KINDS.len() * Fault::PROMPT.len(), "nothing is asked again in here");
    let (chat, messages) = (&requests[0], &requests[requests.len() - 1]);
    assert_eq!((chat.path.as_str(), chat.headers["authorization"].to_str().unwrap()), ("/chat/completions", "Bearer secret"));
    assert_eq!((messages.path.as_str(), messages.headers["x-api-key"].to_str().unwrap()), ("/v1/messages", "secret"));
    assert_eq!(messages.headers["anthropic-version"], anthropic::VERSION);
}

#[tokio::test]
async fn what_is_said_of_waiting_and_of_the_call_arrives() {
    let double = ModelDouble::start().await.unwrap();
    double.push(Answer::new(429, &["retry-after: 7", "x-request-id: req_1"], "{}"));
    let failure = call(&remote(ProviderKind::OpenaiChat, &double.url())).await.unwrap_err();
    let expected =
        Failure { retry_after: Some(Duration::from_secs(7)), request_id: Some("req_1".into()), ..ModelError::Transient.into() };
    assert_eq!(failure, expected);
}

#[tokio::test]
async fn nobody_there_is_transient() {
    let url = ModelDouble::start().await.unwrap().url();
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_ne!(url, format!("http://{closed}"));
    let failure = call(&remote(ProviderKind::Anthropic, &format!("http://{closed}"))).await.unwrap_err();
    assert_eq!(failure.error, ModelError::Transient);
}

/// The answer is over when the model says so, whatever becomes of the connection.
#[tokio::test]
async fn case_f10_an_answer_survives_its_connection() {
    let double = ModelDouble::start().await.unwrap();
    let stream = format!("data: {}\n\n", json!({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}));
    for play in [Play::Reset, Play::Hang] {
        double.push(Answer::events(&stream).then(play));
        assert_eq!(call(&remote(ProviderKind::OpenaiChat, &double.url())).await.unwrap().text, "hi");
    }
}

#[tokio::test]
async fn case_f22_a_dropped_stream_closes_the_connection() {
    let double = ModelDouble::start().await.unwrap();
    double.push(Answer::events("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n").then(Play::Hang));
    let mut stream = remote(ProviderKind::OpenaiChat, &double.url()).stream(request(vec![user("a")]));
    assert_eq!(stream.next().await, Some(ModelEvent::TextDelta("hi".into())));
    assert_eq!(double.open(), 1);
    drop(stream);
    let gone = async {
        while double.open() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the connection is closed");
}
