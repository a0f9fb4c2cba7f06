//! Images on the command line: built with their log, listed, shown and deleted.

use std::path::{Path, PathBuf};

use crate::frameworks::program;
use crate::harness::{Harness, run};

/// Writes a Python that has Dask, and whose environments have a pip that fails until this file exists.
fn python(harness: &Harness, index: &Path) -> PathBuf {
    let script = format!(
        r#"case "$*" in
*"-m venv "*) mkdir -p "$4/bin" "$4/own" && ln -s "$0" "$4/bin/python" ;;
*" pip install "*) test -e '{}' || {{ echo 'ERROR: no index'; exit 1; }} ;;
*get_path*) echo own ;;
*) echo 9.9 ;;
esac"#,
        index.display()
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
