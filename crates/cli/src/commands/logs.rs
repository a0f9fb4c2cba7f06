//! `muster logs`: prints the logs of nodes.

mod choose;
mod failed;
mod overlap;
mod print;
pub(super) mod since;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use muster_core::cluster::ClusterStatus;
use muster_proto::v1alpha2::{Cluster, GetLogsRequest, ListNodesRequest, LogChunk, Node};
use muster_proto::wkt::Timestamp;
use regex::Regex;
use tokio::sync::mpsc;

use super::{ClusterFlags, deleted, find, find_by_id, nodes};
use crate::connect::{Client, Clusters};
use crate::failure::{Exit, Failure, connection_lost, error_code};
use crate::output::{self, message};
use choose::chosen;
use failed::FailedLogs;
use overlap::PrintedEnd;
use print::LogPrinter;

/// Interval at which the nodes of a followed cluster are listed, to find new ones.
const PERIOD: Duration = Duration::from_secs(1);

/// Print the logs of nodes and their tasks; with several sources, each line begins with the name of its source
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster logs fred\n  muster logs fred --since 10m --node head --tail 100\n  muster logs fred --node worker -f --grep 'ERROR|WARN'"
)]
pub(crate) struct Logs {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// The node: head, worker for all workers, the number of a worker, or a name or id; may be repeated
    #[arg(long, value_name = "NODE", add = crate::complete::nodes())]
    node: Vec<String>,
    /// Keep printing new lines, including those of new nodes, until the cluster is deleted
    #[arg(short = 'f', long)]
    follow: bool,
    /// Print only this many of the last lines of each node and of each file of its tasks
    #[arg(long, value_name = "N", value_parser = super::parse_count)]
    tail: Option<i32>,
    /// Print only lines since then: a duration such as 10m, or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "DURATION|TIME", value_parser = since::parse)]
    since: Option<Timestamp>,
    /// Print only lines that match this regular expression
    #[arg(long, value_name = "PATTERN", value_parser = |text: &str| Regex::new(text))]
    grep: Option<Regex>,
}

/// A step in reading the log of a node.
enum Part {
    /// The server has found the log.
    Opened,
    /// New lines.
    Chunk(LogChunk),
    /// The end of the log, with its error.
    Ended(Option<Failure>),
    /// The server is stopping, or the connection to it was lost.
    Cut,
}

impl Logs {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { cluster: flags, node, follow, tail, since, grep } = self;
            let mut client = flags.server.connect_to_existing().await?;
            let namespace = flags.namespace.resolve(&mut client).await?;
            let found = find(&mut client, &namespace, &flags.name, &flags.among).await;
            let cluster = match found {
                Ok(cluster) if cluster.deleted_at.is_none() => cluster,
                Err(failure) if failure.exit != Exit::NotFound => return Err(failure.into()),
                // The node may belong to a deleted cluster, whose logs may be stored.
                _ => {
                    let request = stored::request(&flags, namespace, &node, tail, since);
                    return stored::print(&mut client, request, &node, LogPrinter::new(grep)).await;
                }
            };
            let known = listed(&mut client, &cluster).await?;
            let wanted = chosen(&known, &node)?;
            let follows_new = follow && node.iter().all(|word| word == choose::WORKERS);
            let mut reading = Reading { cluster, follow, tail, since, printer: LogPrinter::new(grep) };
            match wanted.as_slice() {
                [] => {
                    Err(Failure::new(Exit::NotFound, format!("'{}' has no nodes yet", reading.cluster.name))
                        .into())
                }
                followed if follow => {
                    reading.follow(&mut client, followed.to_vec(), &node, follows_new).await
                }
                some => reading.all(&mut client, some).await,
            }
        })
    }
}

async fn listed(client: &mut Client, cluster: &Cluster) -> Result<Vec<Node>, Failure> {
    nodes::all(client, ListNodesRequest { id: cluster.id.clone(), ..ListNodesRequest::default() }).await
}

struct Reading {
    cluster: Cluster,
    follow: bool,
    tail: Option<i32>,
    since: Option<Timestamp>,
    printer: LogPrinter,
}

impl Reading {
    fn request(&self, node: &Node) -> GetLogsRequest {
        GetLogsRequest {
            id: self.cluster.id.clone(),
            node: node.id.clone(),
            follow: self.follow,
            tail: self.tail,
            since: self.since,
            task_output: true,
            ..GetLogsRequest::default()
        }
    }

    /// Prints the log of a node, with its name before each line if `is_named`; false once the output is closed.
    async fn print(&mut self, client: &mut Client, node: &Node, is_named: bool) -> Result<bool, Failure> {
        let request = self.request(node);
        let call = async |client: &Client| client.clusters().get_logs(request.clone()).await;
        let mut log = client.retry(call).await?.into_inner();
        while let Some(chunk) = log.message().await? {
            if !self.printer.print(&node.name, is_named, &chunk) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Prints one log after the other. Nodes without a log are skipped, unless no node has one.
    async fn all(&mut self, client: &mut Client, nodes: &[Node]) -> Result<ExitCode> {
        self.printer.make_room(nodes);
        let mut failed = Vec::new();
        for node in nodes {
            match self.print(client, node, nodes.len() > 1).await {
                Ok(true) => {}
                Ok(false) => return Ok(ExitCode::FAILURE),
                Err(failure) => failed.push(failure),
            }
        }
        if failed.len() == nodes.len()
            && let Some(failure) = failed.pop()
        {
            return Err(failure.into());
        }
        for failure in failed {
            message!("warning: {}", failure.what);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints new lines of several nodes as they are written, including those of new nodes.
    async fn follow(
        &mut self,
        client: &mut Client,
        nodes: Vec<Node>,
        wanted: &[String],
        follows_new: bool,
    ) -> Result<ExitCode> {
        let (sender, mut receiver) = mpsc::channel::<(Node, Part)>(64);
        let first: BTreeSet<String> = nodes.iter().map(|node| node.id.clone()).collect();
        let (mut followed, mut printed) = (BTreeSet::new(), BTreeSet::new());
        let mut failed = FailedLogs::default();
        let mut tasks = tokio::task::JoinSet::new();
        let mut ends: BTreeMap<(String, String), PrintedEnd> = BTreeMap::new();
        // The times at which to resume the logs of nodes whose log ended: when a container restarts, or the connection to
        // the server is lost.
        let mut resumed: BTreeMap<String, Option<Timestamp>> = BTreeMap::new();
        let mut latest: BTreeMap<String, Option<Timestamp>> = BTreeMap::new();
        let is_named = follows_new || nodes.len() > 1;
        let mut current = nodes;
        let mut is_deleted = false;
        loop {
            self.printer.make_room(&current);
            for node in current.drain(..) {
                if followed.insert(node.id.clone()) {
                    let mut request = self.request(&node);
                    if let Some(since) = resumed.get(&node.id) {
                        (request.since, request.tail) = (*since, None);
                    } else if printed.contains(&node.id) {
                        request.tail = Some(0);
                    }
                    tasks.spawn(read(client.clusters(), request, node, sender.clone()));
                }
            }
            let deadline = tokio::time::Instant::now() + PERIOD;
            while let Ok(part) = tokio::time::timeout_at(deadline, receiver.recv()).await {
                let Some((node, part)) = part else { return Ok(ExitCode::SUCCESS) };
                match part {
                    Part::Opened => failed.forget(&node.id),
                    Part::Chunk(mut chunk) => {
                        printed.insert(node.id.clone());
                        latest.insert(node.id.clone(), chunk.at);
                        let end = ends.entry((node.id.clone(), chunk.source.clone())).or_default();
                        let repeated = chunk.text.len() - end.new_lines(&chunk.text).len();
                        chunk.text.drain(..repeated);
                        if !self.printer.print(&node.name, is_named, &chunk) {
                            return Ok(ExitCode::FAILURE);
                        }
                    }
                    part @ (Part::Ended(_) | Part::Cut) => {
                        // The log is read again from its last line if the node still exists.
                        followed.remove(&node.id);
                        if let Some(at) = latest.get(&node.id) {
                            resumed.insert(node.id.clone(), *at);
                        }
                        match part {
                            Part::Ended(Some(failure)) => failed.record(node.id, failure),
                            Part::Cut => {
                                let of_node = ends.iter_mut().filter(|((id, _), _)| *id == node.id);
                                of_node.for_each(|(_, end)| end.resume());
                            }
                            _ => {}
                        }
                    }
                }
            }
            // The nodes' last lines were printed in this round, after the deletion had been noticed.
            if is_deleted {
                deleted::report(&self.cluster.name);
                return Ok(ExitCode::SUCCESS);
            }
            current = self.current(client).await?;
            if follows_new {
                current = chosen(&current, wanted)?;
            } else {
                current.retain(|node| first.contains(&node.id));
            }
            let unreadable = failed.of_all(&first).filter(|_| printed.is_empty());
            if current.is_empty() || unreadable.is_some() {
                match self.stage(client).await? {
                    DeletionStage::Deleted => is_deleted = true,
                    DeletionStage::Deleting => {}
                    DeletionStage::Present => match unreadable {
                        Some(failure) => return Err(failure.clone().into()),
                        None if follows_new => {}
                        None => return Ok(ExitCode::SUCCESS),
                    },
                }
            }
        }
    }

    /// Returns the nodes that the cluster has now; none if the cluster is not found.
    async fn current(&self, client: &mut Client) -> Result<Vec<Node>, Failure> {
        match listed(client, &self.cluster).await {
            Err(failure) if failure.exit == Exit::NotFound => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// Returns the stage of the cluster's deletion. A cluster that is not found counts as deleted, since the row of a
    /// deleted cluster may be removed.
    async fn stage(&self, client: &mut Client) -> Result<DeletionStage, Failure> {
        match find_by_id(client, &self.cluster.id).await {
            Ok(cluster) if cluster.deleted_at.is_some() => Ok(DeletionStage::Deleted),
            Ok(cluster) if cluster.state == ClusterStatus::Deleting.as_str() => Ok(DeletionStage::Deleting),
            Ok(_) => Ok(DeletionStage::Present),
            Err(failure) if failure.exit == Exit::NotFound => Ok(DeletionStage::Deleted),
            Err(failure) => Err(failure),
        }
    }
}

/// A stage of the deletion of a followed cluster.
enum DeletionStage {
    Present,
    Deleting,
    Deleted,
}

/// Forwards the log of a node to the channel until it ends.
async fn read(
    mut clusters: Clusters,
    request: GetLogsRequest,
    node: Node,
    sender: mpsc::Sender<(Node, Part)>,
) {
    let mut is_open = false;
    let ended = async {
        let mut log = clusters.get_logs(request).await?.into_inner();
        is_open = true;
        let mut part = Part::Opened;
        while sender.send((node.clone(), part)).await.is_ok() {
            let Some(chunk) = log.message().await? else { break };
            part = Part::Chunk(chunk);
        }
        Ok::<(), tonic::Status>(())
    };
    let error = ended.await.err();
    // A log that ends because its server stops or dies continues at the next server, from its last line.
    let continues = |status: &tonic::Status| {
        error_code(status) == Some("ServerStopping") || (is_open && connection_lost(status))
    };
    let part = match error {
        Some(status) if continues(&status) => Part::Cut,
        error => Part::Ended(error.map(Failure::from)),
    };
    // Fails only if the receiver is dropped, when the command ends.
    drop(sender.send((node, part)).await);
}
