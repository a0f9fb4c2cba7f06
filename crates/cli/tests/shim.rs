//! `muster shim`: the binary is its own shim.

use std::process::{Command, Stdio};

use muster_core::action::Fence;
use muster_core::ids::NodeId;
use muster_local::shim::{ExitCause, LaunchSpec, LogLimits, NodeFolder, RunOutcome, RuntimeFolder, Shims};

const MUSTER: &str = env!("CARGO_BIN_EXE_muster");

#[tokio::test]
async fn the_binary_supervises_nodes_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = RuntimeFolder::at(folder.path().join("run")).unwrap();
    let node = NodeFolder::new(folder.path(), NodeId::from_uuid(uuid::Uuid::from_u128(1)));
    let launch = LaunchSpec {
        generation: Fence(1),
        command: ["/bin/sh", "-c", "echo printed; exit 3"].map(str::to_owned).to_vec(),
        environment: [].into(),
        working_folder: folder.path().to_owned(),
        log: LogLimits::default(),
        oom_counter: None,
    };
    let running = Shims::with_program(MUSTER, runtime).start(&node, &launch).await.unwrap();
    let outcome = running.wait_for_exit().await.unwrap();
    assert!(
        matches!(&outcome, RunOutcome::Ended(end) if end.how == ExitCause::Exited { code: 3 }),
        "{outcome:?}"
    );
    assert_eq!(node.tail(1).unwrap(), ["printed"]);
}

#[test]
fn the_shim_is_hidden_from_users() {
    let help = Command::new(MUSTER).arg("--help").output().unwrap();
    assert!(!String::from_utf8(help.stdout).unwrap().contains("shim"));
    let typed = Command::new(MUSTER).arg("shim").stdin(Stdio::null()).output().unwrap();
    assert_eq!(typed.status.code(), Some(2));
    let words = String::from_utf8(typed.stderr).unwrap();
    assert!(words.starts_with("`muster shim` is started by the server, not by hand: "), "{words}");
}
