//! Images on the command line: built with their log, listed, shown and deleted.

use crate::harness::Harness;

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
    assert!(std::path::Path::new(python).exists(), "{shown}");
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
    assert!(!std::path::Path::new(python).exists());
}
