mod images;
mod install;

use std::process::Command;

use super::*;

fn dask() -> &'static dyn LocalFramework {
    muster_frameworks::local(Framework::Dask).expect("Dask is known")
}

/// Creates a fake interpreter from a shell script. Another process writes the file: a file that any process has open
/// for writing, such as a child that another test is forking, cannot be executed.
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
async fn the_first_environment_with_the_framework_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let without = interpreter(
        folder.path(),
        "without",
        "echo 'importlib.metadata.PackageNotFoundError: No package' >&2; exit 1",
    );
    let with = interpreter(folder.path(), "with", "echo 2026.8.0; echo /site/distributed; echo 3.12.4");
    let around =
        vec![(without.clone(), EnvironmentSource::Variable), (with.clone(), EnvironmentSource::Active)];
    let environments = Environments::with_interpreters(folder.path().join("made"), around);
    let found = environments.find(dask(), None).await.unwrap();
    let package = PathBuf::from("/site/distributed");
    let version = "2026.8.0".to_owned();
    let python_version = "3.12.4".to_owned();
    let source = EnvironmentSource::Active;
    assert_eq!(found, Environment { python: with, package, version, python_version, source });
}

#[tokio::test]
async fn a_requested_environment_is_preferred_but_need_not_have_the_framework() {
    let folder = tempfile::tempdir().unwrap();
    let requested = interpreter(folder.path(), "requested", "echo 1.0");
    let around = vec![(interpreter(folder.path(), "own", "echo 2.0"), EnvironmentSource::Variable)];
    let environments = Environments::with_interpreters(folder.path().join("made"), around);
    assert_eq!(environments.find(dask(), Some(&requested)).await.unwrap().version, "1.0");
    let gone = folder.path().join("gone");
    assert_eq!(environments.find(dask(), Some(&gone)).await.unwrap().version, "2.0");
}

#[tokio::test]
async fn a_missing_framework_names_the_command_and_the_searched_interpreters() {
    let folder = tempfile::tempdir().unwrap();
    let environments = Environments::with_interpreters(folder.path().join("made"), Vec::new());
    let missing = environments.find(dask(), None).await.unwrap_err();
    let places = "MUSTER_PYTHON of the server: not set; virtual environment of the server: none was active when it started";
    let made = folder.path().join("made");
    let expected = format!(
        "dask is not installed (searched: {places}; {}: nothing was installed by Muster): `muster framework install \
         dask` installs it",
        made.display()
    );
    assert_eq!(missing.to_string(), expected);
    let python = interpreter(folder.path(), "p", "echo PackageNotFoundError >&2; exit 1");
    let environments = Environments::with_interpreters(
        folder.path().join("made"),
        vec![(python, EnvironmentSource::Variable)],
    );
    let missing = environments.find(dask(), None).await.unwrap_err().to_string();
    assert!(missing.contains("(MUSTER_PYTHON): has no distributed"), "{missing}");
    assert!(missing.ends_with("`muster framework install dask` installs it"), "{missing}");
}

#[tokio::test]
async fn a_removed_environment_is_no_longer_found() {
    let folder = tempfile::tempdir().unwrap();
    let python = interpreter(folder.path(), "p", "echo 1.0");
    let environments = Environments::with_interpreters(
        folder.path().join("made"),
        vec![(python.clone(), EnvironmentSource::Active)],
    );
    assert!(environments.find(dask(), None).await.is_ok());
    std::fs::remove_file(python).unwrap();
    assert!(environments.find(dask(), None).await.is_err());
}
