//! Every exit code with its message.

use serde_json::json;

use crate::harness::{Harness, create, slow};

#[tokio::test]
async fn a_failed_action_is_1_with_its_reason_and_a_hint() {
    let harness = Harness::new();
    let failing = r#"{"metadata": {"simulated_failure": "create"}}"#;
    let output = harness.muster(&[create("bad", "1"), vec!["--profile-properties", failing]].concat());
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("error: CLUSTER_CREATE of 'bad' failed: "), "{output:?}");
    assert!(output.err.contains("creation fails"), "{output:?}");
    assert!(output.err.contains("hint: see `muster events bad`"), "{output:?}");
    assert_eq!(output.out, "");
}

#[tokio::test]
async fn bad_values_are_2() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    let cases: &[(&[&str], &str)] = &[
        (
            &["create", "x", "--workers", "-1"],
            "invalid value '-1' for '--workers <N>': must be a number, 0 or greater",
        ),
        (
            &["create", "x", "--workers", "two"],
            "invalid value 'two' for '--workers <N>': must be a number, 0 or greater",
        ),
        (&["create", "x", "--shape", "mem=4Gi"], "did you mean memory=4Gi?"),
        (&["create", "x", "--workers", "many"], "invalid value 'many'"),
        (&["create", "x", "--framework", "flink"], "possible values: ray, dask, spark"),
        (
            &["create", "x", "--image", "/no/such/python"],
            "interpreter /no/such/python: cannot be run: No such file or directory",
        ),
        (&["create", "x", "--pip", ""], "must be the name of a package, such as pandas"),
        (&["framework", "install", "dask", "--with", ""], "must be the name of a package, such as pandas"),
        (&["create", "x", "--env", ""], "must be KEY=VALUE, or KEY for its current value"),
        (
            &["create", "x", "--flavor", "kuberay"],
            "flavor 'kuberay' is not supported by the provider 'local', which has no flavors: omit it",
        ),
        (&["create", "x", "--timeout", "5"], "'5' is not a duration: write it as 200ms, 30s"),
        (&["create", "x", "--timeout=-5s"], "'-5s' is negative"),
        (
            &["create", "x", "--profile", "simulated.node-1.0", "--profile-properties", "[1]"],
            "cannot read [1]",
        ),
        (
            &["create", "Bad_Name", "--profile", "simulated.node-1.0"],
            "cluster name is 'Bad_Name': must have lowercase",
        ),
        (&["create", "x", "--profile", "nonsense"], "'nonsense' is not a profile type"),
        (&["scale", "fred"], "--workers"),
        (&["scale", "fred", "--workers", "1", "--group", "large"], "group 'large'"),
        (&["restart", "fred"], "have no head to restart"),
        (&["get", "fred", "-A"], "cannot be used with"),
        (&["actions", "--framework", "ray"], "--framework and --provider need the name of a cluster"),
        (&["get", "-o", "xml"], "invalid value 'xml'"),
        (&["wait", "fred", "--for", "jumping"], "'jumping' is not a state: use init, active,"),
        (&["get", "--server", "nowhere:1"], "'nowhere:1' is not a server address"),
        (&["action", "signal", "x", "jump"], "invalid value 'jump'"),
        (&["completion", "dos"], "invalid value 'dos'"),
    ];
    for (arguments, message) in cases {
        let output = harness.muster(arguments);
        assert_eq!(output.code, 2, "{arguments:?}: {output:?}");
        assert!(output.err.contains(message), "{arguments:?}: {output:?}");
    }
}

#[tokio::test]
async fn one_of_several_groups_must_be_named_to_scale() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    let rest = harness.announced().unwrap()["rest"].as_str().unwrap().to_owned();
    let groups = json!([{"group_name": "small", "replicas": 2}, {"group_name": "large", "replicas": 1}]);
    let body = json!({"name": "fred", "profile": "simulated.node-1.0", "cluster_spec": {"worker_group_spec": groups}});
    let url = format!("http://{rest}/apis/v1alpha2/namespaces/default/clusters?wait_for=reached");
    let made = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
    assert!(made.status().is_success(), "{made:?}");
    let output = harness.muster(&["scale", "fred", "--workers", "3"]);
    assert_eq!(output.code, 2);
    assert_eq!(
        output.err,
        "error: 'fred' has 2 worker groups: small (2), large (1)\nhint: select one with --group\n"
    );
    let scaled = harness
        .muster(&["scale", "fred", "--workers", "3", "--group", "large", "-o", "json"])
        .success()
        .json();
    assert_eq!(scaled["readyWorkers"], 5, "{scaled}");
}

#[tokio::test]
async fn refusals_are_3() {
    let harness = Harness::new();
    harness.muster(&create("fred", "1")).success();
    let taken = harness.muster(&create("fred", "1"));
    assert_eq!(taken.code, 3);
    assert!(taken.err.contains("error: cluster 'fred' already exists in namespace 'default'"), "{taken:?}");
    let properties = slow(3600);
    let begun = [&create("begun", "1")[..], &["--profile-properties", &properties, "--no-wait"]].concat();
    harness.muster(&begun).success();
    let incomplete = harness.muster(&begun);
    assert_eq!(incomplete.code, 3);
    assert!(
        incomplete.err.starts_with("error: cluster 'begun' already exists (incomplete)\n"),
        "{incomplete:?}"
    );
    let logs = harness.muster(&["logs", "fred"]);
    assert_eq!((logs.code, logs.err.as_str()), (3, "error: nodes of type simulated.node-1.0 have no logs\n"));
    let action = harness.muster(&["actions", "fred", "-o", "name"]).out;
    let ended = harness.muster(&["action", "cancel", action.trim()]);
    assert_eq!(ended.code, 3, "{ended:?}");
}

#[tokio::test]
async fn unknown_objects_are_4() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    for arguments in [
        &["get", "missing"][..],
        &["nodes", "missing"],
        &["scale", "missing", "--workers", "1"],
        &["restart", "missing"],
        &["delete", "missing"],
        &["logs", "missing"],
        &["events", "missing"],
        &["actions", "missing"],
        &["env", "missing"],
        &["get", "missing", "--watch"],
        &["action", "show", "nothing"],
        &["action", "cancel", "nothing"],
    ] {
        let output = harness.muster(arguments);
        assert_eq!(output.code, 4, "{arguments:?}: {output:?}");
        assert!(
            (output.err.contains("no such cluster '")
                || output.err.contains("action 'nothing' could not be found"))
                && output.err.contains("\nhint: "),
            "{arguments:?}: {output:?}"
        );
    }
}

#[tokio::test]
async fn a_create_that_takes_too_long_is_5_and_leaves_the_cluster() {
    let harness = Harness::new();
    let properties = slow(3600);
    let output = harness.muster(
        &[create("slow", "1"), vec!["--timeout", "0.5s", "--profile-properties", &properties]].concat(),
    );
    assert_eq!(output.code, 5, "{output:?}");
    assert!(output.err.contains("'slow' is not created yet after 0.5 s"), "{output:?}");
    assert!(output.err.contains("see `muster get slow`"), "{output:?}");
    assert!(output.err.contains("remove it with `muster delete slow`"), "{output:?}");
    let still = harness.muster(&["get", "slow", "-o", "json"]).success().json();
    assert_eq!(still["state"], "CREATING");
    harness.muster(&["delete", "slow"]).success();
}
