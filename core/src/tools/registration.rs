//! What a tool must be to be offered. Everything that is wrong is said at once, in the order of the specification's fields.

use std::time::Duration;

use jsonschema::Validator;
use serde_json::Value;

use crate::canonical;
use crate::tools::spec::{Idempotency, Parallel, SideEffect, ToolKind, ToolSpec};

const NAME_BYTES_MAX: usize = 128;

/// Longest that one call may take: far below the deadline of a run, or one call would be the run.
const TIMEOUT_MAX: Duration = Duration::from_secs(10 * 60);

/// Of a result that is shown whole: the body of an event holds it with room for the rest.
const OUTPUT_BYTES_MAX: usize = 200 * 1_024;

/// The dialect of every schema; one that names none means it.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// What is compiled once and used for every call.
pub(super) struct Compiled {
    pub(super) schema_sha256: String,
    pub(super) input: Validator,
    pub(super) output: Option<Validator>,
}

/// # Errors
/// Every problem of the specification.
pub(super) fn compile(spec: &ToolSpec) -> Result<Compiled, Vec<String>> {
    let mut problems = problems(spec);
    let schema_sha256 = canonical::text(&spec.input_schema).map(|text| canonical::sha256_hex(&text));
    if let Err(error) = &schema_sha256 {
        problems.push(format!("input_schema: {error}"));
    }
    let input = validator("input_schema", &spec.input_schema, &mut problems);
    let output = spec.output_schema.as_ref().map(|schema| validator("output_schema", schema, &mut problems));
    match (schema_sha256, input, output) {
        (Ok(schema_sha256), Some(input), output) if problems.is_empty() => {
            Ok(Compiled { schema_sha256, input, output: output.flatten() })
        }
        _ => Err(problems),
    }
}

fn problems(spec: &ToolSpec) -> Vec<String> {
    let mut problems = Vec::new();
    let mut check = |holds: bool, problem: &str| {
        if !holds {
            problems.push(problem.to_owned());
        }
    };
    check(is_name(spec.name), "name: dotted lower case, as in `math.calculate`, at most 128 bytes");
    check(!spec.name.starts_with("mcp."), "name: `mcp.` is reserved for the tools of MCP servers");
    check(!spec.version.trim().is_empty(), "version: not empty");
    check(!spec.description.trim().is_empty(), "description: not empty");
    check(spec.input_schema.get("type") == Some(&Value::from("object")), "input_schema: `type` must be `object`");
    check(spec.input_schema.get("additionalProperties").is_some(), "input_schema: `additionalProperties` must be stated");
    check(
        !(spec.idempotency == Idempotency::ReadOnly && writes(spec.side_effect)),
        "idempotency: what writes is not `read_only`",
    );
    check(!spec.timeout.is_zero() && spec.timeout <= TIMEOUT_MAX, "timeout: above zero and at most 10 minutes");
    check((1..=OUTPUT_BYTES_MAX).contains(&spec.max_output_bytes), "max_output_bytes: 1 byte to 200 KiB");
    check(
        spec.parallel == Parallel::Never || spec.idempotency == Idempotency::ReadOnly,
        "parallel: only what is `read_only` runs beside others",
    );
    check(
        spec.kind == ToolKind::Capability || (spec.parallel == Parallel::Never && !spec.idempotency.marks_effects()),
        "kind: what acts on its run runs alone, and does nothing outside",
    );
    problems
}

fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    name.len() <= NAME_BYTES_MAX && name.contains('.') && name.split('.').all(is_part)
}

/// Everything but the classes that only look.
const fn writes(side_effect: SideEffect) -> bool {
    !matches!(side_effect, SideEffect::None | SideEffect::WorkspaceRead | SideEffect::NetworkRead)
}

fn validator(field: &str, schema: &Value, problems: &mut Vec<String>) -> Option<Validator> {
    let known = problems.len();
    if schema.get("$schema").is_some_and(|dialect| dialect != DIALECT) {
        problems.push(format!("{field}: `$schema` must be `{DIALECT}`"));
    }
    foreign_references(field, schema, problems);
    if problems.len() > known {
        return None; // a second message about the same would only confuse
    }
    jsonschema::draft202012::options().build(schema).map_err(|error| problems.push(format!("{field}: {error}"))).ok()
}

/// A schema is all that there is to know: nothing is fetched for it, at no time. Data that looks like a reference is refused
/// too, which nobody will miss.
fn foreign_references(field: &str, schema: &Value, problems: &mut Vec<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| foreign_references(field, item, problems)),
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::String(target) if matches!(key.as_str(), "$ref" | "$dynamicRef") && !target.starts_with('#') => {
                        problems.push(format!("{field}: `{key}` leads out of the document: `{target}`"));
                    }
                    _ => foreign_references(field, member, problems),
                }
            }
        }
        _ => {}
    }
}
