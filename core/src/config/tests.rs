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
        ("[artifacts]\nfolder = \"\"", "artifacts.folder"),
        ("[server]\nmax_connections = 0", "server.max_connections"),
        ("[server]\nheader_bytes_max = 100", "server.header_bytes_max"),
        ("[server]\nbody_timeout = \"0s\"", "server"),
        ("[tools]\ndisable = []", "disable"),
        ("[demo]\neffects = \"x\"", "effects"),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.contains(named), "{text}: {error}");
    }
    assert!(Config::load(Some(Path::new("/no/such/file"))).unwrap_err().to_string().contains("/no/such/file"));
}

#[test]
fn the_cap_of_streams_follows_the_mode_unless_it_is_set() {
    assert_eq!(Server::default().streams_max(AuthMode::Dev), 10_000);
    let server = Server { max_streams_per_principal: Some(7), ..Server::default() };
    assert_eq!(server.streams_max(AuthMode::Dev), 7);
}
