use super::*;

const SETTINGS: &str = r#"
[providers.local]
kind = "openai_chat"
base_url = "http://127.0.0.1:8000/v1"
private_endpoint = true

[models.fast]
provider = "openai"
model = "gpt-small"
temperature = 0.2
context_window = 128_000
prices = { input = 0.15, cached_input = "0.075", output = 0.6 }

[models.mine]
provider = "local"
model = "llama"
max_output_tokens = 512

[models.priced]
provider = "scripted"
prices = { input = 0, output = 0 }
"#;

fn policies(settings: &str) -> Result<Policies, String> {
    // As a file is read: defaults first.
    let mut config = Config::default();
    let mut file: toml::Table = toml::from_str(settings).unwrap();
    if let Some(providers) = file.remove("providers") {
        config.providers.0.extend(providers.try_into::<BTreeMap<String, config::Provider>>().unwrap());
    }
    if let Some(models) = file.remove("models") {
        config.models = models.try_into().unwrap();
    }
    Policies::new(&config).map_err(|error| error.to_string())
}

#[test]
fn policies_name_providers_models_and_prices() {
    let policies = policies(SETTINGS).unwrap();
    let names: Vec<&str> = policies.all().map(|policy| policy.name.as_str()).collect();
    assert_eq!(names, ["fast", "mine", "priced", "scripted"]);
    let fast = policies.get("fast").unwrap();
    assert_eq!((fast.provider.as_str(), fast.model.as_str(), fast.max_output_tokens), ("openai", "gpt-small", 4_096));
    let prices = fast.prices.unwrap();
    let written = [prices.input, prices.cached_input, prices.cache_write_input, prices.output].map(|price| price.to_string());
    assert_eq!(written, ["0.15", "0.075", "0.15", "0.6"], "as they were written");
    let endpoint = fast.endpoint.as_ref().unwrap();
    assert_eq!((endpoint.kind, endpoint.base.reach()), (ProviderKind::OpenaiResponses, Reach::Public));
    assert_eq!((policies.get("mine").unwrap().max_output_tokens, policies.is_priced("mine")), (512, false));
    assert!(policies.is_priced("priced") && !policies.is_priced("scripted") && !policies.is_priced("no such policy"));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let wrong = policies(
        r#"
        [providers.scripted]
        kind = "anthropic"
        base_url = "https://u:planted-7f3a@host/"
        api_key_env = "planted-7f3a"
        [models.scripted]
        provider = "openai"
        max_output_tokens = 255
        [models.a]
        provider = "nobody"
        model = "m"
        temperature = 2.1
        context_window = 4096
        prices = { input = -1, output = "0.00000000001" }
        "#,
    )
    .unwrap_err();
    for named in [
        "`providers.scripted`: `scripted` is built in",
        "`providers.scripted.base_url`: must hold no user name",
        "`providers.scripted.api_key_env`: the name of a variable",
        "`models.scripted`: `scripted` is built in",
        "`models.scripted.model`: the model's name",
        "`models.scripted.max_output_tokens`: at least 256",
        "`models.a.provider`: `anthropic`, ",
        "`models.a.temperature`: from 0 to 2",
        "`models.a.context_window`: more than",
        "`models.a.prices.input`: US dollars",
        "`models.a.prices.output`: US dollars",
    ] {
        assert!(wrong.contains(named), "{named} in\n{wrong}");
    }
    assert!(!wrong.contains("planted"), "{wrong}");
}

#[test]
fn a_base_address_is_a_place_and_nothing_else() {
    for address in ["ftp://h", "https://h?a=b", "https://h#f", "https://u@h", "h", "file:///etc/passwd", ""] {
        let wrong = policies(&format!("[providers.p]\nkind = \"anthropic\"\nbase_url = \"{address}\"")).unwrap_err();
        assert!(wrong.contains("`providers.p.base_url`"), "{address}: {wrong}");
    }
}

#[test]
fn where_ollama_is_counts_where_somebody_asks_it() {
    let with = |models: &str| {
        policies(&format!(
            "[providers.ollama]\nkind = \"openai_chat\"\nbase_url = \"http://a b\"\nprivate_endpoint = true\n{models}"
        ))
    };
    assert!(with("").is_ok(), "set for other programs");
    let asked = with("[models.small]\nprovider = \"ollama\"\nmodel = \"llama\"").unwrap_err();
    assert!(asked.contains("`providers.ollama.base_url`") && asked.contains("`OLLAMA_HOST`"), "{asked}");
}

#[test]
fn only_a_provider_of_chats_may_end_without_a_reason() {
    let of = |kind: &str| policies(&format!("[providers.mine]\nkind = \"{kind}\"\nbase_url = \"https://a\"\ndone_is_end = true"));
    assert!(of("openai_chat").is_ok());
    assert!(of("anthropic").unwrap_err().contains("`providers.mine.done_is_end`"));
}

#[test]
fn a_missing_key_names_its_variable_where_somebody_needs_it() {
    use secrecy::ExposeSecret;

    use crate::models::{key_of, require_keys};

    let policies = policies(SETTINGS).unwrap();
    let none = |_: &str| None;
    assert_eq!(require_keys(&policies, ["mine", "scripted"].into_iter(), none), Ok(()));
    let missing = require_keys(&policies, ["fast", "mine"].into_iter(), none).unwrap_err().to_string();
    assert_eq!(missing, "the model policy `fast` needs the key of `openai`: set OPENAI_API_KEY");
    assert!(require_keys(&policies, ["fast"].into_iter(), |_| Some(" ".into())).is_err(), "empty is missing");
    let broken = require_keys(&policies, ["fast"].into_iter(), |_| Some("planted\nX-Other: 1".into())).unwrap_err().to_string();
    assert_eq!(broken, "the model policy `fast` needs the key of `openai`: set OPENAI_API_KEY again, to the key alone");
    let set = |name: &str| (name == "OPENAI_API_KEY").then(|| "planted-7f3a\n".to_owned());
    assert_eq!(require_keys(&policies, ["fast"].into_iter(), set), Ok(()));
    let key = key_of(policies.get("fast").unwrap().endpoint.as_ref().unwrap(), set).unwrap();
    assert_eq!(key.expose_secret(), "planted-7f3a");
    assert!(!format!("{key:?}").contains("planted"));
}
