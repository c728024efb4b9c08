use super::*;

#[test]
fn collects_what_nobody_has_locked_and_nothing_else() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let wanted = TempFolder::create_in(parent.path()).expect("a locked folder");
    let left_by_a_kill = parent.path().join("baton-test-left");
    let foreign = parent.path().join("another-program");
    fs::create_dir_all(data_dir(&left_by_a_kill)).expect("a folder that nobody has locked");
    fs::create_dir(&foreign).expect("a folder of another program");

    collect(parent.path());

    assert!(wanted.path.is_dir());
    assert!(foreign.is_dir());
    assert!(!left_by_a_kill.exists());
}

#[test]
fn goes_when_dropped() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let folder = TempFolder::create_in(parent.path()).expect("a locked folder");
    fs::create_dir(folder.data_dir()).expect("a data folder");

    drop(folder);

    assert_eq!(fs::read_dir(parent.path()).expect("the parent").count(), 0);
}
