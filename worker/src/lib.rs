//! Executes runs under a lease. Knows nothing of HTTP; shares nothing with the API but the database.

#![forbid(unsafe_code)]

mod choice;
mod control;
mod finish;
mod models;
mod offer;
mod renewal;
mod run_loop;
mod shutdown;
mod slots;
mod step;
mod supervisor;
mod worker;

pub use models::probe;
pub use worker::Worker;
