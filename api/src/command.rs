//! What a body may hold: the same schema that the document shows. What a client may send is thereby written once.

use std::sync::LazyLock;

use baton_core::approvals::ResolveApproval;
use baton_core::error::Problem;
use baton_core::runs::{DeliverInput, SubmitMessage};
use baton_core::sessions::CreateSession;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::openapi;

/// Problems that one answer names: a body of a mebibyte can have a hundred thousand.
const PROBLEMS_MAX: usize = 32;

/// The body of an operation.
pub(crate) trait Command: DeserializeOwned {
    fn schema() -> &'static Validator;
}

macro_rules! commands {
    ($($name:ty),*) => {$(
        impl Command for $name {
            fn schema() -> &'static Validator {
                static SCHEMA: LazyLock<Validator> = LazyLock::new(openapi::validator::<$name>);
                &SCHEMA
            }
        }
    )*};
}

commands!(CreateSession, DeliverInput, ResolveApproval, SubmitMessage);

/// Everything in which a value is not as the schema has it, in words for a person, without the value.
pub(crate) fn problems(schema: &Validator, value: &Value) -> Vec<Problem> {
    schema.iter_errors(value).flat_map(|error| problems_of(&error)).take(PROBLEMS_MAX).collect()
}

fn problems_of(error: &ValidationError<'_>) -> Vec<Problem> {
    let path = error.instance_path().to_string();
    let member = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    let here = |message: String| vec![Problem { path: path.clone(), message }];
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let unknown = unexpected.iter().take(PROBLEMS_MAX);
            unknown.map(|name| Problem { path: member(name), message: "unknown field".into() }).collect()
        }
        ValidationErrorKind::Required { property } => {
            vec![Problem { path: member(property.as_str().unwrap_or_default()), message: "required".into() }]
        }
        // One form so far: what is wrong with it is what is wrong.
        ValidationErrorKind::OneOfNotValid { context } => match context.as_slice() {
            [only] => only.iter().flat_map(problems_of).collect(),
            _ => here("none of the forms that it may have".into()),
        },
        kind => here(in_words(kind)),
    }
}

fn in_words(kind: &ValidationErrorKind) -> String {
    match kind {
        ValidationErrorKind::Type { kind: TypeKind::Single(one) } => format!("of type {one}"),
        ValidationErrorKind::Type { kind: TypeKind::Multiple(several) } => {
            let names: Vec<String> = several.iter().map(|one| one.to_string()).collect();
            format!("of type {}", names.join(" or "))
        }
        ValidationErrorKind::Enum { options } => {
            let words = options.as_array().into_iter().flatten().filter_map(Value::as_str);
            format!("one of {}", words.collect::<Vec<_>>().join(", "))
        }
        ValidationErrorKind::Pattern { pattern } => format!("of the form {pattern}"),
        ValidationErrorKind::Format { format } => format!("of the format {format}"),
        ValidationErrorKind::MinItems { limit } => format!("at least {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("at most {limit} items"),
        ValidationErrorKind::MinLength { limit } => format!("at least {limit} characters"),
        ValidationErrorKind::MaxLength { limit } => format!("at most {limit} characters"),
        ValidationErrorKind::Minimum { limit } => format!("at least {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("at most {limit}"),
        other => format!("not as its schema has it ({})", other.keyword()),
    }
}
