//! The document, held against what the server really answers: every answer that a test asks for through [`super::Http`].

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use http::HeaderMap;
use jsonschema::Validator;
use serde_json::{Value, json};

static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| Contract { document: baton_api::document(), validators: Mutex::default() });

/// The document, with the validators that were needed so far.
#[derive(Debug)]
struct Contract {
    document: Value,
    /// By the place of the schema in the document.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
}

/// What the document says against an answer; empty where it says the same.
pub(crate) fn violations(answered: &Answered<'_>) -> Vec<String> {
    CONTRACT.violations(answered)
}

/// Everything is as it is documented.
pub(crate) fn hold(answered: &Answered<'_>) {
    let Answered { method, path, status, body, .. } = answered;
    let found = violations(answered);
    assert!(found.is_empty(), "{method} {path} answered {status}: {found:#?}\n{}", String::from_utf8_lossy(body));
}

impl Contract {
    fn violations(&self, answered: &Answered<'_>) -> Vec<String> {
        let Some(place) = self.response(answered) else { return vec!["the status is not documented".into()] };
        let response = self.document.pointer(&place).unwrap();
        let mut found = self.wrong_headers(response, answered.headers);
        found.extend(self.wrong_body(&place, response, answered));
        found
    }

    /// Where the response is documented: of the route, else of what is no route.
    fn response(&self, answered: &Answered<'_>) -> Option<String> {
        let paths = self.document["paths"].as_object().unwrap();
        let Some((path, operations)) = paths.iter().find(|(path, _)| is_of(path, answered.path)) else {
            return (answered.status == 404).then(|| "/components/responses/NotFoundError".into());
        };
        let method = answered.method.to_lowercase();
        let Some(operation) = operations.get(&method) else {
            return (answered.status == 405).then(|| "/components/responses/MethodNotAllowedError".into());
        };
        let status = answered.status.to_string();
        match operation["responses"].get(&status)?["$ref"].as_str() {
            Some(reference) => Some(reference.trim_start_matches('#').to_owned()),
            None => Some(format!("/paths/{}/{method}/responses/{status}", escaped(path))),
        }
    }

    fn wrong_headers(&self, response: &Value, headers: &HeaderMap) -> Vec<String> {
        let mut found = Vec::new();
        for name in response["headers"].as_object().unwrap().keys() {
            let place = format!("/components/headers/{name}/schema");
            match headers.get(name).map(|value| value.to_str().unwrap()) {
                // Where an answer has two forms, one of them may lack it.
                None if response["content"].as_object().is_some_and(|content| content.len() > 1) => {}
                None => found.push(format!("the header {name} is missing")),
                Some(text) => {
                    let number = text.parse::<i64>().ok().map(Value::from);
                    let is_valid = |value: &Value| self.validator(&place).is_valid(value);
                    if !is_valid(&json!(text)) && !number.is_some_and(|number| is_valid(&number)) {
                        found.push(format!("the header {name} is {text}"));
                    }
                }
            }
        }
        found
    }

    fn wrong_body(&self, place: &str, response: &Value, answered: &Answered<'_>) -> Vec<String> {
        let content = response["content"].as_object();
        let Some(media_type) = answered.headers.get("content-type") else {
            let is_whole = content.is_none() && answered.body.is_empty();
            return if is_whole { Vec::new() } else { vec!["there is no media type".into()] };
        };
        let media_type = media_type.to_str().unwrap().split(';').next().unwrap().trim();
        let documented = content.is_some_and(|content| content.contains_key(media_type) || content.contains_key("*/*"));
        if !documented {
            return vec![format!("the media type {media_type} is not documented")];
        }
        if media_type != "application/json" || content.is_some_and(|content| content.contains_key("*/*")) {
            return Vec::new();
        }
        let body: Value = serde_json::from_slice(answered.body).unwrap();
        let validator = self.validator(&format!("{place}/content/application~1json/schema"));
        validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    fn validator(&self, place: &str) -> Arc<Validator> {
        let mut validators = self.validators.lock().unwrap();
        let made = || {
            let mut schema = self.document.pointer(place).unwrap().clone();
            schema["components"] = self.document["components"].clone();
            Arc::new(jsonschema::options().should_validate_formats(true).build(&schema).unwrap())
        };
        Arc::clone(validators.entry(place.to_owned()).or_insert_with(made))
    }
}

/// Whether a path is one of a route's; the query does not count.
fn is_of(pattern: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or(path);
    let (wanted, given): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    wanted.len() == given.len() && wanted.iter().zip(&given).all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
}

/// As JSON pointers have it.
fn escaped(path: &str) -> String {
    path.replace('~', "~0").replace('/', "~1")
}
