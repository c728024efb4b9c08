use serde_json::json;

use super::*;
use crate::canonical;
use crate::tools::Risk;

fn action(side_effect: SideEffect, arguments: &Value) -> Action<'_> {
    Action { tool_name: "a.b", side_effect, risk: Risk::Low, arguments }
}

fn is_blocked(side_effect: SideEffect, arguments: &Value) -> bool {
    verdict(&action(side_effect, arguments)).is_some()
}

#[test]
fn gate_c8_each_rule_blocks_its_targets_and_allows_its_near_misses() {
    for rule in RULES {
        assert!(!rule.targets.is_empty() && !rule.near_misses.is_empty(), "{}", rule.id);
        assert_eq!(RULES.iter().filter(|other| other.id == rule.id).count(), 1, "{}", rule.id);
        for (class, text) in rule.targets {
            let arguments = serde_json::from_str(text).unwrap();
            assert!(rule.blocks(&action(*class, &arguments)), "{} blocks {text}", rule.id);
            assert_eq!(verdict(&action(*class, &arguments)).unwrap().effect, Effect::Deny);
        }
        for (class, text) in rule.near_misses {
            // By no rule at all: what one lets pass, another must not catch.
            assert!(!is_blocked(*class, &serde_json::from_str(text).unwrap()), "{} allows {text}", rule.id);
        }
    }
}

/// Frozen: whoever changes a rule comes by here, raises the revision, and writes down the new hash.
#[test]
fn gate_c8_the_rules_are_frozen() {
    let text = canonical::text(&identity()).unwrap();
    assert_eq!(
        canonical::sha256_hex(&text),
        "ca6701e2dc04abe94912585284e285a8d31a388f7f01169ddfc512fe2a9ac24a",
        "raise REVISION where a rule decides otherwise"
    );
}

#[test]
fn metadata_addresses_are_found_in_every_spelling() {
    let blocked = |class, text: &str| is_blocked(class, &json!({"value": [text]}));
    let found = [
        "http://169.254.169.254",
        "HTTP://169.254.169.254./x",
        "//169.254.169.254/x",
        "169.254.169.254",
        "169.254.169.254:80/latest",
        "user:pass@169.254.169.254",
        "http://0251.0376.0251.0376/",
        "http://0xa9.0xfe.0xa9.0xfe/",
        "http://169.254.43518/",
        "http://169.16689662/",
        "http://169.254.169%2E254/",
        "http://\u{ff11}69.254.169.254/",
        "http:\\\\169.254.169.254\\x",
        " http://169.254.\n169.254/ ",
        "gopher://169.254.169.254:70/_x",
        "gopher://0xa9fea9fe/",
        "http://[fd00:0ec2:0:0::254]:80/",
        "FD00:EC2::254",
        "[fd00:ec2::254]:80",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[::169.254.169.254]/",
        "http://[64:ff9b::169.254.169.254]/",
        "http://169.254.170.2/v2/credentials",
        "http://100.100.100.200/",
        "METADATA.google.internal.",
        "http://metadata.google.internal.:80/",
        "http://instance-data/latest",
    ];
    for text in found {
        assert!(blocked(SideEffect::NetworkRead, text), "{text}");
        assert!(!blocked(SideEffect::WorkspaceRead, text), "{text}: a class that reaches nothing");
    }
    for passed in
        ["http://169.254.169.255", "http://example.com/?u=169.254.169.254", "1.2.3.4", "fd00:ec2::253", "instance-database"]
    {
        assert!(!blocked(SideEffect::NetworkRead, passed), "{passed}");
    }
    assert!(blocked(SideEffect::CodeExecution, "import requests\nrequests.get(url='http://0xa9fea9fe/')"));
}

#[test]
fn commands_are_found_behind_quotes_and_prefixes() {
    let blocked = |text: &str| is_blocked(SideEffect::SandboxNetwork, &json!({"command": text}));
    for text in [
        "rm -fr /*",
        "rm -r -f ~/",
        "r\\m -rf /",
        "\"rm\" '-rf' \"/\"",
        "/bin/rm -rf --no-preserve-root x",
        "sh -c 'rm -rf /etc'",
        "rm${IFS}-rf${IFS}/",
        "true && (cd x; rm -Rf ${HOME}/)",
        "subprocess.run([\"rm\", \"-rf\", \"/\"])",
        "echo $(rm -rf /usr/.)",
        "rm \\\n -rf /",
        "b() { b | b & }; b",
        "find /etc -exec rm {} +",
        "systemctl poweroff",
        "init 0",
        "shred -n 1 /dev/sdb",
        "x | sudo tee /dev/mem",
        "chown -R me ~",
    ] {
        assert!(blocked(text), "{text}");
    }
    for text in [
        "rm -rf node_modules/.cache",
        "rm -rf /workspace/target",
        "rm -r ~/project/build",
        "rm /tmp/x",
        "git rm -r --cached docs",
        "chmod 600 key",
        "systemctl status halt.target",
        "echo done > /dev/stderr",
        "python -c 'print(1)'",
        "init 3",
        "dd if=/dev/sda of=backup.img",
    ] {
        assert!(!blocked(text), "{text}");
    }
}

#[test]
fn nesting_without_end_is_decided() {
    let mut arguments = json!("/etc/passwd");
    for _ in 0..10_000 {
        arguments = Value::Array(vec![arguments]);
    }
    assert!(is_blocked(SideEffect::WorkspaceRead, &arguments));
    // Dropped level by level: serde_json's own drop recurses.
    while let Value::Array(mut items) = arguments {
        arguments = items.pop().unwrap_or_default();
    }
}
