//! A token in a cookie, for browsers: `EventSource` cannot send `Authorization`.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_core::Error;
use baton_core::clock::Clock;

use crate::auth::{COOKIE, presented};
use crate::error::ApiError;
use crate::extract::{Caller, Query};
use crate::host::Bind;

/// What browsers keep of a cookie, its attributes included; a longer one they drop without a word.
const COOKIE_BYTES_MAX: usize = 4_096;

/// The credential of this request becomes the cookie, for as long as it is good. Who needs none gets none.
pub(super) async fn open(
    State(bind): State<Bind>,
    State(clock): State<Clock>,
    Caller(principal): Caller,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    query.refuse()?;
    let (Some(token), Some(expires_at)) = (presented(&headers), principal.expires_at) else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let cookie = set_cookie(&bind, token, (expires_at - clock.now()).whole_seconds().max(0));
    if cookie.len() > COOKIE_BYTES_MAX {
        return Err(Error::malformed("Authorization", "the token is longer than a browser keeps in a cookie").into());
    }
    Ok(no_content(cookie))
}

pub(super) async fn close(State(bind): State<Bind>, query: Query) -> Result<Response, ApiError> {
    query.refuse()?;
    Ok(no_content(set_cookie(&bind, "", 0)))
}

fn set_cookie(bind: &Bind, token: &str, max_age_seconds: i64) -> String {
    // On loopback there is no TLS, and browsers would not send it back.
    let secure = if *bind == Bind::Loopback { "" } else { "; Secure" };
    format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={max_age_seconds}{secure}")
}

fn no_content(cookie: String) -> Response {
    let mut cookie = HeaderValue::try_from(cookie).expect("a token that was verified is base64url and dots");
    cookie.set_sensitive(true);
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}
