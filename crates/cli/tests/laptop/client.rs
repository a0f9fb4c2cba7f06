//! A program of a user that stays connected to a cluster and does what the test says.

use std::process::Command;

use muster_testkit::{Process, Python};
use serde_json::Value;

use crate::laptop::PATIENCE;

/// Connects to Dask.
const DASK: &str = r"
from dask.distributed import Client
client = Client(sys.argv[1])
";

/// Reads lines of Python and prints what they come to, each with its number.
const OBEY: &str = r#"
print("connected", flush=True)
kept = {}
for number, line in enumerate(sys.stdin):
    try:
        answer = eval(line)
    except BaseException as error:
        answer = repr(error)
    print(f"answer {number}: {answer}", flush=True)
"#;

pub(crate) struct Client {
    process: Process,
    asked: usize,
}

impl Client {
    /// Connects to a cluster of Dask as its row says.
    pub(crate) async fn connect(python: &Python, cluster: &Value) -> Self {
        let address = cluster["endpoints"]["address"].as_str().expect("an address");
        Self::start(python.command(), DASK, &[address]).await
    }

    /// Connects by a program of its own, whose names the lines can use.
    pub(crate) async fn start(mut python: Command, connect: &str, arguments: &[&str]) -> Self {
        python.arg("-c").arg(format!("import sys\n{connect}\n{OBEY}")).args(arguments);
        let process = Process::spawn("client", &python);
        process.wait_for_line("connected", PATIENCE).await;
        Self { process, asked: 0 }
    }

    /// What a line of Python comes to, with the names of its program and the map `kept`.
    pub(crate) async fn run(&mut self, line: &str) -> String {
        self.process.write_line(line).await;
        let head = format!("answer {}: ", self.asked);
        self.asked += 1;
        let answer = self.process.wait_for_line(&head, PATIENCE).await;
        answer.trim_start_matches(&head).to_owned()
    }

    /// Lets a cluster of Dask compute something of which the answer is known.
    pub(crate) async fn computes(&mut self) {
        let line = "sum(client.gather(client.map(lambda x: x * x, range(20), pure=False)))";
        assert_eq!(self.run(line).await, "2470");
    }
}
