//! The chart as helm renders it.

use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

/// The version of the testbed's Kubernetes: a helm that was built without a version of its own knows only an old one.
const KUBERNETES: &str = "1.34.4";

/// The name of the release.
pub(crate) const RELEASE: &str = "m";

/// A file or folder of `deploy`.
pub(crate) fn deploy(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(path)
}

/// What helm says; none if the test is skipped.
pub(crate) async fn helm(arguments: &[&str]) -> Option<Output> {
    let mut helm = muster_testkit::helm().await?;
    Some(helm.args(arguments).output().expect("helm runs"))
}

/// What helm says to rendering the chart for a namespace with these values; none if the test is skipped.
pub(crate) async fn template(namespace: &str, values: &[&str]) -> Option<Output> {
    let chart = deploy("helm/muster");
    let chart = chart.to_str().expect("a plain path");
    let sets = values.iter().flat_map(|value| ["--set", value]);
    let fixed = ["template", RELEASE, chart, "--namespace", namespace, "--kube-version", KUBERNETES];
    let arguments: Vec<&str> = fixed.into_iter().chain(sets).collect();
    helm(&arguments).await
}

/// The objects of the chart for a namespace with these values; none if the test is skipped.
pub(crate) async fn objects(namespace: &str, values: &[&str]) -> Option<Vec<Value>> {
    let output = template(namespace, values).await?;
    assert!(output.status.success(), "{values:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    Some(objects.into_iter().filter(|object| !object.is_null()).collect())
}

/// The only object of a kind.
pub(crate) fn the<'o>(objects: &'o [Value], kind: &str) -> &'o Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let (first, second) = (found.next(), found.next());
    assert!(second.is_none(), "several objects are a {kind}");
    first.unwrap_or_else(|| panic!("no object is a {kind}"))
}
