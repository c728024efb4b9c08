use baton_core::approvals::ApprovalStatus;
use baton_core::page::Cursor;

use super::*;

/// The filters and the page that a query asks for, or the paths of what is wrong with it.
fn of(query: &str) -> Result<(Vec<ApprovalStatus>, Option<Uuid>, i64), Vec<String>> {
    let query = Query::parse(&format!("/?{query}").parse().unwrap());
    let mut list = ListQuery::new(&query, &["status", "run_id"]);
    let (statuses, run_id) = (list.words("status"), list.id("run_id"));
    match list.page::<Cursor>() {
        Ok(page) => Ok((statuses, run_id, page.limit())),
        Err(Error::Malformed(problems)) => Err(problems.into_iter().map(|problem| problem.path).collect()),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn filters_and_pages_are_read() {
    const ID: &str = "01900000-0000-7000-8000-000000000000";
    assert_eq!(of(""), Ok((Vec::new(), None, 50)));
    assert_eq!(of("limit=7"), Ok((Vec::new(), None, 7)));
    assert_eq!(of("limit=100000"), Ok((Vec::new(), None, 200)));
    let both = vec![ApprovalStatus::Pending, ApprovalStatus::Denied];
    assert_eq!(of(&format!("status=PENDING&run_id={ID}&status=DENIED")), Ok((both, ID.parse().ok(), 50)));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    for (query, wrong) in [
        ("limit=0", &["limit"][..]),
        ("limit=-1", &["limit"]),
        ("limit=ten", &["limit"]),
        ("limit=1&limit=2", &["limit"]),
        ("cursor=x", &["cursor"]),
        ("run_id=x", &["run_id"]),
        ("run_id=0190000000007000800000000000000a", &["run_id"]),
        ("status=pending", &["status"]),
        ("tenant=other", &["tenant"]),
        ("tenant=other&status=PENDING&status=x&run_id=&limit=0&cursor=x", &["tenant", "status", "run_id", "limit"]),
    ] {
        let got = of(query).unwrap_err();
        assert_eq!(got, wrong, "{query}");
    }
}
