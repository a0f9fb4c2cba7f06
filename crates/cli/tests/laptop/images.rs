//! Images of local processes: Python environments that are built once, and used by clusters.

use std::path::{Path, PathBuf};

use muster_testkit::{Python, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::Client;
use crate::clusters::state;
use crate::laptop::{Laptop, PATIENCE};

const TEMPLATES: &str = "/namespaces/demo/image_templates";

/// A laptop whose pip asks no index.
async fn laptop() -> Option<(Laptop, Python)> {
    let python = muster_testkit::python("dask").await?;
    let path = python.path().display().to_string();
    Some((Laptop::with(&[("MUSTER_PYTHON", &path), ("PIP_NO_INDEX", "1")]).await, python))
}

/// A package with one module, in which a number is.
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
async fn built(laptop: &Laptop, name: &str) -> Value {
    eventually("the end of a build", PATIENCE, async || {
        let template = laptop.get(&format!("{TEMPLATES}/{name}")).await;
        let is_open = ["PENDING", "BUILDING"].iter().any(|open| template["state"] == *open);
        if is_open { Err(template) } else { Ok(template) }
    })
    .await
}

async fn create(laptop: &Laptop, template: Value) -> Value {
    let response = laptop.call(Method::POST, TEMPLATES, Some(template)).await;
    let (status, text) = (response.status(), response.text().await.expect("a body"));
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

async fn refusal(laptop: &Laptop, method: Method, path: &str, body: Option<Value>) -> (u16, String) {
    let response = laptop.call(method, path, body).await;
    let status = response.status().as_u16();
    let body: Value = response.json().await.expect("a refusal is JSON");
    (status, body["message"].as_str().unwrap_or_default().to_owned())
}

fn dask_of(name: &str, template: &str) -> Value {
    let groups = json!([{"groupName": "default", "replicas": 1, "imageTemplate": template}]);
    let spec = json!({"headGroupSpec": {"imageTemplate": template}, "workerGroupSpec": groups});
    json!({"name": name, "framework": "dask", "clusterSpec": spec})
}

/// The folders of images, without locks and links.
fn folders(laptop: &Laptop) -> Vec<PathBuf> {
    let images = laptop.data().join("frameworks/images");
    let all = std::fs::read_dir(images).into_iter().flatten().flatten();
    let folders = all.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

#[tokio::test]
async fn a_cluster_waits_for_its_image_and_imports_what_is_in_it() {
    let Some((laptop, python)) = laptop().await else { return };
    let package = wheel(&python, laptop.path(), 7);
    let template = json!({
        "name": "probe", "pipPackages": [package], "environmentVariables": {"PROBE": "it's \"$HOME\""},
        "customCommands": "python -c 'import muster_probe'\necho \"built with $PROBE\"", "baseImage": "some:1",
    });
    let created = create(&laptop, template).await;
    assert!(["PENDING", "BUILDING"].iter().any(|open| created["state"] == *open), "{created}");
    assert_eq!(created.get("image"), None, "{created}");
    // It is named before it is built.
    let cluster = laptop.create(&dask_of("fred", "probe")).await;
    assert_eq!(state(&cluster), "ACTIVE", "{cluster}");
    let ready = built(&laptop, "probe").await;
    assert_eq!(ready["state"], "READY", "{ready}");
    assert!(Path::new(ready["image"].as_str().expect("an image")).exists(), "{ready}");
    let log = laptop.get(&format!("{TEMPLATES}/probe/log")).await;
    assert!(log["log"].as_str().is_some_and(|log| log.contains("built with it's \"$HOME\"")), "{log}");

    let mut client = Client::connect(&python, &cluster).await;
    let imported = "list(client.run(lambda: __import__('muster_probe').NUMBER).values())";
    assert_eq!(client.run(imported).await, "[7]");
    let variable = "list(client.run(lambda: __import__('os').environ['PROBE']).values())";
    assert_eq!(client.run(variable).await, r#"['it\'s "$HOME"']"#);
    assert_eq!(client.run("client.run_on_scheduler(lambda: __import__('muster_probe').NUMBER)").await, "7");

    // Another profile cannot bring another template.
    let properties = json!({"image_template": "missing"});
    let spec = json!({"type": "dask.cluster", "version": "1.0", "properties": properties});
    let http = reqwest::Client::new();
    let clustering = format!("{}/clustering/v1", laptop.rest());
    let profile = json!({"profile": {"name": "p", "spec": spec}});
    let profile = http.post(format!("{clustering}/profiles")).json(&profile).send().await.expect("an answer");
    let profile: Value = profile.json().await.expect("a profile");
    let change = json!({"cluster": {"profile_id": profile["profile"]["id"]}});
    let id = cluster["id"].as_str().expect("an id");
    let refused =
        http.patch(format!("{clustering}/clusters/{id}")).json(&change).send().await.expect("an answer");
    let (status, why) = (refused.status(), refused.text().await.expect("a body"));
    assert_eq!(status, StatusCode::BAD_REQUEST, "{why}");
    assert!(why.contains("names image template 'missing'"), "{why}");

    // It cannot go while it is used.
    let (status, why) = refusal(&laptop, Method::DELETE, &format!("{TEMPLATES}/probe"), None).await;
    assert_eq!(status, 409, "{why}");
    assert!(why.contains("is used by fred"), "{why}");
    laptop.delete_without_trace("fred").await;
    let gone = laptop.call(Method::DELETE, &format!("{TEMPLATES}/probe"), None).await;
    assert_eq!(gone.status(), StatusCode::OK);
    assert_eq!(folders(&laptop), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_build_whose_server_is_killed_ends_once() {
    let Some((mut laptop, python)) = laptop().await else { return };
    let gate = laptop.path().join("gate");
    // Until the gate is open it waits in a process of its own, which the death of the server does not end.
    let wait = format!("echo begun; [ -e '{}' ] || sleep 600", gate.display());
    let package = wheel(&python, laptop.path(), 8);
    create(&laptop, json!({"name": "slow", "pipPackages": [package], "customCommands": wait})).await;
    eventually("the build has begun", PATIENCE, async || {
        let log = laptop.get(&format!("{TEMPLATES}/slow/log")).await;
        if log["log"].as_str().is_some_and(|log| log.contains("begun")) { Ok(()) } else { Err(log) }
    })
    .await;
    laptop.kill_and_start_again().await;
    std::fs::write(&gate, "").expect("a gate");
    let ready = built(&laptop, "slow").await;
    assert_eq!(ready["state"], "READY", "{ready}");
    assert_eq!(folders(&laptop).len(), 1);

    // The same content is there at once, under another name, and goes with the last of both.
    let package = wheel(&python, laptop.path(), 8);
    create(&laptop, json!({"name": "same", "pipPackages": [package], "customCommands": wait})).await;
    assert_eq!(built(&laptop, "same").await["image"], ready["image"]);
    for (name, left) in [("slow", 1), ("same", 0)] {
        let gone = laptop.call(Method::DELETE, &format!("{TEMPLATES}/{name}"), None).await;
        assert_eq!(gone.status(), StatusCode::OK);
        assert_eq!(folders(&laptop).len(), left, "after {name}");
    }
}

#[tokio::test]
async fn a_build_that_fails_says_why_and_so_does_a_cluster_that_waited_for_it() {
    let Some((laptop, _)) = laptop().await else { return };
    let gate = laptop.path().join("gate");
    let wait = format!(
        "for i in $(seq 600); do [ -e '{}' ] && break; sleep 0.1; done; echo nothing to see; exit 3",
        gate.display()
    );
    create(&laptop, json!({"name": "bad", "customCommands": wait})).await;
    let path = "/namespaces/demo/clusters?wait_for=accepted";
    let accepted = laptop.call(Method::POST, path, Some(dask_of("fred", "bad"))).await;
    assert_eq!(accepted.status(), StatusCode::OK);
    std::fs::write(&gate, "").expect("a gate");
    let bad = built(&laptop, "bad").await;
    assert_eq!(bad["statusReason"], "custom_commands failed: nothing to see", "{bad}");
    eventually("the cluster has failed", PATIENCE, async || {
        let cluster = laptop.get("/namespaces/demo/clusters/fred").await;
        let why = cluster["statusReason"].as_str().unwrap_or_default().to_owned();
        if why.contains("its image was not built: custom_commands failed") { Ok(()) } else { Err(cluster) }
    })
    .await;

    // Nor does a later change run it in another environment.
    let path = "/namespaces/demo/clusters/fred/scale?wait_for=reached";
    let scaled = laptop.call(Method::POST, path, Some(json!({"replicas": 2}))).await;
    let why = scaled.text().await.expect("a body");
    assert!(why.contains("the image of template 'bad' is not there"), "{why}");

    create(&laptop, json!({"name": "none", "pipPackages": ["muster-no-such-package==0"]})).await;
    let none = built(&laptop, "none").await;
    let why = none["statusReason"].as_str().unwrap_or_default();
    assert!(why.contains("No matching distribution found for muster-no-such-package==0"), "{none}");
    for (name, expected) in
        [("bad", "failed: custom_commands failed"), ("missing", "there is no image template 'missing'")]
    {
        let (status, why) =
            refusal(&laptop, Method::POST, "/namespaces/demo/clusters", Some(dask_of("x", name))).await;
        assert_eq!(status, 400, "{why}");
        assert!(why.contains(expected), "{why}");
    }

    // What a command leaves behind does not keep a build from its end, and ends with it.
    create(&laptop, json!({"name": "background", "customCommands": "sleep 600 & echo started"})).await;
    assert_eq!(built(&laptop, "background").await["state"], "READY");

    // A build that is deleted ends, with all that it started.
    let endless = "sleep 600; true";
    create(&laptop, json!({"name": "endless", "customCommands": endless})).await;
    eventually("it is built", PATIENCE, async || {
        let template = laptop.get(&format!("{TEMPLATES}/endless")).await;
        if template["state"] == "BUILDING" { Ok(()) } else { Err(template) }
    })
    .await;
    for name in ["endless", "background", "bad", "none"] {
        let gone = laptop.call(Method::DELETE, &format!("{TEMPLATES}/{name}?force=true"), None).await;
        assert_eq!(gone.status(), StatusCode::OK);
    }
    eventually("nothing is left of it", PATIENCE, async || {
        if folders(&laptop).is_empty() { Ok(()) } else { Err("a folder is there") }
    })
    .await;
    laptop.call(Method::DELETE, "/namespaces/demo/clusters/fred?wait_for=reached", None).await;
}
