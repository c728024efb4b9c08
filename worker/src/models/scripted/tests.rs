use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::*;

#[test]
fn what_a_file_does_not_say_is_named() {
    let script = json!([{"match": "^hello$", "turn": [{"text": "hi"}]}]);
    let agent = json!({"id": "mine", "version": "1", "name": "Mine", "model": "scripted", "script": script});
    let agent = Arc::new(serde_json::from_value(agent).unwrap());
    let play = |text: &str, turn| {
        let input = serde_json::from_value(json!([{"type": "text", "text": text}])).unwrap();
        play(&ModelRequest {
            agent: Arc::clone(&agent),
            tools: Arc::default(),
            messages: Vec::new(),
            input,
            step: 1,
            attempt: 1,
            turn,
            continuations: BTreeMap::new(),
            max_output_tokens: 1_024,
        })
    };
    assert!(play("hello", 0).is_ok());
    assert_eq!(play("goodbye", 0).unwrap_err(), "no [[script]] of agent `mine` matches");
    assert!(play("hello", 1).unwrap_err().contains("no further [[script.turn]]"));
}
