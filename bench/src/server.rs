//! A real server of its own, in a release build, with its database on a real disk.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Client;
use crate::process;

/// The longest time for a server to start or stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// The interval between checks of the server's readiness: far shorter than the measured times.
const LOOK: Duration = Duration::from_millis(1);

/// The quota of clusters: more than any benchmark creates.
const MOST_CLUSTERS: &str = "1000000";

/// The quota of nodes: more than any benchmark creates in one cluster.
const MOST_NODES: &str = "100000";

/// A running server, which is stopped when this value is dropped.
pub struct Server {
    child: Child,
    address: SocketAddr,
    took: Duration,
}

impl Server {
    /// Starts `muster serve --dev` on a data folder, and returns once it is ready.
    pub async fn start(muster: &Path, data: &Path) -> Result<Self> {
        Self::start_with(muster, data, &[]).await
    }

    /// Starts a server with additional variables.
    pub async fn start_with(muster: &Path, data: &Path, variables: &[(&str, &Path)]) -> Result<Self> {
        let mut command = serve(muster, data, "error");
        command.envs(variables.iter().copied());
        Self::run(muster, data, command).await
    }

    /// Starts a server for one namespace of a Kubernetes.
    pub async fn start_over(muster: &Path, data: &Path, kubeconfig: &Path, namespace: &str) -> Result<Self> {
        let mut command = serve(muster, data, "error");
        command.arg("--kubeconfig").arg(kubeconfig).args(["--namespace", namespace]);
        Self::run(muster, data, command).await
    }

    /// Starts a server with machines of a Kubernetes.
    pub async fn start_with_machines(muster: &Path, data: &Path, kubeconfig: &Path) -> Result<Self> {
        let mut command = serve(muster, data, "error");
        command.arg("--kubeconfig").arg(kubeconfig).args(["--webhook-listen", "127.0.0.1:0"]);
        Self::run(muster, data, command).await
    }

    /// Starts a server for the users of a Domino.
    pub async fn start_for_domino(
        muster: &Path,
        data: &Path,
        kubernetes: Option<(&Path, &str)>,
        domino: &str,
    ) -> Result<Self> {
        let mut command = serve(muster, data, "error");
        command.args(["--auth", "domino", "--domino-url", domino]);
        if let Some((kubeconfig, namespace)) = kubernetes {
            command.arg("--kubeconfig").arg(kubeconfig).args(["--namespace", namespace]);
            command.args(["--compute-namespace", namespace]);
        }
        Self::run(muster, data, command).await
    }

    /// Starts a server that logs every query to its database as JSON lines.
    pub async fn start_traced(muster: &Path, data: &Path, log: File) -> Result<Self> {
        let mut command = serve(muster, data, "error,muster_store::queries=trace");
        command.args(["--log-format", "json"]).stderr(log);
        Self::run(muster, data, command).await
    }

    async fn run(muster: &Path, data: &Path, mut command: Command) -> Result<Self> {
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot run {}", muster.display()))?;
        let mut server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), took: PATIENCE };
        while started.elapsed() < PATIENCE {
            if let Some(ended) = server.child.try_wait()? {
                bail!("the server ended at once: {ended}");
            }
            if let Some(address) = announced(data)
                && is_ready(address).await
            {
                server.address = address;
                server.took = started.elapsed();
                return Ok(server);
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("the server was not ready within {} s", PATIENCE.as_secs())
    }

    /// The time from the start of the process to a successful `/readyz`.
    pub const fn took(&self) -> Duration {
        self.took
    }

    /// The address of the server.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<Client> {
        Client::connect(self.address).await
    }

    /// The pid of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The resident memory in bytes, as the kernel counts it.
    pub fn resident(&self) -> Result<u64> {
        process::resident(self.pid())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // The process may have ended already.
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A command of this program without the caller's settings, which would affect the figures.
pub fn muster(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

/// Returns true if a variable changes the behaviour of Muster.
fn is_setting(variable: &str) -> bool {
    variable.starts_with("MUSTER_") || variable == "VIRTUAL_ENV"
}

fn serve(program: &Path, data: &Path, log: &str) -> Command {
    let mut command = muster(program);
    command
        .args(["serve", "--dev", "--log", log, "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"])
        .args(["--max-clusters-per-project", MOST_CLUSTERS, "--max-nodes-per-cluster", MOST_NODES])
        .arg("--data-dir")
        .arg(data)
        .stdin(Stdio::null());
    command
}

/// The address that the server announces in its data folder; `None` until the server has announced it.
fn announced(data: &Path) -> Option<SocketAddr> {
    let text = std::fs::read(data.join("server.json")).ok()?;
    let announcement: serde_json::Value = serde_json::from_slice(&text).ok()?;
    announcement["rest"].as_str()?.parse().ok()
}

async fn is_ready(address: SocketAddr) -> bool {
    let Ok(mut client) = Client::connect(address).await else { return false };
    client.try_get("/readyz").await.is_ok_and(|(status, _)| status.is_success())
}

/// The program to measure: the given one, or that of this tree, which is built together with the benchmark.
pub fn program(given: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(program) = given {
        return Ok(program);
    }
    let program = beside()?.join("muster");
    ensure!(program.exists(), "{} is not there: `cargo xtask bench` builds it", program.display());
    Ok(program)
}

/// A folder for a database, deleted with the value. Not in /tmp, which is memory on many machines.
pub fn folder() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(beside()?)?)
}

/// The folder of compiled programs.
fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().context("a program is in a folder")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_settings_do_not_reach_the_server() {
        for name in ["MUSTER_LOG", "MUSTER_PYTHON", "VIRTUAL_ENV"] {
            assert!(is_setting(name), "{name}");
        }
        assert!(!is_setting("PATH"));
    }
}
