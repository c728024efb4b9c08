use serde_json::json;

use super::*;

fn check(status: u16, body: &Value, expected: ModelError) {
    assert_eq!(of_status(status, &HeaderMap::new(), &body.to_string()).error, expected, "{status} {body}");
}

#[test]
fn case_f17_what_waiting_does_not_heal() {
    let error = |code: &str, message: &str| json!({"error": {"code": code, "message": message}});
    check(429, &error("insufficient_quota", "You exceeded your current quota"), ModelError::Credential);
    assert_eq!(of_error(&error("invalid_api_key", "no")["error"]), ModelError::Credential, "in a stream");
    let quoted = "Your prompt \"what is an invalid_api_key? insufficient_quota?\" was not accepted";
    assert_eq!(of_error(&error("refused", quoted)["error"]), ModelError::Permanent, "a user's words bar nobody");
    check(401, &json!([error("invalid_api_key", "no")]), ModelError::Credential);
    check(400, &json!([{"error": {"message": "prompt is too long"}}]), ModelError::ContextOverflow);
    check(429, &error("1113", "Insufficient balance"), ModelError::Permanent);
    let limited = "Rate limit reached: 20 / min. Add a payment method at https://platform.openai.com/account/billing";
    check(429, &error("rate_limit_exceeded", limited), ModelError::Transient);
    check(429, &error("rate_limit_exceeded", "Request too large for the context window: tokens per min"), ModelError::Transient);
    for status in [401, 402] {
        check(status, &error("x", "no"), ModelError::Credential);
    }
    for status in [400, 403, 404, 422] {
        check(status, &error("x", "no"), ModelError::Permanent);
    }
    check(403, &error("x", "this key may not use the long context window"), ModelError::Permanent);
    for status in [408, 409, 500, 502, 503, 529] {
        check(status, &error("x", "later"), ModelError::Transient);
    }
    check(302, &json!("elsewhere"), ModelError::Permanent);
}

#[test]
fn case_f18_each_vendor_says_that_the_context_is_full() {
    for message in [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "prompt is too long: 208310 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with less",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
    ] {
        check(400, &json!({"error": {"message": message}}), ModelError::ContextOverflow);
        check(400, &json!({"error": message}), ModelError::ContextOverflow);
        check(500, &json!({"object": "error", "message": message}), ModelError::ContextOverflow);
    }
    check(
        413,
        &json!({"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
        ModelError::ContextOverflow,
    );
}

#[test]
fn how_long_to_wait_is_read_in_every_way() {
    let wait = |pairs: &[(&'static str, &str)]| {
        let headers = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        retry_after(&headers)
    };
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(wait(&[("retry-after", "20")]), Some(Duration::from_secs(20)));
    assert_eq!(wait(&[("retry-after", "20"), ("retry-after-ms", "150")]), Some(Duration::from_millis(150)));
    assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"), date]), Some(Duration::from_secs(10)));
    assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:27 GMT"), date]), Some(Duration::ZERO));
    assert_eq!(wait(&[("retry-after", "1e300")]), Some(RETRY_AFTER_MAX));
    for nonsense in ["-1", "NaN", "soon", ""] {
        assert_eq!(wait(&[("retry-after", nonsense), date]), None);
    }
}
