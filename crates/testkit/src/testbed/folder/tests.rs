use super::*;

#[test]
fn a_folder_that_the_testbed_made_is_gone_with_it() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("bed");
    let folder = TestbedFolder::make(Some(&dir)).unwrap();
    fs::write(folder.kubeconfig(), "").unwrap();
    drop(folder);
    assert!(!dir.exists());
}

#[test]
fn a_folder_that_was_there_stays_and_is_empty_again() {
    let temp = tempfile::tempdir().unwrap();
    let folder = TestbedFolder::make(Some(temp.path())).unwrap();
    fs::create_dir_all(folder.postgres().join("base")).unwrap();
    drop(folder);
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_with_something_in_it_is_refused_and_left_as_it_is() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("thesis.tex"), "").unwrap();
    let refusal = format!("{:#}", TestbedFolder::make(Some(temp.path())).unwrap_err());
    assert!(refusal.ends_with("it is not empty"), "{refusal}");
    assert!(temp.path().join("thesis.tex").exists());
}

#[test]
fn a_folder_has_one_testbed_at_a_time() {
    let temp = tempfile::tempdir().unwrap();
    let _folder = TestbedFolder::make(Some(temp.path())).unwrap();
    let refusal = format!("{:#}", TestbedFolder::make(Some(temp.path())).unwrap_err());
    assert!(refusal.ends_with("another testbed runs there"), "{refusal}");
}

#[test]
fn what_a_killed_testbed_left_in_a_given_folder_is_no_obstacle() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join(LOCK), "").unwrap();
    fs::write(temp.path().join(SOCKET), "").unwrap();
    let folder = TestbedFolder::make(Some(temp.path())).unwrap();
    assert!(!folder.socket().exists());
    drop(folder);
    assert!(temp.path().exists());
}

#[test]
fn a_folder_that_a_killed_testbed_made_goes_with_the_next_one_in_it() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("bed");
    fs::create_dir(&dir).unwrap();
    drop(prepare(&dir, true).unwrap());
    drop(TestbedFolder::make(Some(&dir)).unwrap());
    assert!(!dir.exists());
}

#[test]
fn a_check_of_a_folder_changes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    check(&temp.path().join("new")).unwrap();
    assert!(!temp.path().join("new").exists());
    fs::write(temp.path().join(LOCK), "").unwrap();
    check(temp.path()).unwrap();
    assert!(temp.path().join(LOCK).exists());
    let file = temp.path().join("thesis.tex");
    fs::write(&file, "").unwrap();
    for refused in [temp.path(), &file] {
        let refusal = format!("{:#}", check(refused).unwrap_err());
        assert!(refusal.starts_with(&format!("cannot use the folder {}: ", refused.display())), "{refusal}");
    }
}

#[test]
fn the_inventory_is_for_its_owner_only_and_goes_with_the_folder() {
    let temp = tempfile::tempdir().unwrap();
    let folder = TestbedFolder::make(Some(temp.path())).unwrap();
    folder.write_inventory("{}").unwrap();
    let mode = fs::metadata(temp.path().join(INVENTORY)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(folder);
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}
