use std::os::unix::fs::PermissionsExt as _;

use rstest::rstest;

use super::*;

fn spark() -> Requirement {
    let spark = muster_frameworks::local(Framework::Spark).expect("Spark is known");
    spark.requirement().expect("it needs something")
}

/// A Java of this version, or something else that says this.
fn java(folder: &Path, name: &str, said: &str) -> PathBuf {
    let bin = folder.join(name).join("bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    let script = format!("#!/bin/sh\nprintf '{said}' >&2\n");
    // Renamed into its place: a file that is open for writing, be it in a process that another test is just starting,
    // cannot be run.
    std::fs::write(bin.join("java"), script).expect("a script");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bin.join("java"), mode).expect("a script that runs");
    bin
}

fn version(folder: &Path, name: &str, version: &str) -> PathBuf {
    let home = folder.join(name);
    let said = format!("    java.home = {}\\n    java.specification.version = {version}\\n", home.display());
    java(folder, name, &said)
}

#[tokio::test]
async fn the_first_that_is_new_enough_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let [old, good, newer] =
        ["1.8", "17", "21"].map(|number| version(folder.path(), &format!("java-{number}"), number));
    let requirement = spark();
    let home = old.parent().unwrap().as_os_str().to_owned();
    let path = std::env::join_paths([&folder.path().join("gone"), &good, &newer]).unwrap();
    let places = places(&requirement, Some(home), Some(path));
    assert_eq!(places, [&old, &good, &newer].map(|bin| bin.join("java")));
    let found = first(Framework::Spark, &requirement, places).await.unwrap();
    assert_eq!(found, Program { version: 17, home: good.parent().unwrap().to_owned() });
}

#[rstest]
#[case::nothing(
    None,
    "spark needs Java 17 or newer, and there is no java in JAVA_HOME or PATH of the server: install it"
)]
#[case::old(
    Some("    java.home = /x\\n    java.specification.version = 11\\n"),
    "/old/bin/java is version 11: install it"
)]
#[case::mute(Some("no words"), "/old/bin/java does not say its version: install it")]
#[tokio::test]
async fn what_is_missing_is_said_with_what_was_found_and_what_to_do(
    #[case] said: Option<&str>,
    #[case] sentence: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let requirement = spark();
    let path = said.map(|said| java(folder.path(), "old", said).into_os_string());
    let places = places(&requirement, None, path);
    let why = first(Framework::Spark, &requirement, places).await.unwrap_err().to_string();
    assert!(why.contains(sentence), "{why}");
    assert!(why.contains("set JAVA_HOME where the server runs"), "{why}");
}

#[tokio::test]
async fn a_variable_that_leads_nowhere_is_named() {
    let requirement = spark();
    let places = places(&requirement, Some("/nowhere".into()), None);
    let why = first(Framework::Spark, &requirement, places).await.unwrap_err().to_string();
    assert!(why.contains("/nowhere/bin/java cannot be run (No such file"), "{why}");
}
