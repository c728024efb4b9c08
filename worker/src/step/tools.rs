//! The calls of a turn, through the pipeline. A call that is on record already is never proposed again: after a crash or an
//! answer it goes on under the identifier that the log has.

mod act;
mod decide;
mod interrupted;

use crate::run_loop::{Flow, RunContext};

/// Every call of the turn, to its result or to what the run has to wait for.
pub(crate) async fn call_tools(context: &mut RunContext<'_>) -> Flow<()> {
    interrupted::settle(context).await?;
    context.check_stop()?;
    decide::decide(context).await?; // steps 1 to 8, for every call
    while let Some(batch) = act::next_batch(context)? {
        context.check_stop()?;
        act::act(context, batch).await?; // steps 9 to 14
    }
    Ok(())
}
