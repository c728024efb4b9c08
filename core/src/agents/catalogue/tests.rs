use super::*;

fn problems(file: &str) -> String {
    match check(vec![("file".into(), file.into())], &Profiles::load(None).unwrap()) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_file_names_a_profile_that_is_loaded() {
    assert_eq!(problems(DEMO), "");
    let unknown = problems(&DEMO.replacen("version", "policy_profile = \"lax\"\nversion", 1));
    assert!(unknown.contains("file: /policy_profile: a known profile"), "{unknown}");
}

#[test]
fn the_layer_of_an_agent_is_checked_with_the_rest() {
    assert_eq!(problems(&format!("{DEMO}\n[policy.classes]\nnetwork_read = \"deny\"\n")), "");
    let unnamed = problems(&format!("{DEMO}\n[policy.tools]\n\"No Tool\" = \"deny\"\n"));
    assert!(unnamed.contains("file: /policy/tools/No Tool: the name of a tool"), "{unnamed}");
}

#[test]
fn a_model_that_is_not_there_is_not_looked_for() {
    let unknown = problems(&DEMO.replacen("\"scripted\"", "\"gpt-5\"", 1));
    assert!(unknown.contains("file: /model: only `scripted` exists in this version"), "{unknown}");
}
