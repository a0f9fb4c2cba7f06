//! `muster top`: shows the CPU and memory that nodes use now.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use futures::StreamExt as _;
use futures::stream;
use muster_core::quantity::{Cpu, Memory};
use muster_core::time::Timestamp;
use muster_proto::v1alpha2::{Cluster, GetNodeUsageRequest, NodeUsage};
use serde::Serialize;

use super::nodes::fitted;
use super::select::{FilterFlags, list};
use super::watch::CLEAR;
use super::{AmongFlags, NamespaceFlag, find};
use crate::connect::{Client, ServerFlags};
use crate::failure::Failure;
use crate::format::{self, Format, FormatFlag};
use crate::output::{self, message};
use crate::table::{self, Listed};

/// The pause between two measurements on a terminal.
const PERIOD: Duration = Duration::from_secs(2);

/// Number of clusters that are measured at the same time. Each measurement of local nodes takes half a second.
const AT_A_TIME: usize = 8;

/// Show the cpu and memory that the nodes of a cluster, or of all clusters of a namespace, use now
///
/// On a terminal it repeats until Ctrl-C; in a pipe, with -o json and with --once it measures once. Local nodes are measured
/// by all of their processes; nodes on Kubernetes by metrics-server, where that is installed.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  muster top\n  muster top fred\n  muster top fred --once -o json")]
pub(crate) struct Top {
    /// Name of the cluster [default: all clusters of the namespace]
    #[arg(add = crate::complete::clusters())]
    name: Option<String>,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    /// Measure once
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// A node of a cluster, as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct TopLine {
    cluster: String,
    #[serde(flatten)]
    node: NodeUsage,
}

impl Top {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, among, once, format, server } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let format = format.format;
            let redraws =
                !once && matches!(format, Format::Table | Format::Wide) && std::io::stdout().is_terminal();
            loop {
                let clusters = match &name {
                    Some(name) => vec![find(&mut client, &namespace, name, &among).await?],
                    None => {
                        let all = FilterFlags::of_labels(Vec::new());
                        list(&mut client, Some(&namespace), &among, &all).await?
                    }
                };
                let lines = measure(&client, &clusters, name.is_some()).await?;
                if !redraws {
                    return show(format, &lines, &namespace);
                }
                let shown = format!("{CLEAR}{}", fitted(&table::render(&lines, false)));
                if output::print(&shown) != ExitCode::SUCCESS {
                    return Ok(ExitCode::FAILURE);
                }
                tokio::time::sleep(PERIOD).await;
            }
        })
    }
}

fn show(format: Format, lines: &[TopLine], namespace: &str) -> Result<ExitCode> {
    let nothing = format!("No nodes found. Namespace '{namespace}' has no clusters with nodes.");
    format::array(format, lines, &nothing)
}

/// Measures clusters: returns a line for each node with the resources that it uses. A cluster that cannot be measured
/// is an error if it is the only one or none can be measured, otherwise a message.
async fn measure(client: &Client, clusters: &[Cluster], is_one: bool) -> Result<Vec<TopLine>, Failure> {
    let one = |cluster: &Cluster| {
        let (mut usage, name) = (client.usage(), cluster.name.clone());
        let request = GetNodeUsageRequest { id: cluster.id.clone(), ..GetNodeUsageRequest::default() };
        async move { (name, usage.get_node_usage(request).await.map_err(Failure::from)) }
    };
    let requests: Vec<_> = clusters.iter().map(one).collect();
    let answers: Vec<_> = stream::iter(requests).buffered(AT_A_TIME).collect().await;
    let are_all_failed = answers.iter().all(|(_, answer)| answer.is_err());
    let mut lines = Vec::new();
    for (cluster, answer) in answers {
        match answer {
            Ok(answer) => {
                let nodes = answer.into_inner().nodes.into_iter();
                lines.extend(nodes.map(|node| TopLine { cluster: cluster.clone(), node }));
            }
            Err(failure) if is_one || are_all_failed => return Err(failure),
            Err(failure) => message!("warning: cluster '{cluster}' is not measured: {failure}"),
        }
    }
    Ok(lines)
}

impl Listed for TopLine {
    fn titles(_: bool) -> Vec<&'static str> {
        vec!["CLUSTER", "NODE", "ROLE", "STATE", "CPU", "MEMORY"]
    }

    fn line(&self, _: bool, _: Timestamp) -> Vec<String> {
        let Self { cluster, node } = self;
        let cpu = node.cpu_millis.and_then(|millis| u64::try_from(millis).ok());
        let memory = node.memory_bytes.and_then(|bytes| u64::try_from(bytes).ok());
        let missing = || "<missing>".to_owned();
        vec![
            cluster.clone(),
            node.name.clone(),
            node.role.clone(),
            node.state.clone(),
            cpu.map_or_else(missing, |millis| Cpu::from_millis(millis).to_string()),
            memory.map_or_else(missing, |bytes| Memory::from_bytes(bytes).rounded()),
        ]
    }

    fn called(&self) -> &str {
        &self.node.name
    }

    fn state(&self) -> &str {
        &self.node.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_and_a_node_that_is_not_measured_has_none() {
        let line = |cpu_millis, memory_bytes| {
            let node = NodeUsage { name: "w1".to_owned(), cpu_millis, memory_bytes, ..NodeUsage::default() };
            TopLine { cluster: "fred".to_owned(), node }.line(false, Timestamp::default())[4..].to_vec()
        };
        assert_eq!(line(Some(1_520), Some(3 << 29)), ["1520m", "1.5Gi"]);
        assert_eq!(line(None, None), ["<missing>", "<missing>"]);
    }
}
