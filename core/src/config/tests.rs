use std::io::Write;

use super::*;

fn load(text: &str) -> Result<Config, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    Config::load(Some(file.path())).map_err(|error| error.to_string())
}

#[test]
fn a_file_changes_what_it_names() {
    let config =
        load("[worker]\nlease = \"2s\"\nrenew = \"600ms\"\n[worker.slots]\ninteractive = 1\n[database]\nnotifications = \"off\"")
            .unwrap();
    assert_eq!((config.worker.lease, config.worker.renew), (Duration::from_secs(2), Duration::from_millis(600)));
    assert_eq!((config.worker.slots.interactive, config.worker.slots.shared), (1, 24));
    assert_eq!(config.database.notifications, Notifications::Off);
}

#[test]
fn what_is_wrong_is_named() {
    for (text, named) in [
        ("[worker]\nleese = \"2s\"", "leese"),
        ("[worker]\nlease = \"2s\"", "worker.renew"),
        ("[worker]\nlease = 2", "lease"),
        ("[execution]\nlease_losses_max = 0", "lease_losses_max"),
        ("[idempotency]\nttl = \"31d\"", "idempotency.ttl"),
        ("[database]\npool = 1", "database.pool"),
        ("[retention]\ndays = 0", "retention.days"),
        ("[retention]\ndays = \"30d\"", "days"),
        ("[artifacts]\nfolder = \"\"", "artifacts.folder"),
        ("[server]\nmax_connections = 0", "server.max_connections"),
        ("[server]\nheader_bytes_max = 100", "server.header_bytes_max"),
        ("[server]\nbody_timeout = \"0s\"", "server"),
        ("[tools]\ndisable = []", "disable"),
        ("[demo]\neffects = \"x\"", "effects"),
        ("[providers.mine]\nkind = \"telepathy\"\nbase_url = \"http://h\"", "openai_chat, openai_responses, anthropic"),
        ("[providers.openai]\nkey = \"x\"", "key"),
        ("[models.fast]\nprovider = \"openai\"", "models.fast.model"),
        ("[models.fast]\nprovider = \"scripted\"\nprices = { input = 1 }", "output"),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.contains(named), "{text}: {error}");
    }
    assert!(Config::load(Some(Path::new("/no/such/file"))).unwrap_err().to_string().contains("/no/such/file"));
}

#[test]
fn a_file_adds_providers_and_changes_what_it_names_of_those_built_in() {
    let config = load(
        "[providers.openai]\nbase_url = \"https://proxy.example/v1\"\n\
         [providers.local]\nkind = \"openai_chat\"\nbase_url = \"http://127.0.0.1:8000/v1\"\nprivate_endpoint = true\n\
         [models.fast]\nprovider = \"local\"\nmodel = \"m\"\nprices = { input = 0.1, output = \"0.2\" }",
    )
    .unwrap();
    let openai = &config.providers.0["openai"];
    assert_eq!((openai.kind, openai.base_url.as_str()), (ProviderKind::OpenaiResponses, "https://proxy.example/v1"));
    assert_eq!(openai.api_key_env.as_deref(), Some("OPENAI_API_KEY"));
    assert_eq!(config.providers.0.len(), 4);
    let prices = config.models["fast"].prices.unwrap();
    assert_eq!((prices.input.to_string(), prices.output.to_string()), ("0.1".into(), "0.2".into()));
}

#[test]
fn ollama_is_where_its_own_programs_look_for_it() {
    for (host, url) in [
        ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
        ("localhost", "http://localhost:11434/v1"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080/v1"),
        (":8080", "http://127.0.0.1:8080/v1"),
        ("http://box.lan:1234/", "http://box.lan:1234/v1"),
        ("https://ollama.example", "https://ollama.example/v1"),
        ("[::1]:11434", "http://[::1]:11434/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("::1", "http://[::1]:11434/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
    ] {
        assert_eq!(models::ollama_url(host), url, "{host}");
    }
}

/// The least that `auth.mode = jwt` needs, and more.
fn jwt(more: &str) -> String {
    format!("[auth]\nmode = \"jwt\"\nissuer = \"i\"\naudience = \"a\"\n{more}")
}

#[test]
fn tokens_need_an_issuer_an_audience_and_keys_that_fit() {
    for good in [
        "[[auth.keys]]\nalgorithm = \"HS256\"\nsecret_file = \"x\"",
        "[[auth.keys]]\nalgorithm = \"EdDSA\"\npublic_key_file = \"x\"",
        "jwks_url = \"https://i/keys\"\njwks_algorithms = [\"RS256\"]\n[auth.roles]\nmine = [\"run.read\"]",
        "jwks_url = \"http://127.0.0.1:1/keys\"\njwks_algorithms = [\"RS256\", \"ES256\"]",
    ] {
        let config = load(&jwt(good)).unwrap();
        assert_eq!(config.auth.roles["operator"].len(), 6, "what is shipped stays");
    }
    for (wrong, named) in [
        (jwt(""), "auth.keys"),
        ("[auth]\nmode = \"jwt\"\naudience = \"a\"".to_owned(), "auth.issuer"),
        ("[auth]\nmode = \"jwt\"\nissuer = \"i\"".to_owned(), "auth.audience"),
        (jwt("leeway = \"31s\""), "auth.leeway"),
        (jwt("[[auth.keys]]\nalgorithm = \"none\"\nsecret = \"x\""), "HS256, RS256, ES256, EdDSA"),
        (jwt("[[auth.keys]]\nalgorithm = \"HS256\""), "`auth.keys`: the key without `kid` with HS256 needs"),
        (jwt("[[auth.keys]]\nkid = \"mine\"\nalgorithm = \"ES256\""), "`auth.keys`: the key `mine` with"),
        (jwt("[[auth.keys]]\nalgorithm = \"HS256\"\npublic_key_file = \"x\""), "auth.keys"),
        (jwt("[[auth.keys]]\nalgorithm = \"RS256\"\nsecret = \"x\""), "auth.keys"),
        (jwt(&"[[auth.keys]]\nalgorithm = \"HS256\"\nsecret = \"x\"\n".repeat(2)), "kid"),
        (jwt("jwks_file = \"x\""), "auth.jwks_algorithms"),
        (jwt("jwks_file = \"x\"\njwks_algorithms = [\"HS256\"]"), "auth.jwks_algorithms"),
        (jwt("jwks_url = \"http://example.com/keys\"\njwks_algorithms = [\"RS256\"]"), "auth.jwks_url"),
        (jwt("jwks_url = \"https://u:p@example.com/keys\"\njwks_algorithms = [\"RS256\"]"), "auth.jwks_url"),
        (jwt("jwks_file = \"x\"\njwks_url = \"https://i\"\njwks_algorithms = [\"RS256\"]"), "auth.jwks_file"),
        (jwt("[auth.roles]\nmine = [\"everything\"]"), "a scope is one of"),
        ("[server]\ncors_origins = [\"*\"]".to_owned(), "server.cors_origins"),
        ("[server]\ncors_origins = [\"https://example.com/\"]".to_owned(), "server.cors_origins"),
        ("[server]\ncors_origins = [\"null\"]".to_owned(), "server.cors_origins"),
    ] {
        let error = load(&wrong).unwrap_err();
        assert!(error.contains(named), "{wrong}: {error}");
    }
}

#[test]
fn gate_a13_what_is_wrong_is_said_without_what_stands_there() {
    const PLANTED: &str = "planted-7f3a";
    for text in [
        format!("[auth]\nissuer = \"{PLANTED}"),
        format!("[[auth.keys]]\nalgorithm = \"HS256\"\nsecret = [\"{PLANTED}\"]"),
        format!("[auth]\nkeys = \"{PLANTED}\""),
        format!("[auth]\nkeys = [\"{PLANTED}\"]"),
        jwt(&format!("jwks_url = \"{PLANTED}\"\njwks_algorithms = [\"RS256\"]")),
        format!("[auth]\nroles = \"{PLANTED}\""),
        format!("[database]\nurl = [\"{PLANTED}\"]"),
        format!("[providers.openai]\napi_key_env = \"sk-{PLANTED}\""),
        format!("[providers.openai]\nbase_url = \"{PLANTED}\""),
        format!("[models.a]\nprovider = \"openai\"\nmodel = \"m\"\nprices = {{ input = \"{PLANTED}\", output = 1 }}"),
    ] {
        let error = load(&text).unwrap_err();
        assert!(!error.contains(PLANTED), "{text}: {error}");
    }
}

#[test]
fn the_cap_of_streams_follows_the_mode_unless_it_is_set() {
    assert_eq!(Server::default().streams_max(AuthMode::Dev), 10_000);
    let server = Server { max_streams_per_principal: Some(7), ..Server::default() };
    assert_eq!(server.streams_max(AuthMode::Dev), 7);
}
