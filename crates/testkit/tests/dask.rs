//! The testbed's Dask executes computations.

use std::time::Duration;

use muster_testkit::Process;

/// A time limit for Python programs, whose imports take seconds on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

const CLIENT: &str = r#"
import sys
from distributed import Client

with Client(sys.argv[1], timeout=60) as client:
    client.wait_for_workers(1, timeout=60)
    squares = client.map(lambda n: n * n, range(100))
    print("the answer is", client.submit(sum, squares).result(timeout=60))
"#;

#[tokio::test]
async fn a_dask_scheduler_and_worker_compute() {
    let Some(python) = muster_testkit::python("dask").await else { return };

    let mut command = python.command();
    command.args([
        "-m",
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
    ]);
    let scheduler = Process::spawn("dask scheduler", &command);
    let line = scheduler.wait_for_line("Scheduler at:", PATIENCE).await;
    let address =
        line.split_whitespace().find(|word| word.starts_with("tcp://")).expect("its address").to_owned();

    let mut command = python.command();
    command.args(["-m", "distributed.cli.dask_worker", &address, "--host", "127.0.0.1", "--nthreads", "1"]);
    command.args(["--no-nanny", "--no-dashboard"]);
    let worker = Process::spawn("dask worker", &command);
    worker.wait_for_line("Registered to:", PATIENCE).await;

    let mut command = python.command();
    command.args(["-c", CLIENT, &address]);
    let mut client = Process::spawn("dask client", &command);
    let line = client.wait_for_line("the answer is", PATIENCE).await;
    assert_eq!(line, "the answer is 328350");
    assert!(client.wait_for_exit(PATIENCE).await.success(), "{}", client.tail());
}
