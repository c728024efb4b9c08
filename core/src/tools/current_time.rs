//! `system.current_time`: `{"timezone"}`, an IANA name, to `{"time", "timezone"}`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::tools::pipeline::Refusal;

pub(super) const NAME: &str = "system.current_time";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    timezone: String,
}

pub(super) fn call(arguments: &Arguments, clock: &Clock) -> Result<Value, Refusal> {
    let timezone = TimeZone::get(&arguments.timezone).map_err(|_| Refusal::Execution("The time zone is not an IANA name."))?;
    let now =
        Timestamp::from_second(clock.now().unix_timestamp()).map_err(|_| Refusal::Execution("The clock is out of range."))?;
    let name = timezone.iana_name().unwrap_or(&arguments.timezone).to_owned();
    let local = now.to_zoned(timezone);
    Ok(json!({"time": local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(), "timezone": name}))
}

#[cfg(test)]
mod tests;
