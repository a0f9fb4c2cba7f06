//! The rendered chart is valid and accepted by Kubernetes.

use std::collections::{BTreeMap, BTreeSet};

use muster_frameworks::kubernetes::flavors;
use rstest::rstest;
use serde_json::{Value, json};

use crate::release;
use crate::render::{deploy, helm, objects, template, the};

const WITH_POSTGRES: &[&str] = &["database.urlSecret.name=pg", "replicas=2"];

#[tokio::test]
async fn helm_lint_passes() {
    let chart = deploy("helm/muster");
    let Some(output) = helm(&["lint", "--strict", chart.to_str().unwrap()]).await else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[rstest]
#[case::sqlite(&[])]
#[case::postgres(WITH_POSTGRES)]
#[case::namespaces(&["namespaces={HERE}", "auth={tokens:/x,local}", "instanceId=one"])]
#[case::everything(&[
    "machines.enabled=true", "tls.secretName=certificate", "config=dev = false", "extraArgs={--log-format,json}", "extraEnv[0].name=A",
    "extraEnv[0].value=b", "networkPolicy.from[0].podSelector.matchLabels.app=x", "service.type=NodePort",
    "image.pullSecrets[0].name=pull", "podLabels.team=a", "nodeSelector.pool=b", "priorityClassName=",
    "extraVolumes[0].name=v", "extraVolumes[0].secret.secretName=s", "extraVolumeMounts[0].name=v",
    "extraVolumeMounts[0].mountPath=/v", "serviceAccount.annotations.a=b", "service.annotations.a=b",
])]
#[tokio::test]
async fn kubernetes_accepts_the_rendered_objects(#[case] values: &[&str]) {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    let values: Vec<String> = values.iter().map(|value| value.replace("HERE", namespace.name())).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let Some(objects) = objects(namespace.name(), &values).await else { return };
    release::apply(&kubernetes, &namespace, &objects).await;
}

#[tokio::test]
async fn sqlite_has_one_server_with_a_volume_and_postgres_several_without() {
    let Some(sqlite) = objects("here", &[]).await else { return };
    let spec = &the(&sqlite, "Deployment")["spec"];
    assert_eq!((&spec["replicas"], &spec["strategy"]["type"]), (&json!(1), &json!("Recreate")));
    let claim = &the(&sqlite, "PersistentVolumeClaim")["metadata"]["name"];
    assert_eq!(spec["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], *claim);

    let postgres = objects("here", WITH_POSTGRES).await.unwrap();
    let spec = &the(&postgres, "Deployment")["spec"];
    assert_eq!((&spec["replicas"], &spec["strategy"]["type"]), (&json!(2), &json!("RollingUpdate")));
    assert!(!postgres.iter().any(|object| object["kind"] == "PersistentVolumeClaim"));
    let env = spec["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let url = json!({
        "name": "MUSTER_DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "pg", "key": "url"}},
    });
    assert!(env.contains(&url), "{env:?}");
}

#[rstest]
#[case("replicas=2", "replicas is 2, and SQLite serves one server only: set database.urlSecret.name")]
#[case("serviceAccount.create=false", "say in serviceAccount.name which account is used instead")]
#[case("replica=2", "replica")]
#[case("auth={none}", "auth")]
#[tokio::test]
async fn invalid_values_are_refused_with_the_reason(#[case] value: &str, #[case] words: &str) {
    let Some(output) = template("here", &[value]).await else { return };
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && printed.contains(words), "{printed}");
}

#[tokio::test]
async fn the_server_is_not_root_and_writes_only_to_its_volumes() {
    let Some(objects) = objects("here", &["tls.secretName=certificate"]).await else { return };
    let pod = &the(&objects, "Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let paths: Vec<&Value> =
        container["volumeMounts"].as_array().unwrap().iter().map(|mount| &mount["mountPath"]).collect();
    assert_eq!(paths, ["/var/lib/muster", "/tmp", "/etc/muster/tls"]);
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"], json!({"path": path, "port": "rest", "scheme": "HTTPS"}));
    }
}

/// Returns the verbs of each resource.
fn rights(role: &Value) -> BTreeMap<(String, String), BTreeSet<String>> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let mut rights = BTreeMap::new();
    for rule in role["rules"].as_array().expect("a role has rules") {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let verbs: BTreeSet<String> = texts(&rule["verbs"]).into_iter().collect();
                let twice = rights.insert((group.clone(), resource.clone()), verbs);
                assert_eq!(twice, None, "{resource} of {group} stands in two rules");
            }
        }
    }
    rights
}

#[tokio::test]
async fn the_role_names_exactly_the_watched_kinds() {
    let Some(objects) = objects("here", &["namespaces={a}"]).await else { return };
    let given = rights(the(&objects, "Role"));
    let followed: BTreeSet<(String, String)> = flavors()
        .iter()
        .flat_map(|flavor| flavor.watched_kinds())
        .map(|watched| (watched.kind.group.to_owned(), watched.kind.plural.to_owned()))
        .collect();
    let others = ["pods", "pods/log", "events", "namespaces", "secrets", "configmaps"];
    let others = others.into_iter().map(|resource| (String::new(), resource.to_owned()));
    let apps = [("batch", "jobs"), ("apps", "replicasets"), ("apps", "statefulsets")];
    let apps = apps.map(|(group, resource)| (group.to_owned(), resource.to_owned()));
    for app in &apps {
        let verbs = &given[app];
        assert!(
            ["get", "list", "watch", "patch"].iter().all(|verb| verbs.contains(*verb)),
            "{app:?}: {verbs:?}"
        );
    }
    let metrics = ("metrics.k8s.io".to_owned(), "pods".to_owned());
    let expected: BTreeSet<_> = followed.iter().cloned().chain(others).chain(apps).chain([metrics]).collect();
    assert_eq!(given.keys().cloned().collect::<BTreeSet<_>>(), expected);
    for kind in &followed {
        let verbs = &given[kind];
        // Services are created and recreated, never changed.
        let changed = if kind.1 == "services" { "create" } else { "patch" };
        assert!(
            ["get", "list", "watch", changed].iter().all(|verb| verbs.contains(*verb)),
            "{kind:?}: {verbs:?}"
        );
    }
    let maps = &given[&(String::new(), "configmaps".to_owned())];
    assert!(maps.contains("get"), "configuration sets are read: {maps:?}");
    for flavor in flavors() {
        let root = flavor.watched_kinds()[0].kind;
        let verbs = &given[&(root.group.to_owned(), root.plural.to_owned())];
        assert_eq!(verbs.contains("create"), flavor.abilities().create, "{}", flavor.name());
        assert!(verbs.contains("delete"), "{}", flavor.name());
    }
}

#[tokio::test]
async fn cluster_wide_rights_are_as_few_as_the_values_need() {
    let whole = |resource: &str, verbs: &[&str]| {
        let verbs = verbs.iter().map(|verb| (*verb).to_owned()).collect::<BTreeSet<_>>();
        (resource.to_owned(), verbs)
    };
    let given = async |values: &[&str]| {
        let objects = objects("here", values).await?;
        let rights = rights(the(&objects, "ClusterRole"));
        Some(rights.into_iter().map(|((_, resource), verbs)| (resource, verbs)).collect::<BTreeMap<_, _>>())
    };
    let always = [whole("customresourcedefinitions", &["list", "watch"]), whole("nodes", &["get"])];
    let Some(least) = given(&["namespaces={a}", "instanceId=one", "auth={local}"]).await else { return };
    assert_eq!(least, BTreeMap::from(always.clone()));
    let usual = given(&["namespaces={a}"]).await.unwrap();
    let reviews = ["tokenreviews", "subjectaccessreviews"].map(|review| whole(review, &["create"]));
    let more = std::iter::once(whole("namespaces", &["get"])).chain(reviews);
    assert_eq!(usual, always.into_iter().chain(more).collect());
}

#[test]
fn the_image_is_built_with_the_pinned_toolchain_and_is_not_root() {
    let dockerfile = std::fs::read_to_string(deploy("Dockerfile")).unwrap();
    let pinned = std::fs::read_to_string(deploy("../rust-toolchain.toml")).unwrap();
    let channel = pinned.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(dockerfile.contains(&format!("FROM rust:{channel}-slim")), "it is built with another one");
    assert!(dockerfile.contains("\nUSER 65532:65532\n"));
    let chart = std::fs::read_to_string(deploy("helm/muster/Chart.yaml")).unwrap();
    assert!(chart.contains(&format!("\nappVersion: {}\n", env!("CARGO_PKG_VERSION"))), "{chart}");
}
