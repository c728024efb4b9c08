use clap::CommandFactory;

use super::*;

#[test]
fn a_command_offers_json_where_it_shows_views() {
    let mut command = Args::command();
    command.build();
    let help = |path: &[&str]| {
        let found = path.iter().fold(&command, |command, name| command.find_subcommand(name).unwrap());
        found.clone().render_help().to_string()
    };
    for path in [&["dev"][..], &["api"], &["worker"], &["migrate"], &["openapi"]] {
        assert!(!help(path).contains("--json"), "{path:?}");
        assert!(Args::try_parse_from(["agentctl", "--json"].iter().chain(path)).is_ok(), "{path:?} takes it as before");
    }
    for path in [&["run"][..], &["runs", "get"], &["approvals", "list"], &["queue"], &["why"], &["token", "mint"]] {
        assert!(help(path).contains("--json"), "{path:?}");
    }
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    use crate::exit::Exit::{Conflict, FailedRun, Interrupted, NotFound, Refused, Unavailable, Usage, Waiting};
    for code in [FailedRun, Usage, NotFound, Refused, Conflict, Unavailable, Waiting, Interrupted] {
        assert!(EXIT_CODES.contains(&format!(" {} ", code as u8)), "{code:?}");
    }
}

#[test]
fn a_status_is_known_however_it_is_written() {
    for (command, status) in
        [("runs", "running"), ("runs", "Waiting_For_User"), ("approvals", "pending"), ("approvals", "DENIED")]
    {
        let parsed = Args::try_parse_from(["agentctl", command, "list", "--status", status]);
        assert!(parsed.is_ok(), "{command} {status}: {parsed:?}");
    }
    let refused = Args::try_parse_from(["agentctl", "runs", "list", "--status", "ill"]).unwrap_err().to_string();
    assert!(refused.contains("WAITING_FOR_USER"), "{refused}");
}

#[test]
fn dev_has_a_worker() {
    assert!(Args::try_parse_from(["agentctl", "dev", "--workers", "0"]).is_err(), "runs would wait without a word");
}
