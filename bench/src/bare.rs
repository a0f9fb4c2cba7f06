//! A cluster as a careful person starts it by hand: the same commands, the same questions, as often.

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
    Ask, Contact, Endpoints, Launch, Leaving, LiveWorker, LocalFramework, Method, Names, Ports, Retirement,
    Seat, Secret, Signal, Tell, Whereabouts,
};
use rustix::process::{Pid, kill_process, kill_process_group};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::client::Client;

/// As often as Muster asks.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Long enough for frameworks that want a long one.
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A running cluster, which ends with this value.
pub struct Bare {
    framework: &'static dyn LocalFramework,
    head: Contact,
    python: String,
    processes: Vec<Child>,
    _folder: TempDir,
}

fn command(Launch { command, environment }: Launch) -> Result<Command> {
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
    let said = command.args(["-I", "-c", question, framework.package().module]).output().await?;
    ensure!(said.status.success(), "{} has no {}", python.display(), framework.framework());
    Ok(String::from_utf8(said.stdout)?.trim().to_owned())
}

impl Bare {
    /// Starts a head, then its workers, and returns once the head counts them all.
    pub async fn start(
        framework: &'static dyn LocalFramework,
        python: &Path,
        package: &str,
        workers: usize,
    ) -> Result<Self> {
        // Not where temporary files are: paths of sockets have to be short.
        let (folder, shape) = (tempfile::tempdir_in("/tmp")?, Shape::default());
        let [at, kept, short] = ["node", "kept", "s"].map(|name| folder.path().join(name));
        for path in [&at, &kept, &short] {
            std::fs::create_dir(path)?;
        }
        let [at, kept, short, python] =
            [&*at, &*kept, &*short, python].map(|path| path.display().to_string());
        let (secret, machine) = (Secret::new(SECRET), machine()?);
        let seat = |name| Seat {
            name,
            python: &python,
            package,
            folder: &at,
            kept: &kept,
            short: &short,
            shape: &shape,
            machine: &machine,
            secret: &secret,
        };
        let ports = ports(framework)?;
        let mut processes = Vec::new();
        let mut spawn = |launch| -> Result<()> {
            // A group of its own, which is ended as a whole.
            processes.push(command(launch)?.process_group(0).spawn()?);
            Ok(())
        };
        spawn(framework.head(seat("127.0.0.1"), &ports))?;
        let head = loop {
            if let Some(endpoints) = whereabouts(framework, Path::new(&at), &ports)
                && let head = (Contact { endpoints, secret: secret.clone() })
                && alive(framework, &head).await.is_ok()
            {
                break head;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        };
        let names: Vec<String> = (0..workers).map(|number| name(framework, number)).collect();
        for (before, name) in names.iter().enumerate() {
            if framework.starts_alone() {
                until_counted(framework, &head, before).await;
            }
            spawn(framework.worker(seat(name), &head))?;
        }
        until_counted(framework, &head, workers).await;
        Ok(Self { framework, head, python, processes, _folder: folder })
    }

    /// Retires one worker and returns once its process has ended.
    pub async fn retire_one(&mut self) -> Result<()> {
        let (framework, name) = (self.framework, name(self.framework, 0));
        let alive = alive(framework, &self.head).await?;
        let one = alive.iter().find(|worker| worker.name == name).context("no such worker")?;
        let workers = std::slice::from_ref(one);
        let retirement = Retirement { head: &self.head, workers, python: &self.python, within: 300 };
        let answer = match framework.retire(retirement) {
            Tell::Ask(request) => ask(&request).await?.to_vec(),
            Tell::Run(launch) => {
                let ended = command(launch)?.stdout(Stdio::piped()).output().await?;
                ensure!(ended.status.success(), "the worker was not retired: {}", ended.status);
                ended.stdout
            }
        };
        ensure!(framework.retired(workers, &answer)?.contains(&one.address), "the worker was not retired");
        let process = self.processes.get_mut(1).context("no worker")?;
        match framework.leaving(one, 300) {
            Leaving::Ends(seconds) => {
                let ended = timeout(Duration::from_secs(seconds.into()), process.wait());
                if ended.await.is_ok() {
                    return Ok(());
                }
            }
            Leaving::Left => {}
            Leaving::Until(request) => {
                while !ask(&request).await.is_ok_and(|answer| framework.has_left(&answer).unwrap_or(false)) {
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            }
        }
        let signal = match framework.stop(NodeRole::Worker).signal {
            Signal::Interrupt => rustix::process::Signal::INT,
            Signal::Terminate => rustix::process::Signal::TERM,
        };
        kill_process(pid(process).context("it has ended")?, signal)?;
        process.wait().await?;
        Ok(())
    }

    /// Ends all that is left of it.
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
        // It may have ended, which is as good.
        let _ = kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// The number of a process whose end was not awaited yet.
fn pid(process: &Child) -> Option<Pid> {
    Pid::from_raw(process.id()?.try_into().ok()?)
}

/// What this machine has.
fn machine() -> Result<Capacity> {
    let information = std::fs::read_to_string("/proc/meminfo")?;
    let total = information.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|total| total.split_whitespace().next()).context("no MemTotal")?;
    let cpus = std::thread::available_parallelism()?;
    Ok(Capacity { cpu: cpus.to_string().parse()?, memory: format!("{kibibytes}Ki").parse()?, gpu: 0 })
}

/// What the framework calls a worker.
fn name(framework: &dyn LocalFramework, number: usize) -> String {
    match framework.names() {
        Names::Free => format!("worker-{number}"),
        Names::Addresses => format!("127.9.0.{}", number + 1),
    }
}

/// Free ports, where the framework does not choose itself.
fn ports(framework: &dyn LocalFramework) -> Result<Ports> {
    let Whereabouts::Given { ports, .. } = framework.whereabouts() else { return Ok(Ports::new()) };
    // All are held until the last was found.
    let listeners: Vec<TcpListener> =
        ports.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    let port =
        |(name, listener): (&&str, &TcpListener)| Ok(((*name).to_owned(), listener.local_addr()?.port()));
    ports.iter().zip(&listeners).map(port).collect()
}

/// Where a head that starts is going to answer, as far as that is known yet.
fn whereabouts(framework: &dyn LocalFramework, folder: &Path, ports: &Ports) -> Option<Endpoints> {
    match framework.whereabouts() {
        Whereabouts::Told { file, read } => read(&std::fs::read(folder.join(file)).ok()?).ok(),
        Whereabouts::Given { endpoints, .. } => Some(endpoints(ports)),
    }
}

async fn until_counted(framework: &dyn LocalFramework, head: &Contact, count: usize) {
    while !alive(framework, head).await.is_ok_and(|alive| alive.len() >= count) {
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

async fn alive(framework: &dyn LocalFramework, head: &Contact) -> Result<Vec<LiveWorker>> {
    Ok(framework.workers(&ask(&framework.ask_workers(head)).await?)?)
}

async fn ask(ask: &Ask) -> Result<Bytes> {
    let (address, path) = split(&ask.url)?;
    let mut client = Client::connect(address).await?;
    if let Some(secret) = &ask.bearer {
        client = client.knowing(secret.reveal());
    }
    let (status, answer) = match ask.method {
        Method::Get => client.try_get(&path).await?,
        Method::Post => client.post(&path, Vec::new()).await?,
    };
    if !status.is_success() {
        bail!("{path}: {status}: {}", String::from_utf8_lossy(&answer));
    }
    Ok(answer)
}

/// `http://127.0.0.1:80/path` as address and path.
fn split(url: &str) -> Result<(SocketAddr, String)> {
    let rest = url.strip_prefix("http://").context("no http")?;
    let (host, path) = rest.split_once('/').context("no path")?;
    Ok((host.parse()?, format!("/{path}")))
}
