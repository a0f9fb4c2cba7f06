//! Nodes that have to be started one after the other, of which one does not come to work.
//!
//! Ray, but for Ray: a head that answers as one does, and workers that are counted as soon as there is a file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::clusters::{CLUSTERS, state};
use crate::laptop::Laptop;
use crate::recipes::ray;
use crate::traces::kill;

/// Answers as a head to which those workers came that are files in a folder.
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

/// A framework that is called Ray.
struct TurnScenario {
    folder: PathBuf,
}

impl TurnScenario {
    async fn new(laptop: &Laptop) -> Option<Self> {
        let python = muster_testkit::python("ray").await?;
        let scenario = Self { folder: laptop.path().join("stage") };
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

    /// Those that come from now on are counted.
    fn lets_all_come(&self) {
        std::fs::write(self.folder.join("all"), "").expect("a file");
    }

    fn cluster(&self, name: &str, workers: u32) -> Value {
        let mut cluster = ray(name, &[("default", workers)]);
        cluster["profile_properties"] = json!({"image": self.python().display().to_string()});
        cluster
    }
}

#[tokio::test]
async fn a_head_that_dies_while_workers_wait_for_their_turn_is_replaced_at_once() {
    let laptop = Laptop::bare().await;
    let Some(scenario) = TurnScenario::new(&laptop).await else { return };
    let before = laptop.traces();
    laptop.post(CLUSTERS, scenario.cluster("fred", 3)).await;
    laptop.until_begun(&before, "sleep 1000").await;
    scenario.lets_all_come();
    let head = laptop.until_begun(&before, "head.py").await;
    kill(head);
    let created = laptop.until_ended("fred", "CLUSTER_CREATE", 1).await;
    assert_eq!(created["status"], "SUCCEEDED", "{created}");
    laptop.until_active("fred", 3).await;
    assert!(laptop.messages("fred", "StartTimeout").await.is_empty());
    assert_ne!(laptop.head("fred").await.pid(), head);
    laptop.delete_without_trace("fred").await;
}

#[tokio::test]
async fn a_start_that_hangs_does_not_hold_up_other_clusters() {
    let laptop = Laptop::bare().await;
    let Some(scenario) = TurnScenario::new(&laptop).await else { return };
    let before = laptop.traces();
    laptop.post(CLUSTERS, scenario.cluster("stuck", 1)).await;
    laptop.until_begun(&before, "sleep 1000").await;
    let created = laptop.create(&scenario.cluster("works", 1)).await;
    assert_eq!(state(&created), "ACTIVE", "{created}");
    assert_eq!(state(&laptop.cluster("stuck").await), "CREATING", "it still hangs");
    laptop.delete("stuck").await;
    laptop.delete_without_trace("works").await;
}

/// Where a process has what it needs for a while.
fn temporary(pid: i32) -> PathBuf {
    let variables = std::fs::read(format!("/proc/{pid}/environ")).expect("variables");
    let mut variables = variables.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let value = variables.find_map(|one| Some(one.strip_prefix("TMPDIR=")?.to_owned()));
    value.expect("TMPDIR is set").into()
}

#[tokio::test]
async fn what_a_node_has_for_a_while_is_in_a_folder_of_its_own_that_goes_with_it() {
    let laptop = Laptop::bare().await;
    let Some(scenario) = TurnScenario::new(&laptop).await else { return };
    laptop.create(&scenario.cluster("works", 2)).await;
    let head = temporary(laptop.head("works").await.pid());
    let workers: Vec<PathBuf> =
        laptop.workers("works").await.iter().map(|worker| temporary(worker.pid())).collect();
    for folder in workers.iter().chain([&head]) {
        // What Python puts a socket into: `pymp-12345678/listener-12345678`.
        assert!(folder.is_dir() && folder.as_os_str().len() + 32 <= 107, "{folder:?}");
        std::fs::write(folder.join("left"), "").expect("a file");
    }
    assert!(workers[0] != workers[1] && !workers.contains(&head), "{workers:?} {head:?}");
    laptop.scale("works", 1).await;
    let stays = temporary(laptop.workers("works").await[0].pid());
    let there: Vec<&PathBuf> = workers.iter().filter(|folder| folder.exists()).collect();
    assert_eq!(there, [&stays], "the other went with its worker");
    laptop.restart_head("works").await;
    assert!(head.is_dir() && !head.join("left").exists(), "its next start begins with an empty one");
    laptop.delete_without_trace("works").await;
}
