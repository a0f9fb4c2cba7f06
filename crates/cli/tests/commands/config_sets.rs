//! Stored configurations in the data folder, and the errors of invalid ones.

use std::fs;

use crate::harness::Harness;

/// Creates a harness with these sets.
fn harness_with(sets: &[(&str, &str)]) -> Harness {
    let harness = Harness::new();
    let folder = harness.data().join("configs");
    fs::create_dir_all(&folder).expect("a folder");
    for (name, content) in sets {
        fs::write(folder.join(format!("{name}.toml")), content).expect("a set");
    }
    fs::write(harness.data().join("outside.toml"), "workercount = 1").expect("a file");
    harness
}

#[tokio::test]
async fn every_bad_value_has_its_message_and_exit_code() {
    let harness = harness_with(&[
        ("count", "workercount = \"many\""),
        ("key", "colour = \"red\""),
        ("metrics", "framework = \"spark\"\nmetrics = \"statsd\""),
        ("masters", "mastercount = 2"),
        ("sparks", "metrics = true"),
        ("broken", "workercount"),
    ]);
    let invalid = "error: invalid cluster configuration, error: ";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--storedconfig", "absent"], 4, "named config 'absent' does not exist"),
        (&["--storedconfig", "../outside"], 4, "named config '../outside' does not exist"),
        (&["--storedconfig", "count"], 2, "'count.workercount', expected integer, got 'many'"),
        (&["--storedconfig", "key"], 2, "'key.colour', unrecognized configuration field"),
        (&["--storedconfig", "metrics"], 2, "'metrics', expected 'jolokia' or 'prometheus', got 'statsd'"),
        (&["--storedconfig", "masters"], 2, "cluster configuration must have a master count of 0 or 1"),
        (&["--masters", "2"], 2, "cluster configuration must have a master count of 0 or 1"),
        (&["--storedconfig", "sparks"], 2, "'sparks.metrics' is for Spark alone, and this cluster runs dask"),
    ];
    for (arguments, code, message) in cases {
        let output = harness.muster(&[&["create", "x"], *arguments].concat());
        assert_eq!(output.code, *code, "{arguments:?}: {output:?}");
        assert!(output.err.contains(&format!("{invalid}{message}")), "{arguments:?}: {output:?}");
    }
    let others: &[(&[&str], &str)] = &[
        (&["--storedconfig", "broken"], "broken.toml cannot be used: TOML parse error"),
        (
            &["--metrics", "statsd"],
            "error: Value for 'metrics' must be 'true', 'false', 'jolokia', or 'prometheus'",
        ),
        (&["--exposeui", "maybe"], "error: Value for 'exposeui' must be a boolean"),
        (&["--framework", "spark", "--metrics", "T"], "spark.metrics 'true' needs Kubernetes"),
        (
            &["--framework", "spark", "--masterconfig", "m"],
            "spark.master_config 'm' is a ConfigMap, which needs Kubernetes",
        ),
        (
            &["--profile", "local.process-1.0", "--storedconfig", "key"],
            "--storedconfig is for clusters of a framework",
        ),
    ];
    for (arguments, message) in others {
        let output = harness.muster(&[&["create", "x"], *arguments].concat());
        assert_eq!(output.code, 2, "{arguments:?}: {output:?}");
        assert!(output.err.contains(message), "{arguments:?}: {output:?}");
    }
    assert_eq!(harness.muster(&["get", "x"]).code, 4, "nothing is stored");
}

#[tokio::test]
async fn a_set_chooses_the_framework_unless_the_command_does() {
    let harness = harness_with(&[("rays", "framework = \"ray\"\nmastercount = 1")]);
    for (arguments, framework) in [
        (&["--storedconfig", "rays"][..], "ray"),
        (&["--storedconfig", "rays", "--framework", "dask"], "dask"),
        (&[], "dask"),
    ] {
        let output = harness.muster(&[&["create", "x"], arguments].concat());
        let hint = format!("`muster framework install {framework}` installs it");
        assert!(output.code == 1 && output.err.contains(&hint), "{arguments:?}: {output:?}");
    }
}

#[tokio::test]
async fn the_default_set_is_for_spark_alone_and_need_not_exist() {
    let harness = harness_with(&[]);
    let named = ["create", "x", "--storedconfig", "default-oshinko-cluster-config"];
    let missing = harness.muster(&named);
    assert!(missing.err.contains("`muster framework install dask` installs it"), "{missing:?}");
    let file = harness.data().join("configs/default-oshinko-cluster-config.toml");
    fs::write(file, "workercount = \"many\"").expect("a set");
    let message = "'default-oshinko-cluster-config.workercount', expected integer, got 'many'";
    for arguments in [&named[..], &["create", "x", "--framework", "spark"]] {
        let output = harness.muster(arguments);
        assert!(output.code == 2 && output.err.contains(message), "{arguments:?}: {output:?}");
    }
    let dask = harness.muster(&["create", "x"]);
    assert!(dask.err.contains("`muster framework install dask` installs it"), "{dask:?}");
}
