//! The calls of a turn, through the pipeline. A call that is on record already is never proposed again: after a crash or an
//! answer it goes on under the identifier that the log has.

mod act;
mod decide;
mod interrupted;

use self::act::Which;
use crate::run_loop::{Flow, RunContext};

/// Every call of the turn, to its result or to what the run has to wait for.
pub(crate) async fn call_tools(context: &mut RunContext<'_>) -> Flow<()> {
    interrupted::settle(context).await?;
    // What an earlier execution had begun ends before anybody is asked for anything: no run waits with a call under way.
    act_on(context, Which::Started).await?;
    context.check_stop()?;
    decide::decide(context).await?; // steps 1 to 8, for every other call
    act_on(context, Which::All).await
}

/// Steps 9 to 14, batch after batch.
async fn act_on(context: &mut RunContext<'_>, which: Which) -> Flow<()> {
    while let Some(batch) = act::next_batch(context, which)? {
        context.check_stop()?;
        act::act(context, batch).await?;
    }
    Ok(())
}
