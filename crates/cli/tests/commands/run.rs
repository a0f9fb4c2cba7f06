//! `muster run` while its server does not answer, and if its command cannot be started.

use std::net::SocketAddr;
use std::time::Duration;

use muster_testkit::{Process, eventually, lives};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::{Harness, TIMEOUT};

/// The grace period of a pod: a launcher that takes longer is killed before it has cleaned up.
const POD_GRACE: Duration = Duration::from_secs(30);

/// A time shorter than any time limit of a call, and far longer than a signal takes.
const AT_ONCE: Duration = Duration::from_secs(10);

/// The state of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
    Reopened,
}

/// A proxy that stops forwarding at a certain request: from then on the server seems not to answer.
struct Proxy {
    url: String,
    gate: watch::Sender<Gate>,
}

impl Proxy {
    /// Starts a proxy that stops at the request in which `marker` is sent for the given time.
    async fn start(harness: &Harness, marker: &str, occurrence: usize) -> Self {
        harness.muster(&["whoami"]).success();
        let announced = harness.announced().expect("an announcement");
        let server: SocketAddr =
            announced["grpc"].as_str().and_then(|address| address.parse().ok()).expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let gate = watch::Sender::new(Gate::Open);
        let (marker, opened) = (marker.as_bytes().to_vec(), gate.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, marker.clone(), occurrence, opened.clone()));
            }
        });
        Self { url, gate }
    }

    async fn wait_until_closed(&self) {
        let mut state = self.gate.subscribe();
        let closed = tokio::time::timeout(TIMEOUT, state.wait_for(|gate| *gate == Gate::Closed)).await;
        drop(closed.expect("the request is sent"));
    }

    fn reopen(&self) {
        self.gate.send_replace(Gate::Reopened);
    }
}

/// Forwards a connection; waits while the gate is closed.
async fn forward(
    mut client: TcpStream,
    server: SocketAddr,
    marker: Vec<u8>,
    occurrence: usize,
    gate: watch::Sender<Gate>,
) {
    let mut server = TcpStream::connect(server).await.expect("the server listens");
    let (mut asked, mut answered) = (vec![0; 65536], vec![0; 65536]);
    let mut state = gate.subscribe();
    let mut count = 0;
    loop {
        let is_open = state.wait_for(|gate| *gate != Gate::Closed).await.is_ok();
        assert!(is_open, "the test has the other end");
        tokio::select! {
            read = client.read(&mut asked) => {
                let bytes = &asked[..read.unwrap_or(0)];
                if bytes.is_empty() {
                    return;
                }
                count += bytes.windows(marker.len()).filter(|window| *window == marker).count();
                if count >= occurrence && *gate.borrow() == Gate::Open {
                    gate.send_replace(Gate::Closed);
                    drop(state.wait_for(|gate| *gate != Gate::Closed).await);
                }
                server.write_all(bytes).await.expect("the server listens");
            }
            read = server.read(&mut answered) => {
                let bytes = &answered[..read.unwrap_or(0)];
                if bytes.is_empty() || client.write_all(bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Starts a launcher of a script, with a cluster of simulated nodes.
fn launch(harness: &Harness, proxy: &Proxy, cluster: &str, script: &str) -> Process {
    let wanted = ["run", "--server", &proxy.url, "--profile", "simulated.node-1.0", "--cluster", cluster];
    let mut command = harness.command(&[&wanted[..], &["--", "sh", "-c", script]].concat());
    command.env_remove("APP_EXIT");
    Process::spawn("muster", &command)
}

/// Returns the process number that a script prints.
async fn pid_of_command(launcher: &Process) -> i32 {
    let line = launcher.wait_for_line("command ", TIMEOUT).await;
    line.trim().rsplit(' ').next().and_then(|pid| pid.parse().ok()).expect("a process number")
}

#[tokio::test]
async fn signals_reach_the_command_while_its_process_is_being_registered() {
    let harness = Harness::new();
    // The first request with the id of the boot registers the launcher, the second one its command.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    let proxy = Proxy::start(&harness, boot.trim(), 2).await;
    let launcher = launch(&harness, &proxy, "fred", "echo command $$; exec sleep 600");
    let pid = pid_of_command(&launcher).await;
    proxy.wait_until_closed().await;
    launcher.terminate();
    launcher.wait_for_line("Subprocess stopped", AT_ONCE).await;
    assert!(!lives(pid));
}

#[tokio::test]
async fn a_launcher_that_is_terminated_while_no_server_answers_ends_within_the_grace_period_of_a_pod() {
    let harness = Harness::new();
    let proxy = Proxy::start(&harness, "searched-cluster", 1).await;
    let mut launcher = launch(&harness, &proxy, "searched-cluster", "true");
    proxy.wait_until_closed().await;
    launcher.terminate();
    assert_eq!(launcher.wait_for_exit(POD_GRACE).await.code(), Some(143), "{}", launcher.tail());
    assert!(launcher.tail().contains("warning: the server has not answered within"), "{}", launcher.tail());
}

#[tokio::test]
async fn a_command_whose_guard_cannot_be_started_is_killed_and_its_cluster_released() {
    let harness = Harness::new();
    let proxy = Proxy::start(&harness, "searched-cluster", 1).await;
    let script = "trap '' TERM; echo command $$; sleep 600";
    let mut launcher = launch(&harness, &proxy, "searched-cluster", script);
    proxy.wait_until_closed().await;
    let pid = launcher.id().expect("it runs");
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files").count();
    // The launcher is connected. A child needs up to two more files, and its guard needs more.
    let limit = Some(open as u64 + 2);
    let pid = Pid::from_raw(pid.cast_signed());
    prlimit(pid, Resource::Nofile, Rlimit { current: limit, maximum: limit }).expect("a lower limit");
    proxy.reopen();
    assert_eq!(launcher.wait_for_exit(TIMEOUT).await.code(), Some(1), "{}", launcher.tail());
    let printed = launcher.tail();
    assert!(printed.contains("its guard cannot be started: "), "{printed}");
    assert!(printed.contains("Deleting cluster 'searched-cluster'"), "{printed}");
    // The command may have been killed before it printed anything.
    let command = printed.lines().find_map(|line| line.trim().strip_prefix("command ")?.parse::<i32>().ok());
    if let Some(pid) = command {
        eventually("the command has ended", TIMEOUT, async || if lives(pid) { Err(pid) } else { Ok(()) })
            .await;
    }
}
