//! The testbed's helm runs.

#[tokio::test]
async fn helm_says_its_version() {
    let Some(mut helm) = muster_testkit::helm().await else { return };
    let output = helm.args(["version", "--template", "{{.Version}}"]).output().expect("helm runs");
    assert!(output.status.success(), "{output:?}");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(version.starts_with("v3."), "{version}");
}
