//! `muster scale`: changes the number of workers and waits until it is reached.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{Cluster, ScaleClusterRequest};

use super::{ChangeFlags, request_id};
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output;

/// Change the number of workers
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster scale fred --workers 5\n  muster scale fred --group small --workers 3"
)]
pub(crate) struct Scale {
    /// Name of the cluster
    #[arg(add = crate::complete::clusters())]
    name: String,
    /// The new number of workers
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = super::parse_count)]
    workers: i32,
    /// The worker group; required if the cluster has several
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    flags: ChangeFlags,
}

impl Scale {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, workers, group, flags } = self;
            let found = flags.find(&name).await?;
            let request = ScaleClusterRequest {
                id: found.cluster.id.clone(),
                group_name: choose_group(&found.cluster, group)?,
                replicas: Some(workers),
                wait_for: "accepted".to_owned(),
                request_id: request_id(),
                ..ScaleClusterRequest::default()
            };
            let change = async |client: &Client| client.clusters().scale_cluster(request.clone()).await;
            found.carry_out(change).await
        })
    }
}

/// Returns the group to scale; it must be given if the cluster has several.
fn choose_group(cluster: &Cluster, group: Option<String>) -> Result<String, Failure> {
    let groups =
        cluster.cluster_spec.as_ref().map(|spec| spec.worker_group_spec.as_slice()).unwrap_or_default();
    if let Some(group) = group {
        return Ok(group);
    }
    if groups.len() <= 1 {
        return Ok(String::new());
    }
    let list: Vec<String> =
        groups.iter().map(|group| format!("{} ({})", group.group_name, group.replicas)).collect();
    let what = format!("'{}' has {} worker groups: {}", cluster.name, groups.len(), list.join(", "));
    Err(Failure::new(Exit::Usage, what).hint("select one with --group"))
}

#[cfg(test)]
mod tests {
    use muster_proto::v1alpha2::{ClusterSpec, WorkerGroupSpec};

    use super::*;

    fn with_groups(names: &[&str]) -> Cluster {
        let group = |name: &&str| WorkerGroupSpec {
            group_name: (*name).to_owned(),
            replicas: 2,
            ..WorkerGroupSpec::default()
        };
        let spec =
            ClusterSpec { worker_group_spec: names.iter().map(group).collect(), ..ClusterSpec::default() };
        Cluster { name: "fred".to_owned(), cluster_spec: Some(spec), ..Cluster::default() }
    }

    #[test]
    fn one_of_several_groups_must_be_named() {
        assert_eq!(choose_group(&with_groups(&["a"]), None).unwrap(), "");
        assert_eq!(choose_group(&with_groups(&["a", "b"]), Some("b".to_owned())).unwrap(), "b");
        let refused = choose_group(&with_groups(&["a", "b"]), None).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert_eq!(
            refused.to_string(),
            "'fred' has 2 worker groups: a (2), b (2)\nhint: select one with --group"
        );
    }
}
