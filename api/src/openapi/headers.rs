//! The headers of answers.

use serde_json::{Value, json};

use crate::openapi::schemas::reference;

/// A header that some answers have. Every answer has `X-Request-Id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    AcceptRanges,
    BatonRunId,
    CacheControl,
    ContentDisposition,
    ContentRange,
    ContentSecurityPolicy,
    ETag,
    IdempotencyReplayed,
    Location,
    RequestId,
    RetryAfter,
    WwwAuthenticate,
    XContentTypeOptions,
}

const ALL: [Header; 13] = [
    Header::AcceptRanges,
    Header::BatonRunId,
    Header::CacheControl,
    Header::ContentDisposition,
    Header::ContentRange,
    Header::ContentSecurityPolicy,
    Header::ETag,
    Header::IdempotencyReplayed,
    Header::Location,
    Header::RequestId,
    Header::RetryAfter,
    Header::WwwAuthenticate,
    Header::XContentTypeOptions,
];

impl Header {
    const fn name(self) -> &'static str {
        match self {
            Self::AcceptRanges => "Accept-Ranges",
            Self::BatonRunId => "Baton-Run-Id",
            Self::CacheControl => "Cache-Control",
            Self::ContentDisposition => "Content-Disposition",
            Self::ContentRange => "Content-Range",
            Self::ContentSecurityPolicy => "Content-Security-Policy",
            Self::ETag => "ETag",
            Self::IdempotencyReplayed => "Idempotency-Replayed",
            Self::Location => "Location",
            Self::RequestId => "X-Request-Id",
            Self::RetryAfter => "Retry-After",
            Self::WwwAuthenticate => "WWW-Authenticate",
            Self::XContentTypeOptions => "X-Content-Type-Options",
        }
    }

    fn described(self) -> (Value, &'static str) {
        let word = |word: &str| json!({"type": "string", "const": word});
        let form = |pattern: &str| json!({"type": "string", "pattern": pattern});
        match self {
            Self::AcceptRanges => (word("bytes"), "Parts may be asked for."),
            Self::BatonRunId => (json!({"type": "string", "format": "uuid"}), "The run that the message became."),
            Self::CacheControl => (word("no-store, no-transform"), "A stream is nobody's to keep or to compress."),
            Self::ContentDisposition => (form("^attachment; "), "An attachment, whatever it is, with its name (RFC 6266)."),
            Self::ContentRange => (form("^bytes [0-9]+-[0-9]+/[0-9]+$"), "Which bytes these are, and of how many."),
            Self::ContentSecurityPolicy => (word("sandbox"), "Not a page of ours."),
            Self::ETag => (form("^\"[0-9a-f]{64}\"$"), "The SHA-256 of the whole."),
            Self::IdempotencyReplayed => (word("true"), "An earlier request with this key had created it."),
            Self::Location => (form("^/v1/"), "Where what was created is."),
            Self::RequestId => (form("^[A-Za-z0-9._-]{1,128}$"), "The name of the request, as in the server's log."),
            Self::RetryAfter => (json!({"type": "integer", "minimum": 0}), "Seconds until it is worth another try."),
            Self::WwwAuthenticate => (form("^Bearer"), "How to authenticate."),
            Self::XContentTypeOptions => (word("nosniff"), "The media type is the one that is given."),
        }
    }
}

/// The `headers` of an answer that has these beside its request's name.
pub(super) fn of(headers: &[Header]) -> Value {
    let all = std::iter::once(&Header::RequestId).chain(headers);
    all.map(|header| (header.name().to_owned(), reference("headers", header.name()))).collect::<serde_json::Map<_, _>>().into()
}

pub(super) fn components() -> Value {
    let component = |header: &Header| {
        let (schema, description) = header.described();
        (header.name().to_owned(), json!({"description": description, "required": true, "schema": schema}))
    };
    ALL.iter().map(component).collect::<serde_json::Map<_, _>>().into()
}
