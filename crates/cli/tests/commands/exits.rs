//! Every exit code, and what stands beside it.

use serde_json::json;

use crate::home::{Home, create, slow};

#[tokio::test]
async fn a_failed_action_is_1_with_its_reason_and_what_to_do() {
    let home = Home::new();
    let failing = r#"{"metadata": {"simulated_failure": "create"}}"#;
    let said = home.muster(&[create("bad", "1"), vec!["--profile-properties", failing]].concat());
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("error: CLUSTER_CREATE of 'bad' failed: "), "{said:?}");
    assert!(said.err.contains("creation fails"), "{said:?}");
    assert!(said.err.contains("hint: look with `muster events bad`"), "{said:?}");
    assert_eq!(said.out, "");
}

#[tokio::test]
async fn bad_values_are_2() {
    let home = Home::new();
    home.muster(&create("fred", "1")).done();
    let cases: &[(&[&str], &str)] = &[
        (&["create", "x", "--workers", "-1"], "-1 is not in 0.."),
        (&["create", "x", "--workers", "many"], "invalid value 'many'"),
        (&["create", "x", "--framework", "flink"], "possible values: ray, dask, spark"),
        (
            &["create", "x", "--image", "/no/such/python"],
            "--image /no/such/python: cannot be run: No such file or directory",
        ),
        (
            &["create", "x", "--flavor", "kuberay"],
            "flavor 'kuberay' is for Kubernetes, and provider 'local' has no flavors: leave it out",
        ),
        (&["create", "x", "--timeout", "5"], "'5' is no duration: write it as 200ms, 30s"),
        (&["create", "x", "--timeout=-5s"], "less than nothing"),
        (
            &["create", "x", "--profile", "simulated.node-1.0", "--profile-properties", "[1]"],
            "cannot read [1]",
        ),
        (
            &["create", "Bad_Name", "--profile", "simulated.node-1.0"],
            "cluster name 'Bad_Name' is not possible",
        ),
        (&["create", "x", "--profile", "nonsense"], "'nonsense' is not a type"),
        (&["scale", "fred"], "--workers"),
        (&["scale", "fred", "--workers", "1", "--group", "large"], "group 'large'"),
        (&["restart", "fred"], "have no head to restart"),
        (&["get", "fred", "-A"], "cannot be used with"),
        (&["get", "-o", "xml"], "invalid value 'xml'"),
        (&["get", "--server", "nowhere:1"], "'nowhere:1' is no address of a server"),
        (&["action", "signal", "x", "jump"], "invalid value 'jump'"),
        (&["completion", "dos"], "invalid value 'dos'"),
    ];
    for (arguments, sentence) in cases {
        let said = home.muster(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {said:?}");
        assert!(said.err.contains(sentence), "{arguments:?}: {said:?}");
    }
}

#[tokio::test]
async fn among_several_groups_the_one_to_scale_has_to_be_named() {
    let home = Home::new();
    home.muster(&["whoami"]).done();
    let rest = home.announced().unwrap()["rest"].as_str().unwrap().to_owned();
    let groups = json!([{"group_name": "small", "replicas": 2}, {"group_name": "large", "replicas": 1}]);
    let body = json!({"name": "fred", "profile": "simulated.node-1.0", "cluster_spec": {"worker_group_spec": groups}});
    let url = format!("http://{rest}/apis/v1alpha2/namespaces/default/clusters?wait_for=reached");
    let made = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
    assert!(made.status().is_success(), "{made:?}");
    let said = home.muster(&["scale", "fred", "--workers", "3"]);
    assert_eq!(said.code, 2);
    assert_eq!(
        said.err,
        "error: 'fred' has 2 worker groups: small (2), large (1)\nhint: say which with --group\n"
    );
    let scaled =
        home.muster(&["scale", "fred", "--workers", "3", "--group", "large", "-o", "json"]).done().json();
    assert_eq!(scaled["readyWorkers"], 5, "{scaled}");
}

#[tokio::test]
async fn what_a_rule_refuses_is_3() {
    let home = Home::new();
    home.muster(&create("fred", "1")).done();
    let taken = home.muster(&create("fred", "1"));
    assert_eq!(taken.code, 3);
    assert!(taken.err.contains("error: cluster 'fred' already exists in namespace 'default'"), "{taken:?}");
    let logs = home.muster(&["logs", "fred"]);
    assert_eq!((logs.code, logs.err.as_str()), (3, "error: nodes of type simulated.node-1.0 keep no logs\n"));
    let action = home.muster(&["actions", "fred", "-o", "name"]).out;
    let ended = home.muster(&["action", "cancel", action.trim()]);
    assert_eq!(ended.code, 3, "{ended:?}");
}

#[tokio::test]
async fn what_is_not_there_is_4() {
    let home = Home::new();
    for arguments in [
        &["get", "nobody"][..],
        &["nodes", "nobody"],
        &["scale", "nobody", "--workers", "1"],
        &["restart", "nobody"],
        &["delete", "nobody"],
        &["logs", "nobody"],
        &["events", "nobody"],
        &["actions", "nobody"],
        &["env", "nobody"],
        &["get", "nobody", "--watch"],
        &["action", "show", "nothing"],
        &["action", "cancel", "nothing"],
    ] {
        let said = home.muster(arguments);
        assert_eq!(said.code, 4, "{arguments:?}: {said:?}");
        assert!(
            (said.err.contains("no such cluster '")
                || said.err.contains("action 'nothing' could not be found"))
                && said.err.contains("\nhint: "),
            "{arguments:?}: {said:?}"
        );
    }
}

#[tokio::test]
async fn a_create_that_takes_too_long_is_5_and_leaves_the_cluster() {
    let home = Home::new();
    let properties = slow(3600);
    let said = home.muster(
        &[create("slow", "1"), vec!["--timeout", "0.5s", "--profile-properties", &properties]].concat(),
    );
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.err.contains("'slow' is not there yet after 0.5 s"), "{said:?}");
    assert!(said.err.contains("look with `muster get slow`"), "{said:?}");
    assert!(said.err.contains("remove it with `muster delete slow`"), "{said:?}");
    let still = home.muster(&["get", "slow", "-o", "json"]).done().json();
    assert_eq!(still["state"], "CREATING");
    home.muster(&["delete", "slow"]).done();
}
