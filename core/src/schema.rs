//! Schemas of what no derive can see: a decimal is text with a form, and a wish may hold less than what is shown.
//!
//! Views and commands derive theirs; the API's document is made of them.

use utoipa::openapi::Schema;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};

use crate::runs::Priority;

/// What `numeric(20,10)` holds, never as a float.
const USD: &str = r"^[0-9]{1,10}(\.[0-9]{1,10})?$";
/// The same without zero.
const USD_ABOVE_ZERO: &str = r"^(?=[0-9.]*[1-9])[0-9]{1,10}(\.[0-9]{1,10})?$";

/// US dollars.
pub(crate) fn usd() -> Schema {
    money(Type::String.into(), USD)
}

/// US dollars, where the price is known.
pub(crate) fn usd_or_null() -> Schema {
    money(SchemaType::from_iter([Type::String, Type::Null]), USD)
}

/// US dollars that somebody wants to be spent at most.
pub(crate) fn wished_usd() -> Schema {
    money(SchemaType::from_iter([Type::String, Type::Null]), USD_ABOVE_ZERO)
}

fn money(kind: SchemaType, pattern: &str) -> Schema {
    ObjectBuilder::new().schema_type(kind).pattern(Some(pattern)).description(Some("US dollars.")).into()
}

/// The priorities that a client may ask for.
pub(crate) fn wished_priority() -> Schema {
    let may = Priority::ALL.iter().filter(|priority| **priority != Priority::Maintenance).map(|priority| priority.as_str());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(may)).default(Some("INTERACTIVE".into())).into()
}
