mod install;

use std::process::Command;

use super::*;

fn dask() -> &'static dyn LocalFramework {
    muster_frameworks::local(Framework::Dask).expect("Dask is known")
}

/// An interpreter that answers as told. Another process writes it: a file that is open for writing, be it in a
/// process that another test is just starting, cannot be run.
fn interpreter(folder: &Path, name: &str, script: &str) -> PathBuf {
    let file = folder.join(name);
    let mut write = Command::new("sh");
    write
        .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod +x \"$2\"", "sh", script])
        .arg(&file);
    assert!(write.status().expect("sh runs").success());
    file
}

#[tokio::test]
async fn the_first_environment_that_has_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let without = interpreter(
        folder.path(),
        "without",
        "echo 'importlib.metadata.PackageNotFoundError: No package' >&2; exit 1",
    );
    let with = interpreter(folder.path(), "with", "echo 2026.8.0; echo /site/distributed");
    let around = vec![(without.clone(), Source::Variable), (with.clone(), Source::Active)];
    let environments = Environments::with(folder.path().join("made"), around);
    let found = environments.find(dask(), None).await.unwrap();
    let package = PathBuf::from("/site/distributed");
    let version = "2026.8.0".to_owned();
    assert_eq!(found, Environment { python: with, package, version, source: Source::Active });
}

#[tokio::test]
async fn what_was_asked_for_comes_first_and_need_not_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let asked = interpreter(folder.path(), "asked", "echo 1.0");
    let around = vec![(interpreter(folder.path(), "own", "echo 2.0"), Source::Variable)];
    let environments = Environments::with(folder.path().join("made"), around);
    assert_eq!(environments.find(dask(), Some(&asked)).await.unwrap().version, "1.0");
    let gone = folder.path().join("gone");
    assert_eq!(environments.find(dask(), Some(&gone)).await.unwrap().version, "2.0");
}

#[tokio::test]
async fn a_missing_framework_names_the_command_and_where_it_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let environments = Environments::with(folder.path().join("made"), Vec::new());
    let missing = environments.find(dask(), None).await.unwrap_err();
    assert_eq!(missing.to_string(), "dask is not installed: `muster framework install dask` installs it");
    let python = interpreter(folder.path(), "p", "echo PackageNotFoundError >&2; exit 1");
    let environments = Environments::with(folder.path().join("made"), vec![(python, Source::Variable)]);
    let missing = environments.find(dask(), None).await.unwrap_err().to_string();
    assert!(missing.contains("(MUSTER_PYTHON): has no distributed"), "{missing}");
    assert!(missing.ends_with("`muster framework install dask` installs it"), "{missing}");
}

#[tokio::test]
async fn an_environment_that_has_gone_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let python = interpreter(folder.path(), "p", "echo 1.0");
    let environments = Environments::with(folder.path().join("made"), vec![(python.clone(), Source::Active)]);
    assert!(environments.find(dask(), None).await.is_ok());
    std::fs::remove_file(python).unwrap();
    assert!(environments.find(dask(), None).await.is_err());
}
