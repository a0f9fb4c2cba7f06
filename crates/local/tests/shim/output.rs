//! The output of a node.

use std::fs;
use std::os::unix::fs::symlink;

use muster_local::shim::{ExitCause, LogLimits};

use crate::harness::{Harness, end, stop};

#[tokio::test]
async fn the_log_has_output_and_errors_and_is_rotated() {
    let harness = Harness::new();
    let mut launch =
        harness.script("for i in 1 2 3 4 5 6 7 8 9; do printf '%s %0999d\\n' $i 0; done; echo last >&2");
    launch.log = LogLimits { max_bytes: 4096, keep: 1 };
    end(&harness.start(&launch).await).await;
    let first = |name: &str| fs::read_to_string(harness.node.path().join(name)).unwrap()[..1].to_owned();
    assert_eq!((first("log.1"), first("log")), ("5".to_owned(), "9".to_owned()));
    assert!(!harness.node.path().join("log.2").exists());
    let tail = harness.node.tail(2).unwrap();
    assert_eq!((&tail[0][..1], tail[1].as_str()), ("9", "last"));
}

#[tokio::test]
async fn a_node_may_close_its_output_and_keep_running() {
    let harness = Harness::new();
    let gate = harness.gate();
    let running =
        harness.start(&harness.script("echo before; exec >&- 2>&-; echo > $GATE; exec sleep 1000")).await;
    gate.line().await;
    assert!(!running.status().await.unwrap().stopping);
    assert_eq!(stop(&running).await.how, ExitCause::Signaled { signal: 15 });
    assert_eq!(harness.node.tail(1).unwrap(), ["before"]);
}

#[tokio::test]
async fn a_full_disk_costs_output_and_not_the_node() {
    let harness = Harness::new();
    harness.node.create().unwrap();
    symlink("/dev/full", harness.node.log()).unwrap();
    let mut launch = harness.script("head -c 1000000 /dev/zero && exit 5");
    launch.log = LogLimits { max_bytes: 100_000_000, keep: 1 };
    assert_eq!(end(&harness.start(&launch).await).await.how, ExitCause::Exited { code: 5 });
}

#[tokio::test]
async fn output_during_a_stop_is_logged() {
    let harness = Harness::new();
    let gate = harness.gate();
    let script = "trap 'echo bye; exit 0' TERM; echo > $GATE; while :; do sleep 1000 & wait; done";
    let running = harness.start(&harness.script(script)).await;
    gate.line().await;
    let end = stop(&running).await;
    assert!(end.is_clean(), "{end}");
    assert_eq!(harness.node.tail(1).unwrap(), ["bye"]);
}
