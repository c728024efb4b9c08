//! What is written about one route: everything that its registration does not say already.

use baton_core::Code;
use serde_json::{Map, Value, json};

use crate::access::{Route, Takes};
use crate::openapi::errors;
use crate::openapi::headers::{self, Header};
use crate::openapi::schemas::{Components, Described, reference};
use crate::openapi::{Documented, security};

pub(super) const TAGS: &[(&str, &str)] = &[
    ("authentication", "Credentials of browsers."),
    ("sessions", "Conversations with an agent."),
    ("runs", "What a message becomes, and everything that happens in it."),
    ("approvals", "What runs may not do alone."),
    ("artifacts", "Files that runs have produced."),
    ("agents", "Whom to talk to."),
    ("operators", "How the system is."),
];

/// The documentation of a route.
#[derive(Debug)]
pub(crate) struct Operation {
    tag: &'static str,
    id: &'static str,
    summary: &'static str,
    description: Option<&'static str>,
    parameters: Vec<Value>,
    body: Option<(Described, Value)>,
    answers: Vec<Answer>,
    errors: Vec<(Code, Option<&'static str>)>,
}

impl Operation {
    pub(super) fn new(tag: &'static str, id: &'static str, summary: &'static str) -> Self {
        let (parameters, answers, errors) = (Vec::new(), Vec::new(), Vec::new());
        Self { tag, id, summary, description: None, parameters, body: None, answers, errors }
    }

    pub(super) fn about(self, description: &'static str) -> Self {
        Self { description: Some(description), ..self }
    }

    /// A parameter of the query; its schema may say `default`.
    pub(super) fn query(self, name: &str, schema: &Value, description: &str) -> Self {
        self.parameter(json!({"name": name, "in": "query", "schema": schema, "description": description}))
    }

    pub(super) fn header(self, name: &str, schema: &Value, description: &str) -> Self {
        self.parameter(json!({"name": name, "in": "header", "schema": schema, "description": description}))
    }

    /// The parameters of a list's pages.
    pub(super) fn paged(self) -> Self {
        let list = |name| reference("parameters", name);
        self.parameter(list("cursor")).parameter(list("limit"))
    }

    /// A creation that may be repeated with a key.
    pub(super) fn keyed(self) -> Self {
        self.parameter(reference("parameters", "Idempotency-Key"))
            .error(Code::Conflict, "`idempotency_key_reused`: the key was used for another request.")
            .plain_error(Code::ConcurrencyConflict)
    }

    fn parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    pub(super) fn body(self, schema: Described, example: Value) -> Self {
        Self { body: Some((schema, example)), ..self }
    }

    pub(super) fn answer(mut self, answer: Answer) -> Self {
        self.answers.push(answer);
        self
    }

    /// An error that this route answers beside those of every route like it, and when. Of the same code the last word counts.
    pub(super) fn error(mut self, code: Code, when: &'static str) -> Self {
        self.errors.push((code, Some(when)));
        self
    }

    /// The same, where the code's meaning says it all.
    pub(super) fn plain_error(mut self, code: Code) -> Self {
        self.errors.push((code, None));
        self
    }

    fn all_errors(&self, route: &Route) -> errors::Documented {
        let mut all = errors::of_every(route);
        self.errors.iter().for_each(|(code, when)| errors::add(&mut all, *code, *when));
        all
    }

    /// The operation as the document has it.
    pub(super) fn at(self, route: &Route, components: &mut Components) -> Value {
        let mut responses = errors::responses(&self.all_errors(route), components);
        for answer in self.answers {
            responses.insert(answer.status.to_string(), answer.written(components));
        }
        let of_path = path_variables(route.path).map(|name| reference("parameters", name));
        let shared = std::iter::once(reference("parameters", "X-Request-Id"));
        let parameters: Vec<Value> = of_path.chain(self.parameters).chain(shared).collect();
        let mut operation = json!({
            "tags": [self.tag],
            "operationId": self.id,
            "summary": self.summary,
            "parameters": parameters,
            "responses": responses,
            "security": security(route.access),
        });
        if let Some(description) = self.description {
            operation["description"] = description.into();
        }
        if let Some((schema, example)) = self.body {
            let content = json!({"schema": (schema.0)(components), "examples": {"example": {"value": example}}});
            operation["requestBody"] = json!({"required": route.takes == Takes::Json, "content": {"application/json": content}});
        }
        operation
    }
}

/// The codes that a route answers, in the order of their statuses.
pub(super) fn codes(documented: &Documented) -> Vec<Code> {
    (documented.operation)().all_errors(&documented.route).into_values().flatten().map(|(code, _)| code).collect()
}

/// The names between braces.
fn path_variables(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// An answer that is not an error.
#[derive(Debug)]
pub(crate) struct Answer {
    status: u16,
    description: String,
    content: Vec<(&'static str, Content, Option<Value>)>,
    headers: Vec<Header>,
    links: Map<String, Value>,
}

#[derive(Debug)]
enum Content {
    Described(Described),
    Schema(Value),
}

impl Answer {
    pub(super) fn new(status: u16, description: &str) -> Self {
        Self { status, description: description.to_owned(), content: Vec::new(), headers: Vec::new(), links: Map::new() }
    }

    pub(super) fn json(self, schema: Described, example: Value) -> Self {
        self.described("application/json", schema, example)
    }

    pub(super) fn described(mut self, media_type: &'static str, schema: Described, example: Value) -> Self {
        self.content.push((media_type, Content::Described(schema), Some(example)));
        self
    }

    pub(super) fn media(mut self, media_type: &'static str, schema: Value, example: Option<Value>) -> Self {
        self.content.push((media_type, Content::Schema(schema), example));
        self
    }

    pub(super) fn headers(mut self, headers: &[Header]) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Another operation that takes values of this answer: parameter and where its value is.
    pub(super) fn link(mut self, operation: &str, parameters: &[(&str, &str)]) -> Self {
        let parameters: Map<String, Value> =
            parameters.iter().map(|(name, place)| ((*name).to_owned(), (*place).into())).collect();
        self.links.insert(operation.to_owned(), json!({"operationId": operation, "parameters": parameters}));
        self
    }

    /// The same for several operations that take the same.
    pub(super) fn links(self, operations: &[&str], name: &str, place: &str) -> Self {
        operations.iter().fold(self, |answer, operation| answer.link(operation, &[(name, place)]))
    }

    fn written(self, components: &mut Components) -> Value {
        let mut answer = json!({"description": self.description, "headers": headers::of(&self.headers)});
        if !self.content.is_empty() {
            let mut content = Map::new();
            for (media_type, schema, example) in self.content {
                let schema = match schema {
                    Content::Described(described) => (described.0)(components),
                    Content::Schema(schema) => schema,
                };
                content.insert(
                    media_type.to_owned(),
                    match example {
                        Some(example) => json!({"schema": schema, "examples": {"example": {"value": example}}}),
                        None => json!({"schema": schema}),
                    },
                );
            }
            answer["content"] = content.into();
        }
        if !self.links.is_empty() {
            answer["links"] = self.links.into();
        }
        answer
    }
}

/// The parameters that several operations have.
pub(super) fn shared_parameters() -> Value {
    let id = |name: &str| {
        let schema = json!({"type": "string", "format": "uuid"});
        (name.to_owned(), json!({"name": name, "in": "path", "required": true, "schema": schema}))
    };
    let mut all: Map<String, Value> = ["session_id", "run_id", "approval_id", "artifact_id"].map(id).into_iter().collect();
    let mut other = |place: &str, name: &str, schema: Value, description: &str| {
        let required = place == "path";
        let parameter = json!({"name": name, "in": place, "required": required, "schema": schema, "description": description});
        all.insert(name.to_owned(), parameter);
    };
    let agent = json!({"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"});
    other("path", "agent_id", agent, "The name of the agent's file.");
    other("query", "cursor", json!({"type": "string"}), "`next_cursor` of the page before; opaque.");
    let limit = json!({"type": "integer", "minimum": 1, "maximum": i64::MAX, "default": 50});
    other("query", "limit", limit, "Items of the page; more than 200 are 200.");
    let key = json!({"type": "string", "pattern": "^[!-~]{1,255}$"});
    let told = "With the same key the request may be repeated: it creates once, and answers 200 with what it had created, as it is \
                now. Kept for 24 hours.";
    other("header", "Idempotency-Key", key, told);
    let told = "A name for the request, of 1 to 128 letters, digits, `.`, `_` and `-`. It is echoed; any other is replaced.";
    other("header", "X-Request-Id", json!({"type": "string"}), told);
    all.into()
}
