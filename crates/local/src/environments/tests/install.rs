//! Installations with a fake Python.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use muster_engine::ports::frameworks::{FrameworkEnvironment, Frameworks, InstallProgress, Installation};
use rstest::rstest;

use super::*;

/// Creates a fake Python whose environments have this script as pip; `venv` runs after each creation of an environment.
fn environments(folder: &Path, venv: &str, pip: &str) -> Environments {
    let of_environment = format!(r#"case "$*" in *" pip install "*) {pip} ;; *) echo 7.0 ;; esac"#);
    let python = interpreter(folder, "of-environment", &of_environment);
    let make = format!(
        r#"test "$1 $2 $3" = "-I -m venv" && mkdir -p "$4/bin" && ln -s {} "$4/bin/python"; {venv}"#,
        python.display()
    );
    let base = interpreter(folder, "base", &make);
    Environments::with_base(base, folder.join("made"), Vec::new())
}

async fn run_to_end(
    mut installation: Installation,
) -> (Vec<String>, Result<(FrameworkEnvironment, bool), String>) {
    let mut lines = Vec::new();
    while let Some(progress) = installation.next().await {
        match progress {
            Ok(InstallProgress::Doing(line)) => lines.push(line),
            Ok(InstallProgress::Done { found, already }) => return (lines, Ok((found, already))),
            Err(why) => return (lines, Err(why)),
        }
    }
    panic!("the installation ended without a result: {lines:?}")
}

/// Waits for a progress line with this text.
async fn wait_for_line(installation: &mut Installation, what: &str) {
    while let Some(progress) = installation.next().await {
        match progress {
            Ok(InstallProgress::Doing(line)) if line.contains(what) => return,
            Ok(InstallProgress::Doing(_)) => {}
            other => panic!("the installation ended before '{what}': {other:?}"),
        }
    }
    panic!("the installation ended before '{what}'")
}

/// Returns the script of a pip that waits until the test writes to a pipe.
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
    let (lines, done) = run_to_end(environments.install(dask(), Vec::new())).await;
    assert!(lines.contains(&"Collecting it".to_owned()), "{lines:?}");
    let (found, already) = done.unwrap();
    assert_eq!((found.version.as_str(), found.source, already), ("7.0", "installed by Muster", false));
    assert!(found.interpreter.starts_with(&*folder.path().join("made").to_string_lossy()), "{found:?}");
    assert_eq!(environments.find(dask(), None).await.unwrap().source, EnvironmentSource::Installed);
    assert_eq!(run_to_end(environments.install(dask(), Vec::new())).await, (Vec::new(), Ok((found, true))));
}

#[tokio::test]
async fn build_dependencies_are_pinned_for_source_builds() {
    let folder = tempfile::tempdir().unwrap();
    let pip = r#"echo "built with $PIP_CONSTRAINT $PIP_BUILD_CONSTRAINT of $PWD: $(grep -c == pins.txt)"; echo "$*""#;
    let environments = environments(folder.path(), "true", pip);
    let spark = muster_frameworks::local(Framework::Spark).unwrap();
    for (framework, constraints) in [(spark, "pins.txt pins.txt"), (dask(), " ")] {
        let (lines, _) = run_to_end(environments.install(framework, Vec::new())).await;
        let made = folder.path().join(format!("made/{}-", framework.framework()));
        let built = lines.iter().find(|line| line.starts_with("built with ")).unwrap();
        assert!(built.starts_with(&format!("built with {constraints} of {}", made.display())), "{built}");
        assert!(!built.ends_with(": 0"), "{built}");
        assert!(lines.iter().any(|line| line.contains("--only-binary :all:")), "{lines:?}");
    }
}

#[tokio::test]
async fn a_second_installation_waits_and_finds_the_result_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, pip) = waiting_pip(folder.path());
    let environments = environments(folder.path(), "true", &pip);
    let mut first = environments.install(dask(), Vec::new());
    wait_for_line(&mut first, "begun").await;
    let mut second = environments.install(dask(), Vec::new());
    wait_for_line(&mut second, "another installation of dask is running: waiting").await;
    std::fs::write(pipe, "go\n").unwrap();
    let (first, second) = futures::join!(run_to_end(first), run_to_end(second));
    assert!(!first.1.unwrap().1, "the first one made it");
    assert!(second.1.unwrap().1, "the second one found it");
    assert_eq!(second.0, Vec::<String>::new(), "the second one did nothing");
}

#[tokio::test]
async fn a_dropped_installation_is_cancelled_and_the_next_one_starts_over() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, pip) = waiting_pip(folder.path());
    let environments = environments(folder.path(), "true", &pip);
    let mut ended = environments.install(dask(), Vec::new());
    wait_for_line(&mut ended, "begun").await;
    let made = || std::fs::read_dir(folder.path().join("made")).unwrap().map(|entry| entry.unwrap().path());
    let half = made().find(|path| path.is_dir()).unwrap();
    std::fs::write(half.join("rest"), "of before").unwrap();
    drop(ended);
    assert!(environments.find(dask(), None).await.is_err(), "an incomplete environment is not used");
    let mut again = environments.install(dask(), Vec::new());
    wait_for_line(&mut again, "begun").await;
    assert!(!half.join("rest").exists());
    std::fs::write(pipe, "go\n").unwrap();
    assert!(!run_to_end(again).await.1.unwrap().1);
}

#[tokio::test]
async fn a_command_that_outlives_its_installation_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, _) = waiting_pip(folder.path());
    let (pipe_name, mark) = (pipe.display(), folder.path().join("mark"));
    // The first installation starts a process that is not killed with it, like the pip of a dead server. The process
    // gets its standard input explicitly, since a shell would replace it.
    let leave_behind = format!(
        "test -e {0} && exit; touch {0}; exec 3<&0; setsid sh -c 'echo begun; exec timeout 60 cat {pipe_name}' <&3 & wait",
        mark.display()
    );
    let environments = environments(folder.path(), "true", &leave_behind);
    let mut ended = environments.install(dask(), Vec::new());
    wait_for_line(&mut ended, "begun").await;
    drop(ended);
    let mut next = environments.install(dask(), Vec::new());
    wait_for_line(&mut next, "waiting for it to end").await;
    std::fs::write(pipe, "go\n").unwrap();
    assert!(!run_to_end(next).await.1.unwrap().1);
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
    &["could not create an environment (exit status: 3). Last output:\na meteor"],
    &[]
)]
#[tokio::test]
async fn a_failed_installation_reports_the_reason_and_leaves_no_files(
    #[case] venv: &str,
    #[case] pip: &str,
    #[case] expected: &[&str],
    #[case] unexpected: &[&str],
) {
    let folder = tempfile::tempdir().unwrap();
    let environments = environments(folder.path(), venv, pip);
    let why = run_to_end(environments.install(dask(), Vec::new())).await.1.unwrap_err();
    for text in expected {
        assert!(why.contains(text), "{why}");
    }
    for text in unexpected {
        assert!(!why.contains(text), "{why}");
    }
    let left = std::fs::read_dir(folder.path().join("made")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["dask.lock"]);
}

#[tokio::test]
async fn a_missing_python_and_an_unusable_folder_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("no-python");
    let environments = Environments::with_base(gone.clone(), folder.path().join("made"), Vec::new());
    let why = run_to_end(environments.install(dask(), Vec::new())).await.1.unwrap_err();
    assert!(why.starts_with(&format!("{} cannot be run", gone.display())), "{why}");
    assert!(why.contains("install Python 3 with its module venv"), "{why}");
    std::fs::write(folder.path().join("file"), "").unwrap();
    let environments = Environments::with_base(gone, folder.path().join("file"), Vec::new());
    let why = run_to_end(environments.install(dask(), Vec::new())).await.1.unwrap_err();
    assert!(why.starts_with("dask cannot be installed: the folder "), "{why}");
}

#[tokio::test]
async fn nothing_is_installed_if_an_environment_of_the_user_has_the_framework() {
    let folder = tempfile::tempdir().unwrap();
    let own = interpreter(folder.path(), "own", "echo 2.0");
    let environments = Environments::with_base(
        folder.path().join("never-run"),
        folder.path().join("made"),
        vec![(own.clone(), EnvironmentSource::Active)],
    );
    let (lines, done) = run_to_end(environments.install(dask(), Vec::new())).await;
    let found = FrameworkEnvironment {
        packages: Vec::new(),
        version: "2.0".to_owned(),
        interpreter: own.to_string_lossy().into_owned(),
        source: "active virtual environment",
    };
    assert_eq!((lines, done), (Vec::new(), Ok((found, true))));
}

#[tokio::test]
async fn the_port_probes_the_current_state() {
    let folder = tempfile::tempdir().unwrap();
    let own = interpreter(folder.path(), "own", "echo 1.0");
    let around = vec![(own, EnvironmentSource::Variable)];
    let environments = Environments::with_interpreters(folder.path().join("made"), around);
    assert_eq!(environments.environment(Framework::Dask).await.unwrap().version, "1.0");
    interpreter(folder.path(), "own", "echo 2.0");
    assert_eq!(environments.environment(Framework::Dask).await.unwrap().version, "2.0");
    interpreter(folder.path(), "own", "echo PackageNotFoundError >&2; exit 1");
    let lacking = environments.environment(Framework::Dask).await.unwrap_err();
    assert!(lacking.what.starts_with("dask is not installed ("), "{lacking:?}");
    assert_eq!(lacking.command.as_deref(), Some("muster framework install dask"));
}

fn owned(packages: &[&str]) -> Vec<String> {
    packages.iter().map(|package| (*package).to_owned()).collect()
}

#[tokio::test]
async fn added_packages_are_recorded_and_upgrades_keep_them() {
    let folder = tempfile::tempdir().unwrap();
    let environments = environments(folder.path(), "true", r#"echo "pip $*""#);
    let ran = |lines: &[String], end: &str| {
        let is_it = |line: &&String| line.contains(" --constraint pins.txt ") && line.ends_with(end);
        lines.iter().any(|line| is_it(&line))
    };
    let (lines, done) = run_to_end(environments.install(dask(), owned(&["pandas"]))).await;
    assert_eq!(done.unwrap().0.packages, ["pandas"]);
    assert!(ran(&lines, " -- pandas"), "{lines:?}");
    let (lines, done) = run_to_end(environments.install(dask(), owned(&["numpy", "pandas>=2"]))).await;
    let (found, already) = done.unwrap();
    assert_eq!((found.packages, already), (owned(&["numpy", "pandas>=2"]), false));
    assert!(ran(&lines, " -- numpy pandas>=2"), "only what is added is installed: {lines:?}");

    // Environments of other pins stay while clusters may run in them.
    let older = folder.path().join("made/dask-0123456789ab");
    std::fs::create_dir(&older).unwrap();
    let (lines, done) = run_to_end(environments.upgrade(dask(), used(true))).await;
    assert_eq!(done.unwrap().0.packages, ["numpy", "pandas>=2"]);
    assert!(ran(&lines, " --upgrade -- numpy pandas>=2") && older.exists(), "{lines:?}");
    // After a change of the pinned versions there is no matching environment.
    std::fs::remove_dir_all(
        environments.find(dask(), None).await.unwrap().python.ancestors().nth(2).unwrap(),
    )
    .unwrap();
    let (lines, done) = run_to_end(environments.upgrade(dask(), used(false))).await;
    assert_eq!(done.unwrap().0.packages, ["numpy", "pandas>=2"]);
    assert!(ran(&lines, " -- numpy pandas>=2") && !older.exists(), "{lines:?}");

    assert!(environments.runs_installed(Framework::Dask, None).await);
    let own = interpreter(folder.path(), "own", "echo 1.0");
    assert!(!environments.runs_installed(Framework::Dask, own.to_str()).await);
    assert_eq!(environments.remove(dask()).await, Ok(true));
    assert!(environments.find(dask(), None).await.is_err());
    assert_eq!(environments.remove(dask()).await, Ok(false));
    assert!(
        run_to_end(environments.upgrade(dask(), used(false)))
            .await
            .1
            .unwrap_err()
            .contains("was not installed by Muster")
    );
    assert_eq!(run_to_end(environments.install(dask(), Vec::new())).await.1.unwrap().0.packages, owned(&[]));
}

fn used(is_used: bool) -> BoxFuture<'static, bool> {
    std::future::ready(is_used).boxed()
}

#[tokio::test]
async fn an_environment_that_a_cluster_begins_to_use_during_an_upgrade_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, pip) = waiting_pip(folder.path());
    let environments = environments(folder.path(), "true", &pip);
    let older = folder.path().join("made/dask-0123456789ab");
    std::fs::create_dir_all(&older).unwrap();
    let is_used = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_used);
    let mut upgrade = environments.upgrade(dask(), async move { asked.load(Ordering::SeqCst) }.boxed());
    wait_for_line(&mut upgrade, "begun").await;
    is_used.store(true, Ordering::SeqCst);
    std::fs::write(pipe, "go\n").unwrap();
    assert!(!run_to_end(upgrade).await.1.unwrap().1);
    assert!(older.exists());
}

#[tokio::test]
async fn packages_that_cannot_be_added_are_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let fails = r#"case "$*" in *--constraint*) echo 'ERROR: No matching distribution'; exit 1 ;; esac"#;
    let environments = environments(folder.path(), "true", fails);
    run_to_end(environments.install(dask(), Vec::new())).await.1.unwrap();
    let why = run_to_end(environments.install(dask(), owned(&["pandsa"]))).await.1.unwrap_err();
    assert!(
        why.starts_with("pandsa cannot be added to dask") && why.ends_with("No matching distribution"),
        "{why}"
    );
    let (found, _) = run_to_end(environments.install(dask(), Vec::new())).await.1.unwrap();
    assert_eq!(found.packages, owned(&[]), "the environment is unchanged");
}

#[tokio::test]
async fn packages_are_added_only_to_what_muster_installed() {
    let folder = tempfile::tempdir().unwrap();
    let own = interpreter(folder.path(), "own", "echo 1.0");
    let environments = Environments::with_interpreters(
        folder.path().join("made"),
        vec![(own.clone(), EnvironmentSource::Active)],
    );
    let why = run_to_end(environments.install(dask(), owned(&["six"]))).await.1.unwrap_err();
    assert!(why.contains(&format!("`{} -m pip install six`", own.display())), "{why}");
}
