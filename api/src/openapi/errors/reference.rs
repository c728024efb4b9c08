//! The reference of errors, for people: `docs/reference/errors.md`.

use std::fmt::Write;

use baton_core::Code;

use super::{advice, meaning};
use crate::error::status;
use crate::openapi::operation::codes;

const HEAD: &str = "\
# Errors

<!-- Written from the code by `BATON_WRITE=1 cargo test --test it openapi_files`; a test compares. -->

Every failure is `{\"error\":{\"code\",\"message\",\"details\",\"request_id\"}}`. Act on `code`, and on `details` where the table
says that there are some; `message` is for people and may change. A code never disappears or changes its meaning. Codes without a
route are the vocabulary of what runs and tools report, reserved here.

| code | HTTP | meaning | `details` |
| --- | --- | --- | --- |
";

/// The table of codes, and the operations that answer them.
pub fn reference() -> String {
    let mut out = HEAD.to_owned();
    for code in Code::ALL {
        let line = (code.as_str(), status(*code).as_u16(), meaning(*code), details(*code));
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", line.0, line.1, line.2, line.3); // cannot fail
    }
    out.push_str("\n`Retry-After` comes with `retry_after_seconds`, `WWW-Authenticate` with 401, `Allow` with 405.\n");
    out.push_str("\n## What each operation answers\n\n| operation | codes |\n| --- | --- |\n");
    for documented in crate::routes::all().into_documented() {
        let route = &documented.route;
        let codes: Vec<String> = codes(&documented).iter().map(|code| format!("`{code}`")).collect();
        let _ = writeln!(out, "| `{} {}` | {} |", route.method, route.path, codes.join(" "));
    }
    out
}

fn details(code: Code) -> &'static str {
    match code {
        Code::Conflict => {
            "`reason`: `active_run_exists` with `run_id`, `run_status`; `approval_already_resolved` with `approval_id`, `decision`; \
             `cursor_ahead` with `head`; `idempotency_key_reused`; `question_already_answered`; `session_closed`"
        }
        Code::InvalidStateTransition => "`status`",
        Code::MalformedRequest => "`errors`: a list of `path`, `message`",
        code if matches!(advice(code), Some(crate::openapi::headers::Header::RetryAfter)) => "`retry_after_seconds`",
        _ => "",
    }
}
