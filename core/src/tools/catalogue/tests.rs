use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;

use super::*;
use crate::config::Tools;
use crate::tools::{Idempotency, OutputTrust, Parallel, ReasonCode, Risk, SideEffect, ToolAnswer, ToolContext, ToolKind};

#[derive(Debug)]
struct Sample(ToolSpec);

impl Tool for Sample {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: &'a Value, _: ToolContext<'a>) -> BoxFuture<'a, Result<ToolAnswer, ReasonCode>> {
        async { Ok(ToolAnswer::value(Value::Null)) }.boxed()
    }
}

fn sample(change: impl FnOnce(&mut ToolSpec)) -> Arc<dyn Tool> {
    let mut spec = ToolSpec {
        name: "sample.tool",
        version: "1",
        description: "A sample.",
        input_schema: json!({"type": "object", "additionalProperties": false}),
        output_schema: None,
        side_effect: SideEffect::None,
        risk: Risk::Low,
        idempotency: Idempotency::ReadOnly,
        required_scopes: &[],
        timeout: Duration::from_secs(1),
        max_output_bytes: 1_024,
        parallel: Parallel::Allowed,
        kind: ToolKind::Capability,
        output_trust: OutputTrust::Own,
    };
    change(&mut spec);
    Arc::new(Sample(spec))
}

/// The problems of one tool, without its name.
fn check(change: impl FnOnce(&mut ToolSpec), expected: &[&str]) {
    let tool = sample(change);
    let name = tool.spec().name;
    let problems = match Catalogue::new(vec![tool], &[]) {
        Ok(_) => Vec::new(),
        Err(CatalogueError(problems)) => problems,
    };
    assert_eq!(problems.len(), expected.len(), "{problems:?}");
    for (problem, expected) in problems.iter().zip(expected) {
        let problem = problem.strip_prefix(&format!("{name}: ")).unwrap();
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn each_field_has_its_rule() {
    check(|_| {}, &[]);
    for name in ["sample", "Sample.tool", "sample.", ".tool", "sample..tool", "1.tool", "sample.tool-a", "sample.\u{e9}"] {
        check(|spec| spec.name = name, &["name: dotted"]);
    }
    check(|spec| spec.name = "a.b_2.c", &[]);
    check(|spec| spec.name = "mcp.files", &["name: `mcp.`"]);
    check(|spec| spec.version = " ", &["version"]);
    check(|spec| spec.description = "", &["description"]);
    check(|spec| spec.timeout = Duration::ZERO, &["timeout"]);
    check(|spec| spec.timeout = Duration::from_secs(601), &["timeout"]);
    check(|spec| spec.max_output_bytes = 0, &["max_output_bytes"]);
    check(|spec| spec.max_output_bytes = 200 * 1024 + 1, &["max_output_bytes"]);
    check(|spec| spec.idempotency = Idempotency::Idempotent, &["parallel"]);
    for side_effect in SideEffect::ALL {
        use SideEffect::{NetworkRead, None, WorkspaceRead};
        let expected: &[&str] = if matches!(side_effect, None | WorkspaceRead | NetworkRead) { &[] } else { &["idempotency"] };
        check(|spec| spec.side_effect = *side_effect, expected);
    }
}

#[test]
fn a_schema_is_an_object_that_says_what_it_does_with_the_rest_and_stands_for_itself() {
    let check = |schema: Value, expected: &[&str]| check(|spec| spec.input_schema = schema, expected);
    check(json!({"type": "object"}), &["input_schema: `additionalProperties`"]);
    check(json!({"type": "object", "additionalProperties": {"type": "string"}}), &[]);
    check(json!({"type": "array", "additionalProperties": false}), &["input_schema: `type`"]);
    check(json!(true), &["input_schema: `type`", "input_schema: `additionalProperties`"]);
    check(json!({"type": "object", "additionalProperties": false, "required": 7}), &["input_schema: "]);
    check(json!({"type": "object", "additionalProperties": false, "$ref": "#/$defs/nowhere"}), &["input_schema: "]);
    let with = |property: Value| json!({"type": "object", "additionalProperties": false, "properties": {"a": property}});
    for target in ["https://example.com/schema.json", "file:///etc/passwd", "other.json", "other.json#/a", ""] {
        check(with(json!({"$ref": target})), &["input_schema: `$ref` leads out"]);
        check(with(json!({"anyOf": [{"$dynamicRef": target}]})), &["input_schema: `$dynamicRef` leads out"]);
    }
    check(with(json!({"$ref": "#"})), &[]);
    let with_dialect = |dialect: &str| json!({"type": "object", "additionalProperties": false, "$schema": dialect});
    check(with_dialect("https://json-schema.org/draft/2020-12/schema"), &[]);
    check(with_dialect("http://json-schema.org/draft-07/schema#"), &["input_schema: `$schema`"]);
}

#[test]
fn all_problems_of_all_tools_are_said_at_once() {
    let tools = vec![
        sample(|_| {}),
        sample(|_| {}),
        sample(|spec| {
            spec.name = "mcp.Bad";
            spec.version = "";
            spec.output_schema = Some(json!({"$ref": "elsewhere.json"}));
        }),
        sample(|spec| {
            spec.name = "other.tool";
            spec.input_schema = json!({"type": 1});
        }),
    ];
    let error = Catalogue::new(tools, &["no.such".to_owned(), "other.tool".to_owned()]).unwrap_err();
    let starts = [
        "sample.tool: name: used",
        "mcp.Bad: name: dotted",
        "mcp.Bad: name: `mcp.`",
        "mcp.Bad: version",
        "mcp.Bad: output_schema: `$ref`",
        "other.tool: input_schema: `type`",
        "other.tool: input_schema: `additionalProperties`",
        "other.tool: input_schema: ",
        "`tools.disabled`: there is no tool `no.such`",
    ];
    assert_eq!(error.0.len(), starts.len(), "{error}");
    for (problem, start) in error.0.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}");
        assert!(error.to_string().contains(problem));
    }
}

#[test]
fn an_entry_checks_arguments_and_results_and_knows_whether_it_is_disabled() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "integer", "maximum": 3}},
        "required": ["a"],
        "additionalProperties": false,
    });
    let tool = sample(|spec| {
        spec.input_schema = schema.clone();
        spec.output_schema = Some(schema);
    });
    let catalogue = Catalogue::new(vec![tool, sample(|spec| spec.name = "other.tool")], &["other.tool".to_owned()]).unwrap();
    let entry = catalogue.entry("sample.tool").unwrap();
    for (value, fits) in [
        (json!({"a": 3}), true),
        (json!({"a": 4}), false),
        (json!({"a": 1, "b": 1}), false),
        (json!({}), false),
        (json!(null), false),
    ] {
        assert_eq!((entry.accepts(&value), entry.result_fits(&value)), (fits, fits), "{value}");
    }
    assert!(!entry.is_disabled && catalogue.entry("other.tool").unwrap().is_disabled);
    assert!(catalogue.entry("other.tool").unwrap().result_fits(&json!([1])));
    assert!(catalogue.entry("no.such").is_none());
    assert_eq!(catalogue.names().collect::<Vec<_>>(), ["other.tool", "sample.tool"]);
    // Key order does not show in the hash; a change does.
    let hash = |schema: Value| {
        let catalogue = Catalogue::new(vec![sample(|spec| spec.input_schema = schema)], &[]).unwrap();
        catalogue.entry("sample.tool").unwrap().schema_sha256.clone()
    };
    let of = |text: &str| hash(serde_json::from_str(text).unwrap());
    assert_eq!(of(r#"{"type":"object","additionalProperties":false}"#), of(r#"{"additionalProperties":false,"type":"object"}"#));
    assert_ne!(of(r#"{"type":"object","additionalProperties":false}"#), of(r#"{"type":"object","additionalProperties":true}"#));
}

#[test]
fn the_built_in_tools_load() {
    let mut config = Config::default();
    let catalogue = Catalogue::builtin(&config).unwrap();
    let names =
        ["artifact.write", "conversation.ask_user", "demo.external_write", "http.fetch", "math.calculate", "system.current_time"];
    assert_eq!(catalogue.names().collect::<Vec<_>>(), names);
    config.tools.fetch_hosts = vec!["https://a.example".into()];
    assert!(Catalogue::builtin(&config).unwrap_err().to_string().contains("`tools.fetch_hosts`: `https://a.example`"));
    config.tools = Tools::default();
    config.tools.disabled = vec!["math.calculus".into()];
    assert!(Catalogue::builtin(&config).unwrap_err().to_string().contains("math.calculus"));
}
