//! The queue.

use baton_core::queue::QueueView;

use crate::openapi::examples;
use crate::openapi::operation::{Answer, Operation};
use crate::openapi::schemas::one;

pub(crate) fn get() -> Operation {
    Operation::new("operators", "getQueue", "How much waits, for how long, and who is there to take it")
        .about("Runs of strangers are not counted; workers are everybody's, 1,000 of them at most.")
        .answer(Answer::new(200, "The queue.").json(one::<QueueView>(), examples::queue()))
}
