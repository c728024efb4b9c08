//! The stream under ten thousand schedules: hub, rings and streams as they are, over a log, a listener and clients that do
//! what the seed says. No socket, no database, no timer: where the product would wait for one, the schedule decides.
//!
//! One thread, and chance from one place: a seed is always the same schedule. A failure prints its steps.

mod client;
mod log;
mod schedule;

use std::collections::BTreeMap;

pub(crate) use log::SimulatedLog;

use schedule::Schedule;

/// One of them, where it is named by the variable `BATON_SEED`.
const SCHEDULES: u64 = 10_000;

#[test]
fn gate_a7_case_c34_every_schedule_brings_every_event_exactly_once() {
    if let Ok(seed) = std::env::var("BATON_SEED") {
        let outcome = Schedule::run(seed.parse().expect("a seed is a number"));
        return println!("{}", outcome.trace.join("\n"));
    }
    let mut times = BTreeMap::new();
    for seed in 0..SCHEDULES {
        for what in &Schedule::run(seed).happened {
            *times.entry(*what).or_insert(0_u64) += 1;
        }
    }
    println!("{SCHEDULES} schedules: {times:?}");
    // Otherwise they prove less than they say.
    for what in schedule::HAPPENINGS {
        assert!(times.get(what).is_some_and(|times| *times > SCHEDULES / 20), "too seldom: {what} in {times:?}");
    }
}

#[test]
fn a_seed_is_always_the_same_schedule() {
    for seed in 0..100 {
        assert_eq!(Schedule::run(seed).trace, Schedule::run(seed).trace, "seed {seed}");
    }
}
