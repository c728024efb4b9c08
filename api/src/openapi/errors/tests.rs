use super::*;
use crate::openapi::document;

#[test]
fn details_are_what_errors_have() {
    for code in Code::ALL {
        let mut components = Components::default();
        let mut envelope = envelope_of(*code, &mut components);
        envelope["components"] = json!({"schemas": components.schemas});
        let validator = jsonschema::options().should_validate_formats(true).build(&envelope).unwrap();
        for error in samples(*code) {
            assert_eq!(error.code(), *code);
            let sample = sample_envelope(&error);
            assert!(validator.is_valid(&sample), "{sample}: {:?}", validator.validate(&sample).err());
            let mut more = sample.clone();
            more["error"]["details"]["more"] = true.into();
            assert!(!validator.is_valid(&more), "{more}");
        }
    }
}

#[test]
fn gate_a1_every_documented_code_is_in_the_vocabulary() {
    let document = document();
    for documented in crate::routes::all().into_documented() {
        let codes = crate::openapi::operation::codes(&documented);
        assert!(codes.contains(&Code::InternalError), "{:?}", documented.route);
        for code in codes {
            let schema = &document["components"]["schemas"][name(code)];
            assert_eq!(schema["properties"]["error"]["properties"]["code"]["const"], code.as_str());
            assert!(Code::ALL.contains(&code) && !samples(code).is_empty(), "{code} is one that services return");
        }
    }
}
