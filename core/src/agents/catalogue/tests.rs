use super::*;
use crate::config::Config;

fn problems(file: &str) -> String {
    problems_under(file, "")
}

fn problems_under(file: &str, models: &str) -> String {
    let models = toml::from_str(models).unwrap();
    let policies = Policies::new(&Config { models, ..Config::default() }).unwrap();
    match check(vec![("file".into(), file.into())], &Profiles::load(None).unwrap(), &policies) {
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
fn a_file_names_a_model_policy_that_is_configured() {
    let fast = DEMO.replacen("\"scripted\"", "\"fast\"", 1);
    let unknown = problems(&fast);
    assert!(unknown.contains("file: /model: a model policy"), "{unknown}");
    assert_eq!(problems_under(&fast, "[fast]\nprovider = \"openai\"\nmodel = \"m\""), "");
}

#[test]
fn a_limit_of_cost_needs_a_model_with_prices() {
    let limited = format!("{DEMO}\n[limits]\nmax_cost_usd = \"0.05\"\n");
    let unpriced = problems(&limited);
    assert!(unpriced.contains("file: /limits/max_cost_usd: needs a model policy with prices"), "{unpriced}");
    let limited = limited.replacen("\"scripted\"", "\"priced\"", 1);
    let prices = "prices = { input = 1, output = 2.5 }";
    assert_eq!(problems_under(&limited, &format!("[priced]\nprovider = \"scripted\"\n{prices}")), "");
}
