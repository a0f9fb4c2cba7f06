//! Images of local processes: Python environments that are built once and used by clusters.

use std::path::{Path, PathBuf};

use muster_testkit::{Python, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::state;
use crate::harness::{Harness, TIMEOUT};

const TEMPLATES: &str = "/namespaces/demo/image_templates";

/// Starts a harness whose pip uses no index.
async fn start_offline() -> Option<(Harness, Python)> {
    let python = muster_testkit::python("dask").await?;
    let path = python.path().display().to_string();
    Some((Harness::with(&[("MUSTER_PYTHON", &path), ("PIP_NO_INDEX", "1")]).await, python))
}

/// Writes a package with one module that contains a number.
fn wheel(python: &Python, folder: &Path, number: u32) -> String {
    const WRITE: &str = r#"
import sys, zipfile
path, number = sys.argv[1:]
with zipfile.ZipFile(path, "w") as wheel:
    info = "muster_probe-1.0.dist-info/"
    wheel.writestr("muster_probe.py", f"NUMBER = {number}\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: muster-probe\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
"#;
    let path = folder.join("muster_probe-1.0-py3-none-any.whl");
    let written = python.command().args(["-c", WRITE]).arg(&path).arg(number.to_string()).status();
    assert!(written.expect("Python runs").success());
    path.to_string_lossy().into_owned()
}

/// Waits until a build has ended.
async fn built(harness: &Harness, name: &str) -> Value {
    eventually("the end of a build", TIMEOUT, async || {
        let template = harness.get(&format!("{TEMPLATES}/{name}")).await;
        let is_open = ["PENDING", "BUILDING"].iter().any(|open| template["state"] == *open);
        if is_open { Err(template) } else { Ok(template) }
    })
    .await
}

async fn create(harness: &Harness, template: Value) -> Value {
    let response = harness.call(Method::POST, TEMPLATES, Some(template)).await;
    let (status, text) = (response.status(), response.text().await.expect("a body"));
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

async fn refusal(harness: &Harness, method: Method, path: &str, body: Option<Value>) -> (u16, String) {
    let response = harness.call(method, path, body).await;
    let status = response.status().as_u16();
    let body: Value = response.json().await.expect("a refusal is JSON");
    (status, body["message"].as_str().unwrap_or_default().to_owned())
}

fn dask_of(name: &str, template: &str) -> Value {
    let groups = json!([{"groupName": "default", "replicas": 1, "imageTemplate": template}]);
    let spec = json!({"headGroupSpec": {"imageTemplate": template}, "workerGroupSpec": groups});
    json!({"name": name, "framework": "dask", "clusterSpec": spec})
}

/// Lists the folders of images, without locks and links.
fn folders(harness: &Harness) -> Vec<PathBuf> {
    let images = harness.data().join("frameworks/images");
    let all = std::fs::read_dir(images).into_iter().flatten().flatten();
    let folders = all.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

#[tokio::test]
async fn a_cluster_waits_for_its_image_and_imports_its_packages() {
    let Some((harness, python)) = start_offline().await else { return };
    let package = wheel(&python, harness.path(), 7);
    let template = json!({
        "name": "probe", "pipPackages": [package], "environmentVariables": {"PROBE": "it's \"$HOME\""},
        "customCommands": "python -c 'import muster_probe'\necho \"built with $PROBE\"", "baseImage": "some:1",
    });
    let created = create(&harness, template).await;
    assert!(["PENDING", "BUILDING"].iter().any(|open| created["state"] == *open), "{created}");
    assert_eq!(created.get("image"), None, "{created}");
    // The name is reserved before the build.
    let cluster = harness.create(&dask_of("fred", "probe")).await;
    assert_eq!(state(&cluster), "ACTIVE", "{cluster}");
    let ready = built(&harness, "probe").await;
    assert_eq!(ready["state"], "READY", "{ready}");
    assert!(Path::new(ready["image"].as_str().expect("an image")).exists(), "{ready}");
    let log = harness.get(&format!("{TEMPLATES}/probe/log")).await;
    assert!(log["log"].as_str().is_some_and(|log| log.contains("built with it's \"$HOME\"")), "{log}");

    let mut client = Client::connect(&python, &cluster).await;
    let imported = "list(client.run(lambda: __import__('muster_probe').NUMBER).values())";
    assert_eq!(client.run(imported).await, "[7]");
    let variable = "list(client.run(lambda: __import__('os').environ['PROBE']).values())";
    assert_eq!(client.run(variable).await, r#"['it\'s "$HOME"']"#);
    assert_eq!(client.run("client.run_on_scheduler(lambda: __import__('muster_probe').NUMBER)").await, "7");

    // A profile with another template is refused.
    let properties = json!({"image_template": "missing"});
    let spec = json!({"type": "dask.cluster", "version": "1.0", "properties": properties});
    let http = reqwest::Client::new();
    let clustering = format!("{}/clustering/v1", harness.rest());
    let profile = json!({"profile": {"name": "p", "spec": spec}});
    let profile = http.post(format!("{clustering}/profiles")).json(&profile).send().await.expect("an answer");
    let profile: Value = profile.json().await.expect("a profile");
    let change = json!({"cluster": {"profile_id": profile["profile"]["id"]}});
    let id = cluster["id"].as_str().expect("an id");
    let refused =
        http.patch(format!("{clustering}/clusters/{id}")).json(&change).send().await.expect("an answer");
    let (status, why) = (refused.status(), refused.text().await.expect("a body"));
    assert_eq!(status, StatusCode::BAD_REQUEST, "{why}");
    assert!(why.contains("the profile has image template 'missing'"), "{why}");

    // It cannot be deleted while it is used.
    let (status, why) = refusal(&harness, Method::DELETE, &format!("{TEMPLATES}/probe"), None).await;
    assert_eq!(status, 409, "{why}");
    assert!(why.contains("is used by cluster fred"), "{why}");
    harness.delete_without_trace("fred").await;
    let gone = harness.call(Method::DELETE, &format!("{TEMPLATES}/probe"), None).await;
    assert_eq!(gone.status(), StatusCode::OK);
    assert_eq!(folders(&harness), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_build_whose_server_is_killed_is_completed_once() {
    let Some((mut harness, python)) = start_offline().await else { return };
    let gate = harness.path().join("gate");
    // Until the gate is open, the build waits in a process that survives the server.
    let wait = format!("echo begun; [ -e '{}' ] || sleep 600", gate.display());
    let package = wheel(&python, harness.path(), 8);
    create(&harness, json!({"name": "slow", "pipPackages": [package], "customCommands": wait})).await;
    eventually("the build has begun", TIMEOUT, async || {
        let log = harness.get(&format!("{TEMPLATES}/slow/log")).await;
        if log["log"].as_str().is_some_and(|log| log.contains("begun")) { Ok(()) } else { Err(log) }
    })
    .await;
    harness.kill_and_start_again().await;
    std::fs::write(&gate, "").expect("a gate");
    let ready = built(&harness, "slow").await;
    assert_eq!(ready["state"], "READY", "{ready}");
    assert_eq!(folders(&harness).len(), 1);

    // The same content under another name is ready at once, and is deleted with the last of both.
    let package = wheel(&python, harness.path(), 8);
    create(&harness, json!({"name": "same", "pipPackages": [package], "customCommands": wait})).await;
    assert_eq!(built(&harness, "same").await["image"], ready["image"]);
    for (name, left) in [("slow", 1), ("same", 0)] {
        let gone = harness.call(Method::DELETE, &format!("{TEMPLATES}/{name}"), None).await;
        assert_eq!(gone.status(), StatusCode::OK);
        assert_eq!(folders(&harness).len(), left, "after {name}");
    }
}

#[tokio::test]
async fn a_failed_build_says_why_and_so_does_a_cluster_that_waited_for_it() {
    let Some((harness, _)) = start_offline().await else { return };
    let gate = harness.path().join("gate");
    let wait = format!(
        "for i in $(seq 600); do [ -e '{}' ] && break; sleep 0.1; done; echo nothing to see; exit 3",
        gate.display()
    );
    create(&harness, json!({"name": "bad", "customCommands": wait})).await;
    let path = "/namespaces/demo/clusters?wait_for=accepted";
    let accepted = harness.call(Method::POST, path, Some(dask_of("fred", "bad"))).await;
    assert_eq!(accepted.status(), StatusCode::OK);
    std::fs::write(&gate, "").expect("a gate");
    let bad = built(&harness, "bad").await;
    assert_eq!(bad["statusReason"], "custom_commands failed: nothing to see", "{bad}");
    eventually("the cluster has failed", TIMEOUT, async || {
        let cluster = harness.get("/namespaces/demo/clusters/fred").await;
        let why = cluster["statusReason"].as_str().unwrap_or_default().to_owned();
        if why.contains("its image was not built: custom_commands failed") { Ok(()) } else { Err(cluster) }
    })
    .await;

    // A later change does not run it in another environment.
    let path = "/namespaces/demo/clusters/fred/scale?wait_for=reached";
    let scaled = harness.call(Method::POST, path, Some(json!({"replicas": 2}))).await;
    let why = scaled.text().await.expect("a body");
    assert!(why.contains("the image of template 'bad' is missing"), "{why}");

    create(&harness, json!({"name": "none", "pipPackages": ["muster-no-such-package==0"]})).await;
    let none = built(&harness, "none").await;
    let why = none["statusReason"].as_str().unwrap_or_default();
    assert!(why.contains("No matching distribution found for muster-no-such-package==0"), "{none}");
    for (name, expected) in
        [("bad", "failed: custom_commands failed"), ("missing", "image template 'missing' not found")]
    {
        let (status, why) =
            refusal(&harness, Method::POST, "/namespaces/demo/clusters", Some(dask_of("x", name))).await;
        assert_eq!(status, 400, "{why}");
        assert!(why.contains(expected), "{why}");
    }

    // Background processes of a command do not delay the end of the build, and end with it.
    create(&harness, json!({"name": "background", "customCommands": "sleep 600 & echo started"})).await;
    assert_eq!(built(&harness, "background").await["state"], "READY");

    // Deleting a running build ends all its processes.
    let endless = "sleep 600; true";
    let before = folders(&harness).len();
    create(&harness, json!({"name": "endless", "customCommands": endless})).await;
    // Wait for its folder: without one, the check below would prove nothing.
    eventually("it is built", TIMEOUT, async || {
        if folders(&harness).len() > before { Ok(()) } else { Err("it has no folder yet") }
    })
    .await;
    for name in ["endless", "background", "bad", "none"] {
        let gone = harness.call(Method::DELETE, &format!("{TEMPLATES}/{name}?force=true"), None).await;
        assert_eq!(gone.status(), StatusCode::OK);
    }
    eventually("nothing is left of it", TIMEOUT, async || {
        if folders(&harness).is_empty() { Ok(()) } else { Err("the folder exists") }
    })
    .await;
    harness.call(Method::DELETE, "/namespaces/demo/clusters/fred?wait_for=reached", None).await;
}
