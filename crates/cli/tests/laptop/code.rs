//! A user's own code on a cluster: its folder, its variables, and commands in the cluster's Python.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use muster_testkit::Process;
use serde_json::json;

use crate::harness::{Harness, TIMEOUT};

/// Prints what a task finds: a module and a file beside the script, a variable, and the folder; and the variable here.
const SCRIPT: &str = "import os, sys, beside
from dask.distributed import Client
def found():
    print('a word of the task')
    return beside.WORD, open('data.csv').read(), os.environ.get('GREETING'), os.getcwd()
print(*Client().submit(found).result(), os.environ.get('GREETING'))
sys.exit(7)
";

fn muster(harness: &Harness, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(arguments).current_dir(folder).env("MUSTER_DATA_DIR", harness.data());
    command.env_remove("MUSTER_PYTHON").env_remove("VIRTUAL_ENV").env_remove("PYTHONPATH");
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn tasks_see_the_users_code_data_and_variables_also_after_a_restart() {
    let Some((harness, python)) = Harness::with_dask().await else { return };
    let folder = harness.path().join("project");
    std::fs::create_dir(&folder).unwrap();
    for (file, content) in [("job.py", SCRIPT), ("beside.py", "WORD = 'beside'\n"), ("data.csv", "1,2")] {
        std::fs::write(folder.join(file), content).unwrap();
    }
    let run = |arguments: &[&str]| muster(&harness, &folder, arguments).output().expect("muster runs");
    let made = run(&["create", "fred", "--env", "GREETING=hello"]);
    assert!(made.status.success(), "{:?}", texts(&made));

    let expected = format!("beside 1,2 hello {} hello\n", folder.canonicalize().unwrap().display());
    let as_script = || run(&["exec", "fred", "job.py"]);
    let as_command = || run(&["exec", "fred", "--", "python", "job.py"]);
    for ran in [as_script(), as_command()] {
        let (out, printed) = texts(&ran);
        assert_eq!((ran.status.code(), out.as_str()), (Some(7), expected.as_str()), "{printed}");
    }
    // A followed log includes nodes that are started later.
    let followed = Process::spawn("muster", &muster(&harness, &folder, &["logs", "fred", "-f"]));
    followed.wait_for_line("fred-head", TIMEOUT).await;
    let scaled = run(&["scale", "fred", "--workers", "2"]);
    assert!(scaled.status.success(), "{:?}", texts(&scaled));
    let nodes = harness.get("/namespaces/default/clusters/fred/nodes").await;
    let name = nodes["nodes"][2]["name"].as_str().expect("a name").to_owned();
    followed.wait_for_line(&name, TIMEOUT).await;
    let scaled = run(&["scale", "fred", "--workers", "1"]);
    assert!(scaled.status.success(), "{:?}", texts(&scaled));

    let restarted = run(&["restart", "fred"]);
    assert!(restarted.status.success(), "{:?}", texts(&restarted));
    let (out, printed) = texts(&as_script());
    assert_eq!(out, expected, "{printed}");
    let shown = harness.get("/namespaces/default/clusters/fred").await;
    assert_eq!(shown["workingDir"], json!(folder.canonicalize().unwrap()), "{shown}");

    // The output of tasks is in the log of their worker, whose name is printed if there are several.
    let nodes = harness.get("/namespaces/default/clusters/fred/nodes").await;
    let worker = nodes["nodes"][1]["name"].as_str().expect("a name").to_owned();
    let (out, printed) = texts(&run(&["logs", "fred", "--grep", "a word"]));
    let word = format!("{worker} | a word of the task");
    assert!(!out.is_empty() && out.lines().all(|line| line.replace("  ", "") == word), "{out}{printed}");
    let (out, _) = texts(&run(&["logs", "fred", "--node", "1", "--grep", "a word", "--tail", "1000"]));
    assert!(out.lines().all(|line| line == "a word of the task"), "{out}");
    let (out, _) = texts(&run(&["logs", "fred"]));
    assert!(out.lines().any(|line| line.starts_with("fred-head")), "{out}");

    // The framework's shell is connected to the cluster.
    let mut shell = muster(&harness, &folder, &["shell", "fred"]);
    let mut shell =
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(b"print('got', client.submit(sum, [1, 2]).result())\n").unwrap();
    let (out, printed) = texts(&shell.wait_with_output().unwrap());
    assert!(out.contains("got 3"), "{out}{printed}");

    let (which, _) = texts(&run(&["framework", "which", "dask"]));
    assert_eq!(Path::new(which.trim()), python.path());
    let missing = run(&["exec", "fred", "--", "no-such-command"]);
    assert_eq!(missing.status.code(), Some(127), "{:?}", texts(&missing));

    // If the folder is missing, the error names it.
    std::fs::remove_dir_all(&folder).unwrap();
    let restarted = muster(&harness, harness.path(), &["restart", "fred"]).output().expect("muster runs");
    let (_, printed) = texts(&restarted);
    assert!(!restarted.status.success() && printed.contains("the working directory"), "{printed}");
    let deleted = muster(&harness, harness.path(), &["delete", "fred"]).output().expect("muster runs");
    assert!(deleted.status.success(), "{:?}", texts(&deleted));
}
