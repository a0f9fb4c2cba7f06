//! A cluster started without Muster: the same commands, and the same requests at the same intervals.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::body::Bytes;
use muster_core::capacity::Capacity;
use muster_core::node::NodeRole;
use muster_core::shape::Shape;
use muster_frameworks::{
    AfterRetirement, EndpointDiscovery, Endpoints, FrameworkRequest, HeadAccess, HeadCommand, HeadPorts,
    LaunchContext, LiveWorker, LocalFramework, ProcessSpec, RequestMethod, Secret, ShutdownSignal,
    WorkerNaming, WorkerRetirement,
};
use rustix::process::{Pid, kill_process, kill_process_group};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::client::Client;

/// The interval between requests, which is that of Muster.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A secret that is long enough for every framework.
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A running cluster, which ends with this value.
pub struct Bare {
    framework: &'static dyn LocalFramework,
    head: HeadAccess,
    python: String,
    processes: Vec<Child>,
    _folder: TempDir,
}

fn to_command(ProcessSpec { command, environment, files: _ }: ProcessSpec) -> Result<Command> {
    let (program, arguments) = command.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(environment).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// The folder of a framework's package in an environment.
pub async fn package(framework: &dyn LocalFramework, python: &Path) -> Result<String> {
    let question =
        "import importlib.util as u, os, sys; print(os.path.dirname(u.find_spec(sys.argv[1]).origin))";
    let mut command = Command::new(python);
    let output = command.args(["-I", "-c", question, framework.package().module]).output().await?;
    ensure!(output.status.success(), "{} has no {}", python.display(), framework.framework());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

impl Bare {
    /// Starts a head, then its workers, and returns once the head counts them all.
    pub async fn start(
        framework: &'static dyn LocalFramework,
        python: &Path,
        package: &str,
        workers: usize,
    ) -> Result<Self> {
        // In /tmp, because paths of sockets have to be short.
        let (folder, shape) = (tempfile::tempdir_in("/tmp")?, Shape::default());
        let [at, kept, short] = ["node", "kept", "s"].map(|name| folder.path().join(name));
        for path in [&at, &kept, &short] {
            std::fs::create_dir(path)?;
        }
        let [at, kept, short, python] =
            [&*at, &*kept, &*short, python].map(|path| path.display().to_string());
        let (secret, machine) = (Secret::new(SECRET), machine()?);
        let context = |name| LaunchContext {
            name,
            python: &python,
            package,
            node_folder: &at,
            cluster_folder: &kept,
            socket_folder: &short,
            shape: &shape,
            machine: &machine,
            secret: &secret,
        };
        let ports = ports(framework)?;
        let mut processes = Vec::new();
        let mut spawn = |process| -> Result<()> {
            // A process group of its own, which is killed as a whole.
            processes.push(to_command(process)?.process_group(0).spawn()?);
            Ok(())
        };
        spawn(framework.head_process(context("127.0.0.1"), &ports))?;
        let head = loop {
            if let Some(endpoints) = discover_endpoints(framework, Path::new(&at), &ports)
                && let head = (HeadAccess { endpoints, secret: secret.clone() })
                && fetch_workers(framework, &head).await.is_ok()
            {
                break head;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        };
        let names: Vec<String> = (0..workers).map(|number| name(framework, number)).collect();
        for (before, name) in names.iter().enumerate() {
            if framework.starts_one_by_one() {
                wait_for_workers(framework, &head, before).await;
            }
            spawn(framework.worker_process(context(name), &head))?;
        }
        wait_for_workers(framework, &head, workers).await;
        Ok(Self { framework, head, python, processes, _folder: folder })
    }

    /// Drains one worker and returns once its process has ended.
    pub async fn drain_one(&mut self) -> Result<()> {
        let (framework, name) = (self.framework, name(self.framework, 0));
        let alive = fetch_workers(framework, &self.head).await?;
        let one = alive.iter().find(|worker| worker.name == name).context("no such worker")?;
        let workers = std::slice::from_ref(one);
        let retirement = WorkerRetirement { head: &self.head, workers, python: &self.python, within: 300 };
        let answer = match framework.retire_workers(retirement) {
            HeadCommand::Request(request) => send(&request).await?.to_vec(),
            HeadCommand::Program(process) => {
                let ended = to_command(process)?.stdout(Stdio::piped()).output().await?;
                ensure!(ended.status.success(), "the worker was not drained: {}", ended.status);
                ended.stdout
            }
        };
        ensure!(
            framework.read_retired(workers, &answer)?.contains(&one.address),
            "the worker was not drained"
        );
        let process = self.processes.get_mut(1).context("no worker")?;
        match framework.after_retirement(one, 300) {
            AfterRetirement::ExitsWithin(seconds) => {
                let ended = timeout(Duration::from_secs(seconds.into()), process.wait());
                if ended.await.is_ok() {
                    return Ok(());
                }
            }
            AfterRetirement::KillNow => {}
            AfterRetirement::StopOnceIdle(request) => {
                while !send(&request)
                    .await
                    .is_ok_and(|answer| framework.read_is_idle(&answer).unwrap_or(false))
                {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
        }
        let signal = match framework.graceful_shutdown(NodeRole::Worker).signal {
            ShutdownSignal::Interrupt => rustix::process::Signal::INT,
            ShutdownSignal::Terminate => rustix::process::Signal::TERM,
        };
        kill_process(pid(process).context("it has ended")?, signal)?;
        process.wait().await?;
        Ok(())
    }

    /// Kills the remaining processes.
    pub async fn end(mut self) -> Result<()> {
        kill(&self.processes);
        for process in &mut self.processes {
            process.wait().await?;
        }
        Ok(())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        kill(&self.processes);
    }
}

fn kill(processes: &[Child]) {
    for group in processes.iter().filter_map(pid) {
        // The group may have ended before.
        let _ = kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// The pid of a process that has not been waited for.
fn pid(process: &Child) -> Option<Pid> {
    Pid::from_raw(process.id()?.try_into().ok()?)
}

/// The resources of this machine.
fn machine() -> Result<Capacity> {
    let information = std::fs::read_to_string("/proc/meminfo")?;
    let total = information.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|total| total.split_whitespace().next()).context("no MemTotal")?;
    let cpus = std::thread::available_parallelism()?;
    Ok(Capacity { cpu: cpus.to_string().parse()?, memory: format!("{kibibytes}Ki").parse()?, gpu: 0 })
}

/// The name of a worker within the framework.
fn name(framework: &dyn LocalFramework, number: usize) -> String {
    match framework.worker_naming() {
        WorkerNaming::Free => format!("worker-{number}"),
        WorkerNaming::LoopbackAddresses => format!("127.9.0.{}", number + 1),
    }
}

/// Free ports, if the framework does not pick them itself.
fn ports(framework: &dyn LocalFramework) -> Result<HeadPorts> {
    let EndpointDiscovery::AssignedPorts { ports, .. } = framework.endpoint_discovery() else {
        return Ok(HeadPorts::new());
    };
    // All listeners stay open until the last port is found, so that ports differ.
    let listeners: Vec<TcpListener> =
        ports.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    let port =
        |(name, listener): (&&str, &TcpListener)| Ok(((*name).to_owned(), listener.local_addr()?.port()));
    ports.iter().zip(&listeners).map(port).collect()
}

/// The endpoints of a starting head, once they are known.
fn discover_endpoints(framework: &dyn LocalFramework, folder: &Path, ports: &HeadPorts) -> Option<Endpoints> {
    match framework.endpoint_discovery() {
        EndpointDiscovery::File { file, read } => read(&std::fs::read(folder.join(file)).ok()?).ok(),
        EndpointDiscovery::AssignedPorts { endpoints, .. } => Some(endpoints(ports)),
    }
}

async fn wait_for_workers(framework: &dyn LocalFramework, head: &HeadAccess, count: usize) {
    while !fetch_workers(framework, head).await.is_ok_and(|alive| alive.len() >= count) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn fetch_workers(framework: &dyn LocalFramework, head: &HeadAccess) -> Result<Vec<LiveWorker>> {
    Ok(framework.read_workers(&send(&framework.workers_request(head)).await?)?)
}

async fn send(request: &FrameworkRequest) -> Result<Bytes> {
    let (address, path) = split(&request.url)?;
    let mut client = Client::connect(address).await?;
    if let Some(secret) = &request.bearer {
        client = client.with_bearer(secret.reveal());
    }
    let (status, answer) = match request.method {
        RequestMethod::Get => client.try_get(&path).await?,
        RequestMethod::Post => client.post(&path, Vec::new()).await?,
    };
    if !status.is_success() {
        bail!("{path}: {status}: {}", String::from_utf8_lossy(&answer));
    }
    Ok(answer)
}

/// Splits a URL such as `http://127.0.0.1:80/path` into its address and path.
fn split(url: &str) -> Result<(SocketAddr, String)> {
    let rest = url.strip_prefix("http://").context("no http")?;
    let (host, path) = rest.split_once('/').context("no path")?;
    Ok((host.parse()?, format!("/{path}")))
}
