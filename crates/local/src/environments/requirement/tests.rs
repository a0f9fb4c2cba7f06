use std::os::unix::fs::PermissionsExt as _;

use rstest::rstest;

use super::*;

fn spark() -> Requirement {
    let spark = muster_frameworks::local(Framework::Spark).expect("Spark is known");
    spark.requirement().expect("it needs something")
}

/// Creates a fake `java` that prints this text.
fn java(folder: &Path, name: &str, output: &str) -> PathBuf {
    let bin = folder.join(name).join("bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    let script = format!("#!/bin/sh\nprintf '{output}' >&2\n");
    // A file that any process has open for writing, such as a child that another test is forking, cannot be executed.
    std::fs::write(bin.join("java"), script).expect("a script");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bin.join("java"), mode).expect("a script that runs");
    bin
}

fn version(folder: &Path, name: &str, version: &str) -> PathBuf {
    let home = folder.join(name);
    let output =
        format!("    java.home = {}\\n    java.specification.version = {version}\\n", home.display());
    java(folder, name, &output)
}

#[tokio::test]
async fn the_first_that_is_new_enough_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let [old, good, newer] =
        ["1.8", "17", "21"].map(|number| version(folder.path(), &format!("java-{number}"), number));
    let requirement = spark();
    let home = old.parent().unwrap().as_os_str().to_owned();
    let path = std::env::join_paths([&folder.path().join("gone"), &good, &newer]).unwrap();
    let candidates = candidates(&requirement, Some(home), Some(path));
    assert_eq!(candidates, [&old, &good, &newer].map(|bin| bin.join("java")));
    let found = first_sufficient(Framework::Spark, &requirement, candidates).await.unwrap();
    assert_eq!(found, InstalledProgram { version: 17, home: good.parent().unwrap().to_owned() });
}

#[rstest]
#[case::nothing(
    None,
    "spark needs Java 17 or newer, but there is no java in JAVA_HOME or PATH of the server: install it"
)]
#[case::old(
    Some("    java.home = /x\\n    java.specification.version = 11\\n"),
    "/old/bin/java is version 11: install it"
)]
#[case::mute(Some("no words"), "/old/bin/java does not report its version: install it")]
#[tokio::test]
async fn an_unmet_requirement_names_what_was_found_and_the_remedy(
    #[case] output: Option<&str>,
    #[case] expected: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let requirement = spark();
    let path = output.map(|output| java(folder.path(), "old", output).into_os_string());
    let candidates = candidates(&requirement, None, path);
    let why = first_sufficient(Framework::Spark, &requirement, candidates).await.unwrap_err().to_string();
    assert!(why.contains(expected), "{why}");
    assert!(why.contains("set JAVA_HOME where the server runs"), "{why}");
}

#[tokio::test]
async fn a_variable_with_a_missing_program_is_named() {
    let requirement = spark();
    let candidates = candidates(&requirement, Some("/nowhere".into()), None);
    let why = first_sufficient(Framework::Spark, &requirement, candidates).await.unwrap_err().to_string();
    assert!(why.contains("/nowhere/bin/java cannot be run (No such file"), "{why}");
}
