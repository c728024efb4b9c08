use std::collections::BTreeSet;

use jsonschema::Validator;

use super::*;

/// Every place of the document that has this member, with its path.
fn each<'a>(value: &'a Value, name: &str, path: &str, visit: &mut dyn FnMut(&str, &'a Value)) {
    match value {
        Value::Object(members) => {
            if members.contains_key(name) {
                visit(path, value);
            }
            members.iter().for_each(|(key, value)| each(value, name, &format!("{path}/{key}"), visit));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| each(value, name, &format!("{path}/{index}"), visit));
        }
        _ => {}
    }
}

/// A schema of the document, with what it refers to.
pub(super) fn validator(document: &Value, schema: &Value) -> Validator {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

#[test]
fn references_lead_somewhere() {
    let document = document();
    each(&document, "$ref", "", &mut |path, value| {
        let target = value["$ref"].as_str().unwrap().strip_prefix('#').unwrap();
        assert!(document.pointer(target).is_some(), "{path}: {target}");
    });
}

#[test]
fn links_and_tags_name_what_is_there() {
    let document = document();
    let mut operations = BTreeSet::new();
    each(&document["paths"], "responses", "", &mut |path, operation| {
        assert!(operations.insert(operation["operationId"].as_str().unwrap()), "{path} has a name of its own");
        let tag = operation["tags"][0].as_str().unwrap();
        assert!(operation::TAGS.iter().any(|(known, _)| *known == tag), "{path}: {tag}");
    });
    each(&document["paths"], "links", "", &mut |path, answer| {
        for (name, link) in answer["links"].as_object().unwrap() {
            assert!(operations.contains(link["operationId"].as_str().unwrap()), "{path}: {name}");
        }
    });
}

#[test]
fn examples_are_what_they_are_examples_of() {
    let document = document();
    let mut checked = 0;
    each(&document["paths"], "examples", "", &mut |path, media| {
        let validator = validator(&document, &media["schema"]);
        for (name, example) in media["examples"].as_object().unwrap() {
            checked += 1;
            let problems: Vec<String> = validator.iter_errors(&example["value"]).map(|error| error.to_string()).collect();
            assert!(problems.is_empty(), "{path} {name}: {problems:?}");
        }
    });
    assert!(checked > 20, "{checked}");
}

#[test]
fn objects_are_closed_and_what_may_be_null_is_there() {
    let document = document();
    let mut of_requests = BTreeSet::new();
    each(&document["paths"], "requestBody", "", &mut |_, operation| {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        of_requests.insert(schema.as_str().unwrap().trim_start_matches("#/components/schemas/").to_owned());
    });
    of_requests.insert("LimitWishes".into());
    each(&document["components"]["schemas"], "properties", "", &mut |path, schema| {
        if !schema["properties"].is_object() || schema["type"] != "object" {
            return; // a property of that name
        }
        assert_eq!(schema["additionalProperties"], json!(false), "{path}");
        if of_requests.contains(path.trim_start_matches('/')) {
            return;
        }
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, property) in schema["properties"].as_object().unwrap() {
            let is_null = |schema: &Value| {
                schema["type"] == "null" || schema["type"].as_array().is_some_and(|types| types.contains(&json!("null")))
            };
            let nullable = is_null(property) || property["oneOf"].as_array().is_some_and(|choices| choices.iter().any(is_null));
            assert!(!nullable || required.contains(&json!(name)), "{path}/{name}: absent is not null");
        }
    });
}
