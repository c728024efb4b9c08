//! The run that has every kind of tool and every kind of wait, and that nobody disturbs: what others are compared with.

use baton_core::fault::Point;

use super::app::TestApp;
use super::log::events_of;

/// Of the API's process; all others are the worker's.
pub(crate) const OF_THE_API: [Point; 3] = [Point::AfterSubmit, Point::AfterResolve, Point::AfterInput];

#[derive(Debug)]
pub(crate) struct Everything {
    pub(crate) events: Vec<String>,
    /// The fault points that it came by, of worker and API, in order.
    pub(crate) passed: Vec<Point>,
}

impl Everything {
    pub(crate) async fn run() -> Self {
        let app = TestApp::start().await;
        app.faults.take_passed();
        let run_id = app.http.start_run("everything").await;
        app.work().await;
        app.http.resolve_all(run_id, "approve_once").await;
        app.work().await;
        app.http.input(run_id, "yes").await;
        app.work().await;
        let passed = app.faults.take_passed();
        let events = events_of(&app.pool, run_id).await;
        app.finish().await;
        Self { events, passed }
    }
}
