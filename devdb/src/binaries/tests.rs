use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

#[test]
fn reads_the_major_version() {
    for (answer, expected) in [
        ("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n", Some(15)),
        ("postgres (PostgreSQL) 18.6", Some(18)),
        ("postgres (PostgreSQL) 19beta1", Some(19)),
        ("postgres (PostgreSQL) devel", None),
        ("another program 15.1", None),
        ("", None),
    ] {
        assert_eq!(major_of(answer), expected, "{answer:?}");
    }
}

#[test]
fn takes_the_first_usable_candidate() {
    let (old, new, newer) = (installation(13), installation(16), installation(17));
    let empty = tempfile::tempdir().expect("a temporary folder");

    let found = resolve(&candidates(&[&empty, &old, &new, &newer]), None).expect("the second is usable");

    assert_eq!(found.major(), 16);
    assert_eq!(found.bindir(), fs::canonicalize(new.path()).expect("it exists"));
}

#[test]
fn takes_the_version_of_the_existing_cluster() {
    let (other, same) = (installation(17), installation(16));

    let found = resolve(&candidates(&[&other, &same]), Some(16)).expect("the second can open it");

    assert_eq!(found.major(), 16);
}

#[test]
fn names_the_package_when_nothing_is_usable() {
    let other = installation(17);

    let none = resolve(&Candidates::default(), None).expect_err("there is nothing").to_string();
    let mismatch = resolve(&candidates(&[&other]), Some(16)).expect_err("none can open it").to_string();

    assert!(none.contains("`apt-get install postgresql`"), "{none}");
    assert!(none.contains("fetching one was refused"), "{none}");
    assert!(!none.contains('\n'), "{none}");
    assert!(mismatch.contains("PostgreSQL 17 cannot open"), "{mismatch}");
    assert!(mismatch.contains("`apt-get install postgresql-16`"), "{mismatch}");
}

#[test]
fn tries_nothing_else_than_an_explicit_folder() {
    let (old, usable) = (installation(13), installation(16));
    let explicit = Candidates { explicit: Some(old.path().to_path_buf()), ..candidates(&[&usable]) };

    let error = resolve(&explicit, None).expect_err("it is too old").to_string();

    assert!(error.starts_with("BATON_PG_BINDIR="), "{error}");
    assert!(error.contains("older than 14"), "{error}");
}

fn resolve(candidates: &Candidates, existing: Option<u32>) -> Result<Binaries, Error> {
    let owner = Owner::resolve()?;
    let place = tempfile::tempdir().expect("a temporary folder");
    Binaries::resolve(candidates, existing, owner, &Download::Refused, place.path())
}

fn candidates(folders: &[&TempDir]) -> Candidates {
    Candidates { explicit: None, machine: folders.iter().map(|folder| folder.path().to_path_buf()).collect() }
}

/// A folder whose `postgres` says that it is of this version.
fn installation(major: u32) -> TempDir {
    let open = fs::Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(open.clone()).tempdir().expect("a temporary folder");
    for (name, script) in
        [("postgres", format!("#!/bin/sh\necho 'postgres (PostgreSQL) {major}.1'\n")), ("initdb", String::new())]
    {
        let program = folder.path().join(name);
        fs::write(&program, script).expect("a program");
        fs::set_permissions(&program, open.clone()).expect("its mode");
    }
    folder
}
