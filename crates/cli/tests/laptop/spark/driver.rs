//! A user's program that stays connected to a Spark cluster and executes the lines that a test sends.

use std::collections::BTreeSet;
use std::path::Path;

use muster_testkit::{Process, Python, eventually};
use serde_json::Value;
use tempfile::TempDir;

use crate::clusters::CLUSTERS;
use crate::harness::{Harness, TIMEOUT};

/// Evaluates lines of Python and prints the results with their numbers. Tasks record the host on which they ran.
const PROGRAM: &str = r#"
import os, sys, time
from pyspark.sql import SparkSession
quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.appName("test").config(map=quiet).getOrCreate()
sc = spark.sparkContext
marks = sys.argv[1]
def square(number, seconds):
    with open(f"{marks}/{number}", "a") as mark:
        mark.write(os.environ["SPARK_LOCAL_IP"] + "\n")
    time.sleep(seconds)
    return number * number
def squares(count, seconds=0):
    for name in os.listdir(marks):
        os.remove(f"{marks}/{name}")
    return sc.parallelize(range(count), count).map(lambda number: square(number, seconds)).sum()
print("connected", flush=True)
for number, line in enumerate(sys.stdin):
    try:
        answer = eval(line)
    except BaseException as error:
        answer = repr(error)
    print(f"answer {number}: {answer}", flush=True)
"#;

pub(super) struct Driver {
    process: Process,
    asked: usize,
    marks: TempDir,
    _scratch: TempDir,
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

impl Driver {
    /// Connects to a cluster by its environment variables alone.
    pub(super) async fn connect(harness: &Harness, python: &Python, cluster: &str) -> Self {
        let environment = harness.get(&format!("{CLUSTERS}/{cluster}/environment")).await;
        let variables = environment["variables"].as_object().expect("variables");
        let (marks, scratch) = (folder(), folder());
        let mut command = python.command();
        command.args(["-c", PROGRAM]).arg(marks.path());
        // It is killed, and would otherwise leave files in the machine's temporary folder.
        let temporary = format!("-Djava.io.tmpdir={} -XX:-UsePerfData", scratch.path().display());
        command.env("SPARK_LOCAL_DIRS", scratch.path()).env("SPARK_SUBMIT_OPTS", temporary);
        command.envs(variables.iter().map(|(name, value)| (name, value.as_str().unwrap_or_default())));
        let process = Process::spawn("driver", &command);
        process.wait_for_line("connected", TIMEOUT).await;
        Self { process, asked: 0, marks, _scratch: scratch }
    }

    /// Sends a line to evaluate.
    pub(super) async fn begin(&mut self, line: &str) {
        self.process.write_line(line).await;
        self.asked += 1;
    }

    /// Returns the result of the last line.
    pub(super) async fn answer(&mut self) -> String {
        let head = format!("answer {}: ", self.asked - 1);
        let answer = self.process.wait_for_line(&head, TIMEOUT).await;
        answer.trim_start_matches(&head).to_owned()
    }

    /// Computes a known result on the cluster.
    pub(super) async fn computes(&mut self) {
        self.begin("squares(20)").await;
        assert_eq!(self.answer().await, "2470", "{}", self.process.tail());
    }

    /// Waits until this many workers have executed a task of the current line.
    pub(super) async fn until_done_by(&self, workers: usize) {
        eventually(&format!("parts done by {workers} workers"), TIMEOUT, async || {
            let hosts = self.hosts().collect::<BTreeSet<_>>();
            let tail = || self.process.tail();
            if hosts.len() < workers { Err(format!("{hosts:?}\n{}", tail())) } else { Ok(()) }
        })
        .await;
    }

    /// Returns the number of started tasks, which exceeds their count if some were retried.
    pub(super) fn begun(&self) -> usize {
        self.hosts().count()
    }

    /// Returns the host of each started task.
    fn hosts(&self) -> impl Iterator<Item = String> + use<> {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let files = std::fs::read_dir(self.marks.path()).expect("a folder").flatten();
        let texts: Vec<String> = files.map(|file| read(&file.path())).collect();
        texts.into_iter().flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
    }
}

/// Queries the master's counters.
pub(super) async fn master(cluster: &Value) -> Value {
    let dashboard = cluster["endpoints"]["dashboard"].as_str().expect("a dashboard");
    reqwest::get(format!("{dashboard}json/")).await.expect("it answers").json().await.expect("JSON")
}
