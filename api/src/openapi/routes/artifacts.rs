//! Artifacts.

use baton_core::Code;
use baton_core::artifacts::ArtifactView;
use serde_json::{Value, json};

use crate::openapi::examples;
use crate::openapi::headers::Header;
use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::one;

pub(crate) fn get() -> Operation {
    Operation::new("artifacts", "getArtifact", "What an artifact is").answer(
        Answer::new(200, "The artifact.")
            .json(one::<ArtifactView>(), examples::artifact())
            .links(&["getArtifactContent"], "artifact_id", "$response.body#/id")
            .links(&["getRun"], "run_id", "$response.body#/run_id"),
    )
}

pub(crate) fn content() -> Operation {
    const HEADERS: [Header; 5] = [
        Header::AcceptRanges,
        Header::ContentDisposition,
        Header::ContentSecurityPolicy,
        Header::ETag,
        Header::XContentTypeOptions,
    ];
    let text = || json!({"type": "string"});
    let bytes = |answer: Answer| answer.headers(&HEADERS).media("*/*", Value::Bool(true), None);
    Operation::new("artifacts", "getArtifactContent", "The bytes of an artifact")
        .about(
            "Always an attachment, of the artifact's media type. A body that ends short of its length did not have the hash that it \
             should have.",
        )
        .header("If-None-Match", &text(), "Hashes that the client has the bytes of.")
        .header("Range", &text(), "One range of bytes; any other wish is ignored.")
        .header("If-Range", &text(), "The hash that the range is meant for.")
        .answer(bytes(Answer::new(200, "The bytes.")))
        .answer(bytes(Answer::new(206, "The range that was asked for.")).headers(&[Header::ContentRange]))
        .answer(Answer::new(304, "The client has them.").headers(&[Header::ETag]))
        .plain_error(Code::ArtifactStorageError)
}
