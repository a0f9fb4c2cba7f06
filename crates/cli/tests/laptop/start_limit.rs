//! Starts of nodes are limited in number; one that hangs must not block others.
//!
//! The framework is a fake Ray: its head counts a worker as soon as a file of its name exists.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::clusters::{CLUSTERS, state};
use crate::harness::Harness;
use crate::recipes::ray;
use crate::traces::kill;

/// A head that reports the files of a folder as its workers.
const HEAD: &str = r#"
import http.server, json, os, sys
def node(name, head):
    return {"node_id": name, "node_name": name, "is_head_node": head, "state": "ALIVE"}
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        nodes = [node("head", True)] + [node(name, False) for name in os.listdir(sys.argv[1])]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": {"result": {"result": nodes}}}).encode())
port = int(sys.argv[sys.argv.index("--dashboard-port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Answers).serve_forever()
"#;

/// A fake Ray.
struct StartLimitScenario {
    folder: PathBuf,
}

impl StartLimitScenario {
    async fn new(harness: &Harness) -> Option<Self> {
        let python = muster_testkit::python("ray").await?;
        let scenario = Self { folder: harness.path().join("stage") };
        std::fs::create_dir_all(scenario.folder.join("here")).expect("a folder");
        let file = |name: &str| scenario.folder.join(name).display().to_string();
        std::fs::write(file("head.py"), HEAD).expect("a program");
        let [python, head, here, all] =
            [python.path().display().to_string(), file("head.py"), file("here"), file("all")];
        let script = format!(
            "#!/bin/sh\n\
             case \"$*\" in\n\
             *' --head '*) exec {python} -S {head} {here} \"$@\";;\n\
             *' --address '*)\n\
               name=${{*#*--node-name }}; name=${{name%% *}}\n\
               case $MUSTER_CLUSTER in works) touch {here}/$name;; *) [ -e {all} ] && touch {here}/$name;; esac\n\
               exec sleep 1000;;\n\
             *) echo 1;;\n\
             esac\n"
        );
        std::fs::write(scenario.python(), script).expect("a script");
        let runs = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scenario.python(), runs).expect("a script that runs");
        Some(scenario)
    }

    fn python(&self) -> PathBuf {
        self.folder.join("python")
    }

    /// Counts workers that start from now on.
    fn accept_all_workers(&self) {
        std::fs::write(self.folder.join("all"), "").expect("a file");
    }

    fn cluster(&self, name: &str, workers: u32) -> Value {
        let mut cluster = ray(name, &[("default", workers)]);
        cluster["profile_properties"] = json!({"image": self.python().display().to_string()});
        cluster
    }
}

#[tokio::test]
async fn a_head_that_dies_while_workers_are_queued_is_replaced_at_once() {
    let harness = Harness::bare().await;
    let Some(scenario) = StartLimitScenario::new(&harness).await else { return };
    let before = harness.traces();
    harness.post(CLUSTERS, scenario.cluster("fred", 3)).await;
    harness.until_started(&before, "sleep 1000").await;
    scenario.accept_all_workers();
    let head = harness.until_started(&before, "head.py").await;
    kill(head);
    let created = harness.until_ended("fred", "CLUSTER_CREATE", 1).await;
    assert_eq!(created["status"], "SUCCEEDED", "{created}");
    harness.until_active("fred", 3).await;
    assert!(harness.messages("fred", "StartTimeout").await.is_empty());
    assert_ne!(harness.head("fred").await.pid(), head);
    harness.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_start_that_hangs_does_not_block_other_clusters() {
    let harness = Harness::bare().await;
    let Some(scenario) = StartLimitScenario::new(&harness).await else { return };
    let before = harness.traces();
    harness.post(CLUSTERS, scenario.cluster("stuck", 1)).await;
    harness.until_started(&before, "sleep 1000").await;
    let created = harness.create(&scenario.cluster("works", 1)).await;
    assert_eq!(state(&created), "ACTIVE", "{created}");
    assert_eq!(state(&harness.cluster("stuck").await), "CREATING", "it still hangs");
    harness.delete("stuck").await;
    harness.delete_without_trace("works").await;
}

/// Returns the folder for temporary files of a process.
fn temporary(pid: i32) -> PathBuf {
    let variables = std::fs::read(format!("/proc/{pid}/environ")).expect("variables");
    let mut variables = variables.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let value = variables.find_map(|one| Some(one.strip_prefix("TMPDIR=")?.to_owned()));
    value.expect("TMPDIR is set").into()
}

#[tokio::test]
async fn temporary_files_of_a_node_are_in_its_own_folder_and_deleted_with_it() {
    let harness = Harness::bare().await;
    let Some(scenario) = StartLimitScenario::new(&harness).await else { return };
    harness.create(&scenario.cluster("works", 2)).await;
    let head = temporary(harness.head("works").await.pid());
    let workers: Vec<PathBuf> =
        harness.workers("works").await.iter().map(|worker| temporary(worker.pid())).collect();
    for folder in workers.iter().chain([&head]) {
        // Python creates sockets in `pymp-12345678/listener-12345678`.
        assert!(folder.is_dir() && folder.as_os_str().len() + 32 <= 107, "{folder:?}");
        std::fs::write(folder.join("left"), "").expect("a file");
    }
    assert!(workers[0] != workers[1] && !workers.contains(&head), "{workers:?} {head:?}");
    harness.scale("works", 1).await;
    let stays = temporary(harness.workers("works").await[0].pid());
    let there: Vec<&PathBuf> = workers.iter().filter(|folder| folder.exists()).collect();
    assert_eq!(there, [&stays], "the other went with its worker");
    harness.restart_head("works").await;
    assert!(head.is_dir() && !head.join("left").exists(), "its next start begins with an empty one");
    harness.delete_without_trace("works").await;
}
