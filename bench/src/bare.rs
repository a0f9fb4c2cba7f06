//! A Dask cluster as a careful person starts it by hand: the same commands, the same questions, as often.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use muster_core::cluster::Framework;
use muster_core::shape::Shape;
use muster_frameworks::{
    Contact, Launch, LiveWorker, LocalFramework, Ports, Retirement, Seat, Secret, Tell, Whereabouts,
};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::client::Client;

/// As often as Muster asks.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// A running cluster, which ends with this value.
pub struct Bare {
    head: Contact,
    python: String,
    workers: Vec<Child>,
    _scheduler: Child,
    _folder: TempDir,
}

fn dask() -> Result<&'static dyn LocalFramework> {
    muster_frameworks::local(Framework::Dask).context("Dask is not known")
}

fn spawn(Launch { command, environment }: Launch) -> Result<Child> {
    let (program, arguments) = command.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(environment).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.spawn()?)
}

impl Bare {
    /// Starts a head, then its workers, and returns once the head counts them all.
    pub async fn start(python: &Path, workers: usize) -> Result<Self> {
        let (dask, folder, shape) = (dask()?, tempfile::tempdir()?, Shape::default());
        let (at, python) = (folder.path().display().to_string(), python.display().to_string());
        let secret = Secret::new("");
        let seat = |name| Seat {
            name,
            python: &python,
            package: "",
            folder: &at,
            kept: &at,
            short: &at,
            shape: &shape,
            secret: &secret,
        };
        let scheduler = spawn(dask.head(seat("head"), &Ports::new()))?;
        let Whereabouts::Told { file, read } = dask.whereabouts() else {
            bail!("it does not tell its ports")
        };
        let file = folder.path().join(file);
        let head = loop {
            if let Ok(text) = std::fs::read(&file)
                && let Ok(endpoints) = read(&text)
                && let head = (Contact { endpoints, secret: secret.clone() })
                && alive(&head).await.is_ok()
            {
                break head;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        };
        let names: Vec<String> = (0..workers).map(|number| format!("worker-{number}")).collect();
        let started = names.iter().map(|name| spawn(dask.worker(seat(name), &head)));
        let children = started.collect::<Result<Vec<_>>>()?;
        while !alive(&head).await.is_ok_and(|alive| alive.len() == workers) {
            tokio::time::sleep(ASK_AGAIN).await;
        }
        Ok(Self { head, python, workers: children, _scheduler: scheduler, _folder: folder })
    }

    /// Retires one worker and returns once its process has ended.
    pub async fn retire_one(&mut self) -> Result<()> {
        let dask = dask()?;
        let alive = alive(&self.head).await?;
        let one = alive.iter().find(|worker| worker.name == "worker-0").context("no such worker")?;
        let workers = std::slice::from_ref(one);
        let retirement = Retirement { head: &self.head, workers, python: &self.python, within: 300 };
        let Tell::Ask(ask) = dask.retire(retirement) else { bail!("its scheduler is not asked") };
        let (address, path) = split(&ask.url)?;
        let mut client = Client::connect(address).await?;
        let (status, answer) = client.post(&path, ask.body.unwrap_or_default().into_bytes()).await?;
        if !status.is_success() {
            bail!("the worker was not retired: {status}: {}", String::from_utf8_lossy(&answer));
        }
        self.workers.first_mut().context("no worker")?.wait().await?;
        Ok(())
    }
}

async fn alive(head: &Contact) -> Result<Vec<LiveWorker>> {
    let dask = dask()?;
    let (address, path) = split(&dask.ask_workers(head).url)?;
    let answer = Client::connect(address).await?.get(&path).await?;
    Ok(dask.workers(&answer)?)
}

/// `http://127.0.0.1:80/path` as address and path.
fn split(url: &str) -> Result<(SocketAddr, String)> {
    let rest = url.strip_prefix("http://").context("no http")?;
    let (host, path) = rest.split_once('/').context("no path")?;
    Ok((host.parse()?, format!("/{path}")))
}
