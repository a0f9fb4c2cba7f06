//! A user's program that stays connected to a cluster and executes the lines that a test sends.

use std::process::Command;

use muster_testkit::{Process, Python};
use serde_json::Value;

use crate::harness::TIMEOUT;

/// Python code that connects to Dask.
const DASK: &str = r"
from dask.distributed import Client
client = Client(sys.argv[1])
";

/// Python code that evaluates lines and prints the results with their numbers.
const EVAL_LOOP: &str = r#"
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
    /// Connects to the Dask cluster of this row.
    pub(crate) async fn connect(python: &Python, cluster: &Value) -> Self {
        let address = cluster["endpoints"]["address"].as_str().expect("an address");
        Self::start(python.command(), DASK, &[address]).await
    }

    /// Connects with other code, whose names the lines can use.
    pub(crate) async fn start(mut python: Command, connect: &str, arguments: &[&str]) -> Self {
        python.arg("-c").arg(format!("import sys\n{connect}\n{EVAL_LOOP}")).args(arguments);
        let process = Process::spawn("client", &python);
        process.wait_for_line("connected", TIMEOUT).await;
        Self { process, asked: 0 }
    }

    /// Evaluates a line of Python, which can use the names of its program and the map `kept`.
    pub(crate) async fn run(&mut self, line: &str) -> String {
        self.process.write_line(line).await;
        let head = format!("answer {}: ", self.asked);
        self.asked += 1;
        let answer = self.process.wait_for_line(&head, TIMEOUT).await;
        answer.trim_start_matches(&head).to_owned()
    }

    /// Computes a known result on a Dask cluster.
    pub(crate) async fn computes(&mut self) {
        let line = "sum(client.gather(client.map(lambda x: x * x, range(20), pure=False)))";
        assert_eq!(self.run(line).await, "2470");
    }
}
