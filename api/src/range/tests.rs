use axum::http::HeaderValue;
use futures::{TryStreamExt, stream};

use super::*;

fn range(text: &'static str, size: u64) -> Option<(u64, u64)> {
    let headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(text))]);
    requested(&headers, "\"e\"", size).map(|range| (range.first, range.last))
}

#[test]
fn one_satisfiable_range_is_taken_and_any_other_wish_ignored() {
    assert_eq!(range("bytes=0-3", 10), Some((0, 3)));
    assert_eq!(range("bytes=4-", 10), Some((4, 9)));
    assert_eq!(range("bytes=-3", 10), Some((7, 9)));
    assert_eq!(range("bytes=-30", 10), Some((0, 9)));
    assert_eq!(range("bytes=8-99", 10), Some((8, 9)));
    for ignored in ["bytes=10-", "bytes=5-4", "bytes=-0", "bytes=0-1,3-4", "items=0-1", "bytes=a-b", "bytes=+1-2", "bytes=-"] {
        assert_eq!(range(ignored, 10), None, "{ignored}");
    }
    assert_eq!(range("bytes=0-0", 0), None);
}

#[test]
fn a_range_of_another_version_is_ignored() {
    let mut headers = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("bytes=0-1"))]);
    headers.insert(header::IF_RANGE, HeaderValue::from_static("\"other\""));
    assert_eq!(requested(&headers, "\"e\"", 10), None);
}

#[test]
fn a_client_says_what_it_has() {
    let has = |tags| none_match(&HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(tags))]), "\"e\"");
    assert!(has("\"e\"") && has("\"a\", W/\"e\"") && has("*"));
    assert!(!has("\"a\"") && !has("e"));
}

#[tokio::test]
async fn a_cut_is_what_the_range_names_over_any_chunks() {
    for size in 1..6 {
        let whole: Vec<u8> = (0..20).collect();
        let chunks: Vec<Result<Bytes, Error>> = whole.chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let cut: Vec<Bytes> = cut(stream::iter(chunks).boxed(), Some(Range { first: 3, last: 11 })).try_collect().await.unwrap();
        assert_eq!(cut.concat(), &whole[3..=11]);
    }
}
