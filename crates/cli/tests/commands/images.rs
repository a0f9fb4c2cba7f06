//! Images on the command line: built with their log, listed, shown and deleted.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::frameworks::program;
use crate::harness::{Harness, TIMEOUT, create, run};

/// Writes a Python that has Dask, and whose environments have a pip that fails until this file exists.
fn python(harness: &Harness, index: &Path) -> PathBuf {
    python_with_pip(
        harness,
        &format!("test -e '{}' || {{ echo 'ERROR: no index'; exit 1; }}", index.display()),
    )
}

/// Writes a Python that has Dask, and whose environments have this command as their pip.
fn python_with_pip(harness: &Harness, pip: &str) -> PathBuf {
    let script = format!(
        r#"case "$*" in
*"-m venv "*) mkdir -p "$4/bin" "$4/own" && ln -s "$0" "$4/bin/python" ;;
*" pip install "*) {pip} ;;
*get_path*) echo own ;;
*) echo 9.9 ;;
esac"#
    );
    program(harness, "python", &script)
}

#[tokio::test]
async fn packages_are_added_to_the_callers_python_and_a_failed_build_is_repeated() {
    let harness = Harness::new();
    // The server is started without a Python of its own.
    harness.muster(&["whoami"]).success();
    let index = harness.data().with_file_name("index");
    let python = python(&harness, &index);
    let create = ["create", "fred", "--pip", "six", "--no-wait"];
    let create = || run(harness.command(&create).env("MUSTER_PYTHON", &python));
    let failed = create();
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.err.contains("cannot build the environment: pip failed: ERROR: no index"), "{failed:?}");
    std::fs::write(&index, "").expect("an index");
    let built = create().success();
    assert!(built.err.contains("An earlier build failed: building it again"), "{built:?}");
    let images = harness.muster(&["image", "list", "-o", "json"]).success().json();
    let images = images["imageTemplates"].as_array().expect("a list");
    assert_eq!((images.len(), &images[0]["state"]), (1, &"READY".into()), "{images:?}");
    assert_eq!(images[0]["baseImage"], python.to_str().expect("a plain path"), "{images:?}");
}

#[tokio::test]
async fn packages_are_added_to_a_named_python_that_has_the_framework() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    let index = harness.data().with_file_name("index");
    std::fs::write(&index, "").expect("an index");
    let python = python(&harness, &index);
    let python = python.to_str().expect("a plain path");
    harness.muster(&["create", "fred", "--python", python, "--pip", "six", "--no-wait"]).success();
    let images = harness.muster(&["image", "list", "-o", "json"]).success().json();
    assert_eq!(images["imageTemplates"][0]["baseImage"], python, "{images:?}");
    let bare = program(&harness, "bare", "echo 'PackageNotFoundError: dask' >&2; exit 1");
    let bare = bare.to_str().expect("a plain path");
    let refused = harness.muster(&["create", "bob", "--python", bare, "--pip", "six", "--no-wait"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains(bare) && refused.err.contains("name a Python that has dask"), "{refused:?}");
    let both = harness.muster(&["create", "bob", "--image-template", "x", "--pip", "six"]);
    assert_eq!(both.code, 2, "{both:?}");
}

#[tokio::test]
async fn a_cluster_that_was_created_meanwhile_is_used_if_it_must_not_exist() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    let pipe = harness.data().with_file_name("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let python = python_with_pip(&harness, &format!("timeout 60 cat {}", pipe.display()));
    let python = python.to_str().expect("a plain path");
    let late = ["create", "fred", "--if-not-exists", "--python", python, "--pip", "six"];
    let mut late = harness.spawn(&late);
    // Its search for the cluster has found nothing, and its creation waits for the packages.
    late.wait_for_line("Preparing an environment with six", TIMEOUT).await;
    harness.muster(&create("fred", "1")).success();
    std::fs::write(&pipe, "go\n").expect("pip reads it");
    late.wait_for_line("cluster 'fred' exists already and was not changed", TIMEOUT).await;
    let ended = late.wait_for_exit(TIMEOUT).await;
    assert!(ended.success(), "{ended:?}");
}

#[tokio::test]
async fn an_image_is_built_while_its_log_is_shown() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    let nothing = harness.muster(&["image", "list"]);
    assert!(nothing.success().err.contains("no images: build one with `muster image create`"));
    let built =
        harness.muster(&["image", "create", "mine", "--env", "LEVEL=debug", "--run", "echo level $LEVEL"]);
    let built = built.success();
    assert!(built.err.lines().any(|line| line == "level debug"), "{built:?}");
    assert!(built.out.lines().any(|line| line.starts_with("mine") && line.contains("READY")), "{built:?}");
    let shown = harness.muster(&["image", "show", "mine", "-o", "json"]).success().json();
    let python = shown["image"].as_str().expect("an image");
    assert!(Path::new(python).exists(), "{shown}");
    assert_eq!(shown["environmentVariables"]["LEVEL"], "debug");
    let listed = harness.muster(&["image", "list", "-o", "wide"]).success().out;
    assert!(listed.contains(python), "{listed}");
    let log = harness.muster(&["image", "logs", "mine", "--follow"]).success().out;
    assert!(log.lines().any(|line| line == "level debug"), "{log}");

    let failed = harness.muster(&["image", "create", "bad", "--run", "echo no luck; exit 3"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    let why = "the build of image 'bad' failed: custom_commands failed: no luck";
    assert!(failed.err.contains(why), "{failed:?}");
    let refused = harness.muster(&["create", "x", "--image-template", "bad"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("the build of image template 'bad' failed"), "{refused:?}");
    let twice = harness.muster(&["image", "create", "bad", "--no-wait"]);
    assert_eq!(twice.code, 3, "{twice:?}");

    for name in ["mine", "bad"] {
        harness.muster(&["image", "delete", name]).success();
    }
    for command in [["image", "show", "mine"], ["image", "delete", "mine"], ["shape", "delete", "mine"]] {
        let missing = harness.muster(&command);
        assert_eq!(missing.code, 4, "{missing:?}");
    }
    assert!(!Path::new(python).exists());
}
