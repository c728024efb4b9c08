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
        ("[tools]\ndisable = []", "disable"),
        ("[demo]\neffects = \"x\"", "effects"),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.contains(named), "{text}: {error}");
    }
    assert!(Config::load(Some(Path::new("/no/such/file"))).unwrap_err().to_string().contains("/no/such/file"));
}
