//! Stored configurations of this machine, and what is refused of them.

use std::fs;

use crate::home::Home;

/// A home with these sets.
fn home(sets: &[(&str, &str)]) -> Home {
    let home = Home::new();
    let folder = home.data().join("configs");
    fs::create_dir_all(&folder).expect("a folder");
    for (name, content) in sets {
        fs::write(folder.join(format!("{name}.toml")), content).expect("a set");
    }
    fs::write(home.data().join("outside.toml"), "workercount = 1").expect("a file");
    home
}

#[tokio::test]
async fn every_bad_value_has_its_message_and_exit_code() {
    let home = home(&[
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
        let said = home.muster(&[&["create", "x"], *arguments].concat());
        assert_eq!(said.code, *code, "{arguments:?}: {said:?}");
        assert!(said.err.contains(&format!("{invalid}{message}")), "{arguments:?}: {said:?}");
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
        let said = home.muster(&[&["create", "x"], *arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {said:?}");
        assert!(said.err.contains(message), "{arguments:?}: {said:?}");
    }
    assert_eq!(home.muster(&["get", "x"]).code, 4, "nothing is stored");
}

#[tokio::test]
async fn a_set_chooses_the_framework_unless_the_command_does() {
    let home = home(&[("rays", "framework = \"ray\"\nmastercount = 1")]);
    for (arguments, framework) in [
        (&["--storedconfig", "rays"][..], "ray"),
        (&["--storedconfig", "rays", "--framework", "dask"], "dask"),
        (&[], "dask"),
    ] {
        let said = home.muster(&[&["create", "x"], arguments].concat());
        let hint = format!("`muster framework install {framework}` installs it");
        assert!(said.code == 3 && said.err.contains(&hint), "{arguments:?}: {said:?}");
    }
}

#[tokio::test]
async fn the_default_set_is_for_spark_alone_and_need_not_exist() {
    let home = home(&[]);
    let named = ["create", "x", "--storedconfig", "default-oshinko-cluster-config"];
    let missing = home.muster(&named);
    assert!(missing.err.contains("`muster framework install dask` installs it"), "{missing:?}");
    let file = home.data().join("configs/default-oshinko-cluster-config.toml");
    fs::write(file, "workercount = \"many\"").expect("a set");
    let message = "'default-oshinko-cluster-config.workercount', expected integer, got 'many'";
    for arguments in [&named[..], &["create", "x", "--framework", "spark"]] {
        let said = home.muster(arguments);
        assert!(said.code == 2 && said.err.contains(message), "{arguments:?}: {said:?}");
    }
    let dask = home.muster(&["create", "x"]);
    assert!(dask.err.contains("`muster framework install dask` installs it"), "{dask:?}");
}
