//! Stored configurations in `ConfigMap`s, and the Spark clusters that use them.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DeleteParams, PostParams};
use muster_testkit::eventually;
use serde_json::{Value, json};

use crate::harness::{Harness, output_of};
use crate::server::TIMEOUT;

/// Creates a namespace with `ConfigMap`s of these names.
async fn open_with(maps: &[(&str, Value)]) -> Option<Harness> {
    let harness = Harness::with(None).await?;
    let api = harness.namespace.api::<ConfigMap>();
    for (name, data) in maps {
        let map = json!({"metadata": {"name": name}, "data": data});
        let map = serde_json::from_value(map).expect("a ConfigMap");
        api.create(&PostParams::default(), &map).await.expect("it is created");
    }
    Some(harness)
}

/// Reads the configuration that a cluster's master records.
async fn recorded_config(harness: &Harness, cluster: &str) -> Value {
    let master = harness.namespace.api::<Deployment>().get(&format!("{cluster}-m")).await.expect("a master");
    let annotations = master.metadata.annotations.expect("annotations");
    serde_json::from_str(&annotations["oshinko-config"]).expect("JSON")
}

#[tokio::test]
async fn a_named_set_takes_precedence_over_the_default_set() {
    let default_set = json!({"workercount": "3\n", "exposeui": "false"});
    let big = json!({"workercount": "2", "metrics": "prometheus", "sparkmasterconfig": "masters"});
    let maps = [
        ("default-oshinko-cluster-config", default_set),
        ("big", big),
        ("masters", json!({"spark-defaults.conf": "spark.ui.reverseProxy true"})),
    ];
    let Some(harness) = open_with(&maps).await else { return };
    let server = harness.server(&[]).await;
    let muster = |arguments: &[&str]| output_of(&harness.muster(&server, arguments));
    assert!(muster(&["create", "fred", "--framework", "spark", "--storedconfig", "big"]).contains("2/2"));
    let config = recorded_config(&harness, "fred").await;
    let image = config["SparkImage"].clone();
    let expected = json!({
        "MastersCount": 1, "WorkersCount": 2, "ConfigName": "big", "SparkMasterConfig": "masters",
        "SparkImage": image, "ExposeWebUI": "false", "Metrics": "prometheus",
    });
    assert_eq!(config, expected);
    let services = harness.namespace.api::<Service>();
    let metrics = services.get("fred-metrics").await.expect("a Service for metrics");
    assert_eq!(metrics.metadata.labels.expect("labels")["oshinko-type"], "master");

    // A resize keeps the record, and recreates deleted objects.
    services.delete("fred-metrics", &DeleteParams::default()).await.expect("it is deleted");
    eventually("the reason that a Service is missing", TIMEOUT, async || {
        let shown = harness.muster(&server, &["get", "fred", "-o", "json"]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        if shown.contains("fred-metrics") { Ok(()) } else { Err(shown) }
    })
    .await;
    muster(&["scale", "fred", "--workers", "1"]);
    let config = recorded_config(&harness, "fred").await;
    assert_eq!((&config["WorkersCount"], &config["Metrics"]), (&json!(1), &json!("prometheus")));
    services.get("fred-metrics").await.expect("it was recreated");

    assert!(muster(&["create", "plain", "--framework", "spark"]).contains("3/3"));
    let config = recorded_config(&harness, "plain").await;
    assert_eq!(config["ConfigName"], "default-oshinko-cluster-config");
    let own = ["--storedconfig", "big", "--workers", "1", "--metrics", "false"];
    assert!(muster(&[&["create", "own", "--framework", "spark"], &own[..]].concat()).contains("1/1"));
    assert_eq!(recorded_config(&harness, "own").await["Metrics"], "false");
    assert!(services.get_opt("own-metrics").await.expect("an answer").is_none());
    for name in ["fred", "plain", "own"] {
        muster(&["delete", name]);
    }
    assert!(services.get_opt("fred-metrics").await.expect("an answer").is_none());
}

#[tokio::test]
async fn a_missing_set_is_named_and_nothing_is_created() {
    let Some(harness) = open_with(&[("big", json!({"sparkworkerconfig": "nowhere"}))]).await else { return };
    let server = harness.server(&[]).await;
    let missing = "unable to find spark configuration 'nowhere', error: configmaps \"nowhere\" not found";
    for (arguments, code, message) in [
        (
            ["--storedconfig", "absent"],
            4,
            "invalid cluster configuration, error: named config 'absent' does not exist",
        ),
        (["--storedconfig", "big"], 2, missing),
        (["--masterconfig", "nowhere"], 2, missing),
    ] {
        let printed =
            harness.muster(&server, &[&["create", "x", "--framework", "spark"][..], &arguments[..]].concat());
        let why = String::from_utf8_lossy(&printed.stderr).into_owned();
        assert_eq!(printed.status.code(), Some(code), "{arguments:?}: {why}");
        assert!(why.contains(message), "{arguments:?}: {why}");
    }
    assert!(harness.namespace.api::<Deployment>().get_opt("x-m").await.expect("an answer").is_none());
}
