//! Browsers.

use crate::openapi::operation::{Answer, Operation};

pub(crate) fn open() -> Operation {
    Operation::new("authentication", "openBrowserSession", "Keep the credential of this request in a cookie")
        .about("For pages: `EventSource` cannot send `Authorization`. The cookie is `HttpOnly`, and lasts as long as the token.")
        .answer(Answer::new(204, "The cookie is set; none where none is needed, in dev mode."))
}

pub(crate) fn close() -> Operation {
    Operation::new("authentication", "closeBrowserSession", "Forget the cookie")
        .answer(Answer::new(204, "The cookie is gone; the token stays good elsewhere until it expires."))
}
