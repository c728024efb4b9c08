//! The layers together, and the gates that they are for.

use std::io::Write;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::hardline::{self, RULES};
use super::profile::Profile;
use super::*;
use crate::agents::AgentDefinition;
use crate::tools::{Risk, SideEffect};

const DEFAULT: &str = include_str!("../../../policies/default.toml");

/// All that is allowed, so that only the other layers decide.
fn open_profile() -> String {
    profile("open", |_| "allow")
}

fn profile(name: &str, decision: impl Fn(SideEffect) -> &'static str) -> String {
    let classes: String = SideEffect::ALL.iter().map(|class| format!("{class} = \"{}\"\n", decision(*class))).collect();
    format!("name = \"{name}\"\n[classes]\n{classes}")
}

/// A folder with these files, loaded.
fn load(files: &[&str]) -> Result<Profiles, String> {
    let folder = tempfile::tempdir().unwrap();
    for (index, text) in files.iter().enumerate() {
        std::fs::File::create(folder.path().join(format!("{index}.toml"))).unwrap().write_all(text.as_bytes()).unwrap();
    }
    Profiles::load(Some(folder.path())).map_err(|error| error.to_string())
}

fn policy(text: &str, agent: &AgentPolicy) -> Arc<Policy> {
    let profiles = load(&[text]).unwrap();
    let name = Profile::parse(text).unwrap().name;
    profiles.policy_of(&name, agent).unwrap()
}

fn agent(classes: &[(SideEffect, Effect)], tools: &[(&str, Effect)]) -> AgentPolicy {
    let tools = tools.iter().map(|(name, effect)| ((*name).to_owned(), *effect));
    AgentPolicy { classes: classes.iter().copied().collect(), tools: tools.collect() }
}

#[test]
fn the_default_profile_decides_as_documented() {
    use SideEffect as Class;
    let policy = policy(DEFAULT, &AgentPolicy::default());
    for class in SideEffect::ALL {
        let expected = match class {
            Class::None | Class::WorkspaceRead | Class::WorkspaceWrite | Class::NetworkRead => Effect::Allow,
            Class::ExternalMessage | Class::ExternalWrite | Class::ExternalDelete | Class::Financial | Class::Publication => {
                Effect::RequireApproval
            }
            Class::CodeExecution | Class::PackageInstall | Class::SandboxNetwork => Effect::Deny,
            Class::CredentialAccess | Class::HostAccess | Class::Privileged => Effect::Deny,
        };
        let action = Action { tool_name: "any.tool", side_effect: *class, risk: Risk::Low, arguments: &json!({}) };
        assert_eq!(policy.decide(&action).effect, expected, "{class}");
    }
}

#[test]
fn a_decision_says_why_and_repeats_no_argument() {
    let arguments = json!({"path": "/etc/sekrit"});
    let of = |side_effect, agent: &AgentPolicy| {
        let action = Action { tool_name: "some.tool", side_effect, risk: Risk::Low, arguments: &arguments };
        policy(DEFAULT, agent).decide(&action)
    };
    let none = AgentPolicy::default();
    for (decision, code, said) in [
        (of(SideEffect::None, &none), "allowed", "The policy profile `default` allows calls of class `none`."),
        (of(SideEffect::WorkspaceRead, &none), "tool_policy_denied", "Paths of the host's system are never allowed."),
        (
            of(SideEffect::Financial, &none),
            "approval_required",
            "The policy profile `default` asks a person to approve calls of class `financial`.",
        ),
        (
            of(SideEffect::Financial, &agent(&[], &[("some.tool", Effect::Deny)])),
            "tool_policy_denied",
            "The agent's own policy denies this call.",
        ),
    ] {
        assert_eq!((decision.reason_code, decision.explanation.as_str()), (code, said));
        assert!(!decision.explanation.contains("sekrit") && decision.policy_version.len() == 64);
    }
}

#[test]
fn a_rule_refines_its_profile_by_tool_then_by_pair() {
    let text = profile("refined", |_| "require_approval")
        + "[[rule]]\nclass = \"external_write\"\nrisk = \"low\"\ndecision = \"allow\"\n"
        + "[[rule]]\ntool = \"crm.note\"\ndecision = \"deny\"\n";
    let policy = policy(&text, &AgentPolicy::default());
    let decide = |tool_name, risk| {
        policy.decide(&Action { tool_name, side_effect: SideEffect::ExternalWrite, risk, arguments: &json!({}) }).effect
    };
    assert_eq!(decide("crm.update", Risk::High), Effect::RequireApproval);
    assert_eq!(decide("crm.update", Risk::Low), Effect::Allow);
    assert_eq!(decide("crm.note", Risk::Low), Effect::Deny);
}

#[test]
fn a_wrong_profile_does_not_load_and_names_everything_at_once() {
    let wrong = "nam = \"x\"\nrequire_distinct_approver = 1\n[classes]\nnone = \"maybe\"\nnonsense = \"allow\"\n\
        [[rule]]\nrisk = \"high\"\ndecision = \"allow\"\n\
        [[rule]]\ntool = \"Not A Tool\"\nclass = \"none\"\ndecision = \"deny\"\n\
        [[rule]]\ntool = \"a.b\"\ndecision = \"deny\"\n[[rule]]\ntool = \"a.b\"\ndecision = \"allow\"\n";
    let error = load(&[wrong, "name = ", &open_profile()]).unwrap_err();
    for named in [
        "/nam: is not known",
        "/name: ",
        "/require_distinct_approver: ",
        "/classes/none: ",
        "/classes/nonsense: is not known",
        "/classes/privileged: is required",
        "/rule/0/class: is required",
        "/rule/1: `tool`",
        "/rule/1/tool: ",
        "/rule/3: another",
        "1.toml: : TOML",
    ] {
        assert!(error.contains(named), "{named}\n{error}");
    }
}

#[test]
fn a_file_may_replace_the_default_and_no_two_may_share_a_name() {
    let strict = profile("default", |_| "deny").replace("[classes]", "require_distinct_approver = true\n[classes]");
    let profiles = load(&[&strict, &open_profile()]).unwrap();
    assert_eq!(profiles.names().collect::<Vec<_>>(), ["default", "open"]);
    let replaced = profiles.policy_of("default", &AgentPolicy::default()).unwrap();
    let calm = Action { tool_name: "a.b", side_effect: SideEffect::None, risk: Risk::Low, arguments: &json!({}) };
    assert_eq!((replaced.decide(&calm).effect, replaced.decide(&calm).distinct_approver), (Effect::Deny, true));
    assert!(load(&[&strict, &strict]).unwrap_err().contains("1.toml: /name: `default`"));
    assert!(profiles.policy_of("missing", &AgentPolicy::default()).is_none());
    assert!(load(&[]).unwrap_err().contains("holds no"), "a folder without profiles is the wrong folder");
}

#[test]
fn the_version_follows_everything_that_decides() {
    let none = AgentPolicy::default();
    let first = policy(DEFAULT, &none);
    assert_eq!(first.version(), policy(DEFAULT, &none).version());
    let distinct = DEFAULT.replace("require_distinct_approver = false", "require_distinct_approver = true");
    let ruled = format!("{DEFAULT}\n[[rule]]\ntool = \"a.b\"\ndecision = \"deny\"\n");
    let others = [
        policy(&distinct, &none),
        policy(&ruled, &none),
        policy(&DEFAULT.replace("financial = \"require_approval\"", "financial = \"deny\""), &none),
        policy(DEFAULT, &agent(&[], &[("a.b", Effect::Allow)])),
    ];
    for other in others {
        assert_ne!(first.version(), other.version());
    }
}

#[test]
fn an_agents_layer_is_read_from_its_file() {
    let read = |text: &str| toml::from_str::<AgentPolicy>(text);
    let expected = agent(&[(SideEffect::NetworkRead, Effect::Deny)], &[("a.b", Effect::RequireApproval)]);
    assert_eq!(read("classes = { network_read = \"deny\" }\ntools = { \"a.b\" = \"require_approval\" }").unwrap(), expected);
    assert!(read("classes = { nonsense = \"deny\" }").is_err() && read("profile = \"x\"").is_err());
    let demo: AgentDefinition = toml::from_str(include_str!("../../../agents/demo.toml")).unwrap();
    assert_eq!(serde_json::to_value(demo).unwrap().get("policy"), None, "agents without a layer keep their hash");
    assert_eq!(agent(&[], &[("Not A Tool", Effect::Deny)]).problems()[0].path, "/policy/tools/Not A Tool");
}

#[test]
fn gate_c7_every_class_has_exactly_one_rule_in_every_profile() {
    let profiles = load(&[&open_profile()]).unwrap();
    assert_eq!(profiles.names().count(), 2);
    for text in [DEFAULT, &open_profile()] {
        // In the file: TOML refuses a key that comes twice, so that each class is there once.
        let table: toml::Table = text.parse().unwrap();
        let mut written: Vec<&str> = table["classes"].as_table().unwrap().keys().map(String::as_str).collect();
        let mut all: Vec<&str> = SideEffect::ALL.iter().map(|class| class.as_str()).collect();
        written.sort_unstable();
        all.sort_unstable();
        assert_eq!(written, all);
        let profile = Profile::parse(text).unwrap();
        for class in SideEffect::ALL {
            // In memory: what the file says of the class is what is decided for it.
            let decided =
                profile.verdict(&Action { tool_name: "a.b", side_effect: *class, risk: Risk::Low, arguments: &json!({}) });
            assert_eq!(table["classes"][class.as_str()].as_str(), Some(decided.effect.as_str()), "{class}");
            let line = format!("{class} = \"{}\"\n", decided.effect);
            let problems = Profile::parse(&text.replacen(&line, "", 1)).unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert_eq!(problems[0].path, format!("/classes/{class}"));
            assert!(Profile::parse(&text.replacen(&line, &line.repeat(2), 1)).is_err(), "{class} twice");
        }
    }
}

#[test]
fn gate_c7_the_decision_is_the_same_a_thousand_times() {
    let policy = policy(DEFAULT, &agent(&[(SideEffect::NetworkRead, Effect::RequireApproval)], &[]));
    let arguments = json!({"url": "https://example.com/", "path": "docs/a.md"});
    for class in SideEffect::ALL {
        let action = Action { tool_name: "a.b", side_effect: *class, risk: Risk::High, arguments: &arguments };
        let first = policy.decide(&action);
        assert!((1..1000).all(|_| policy.decide(&action) == first), "{class}");
    }
}

fn effects() -> impl Strategy<Value = Effect> {
    select(Effect::ALL)
}

fn classes() -> impl Strategy<Value = SideEffect> {
    select(SideEffect::ALL)
}

fn tool_names() -> impl Strategy<Value = &'static str> {
    select(&["a.b", "c.d", "mcp.e", ""][..])
}

fn agents() -> impl Strategy<Value = AgentPolicy> {
    let tools = prop::collection::btree_map(tool_names().prop_map(str::to_owned), effects(), 0..3);
    (prop::collection::btree_map(classes(), effects(), 0..4), tools).prop_map(|(classes, tools)| AgentPolicy { classes, tools })
}

/// Any profile, from its file.
fn profiles() -> impl Strategy<Value = String> {
    let refinements = prop::collection::btree_map((classes(), select(Risk::ALL)), effects(), 0..4);
    (prop::collection::vec(effects(), SideEffect::ALL.len()), refinements).prop_map(|(of_class, refinements)| {
        let rules: String = refinements
            .iter()
            .map(|((class, risk), effect)| format!("[[rule]]\nclass = \"{class}\"\nrisk = \"{risk}\"\ndecision = \"{effect}\"\n"))
            .collect();
        profile("any", |class| of_class[class as usize].as_str()) + &rules
    })
}

/// Any JSON, with many strings that rules look for.
fn arguments() -> impl Strategy<Value = Value> {
    let examples: Vec<Value> = RULES
        .iter()
        .flat_map(|rule| rule.targets.iter().chain(rule.near_misses))
        .map(|(_, text)| serde_json::from_str(text).unwrap())
        .collect();
    let hostile =
        ["", "~", "/", "..", "rm", "-rf", "http://", "(){", "\\", "[::]", "\u{e9}\u{301}", "file:", "/dev/sda", ">", "-c"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::collection::vec(select(hostile.to_vec()), 0..6).prop_map(|parts| Value::from(parts.concat())),
        select(examples),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A policy without its file on disk.
fn policy_of(text: &str, agent: AgentPolicy) -> Policy {
    Policy::new(Profile::parse(text).unwrap().into(), agent).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn gate_c7_deciding_is_total_and_deterministic(
        profile in profiles(), agent in agents(), arguments in arguments(),
        tool_name in tool_names(), side_effect in classes(), risk in select(Risk::ALL),
    ) {
        let action = Action { tool_name, side_effect, risk, arguments: &arguments };
        let first = policy_of(&profile, agent.clone()).decide(&action);
        prop_assert_eq!(&first, &policy_of(&profile, agent).decide(&action));
        let expected = match first.effect {
            Effect::Allow => "allowed",
            Effect::RequireApproval => "approval_required",
            Effect::Deny => "tool_policy_denied",
        };
        prop_assert_eq!(first.reason_code, expected);
    }

    #[test]
    fn gate_c8_a_layer_can_only_tighten(
        profile in profiles(), agent in agents(), arguments in arguments(),
        tool_name in tool_names(), side_effect in classes(), risk in select(Risk::ALL),
    ) {
        let action = Action { tool_name, side_effect, risk, arguments: &arguments };
        let alone = Profile::parse(&profile).unwrap().verdict(&action).effect;
        let hardened = policy_of(&profile, AgentPolicy::default()).decide(&action).effect;
        let whole = policy_of(&profile, agent.clone()).decide(&action).effect;
        prop_assert!(alone <= hardened && hardened <= whole);
        // Exactly the strictest of the three: nothing else decides.
        let of_agent = agent.verdict(&action).map_or(Effect::Allow, |verdict| verdict.effect);
        let of_hardline = hardline::verdict(&action).map_or(Effect::Allow, |verdict| verdict.effect);
        prop_assert_eq!(whole, alone.max(of_agent).max(of_hardline));
    }
}
