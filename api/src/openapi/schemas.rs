//! The schemas that operations refer to, under the names of their types.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// What the document holds once, and refers to.
#[derive(Debug, Default)]
pub(super) struct Components {
    pub(super) schemas: BTreeMap<String, Value>,
    pub(super) responses: BTreeMap<String, Value>,
}

impl Components {
    /// Adds a schema under a name, and says how to refer to it.
    pub(super) fn schema(&mut self, name: &str, schema: Value) -> Value {
        self.schemas.entry(name.to_owned()).or_insert(schema);
        reference("schemas", name)
    }

    /// Adds the schemas that a derive has collected.
    pub(super) fn add_derived(&mut self, derived: Vec<(String, RefOr<Schema>)>) {
        for (name, schema) in derived {
            self.schema(&name, exact(&schema));
        }
    }
}

pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

/// What a body holds: its name among the schemas, and how it gets there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described(pub(super) fn(&mut Components) -> Value);

/// A type of core.
pub(super) fn one<T: ToSchema>() -> Described {
    Described(|components| {
        let mut derived = Vec::new();
        T::schemas(&mut derived);
        components.add_derived(derived);
        components.schema(&T::name(), exact(&T::schema()))
    })
}

/// What tells whether a value is one of these.
pub(crate) fn validator<T: ToSchema>() -> Validator {
    let mut components = Components::default();
    let mut schema = (one::<T>().0)(&mut components);
    schema["components"] = json!({"schemas": components.schemas});
    jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema of the document is one")
}

/// A page of a list of them.
pub(super) fn page_of<T: ToSchema>() -> Described {
    Described(|components| {
        let item = (one::<T>().0)(components);
        let name = format!("{}Page", T::name().trim_end_matches("View"));
        let cursor = "Where the next page begins, for `cursor`; null exactly on the last page.";
        components.schema(&name, page(&item, cursor))
    })
}

pub(super) fn page(item: &Value, cursor: &str) -> Value {
    object(&json!({
        "items": {"type": "array", "items": item},
        "next_cursor": {"type": ["string", "null"], "description": cursor},
    }))
}

/// An object that holds these members, all of them and no others.
pub(super) fn object(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(|members| members.keys()).collect();
    if required.is_empty() {
        return json!({"type": "object", "additionalProperties": false});
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// A derived schema as it is meant: an object with known members has no others. A derive says so of what is parsed only.
pub(super) fn exact(schema: &RefOr<Schema>) -> Value {
    let mut value = serde_json::to_value(schema).expect("schemas are JSON");
    close(&mut value);
    value
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.contains_key("properties") && members.get("type") == Some(&json!("object")) {
                members.entry("additionalProperties").or_insert(json!(false));
            }
            members.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
