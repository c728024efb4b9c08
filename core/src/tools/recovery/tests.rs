use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::tools::{InvocationStatus, ReasonCode, SideEffect, Tool, ToolAnswer, ToolContext, ToolSpec};

#[derive(Debug)]
struct Stand(ToolSpec);

impl Tool for Stand {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: &'a Value, _: ToolContext<'a>) -> BoxFuture<'a, Result<ToolAnswer, ReasonCode>> {
        Box::pin(async { Ok(ToolAnswer::value(json!({}))) })
    }
}

fn catalogue(version: Option<&'static str>) -> Catalogue {
    use crate::tools::{OutputTrust, Parallel, Risk, ToolKind};
    let tools = version.map(|version| {
        Arc::new(Stand(ToolSpec {
            name: "test.stand",
            version,
            description: "Stands for a tool.",
            input_schema: json!({"type": "object", "additionalProperties": false}),
            output_schema: None,
            side_effect: SideEffect::ExternalWrite,
            risk: Risk::Low,
            idempotency: Idempotency::NonIdempotent,
            required_scopes: &[],
            timeout: std::time::Duration::from_secs(1),
            max_output_bytes: 100,
            parallel: Parallel::Never,
            kind: ToolKind::Capability,
            output_trust: OutputTrust::Own,
        })) as Arc<dyn Tool>
    });
    Catalogue::new(tools.into_iter().collect(), &[]).unwrap()
}

fn started(idempotency: Idempotency, effect_sent: bool) -> Invocation {
    Invocation {
        id: Uuid::nil(),
        step: 1,
        index: 0,
        call_id: "1".into(),
        tool_name: "test.stand".into(),
        tool_version: "1".into(),
        schema_sha256: String::new(),
        arguments: "{}".into(),
        side_effect: SideEffect::ExternalWrite,
        idempotency,
        idempotency_key: String::new(),
        status: InvocationStatus::Running,
        effect_sent,
        begun: true,
        approval: None,
    }
}

#[test]
fn a_call_runs_again_only_where_its_class_and_its_watermark_allow_it() {
    use Idempotency::{ConditionallyIdempotent, Idempotent, NonIdempotent, ReadOnly};
    use Recovery::{NotFound, RunAgain, Uncertain};
    let here = catalogue(Some("1"));
    let elsewhere = [catalogue(None), catalogue(Some("2"))]; // gone, or another version: it might do something else
    for (idempotency, effect_sent, again, gone) in [
        (ReadOnly, false, RunAgain, NotFound),
        (Idempotent, false, RunAgain, Uncertain),
        (ConditionallyIdempotent, false, RunAgain, NotFound),
        (ConditionallyIdempotent, true, RunAgain, Uncertain),
        (NonIdempotent, false, RunAgain, NotFound),
        (NonIdempotent, true, Uncertain, Uncertain),
    ] {
        let call = started(idempotency, effect_sent);
        assert_eq!(recover(&here, Some(&call), "{}"), again, "{idempotency} {effect_sent}");
        for tools in &elsewhere {
            assert_eq!(recover(tools, Some(&call), "{}"), gone, "{idempotency} {effect_sent}, gone");
        }
    }
}

#[test]
fn rows_that_somebody_has_edited_execute_nothing() {
    let call = started(Idempotency::ReadOnly, false);
    assert_eq!(recover(&catalogue(Some("1")), Some(&call), r#"{"a":1}"#), Recovery::Uncertain);
    assert_eq!(recover(&catalogue(Some("1")), None, "{}"), Recovery::Uncertain);
}
