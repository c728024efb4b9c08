use std::time::Duration;

use time::macros::datetime;

use super::*;

#[test]
fn the_time_is_the_clocks_in_the_zone_that_was_asked_for() {
    let clock = Clock::manual(datetime!(2026-11-30 13:22:39.5 UTC));
    let at = |timezone: &str| time_in(timezone, &clock);
    assert_eq!(at("UTC"), Ok(json!({"time": "2026-11-30T13:22:39+00:00", "timezone": "UTC"})));
    assert_eq!(at("Europe/Berlin"), Ok(json!({"time": "2026-11-30T14:22:39+01:00", "timezone": "Europe/Berlin"})));
    assert_eq!(at("Mars/Olympus_Mons"), Err(ReasonCode::TimezoneUnknown));

    clock.advance(Duration::from_secs(60));
    assert_eq!(at("UTC"), Ok(json!({"time": "2026-11-30T13:23:39+00:00", "timezone": "UTC"})));
}
