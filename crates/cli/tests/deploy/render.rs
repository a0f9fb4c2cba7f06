//! Renders the chart with helm.

use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

/// The version of the testbed's Kubernetes: helm built without a version assumes an old one.
const KUBERNETES: &str = "1.34.4";

/// The name of the release.
pub(crate) const RELEASE: &str = "m";

/// Returns the path of a file or folder in `deploy`.
pub(crate) fn deploy(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(path)
}

/// Runs helm; `None` if the test is skipped.
pub(crate) async fn helm(arguments: &[&str]) -> Option<Output> {
    let mut helm = muster_testkit::helm().await?;
    Some(helm.args(arguments).output().expect("helm runs"))
}

/// Renders the chart for a namespace with these values; `None` if the test is skipped.
pub(crate) async fn template(namespace: &str, values: &[&str]) -> Option<Output> {
    template_with(&[], namespace, values).await
}

/// Renders the chart for another version of Kubernetes.
pub(crate) async fn template_for(kubernetes: &str, namespace: &str, values: &[&str]) -> Option<Output> {
    template_with(&["--kube-version", kubernetes], namespace, values).await
}

/// Renders the chart with more arguments, of which the last with a name counts.
pub(crate) async fn template_with(more: &[&str], namespace: &str, values: &[&str]) -> Option<Output> {
    let chart = deploy("helm/muster");
    let chart = chart.to_str().expect("a plain path");
    let sets = values.iter().flat_map(|value| ["--set", value]);
    let fixed = ["template", RELEASE, chart, "--namespace", namespace, "--kube-version", KUBERNETES];
    let arguments: Vec<&str> = fixed.into_iter().chain(more.iter().copied()).chain(sets).collect();
    helm(&arguments).await
}

/// Returns the objects of the chart for a namespace with these values; `None` if the test is skipped.
pub(crate) async fn objects(namespace: &str, values: &[&str]) -> Option<Vec<Value>> {
    let output = template(namespace, values).await?;
    assert!(output.status.success(), "{values:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    Some(objects.into_iter().filter(|object| !object.is_null()).collect())
}

/// Returns the only object of a kind.
pub(crate) fn the<'o>(objects: &'o [Value], kind: &str) -> &'o Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let (first, second) = (found.next(), found.next());
    assert!(second.is_none(), "several objects are a {kind}");
    first.unwrap_or_else(|| panic!("no object is a {kind}"))
}
