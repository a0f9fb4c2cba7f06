//! Installations with a Python that does as told.

use futures::StreamExt as _;
use muster_engine::ports::frameworks::{FrameworkEnvironment, Frameworks, InstallProgress, Installation};
use rstest::rstest;

use super::*;

/// A Python whose environments have a pip that does this; `venv` is what it does after it has made one.
fn environments(folder: &Path, venv: &str, pip: &str) -> Environments {
    let of_environment = format!(r#"case "$*" in *" pip install "*) {pip} ;; *) echo 7.0 ;; esac"#);
    let python = interpreter(folder, "of-environment", &of_environment);
    let make = format!(
        r#"test "$1 $2 $3" = "-I -m venv" && mkdir -p "$4/bin" && ln -s {} "$4/bin/python"; {venv}"#,
        python.display()
    );
    let base = interpreter(folder, "base", &make);
    Environments::of_base(base, folder.join("made"), Vec::new())
}

async fn said(mut installation: Installation) -> (Vec<String>, Result<(FrameworkEnvironment, bool), String>) {
    let mut lines = Vec::new();
    while let Some(told) = installation.next().await {
        match told {
            Ok(InstallProgress::Doing(line)) => lines.push(line),
            Ok(InstallProgress::Done { found, already }) => return (lines, Ok((found, already))),
            Err(why) => return (lines, Err(why)),
        }
    }
    panic!("it ended without a word of the result: {lines:?}")
}

/// Listens until this is being done.
async fn until(installation: &mut Installation, what: &str) {
    while let Some(told) = installation.next().await {
        match told {
            Ok(InstallProgress::Doing(line)) if line.contains(what) => return,
            Ok(InstallProgress::Doing(_)) => {}
            other => panic!("it ended before it said '{what}': {other:?}"),
        }
    }
    panic!("it ended before it said '{what}'")
}

/// A pip that waits until somebody writes to a pipe.
fn waiting_pip(folder: &Path) -> (PathBuf, String) {
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let pip = format!("echo begun; read go < {}; echo over", pipe.display());
    (pipe, pip)
}

#[tokio::test]
async fn an_installed_framework_is_found_at_once_and_not_installed_again() {
    let folder = tempfile::tempdir().unwrap();
    let environments = environments(folder.path(), "true", "echo Collecting it");
    assert!(environments.find(dask(), None).await.is_err());
    let (lines, done) = said(environments.install(dask())).await;
    assert!(lines.contains(&"Collecting it".to_owned()), "{lines:?}");
    let (found, already) = done.unwrap();
    assert_eq!((found.version.as_str(), found.source, already), ("7.0", "installed by Muster", false));
    assert!(found.interpreter.starts_with(&*folder.path().join("made").to_string_lossy()), "{found:?}");
    assert_eq!(environments.find(dask(), None).await.unwrap().source, Source::Installed);
    assert_eq!(said(environments.install(dask())).await, (Vec::new(), Ok((found, true))));
}

#[tokio::test]
async fn what_packages_are_built_with_is_pinned_where_some_are() {
    let folder = tempfile::tempdir().unwrap();
    let pip = r#"echo "built with $PIP_CONSTRAINT $PIP_BUILD_CONSTRAINT of $PWD: $(grep -c == pins.txt)"; echo "$*""#;
    let environments = environments(folder.path(), "true", pip);
    let spark = muster_frameworks::local(Framework::Spark).unwrap();
    for (framework, constraints) in [(spark, "pins.txt pins.txt"), (dask(), " ")] {
        let (lines, _) = said(environments.install(framework)).await;
        let made = folder.path().join(format!("made/{}-", framework.framework()));
        let built = lines.iter().find(|line| line.starts_with("built with ")).unwrap();
        assert!(built.starts_with(&format!("built with {constraints} of {}", made.display())), "{built}");
        assert!(!built.ends_with(": 0"), "{built}");
        assert!(lines.iter().any(|line| line.contains("--only-binary :all:")), "{lines:?}");
    }
}

#[tokio::test]
async fn of_two_installations_one_waits_and_finds_it_there() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, pip) = waiting_pip(folder.path());
    let environments = environments(folder.path(), "true", &pip);
    let mut first = environments.install(dask());
    until(&mut first, "begun").await;
    let mut second = environments.install(dask());
    until(&mut second, "dask is being installed already: waiting").await;
    std::fs::write(pipe, "go\n").unwrap();
    let (first, second) = futures::join!(said(first), said(second));
    assert!(!first.1.unwrap().1, "the first one made it");
    assert!(second.1.unwrap().1, "the second one found it");
    assert_eq!(second.0, Vec::<String>::new(), "the second one did nothing");
}

#[tokio::test]
async fn whoever_stops_listening_ends_it_and_the_next_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, pip) = waiting_pip(folder.path());
    let environments = environments(folder.path(), "true", &pip);
    let mut ended = environments.install(dask());
    until(&mut ended, "begun").await;
    let made = || std::fs::read_dir(folder.path().join("made")).unwrap().map(|entry| entry.unwrap().path());
    let half = made().find(|path| path.is_dir()).unwrap();
    std::fs::write(half.join("rest"), "of before").unwrap();
    drop(ended);
    assert!(environments.find(dask(), None).await.is_err(), "half of it is nothing");
    let mut again = environments.install(dask());
    until(&mut again, "begun").await;
    assert!(!half.join("rest").exists());
    std::fs::write(pipe, "go\n").unwrap();
    assert!(!said(again).await.1.unwrap().1);
}

#[tokio::test]
async fn what_outlives_its_installation_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, _) = waiting_pip(folder.path());
    let (pipe_name, mark) = (pipe.display(), folder.path().join("mark"));
    // The first one starts something that is not killed with it, as a dead server's pip is not. A shell would give it
    // another standard input.
    let leave_behind = format!(
        "test -e {0} && exit; touch {0}; exec 3<&0; setsid sh -c 'echo begun; exec timeout 60 cat {pipe_name}' <&3 & wait",
        mark.display()
    );
    let environments = environments(folder.path(), "true", &leave_behind);
    let mut ended = environments.install(dask());
    until(&mut ended, "begun").await;
    drop(ended);
    let mut next = environments.install(dask());
    until(&mut next, "waiting for that").await;
    std::fs::write(pipe, "go\n").unwrap();
    assert!(!said(next).await.1.unwrap().1);
}

#[rstest]
#[case::no_network(
    "true",
    "for n in 1 2 3 4 5 6 7 8 9; do echo line $n; done; echo 'ERROR: No matching distribution' >&2; exit 1",
    &["the packages of dask could not be installed (pip: exit status: 1)", "set PIP_INDEX_URL", "line 9", "ERROR: No matching"],
    &["line 1\n"]
)]
#[case::no_pip(
    "true",
    "echo '/x/python: No module named pip' >&2; exit 1",
    &["has no pip", "apt install python3-venv"],
    &["index"]
)]
#[case::disk_full(
    "true",
    "echo 'ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device'; exit 1",
    &["dask cannot be installed in ", "the disk is full; free some space and install again"],
    &["index"]
)]
#[case::no_ensurepip(
    "echo 'not created successfully because ensurepip is not available'; exit 1",
    "true",
    &["has no module venv or ensurepip", "apt install python3-venv", "not created successfully"],
    &[]
)]
#[case::disk_full_at_once(
    "echo 'Error: [Errno 28] No space left on device' >&2; exit 1",
    "true",
    &["the disk is full"],
    &["venv"]
)]
#[case::another_reason(
    "echo 'a meteor' >&2; exit 3",
    "true",
    &["could not make an environment (exit status: 3). It said last:\na meteor"],
    &[]
)]
#[tokio::test]
async fn a_failed_installation_says_why_and_leaves_nothing(
    #[case] venv: &str,
    #[case] pip: &str,
    #[case] sentences: &[&str],
    #[case] not: &[&str],
) {
    let folder = tempfile::tempdir().unwrap();
    let environments = environments(folder.path(), venv, pip);
    let why = said(environments.install(dask())).await.1.unwrap_err();
    for sentence in sentences {
        assert!(why.contains(sentence), "{why}");
    }
    for sentence in not {
        assert!(!why.contains(sentence), "{why}");
    }
    let left = std::fs::read_dir(folder.path().join("made")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["dask.lock"]);
}

#[tokio::test]
async fn without_python_or_a_folder_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("no-python");
    let environments = Environments::of_base(gone.clone(), folder.path().join("made"), Vec::new());
    let why = said(environments.install(dask())).await.1.unwrap_err();
    assert!(why.starts_with(&format!("{} cannot be run", gone.display())), "{why}");
    assert!(why.contains("install Python 3 with its module venv"), "{why}");
    std::fs::write(folder.path().join("file"), "").unwrap();
    let environments = Environments::of_base(gone, folder.path().join("file"), Vec::new());
    let why = said(environments.install(dask())).await.1.unwrap_err();
    assert!(why.starts_with("dask cannot be installed: the folder "), "{why}");
}

#[tokio::test]
async fn an_environment_of_the_user_that_has_it_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let own = interpreter(folder.path(), "own", "echo 2.0");
    let environments = Environments::of_base(
        folder.path().join("never-run"),
        folder.path().join("made"),
        vec![(own.clone(), Source::Active)],
    );
    let (lines, done) = said(environments.install(dask())).await;
    let found = FrameworkEnvironment {
        version: "2.0".to_owned(),
        interpreter: own.to_string_lossy().into_owned(),
        source: "active virtual environment",
    };
    assert_eq!((lines, done), (Vec::new(), Ok((found, true))));
}

#[tokio::test]
async fn a_look_is_at_how_things_are_now() {
    let folder = tempfile::tempdir().unwrap();
    let own = interpreter(folder.path(), "own", "echo 1.0");
    let around = vec![(own, Source::Variable)];
    let environments = Environments::with(folder.path().join("made"), around);
    assert_eq!(environments.environment(Framework::Dask).await.unwrap().version, "1.0");
    interpreter(folder.path(), "own", "echo 2.0");
    assert_eq!(environments.environment(Framework::Dask).await.unwrap().version, "2.0");
    interpreter(folder.path(), "own", "echo PackageNotFoundError >&2; exit 1");
    let lacking = environments.environment(Framework::Dask).await.unwrap_err();
    assert!(lacking.what.starts_with("dask is not installed ("), "{lacking:?}");
    assert_eq!(lacking.command.as_deref(), Some("muster framework install dask"));
}
