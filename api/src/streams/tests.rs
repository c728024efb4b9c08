use super::*;

#[test]
fn case_c29_the_newest_is_refused_and_a_place_comes_back() {
    let streams = Streams::new(2);
    let principal = |tenant, name| Principal::new(tenant, name, []).unwrap();
    let take = |principal: &Principal| streams.take_place(principal, Stall::default());
    let one = principal("ours", "one");
    let _first = take(&one).unwrap();
    let second = take(&one).unwrap();
    assert!(matches!(take(&one), Err(Error::RateLimited(Cap::Streams))));
    // Nobody else's.
    let others = [take(&principal("ours", "two")).unwrap(), take(&principal("theirs", "one")).unwrap()];
    drop(second);
    let _third = take(&one).unwrap();
    assert!(take(&one).is_err());
    drop(others);
    assert_eq!(streams.open().len(), 1, "who has no stream is not remembered");
}

#[test]
fn a_cap_of_none_refuses_and_remembers_nobody() {
    let streams = Streams::new(0);
    assert!(streams.take_place(&Principal::dev(), Stall::default()).is_err());
    assert!(streams.open().is_empty());
}
