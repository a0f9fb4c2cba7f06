//! `muster scale`: more workers, or fewer, and wait until it is so.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{Cluster, ScaleClusterRequest};

use super::{ChangeFlags, request_id};
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output;

/// Change the number of workers
#[derive(Debug, Parser)]
pub(crate) struct Scale {
    /// Which cluster
    name: String,
    /// How many workers there shall be
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    workers: i32,
    /// Of which worker group; needed if there are several
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
                group_name: chosen(&found.cluster, group)?,
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

/// The group that is meant; among several it has to be said.
fn chosen(cluster: &Cluster, group: Option<String>) -> Result<String, Failure> {
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
    Err(Failure::new(Exit::Usage, what).hint("say which with --group"))
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
    fn among_several_groups_one_has_to_be_named() {
        assert_eq!(chosen(&with_groups(&["a"]), None).unwrap(), "");
        assert_eq!(chosen(&with_groups(&["a", "b"]), Some("b".to_owned())).unwrap(), "b");
        let refused = chosen(&with_groups(&["a", "b"]), None).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert_eq!(
            refused.to_string(),
            "'fred' has 2 worker groups: a (2), b (2)\nhint: say which with --group"
        );
    }
}
