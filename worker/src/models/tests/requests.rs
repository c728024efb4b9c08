use super::*;

fn body(kind: ProviderKind, request: &ModelRequest) -> serde_json::Value {
    remote(kind, "https://models.example/v1").body(request, &ToolNames::new(&request.tools))
}

/// A history with everything in it.
fn history() -> ModelRequest {
    let mut request = request(vec![
        Message::Note { text: "left out".into() },
        user("a"),
        assistant("thinking aloud", &[("call_Ü/1", "math.calculate", r#"{"b":1.0,"a":1e400}"#), ("2", "time.now", "{bad")]),
        Message::ToolResult { call_id: "call_Ü/1".into(), text: r#"{"value":1}"#.into() },
        Message::ToolResult { call_id: "2".into(), text: r#"{"status":"failed"}"#.into() },
        user("b"),
        assistant("", &[]),
    ]);
    request.turn = 2;
    request.continuations =
        [(1, br#"[{"type":"reasoning","data":"x"},{"type":"thinking","data":"x"}]"#.as_slice().into())].into();
    request
}

#[test]
fn two_builds_of_one_request_are_byte_identical() {
    for kind in KINDS {
        assert_eq!(body(kind, &history()).to_string(), body(kind, &history()).to_string());
    }
}

#[test]
fn gate_d2_call_ids_and_case_f5_arguments_go_back_as_they_must() {
    let chat = body(ProviderKind::OpenaiChat, &history());
    let calls = chat["messages"][3]["tool_calls"].clone();
    assert_eq!((&calls[0]["id"], &calls[0]["function"]["name"]), (&json!("call_Ü/1"), &json!("math_calculate")));
    assert_eq!(calls[0]["function"]["arguments"], r#"{"b":1.0,"a":1e400}"#);
    assert_eq!(calls[1]["function"]["arguments"], "{}");
    assert_eq!(chat["messages"][4], json!({"role": "tool", "tool_call_id": "call_Ü/1", "content": r#"{"value":1}"#}));
    let roles: Vec<&str> = chat["messages"].as_array().unwrap().iter().map(|said| said["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "system", "user", "assistant", "tool", "tool", "user"], "no turn without words");

    let responses = body(ProviderKind::OpenaiResponses, &history());
    let types: Vec<_> = responses["input"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    let [call, output] = ["function_call", "function_call_output"].map(|kind| json!(kind));
    let null = serde_json::Value::Null;
    let expected =
        [null.clone(), null.clone(), json!("reasoning"), null.clone(), call.clone(), call, output.clone(), output, null];
    assert_eq!(types, expected, "reasoning of its own stands before what it led to");
    assert_eq!((&responses["input"][4]["call_id"], &responses["input"][5]["arguments"]), (&json!("call_Ü/1"), &json!("{}")));

    let anthropic = body(ProviderKind::Anthropic, &history());
    let turns = anthropic["messages"].as_array().unwrap();
    assert_eq!(turns.iter().map(|turn| turn["role"].as_str().unwrap()).collect::<Vec<_>>(), ["user", "assistant", "user"]);
    let types = |turn: usize| -> Vec<&str> {
        turns[turn]["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect()
    };
    assert_eq!(types(1), ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(types(2), ["tool_result", "tool_result", "text"], "results stand first, in one message");
    let blocks = &turns[1]["content"];
    assert_eq!((&blocks[2]["id"], &blocks[3]["input"]), (&json!("call_Ü/1"), &json!({})));
    assert_eq!(blocks[2]["input"].to_string(), r#"{"a":1e+400,"b":1.0}"#, "the numbers that the model wrote");
}

#[test]
fn each_provider_is_told_limits_and_tools_in_its_own_words() {
    let request = request(vec![user("a")]);
    let chat = body(ProviderKind::OpenaiChat, &request);
    assert_eq!((&chat["max_tokens"], &chat["stream_options"]["include_usage"]), (&json!(1_000), &json!(true)));
    assert_eq!(chat["tools"][0]["function"]["parameters"], request.tools[0].input_schema);
    let official = remote(ProviderKind::OpenaiChat, "https://api.openai.com/v1").body(&request, &ToolNames::default());
    assert_eq!((&official["max_completion_tokens"], official.get("max_tokens")), (&json!(1_000), None));
    let responses = body(ProviderKind::OpenaiResponses, &request);
    assert_eq!((&responses["store"], &responses["max_output_tokens"]), (&json!(false), &json!(1_000)));
    assert_eq!((&responses["instructions"], &responses["tools"][1]["name"]), (&json!("Be brief."), &json!("time_now")));
    let anthropic = body(ProviderKind::Anthropic, &request);
    assert_eq!((&anthropic["max_tokens"], &anthropic["system"]), (&json!(1_000), &json!("Be brief.")));
    for body in [chat, responses, anthropic] {
        assert_eq!((&body["model"], &body["temperature"], &body["stream"]), (&json!("large"), &json!(0.5), &json!(true)));
    }
}
