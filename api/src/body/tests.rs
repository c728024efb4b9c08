use super::*;

async fn is_taken(headers: &[(&'static str, &'static str)], body: &'static str) -> bool {
    let mut request = Request::builder();
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    match admit(request.body(Body::from(body)).unwrap(), Takes::Json).await {
        Ok(_) => true,
        Err(Error::UnsupportedMediaType) => false,
        Err(other) => panic!("{headers:?}: {other}"),
    }
}

#[tokio::test]
async fn a_body_is_json_as_it_is() {
    for plain in [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        "application/json; Charset=\"latin1\"",
        "application/json; charset=utf-8;",
    ] {
        assert!(is_taken(&[("content-type", plain)], "{}").await, "{plain}");
    }
    for other in [
        "",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json+x",
        "application/jsonx",
        "application/json, text/plain",
        "application/json; boundary=x",
        "application/json; charset",
        "charset=utf-8",
    ] {
        assert!(!is_taken(&[("content-type", other)], "{}").await, "{other}");
    }
    let json = ("content-type", "application/json");
    assert!(!is_taken(&[], "{}").await);
    assert!(!is_taken(&[json, json], "{}").await);
    assert!(is_taken(&[json, ("content-encoding", "Identity")], "{}").await);
    for coding in ["gzip", "br", "identity, gzip", ""] {
        assert!(!is_taken(&[json, ("content-encoding", coding)], "{}").await, "{coding}");
    }
}

#[tokio::test]
async fn no_body_has_no_media_type() {
    for headers in [&[][..], &[("content-type", "text/plain")], &[("content-encoding", "gzip")], &[("content-length", "0")]] {
        assert!(is_taken(headers, "").await, "{headers:?}");
    }
}
