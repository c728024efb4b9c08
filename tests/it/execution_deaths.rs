//! `kill -9` at every fault point of a run that has every kind of tool and every kind of wait: the run ends as if nothing had
//! happened, its effect exactly once; uncertain where the death fell between the effect's mark and its result.

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;

use baton_core::fault::Point;
use futures::{FutureExt, StreamExt, future, stream};
use nix::sys::signal::Signal;
use uuid::Uuid;

use crate::support::{
    Everything, Http, OF_THE_API, RealApp, SHORT_LEASE, bodies_of, events_of, eventually, message, without_takeovers,
};

/// Deaths tried at once: each needs some dozen connections of the one Postgres that all tests share.
const DEATHS_AT_ONCE: usize = 8;

/// For longer runs by hand: each time that the run comes by a point, and not only the first and the last.
const EVERY_POINT: &str = "BATON_EVERY_POINT";

/// Where a process dies, and what becomes of the effect.
#[derive(Debug, Clone, Copy)]
struct Death {
    point: Point,
    /// The time that it comes by, from 1.
    nth: u32,
    effect: Effect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Once,
    UncertainAndNotSent,
    UncertainAndSent,
}

impl fmt::Display for Death {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}=kill@{}", self.point.name(), self.nth)
    }
}

/// From the commit of the effect's mark to just before the commit of its result.
fn uncertain(passed: &[Point]) -> RangeInclusive<usize> {
    let marked = passed.iter().position(|point| *point == Point::EffectMarked).unwrap();
    let written = marked + passed[marked..].iter().position(|point| *point == Point::BeforeAppend).unwrap();
    assert_eq!(passed[marked - 1], Point::AfterAppend);
    marked - 1..=written
}

/// Every point the first and the last time, and those where the effect is uncertain each time.
fn deaths(passed: &[Point]) -> Vec<Death> {
    let uncertain = uncertain(passed);
    let is_every = std::env::var_os(EVERY_POINT).is_some();
    let mut times: HashMap<Point, u32> = HashMap::new();
    let mut deaths = Vec::new();
    for (index, point) in passed.iter().copied().enumerate() {
        // When a worker renews is a matter of time: the first renewal is one before the run.
        if point == Point::BeforeRenew {
            continue;
        }
        let nth = times.entry(point).and_modify(|nth| *nth += 1).or_insert(1);
        let is_last = !passed[index + 1..].contains(&point);
        let effect = match passed[..index].contains(&Point::EffectSent) || point == Point::EffectSent {
            _ if !uncertain.contains(&index) => Effect::Once,
            true => Effect::UncertainAndSent,
            false => Effect::UncertainAndNotSent,
        };
        if *nth == 1 || is_last || effect != Effect::Once || is_every {
            deaths.push(Death { point, nth: *nth, effect });
        }
    }
    deaths.extend([1, 2].map(|nth| Death { point: Point::BeforeRenew, nth, effect: Effect::Once }));
    deaths
}

#[tokio::test]
async fn gate_b4_kill_minus_nine_at_every_fault_point() {
    let undisturbed = Everything::run().await;
    let deaths = deaths(&undisturbed.passed);
    println!("{} deaths", deaths.len());
    let failed: Vec<String> = stream::iter(deaths)
        .map(async |death| {
            let survived = AssertUnwindSafe(survived(death, &undisturbed.events)).catch_unwind();
            survived.await.map_err(|_| death.to_string()).err()
        })
        .buffer_unordered(DEATHS_AT_ONCE)
        .filter_map(future::ready)
        .collect()
        .await;
    assert!(failed.is_empty(), "not survived, see above: {failed:?}");
}

/// One process dies, another takes over.
async fn survived(death: Death, undisturbed: &[String]) {
    let is_of_the_api = OF_THE_API.contains(&death.point);
    let fault = ("BATON_FAULTS", death.to_string());
    let fault = (fault.0, fault.1.as_str());
    let variables = if is_of_the_api { [SHORT_LEASE, &[fault]].concat() } else { SHORT_LEASE.to_vec() };
    let mut app = RealApp::start(&variables).await;
    let mut worker = app.start_worker_with(if is_of_the_api { &[] } else { std::slice::from_ref(&fault) }).await;
    let session_id = app.http.create_session("test").await;
    let (http, pool) = (app.http.clone(), app.pool.clone());
    // Not through the bench: who submits may never get an answer.
    let _ = http.client.post(format!("{}/v1/sessions/{session_id}/messages", http.url)).json(&message("everything")).send().await;
    let replacing = async {
        if is_of_the_api {
            app.replace_api().await;
        } else {
            assert_eq!(worker.ended().await.signal(), Some(Signal::SIGKILL as i32));
            worker = app.start_worker().await;
        }
    };
    let (run_id, ()) = tokio::join!(person(&http, &pool), replacing);

    let mut expected = undisturbed.to_vec();
    if death.effect != Effect::Once {
        *expected.iter_mut().rfind(|event| *event == "tool.call.completed").unwrap() = "tool.call.uncertain".into();
    }
    assert_eq!(without_takeovers(&events_of(&pool, run_id).await), expected, "{death}");
    assert_eq!(app.effects().len(), usize::from(death.effect != Effect::UncertainAndNotSent), "{death}");
    let proposed = bodies_of(&pool, run_id, "tool.call.proposed").await;
    assert_eq!(proposed.len(), 5, "{death}: {proposed:?}");
    drop(worker);
    app.finish().await;
}

/// Approves and answers as soon as the run waits, again where nobody answered, until it has completed.
async fn person(http: &Http, pool: &sqlx::PgPool) -> Uuid {
    eventually("the run has completed", || async {
        let (run_id, status): (Uuid, String) =
            sqlx::query_as("SELECT id, status FROM runs").fetch_optional(pool).await.unwrap()?;
        match status.as_str() {
            "COMPLETED" => return Some(run_id),
            "FAILED" | "CANCELLED" => panic!("the run is {status}: {:?}", events_of(pool, run_id).await),
            "WAITING_FOR_APPROVAL" => {
                let query = sqlx::query_scalar("SELECT id FROM approvals WHERE status = 'PENDING'");
                let open: Option<Uuid> = query.fetch_optional(pool).await.unwrap();
                let path = format!("{}/v1/approvals/{}/resolve", http.url, open?);
                let _ = http.client.post(path).json(&serde_json::json!({"decision": "approve_once"})).send().await;
            }
            "WAITING_FOR_USER" => {
                let path = format!("{}/v1/runs/{run_id}/input", http.url);
                let _ = http.client.post(path).json(&message("yes")).send().await;
            }
            _ => {}
        }
        None
    })
    .await
}
