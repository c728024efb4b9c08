use super::*;

const HEAD: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(60);
const WRITE: Duration = Duration::from_secs(30);
const FAREWELL: Duration = Duration::from_secs(5);
const PATIENCE: Patience = Patience { head: HEAD, idle: IDLE, write: WRITE, farewell: FAREWELL };

/// What a look finds so long from now.
fn verdict(progress: &Progress, later: Duration) -> Verdict {
    progress.judge(&PATIENCE, Instant::now() + later)
}

const SLACK: Duration = Duration::from_secs(1);

#[test]
fn a_silent_connection_is_kept_as_long_as_an_idle_one() {
    let progress = Progress::new();
    assert_eq!(verdict(&progress, IDLE - SLACK), Verdict::Quiet);
    assert_eq!(verdict(&progress, IDLE), Verdict::Overdue);
}

#[test]
fn a_head_is_timed_from_its_first_byte() {
    let progress = Progress::new();
    progress.received();
    let first = progress.state().head_since;
    progress.received();
    assert_eq!(progress.state().head_since, first);
    assert_eq!(verdict(&progress, HEAD - SLACK), Verdict::Quiet);
    assert_eq!(verdict(&progress, HEAD), Verdict::Overdue);
}

#[test]
fn a_request_takes_its_time_and_the_next_head_begins_anew() {
    let progress = Arc::new(Progress::new());
    progress.received();
    let in_flight = Progress::begin(&progress);
    progress.received();
    assert_eq!(verdict(&progress, IDLE * 10), Verdict::Busy);
    drop(in_flight);
    assert_eq!(verdict(&progress, HEAD), Verdict::Quiet);
}

#[test]
fn a_blocked_client_is_told_and_then_given_up() {
    let progress = Arc::new(Progress::new());
    let in_flight = Progress::begin(&progress);
    progress.blocked();
    drop(in_flight);
    assert_eq!(verdict(&progress, WRITE - SLACK), Verdict::Busy, "the end of the answer has not left");
    assert_eq!(verdict(&progress, WRITE), Verdict::Stalled);
    assert_eq!(verdict(&progress, WRITE + FAREWELL), Verdict::Gone);
    progress.sent();
    assert_eq!(verdict(&progress, WRITE), Verdict::Quiet);
}

#[test]
fn the_shortest_time_out_decides_how_often_it_is_looked() {
    assert_eq!(PATIENCE.look_interval(), HEAD / 4);
}
