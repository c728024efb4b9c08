use baton_core::config::ProviderKind;
use baton_core::outbound::{self, Reach};

use super::*;

fn account(provider: &str) -> Account {
    with_key(provider, None)
}

fn with_key(provider: &str, key: Option<&str>) -> Account {
    let endpoint = Endpoint {
        kind: ProviderKind::OpenaiChat,
        base: outbound::Endpoint::parse("http://127.0.0.1:1", Reach::Private).unwrap(),
        api_key_env: None,
        done_is_end: false,
    };
    Account::new(provider, endpoint, key.map(SecretString::from), Client::new(Reach::Private).unwrap())
}

#[test]
fn a_key_is_known_in_every_text_unless_it_is_no_secret() {
    let secret = with_key("one", Some("sk-planted-7f3a-51c0"));
    assert!(secret.is_in("req_sk-planted-7f3a-51c0_1") && !secret.is_in("req_1"));
    assert!(!with_key("one", Some("x")).is_in("call_x"), "servers of one's own want some key");
}

#[tokio::test(start_paused = true)]
async fn case_f17_who_has_refused_us_is_not_asked_for_a_minute() {
    let (refusing, other) = (account("one"), account("two"));
    assert!(!refusing.is_barred());
    refusing.bar();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(refusing.is_barred() && !other.is_barred());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!refusing.is_barred(), "it may have been paid meanwhile");
}
