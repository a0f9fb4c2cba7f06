//! The everyday tasks of the documents on Kubernetes: their commands are run, and print what the page says.

use std::path::Path;
use std::process::Command;

use muster_testkit::Operator;

use crate::harness::Harness;
use crate::page::Page;

const TASKS: &str = include_str!("../../../../docs/everyday-tasks.md");

#[tokio::test]
async fn everyday_tasks_on_kubernetes_print_what_their_page_says() {
    let Some(harness) = Harness::open().await else { return };
    let Some(_) = harness.kubernetes.operator(Operator::Dask).await else { return };
    let server = harness.server(&[]).await;
    let page = Page::new(TASKS);
    let folder = tempfile::tempdir().expect("a temporary folder");
    page.write_files(folder.path());
    let shell = |line: &str| {
        let programs = Path::new(env!("CARGO_BIN_EXE_muster")).parent().expect("a folder").to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path)));
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{{ {line}\n}} 2>&1")]).current_dir(folder.path());
        command.env("PATH", path.expect("a path")).env("MUSTER_NAMESPACE", harness.namespace.name());
        command.env("MUSTER_DATA_DIR", server.data()).env("MUSTER_NO_AUTOSTART", "1");
        let output = command.env_remove("MUSTER_SERVER").output().expect("a shell");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let count = page.run("console kubernetes", shell);
    assert!(count >= 9, "{count}");
}
