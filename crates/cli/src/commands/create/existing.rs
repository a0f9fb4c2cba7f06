//! `--if-not-exists`: waits until an existing cluster is usable or gone.

use std::time::Duration;

use muster_proto::v1alpha2::Cluster;
use tokio::time::sleep;

use crate::commands::{AmongFlags, find_optional, is_incomplete, latest_open_action};
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output::message;
use crate::wait::{AwaitedAction, Deadline};

/// Interval at which a cluster is polled that changes without an action.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// What to do with an existing cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Use,
    Wait,
    Fail,
}

/// Decides by the cluster's state, and by whether an action is changing it.
fn decide(state: &str, is_changing: bool, no_wait: bool) -> Decision {
    match state {
        // Its name is free only when it is gone.
        "DELETING" => Decision::Wait,
        "ERROR" | "CRITICAL" if !is_changing => Decision::Fail,
        state if is_incomplete(state) && !no_wait => Decision::Wait,
        _ => Decision::Use,
    }
}

/// The name of the cluster to create, which another one may have.
pub(super) struct ExistingCluster {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) no_wait: bool,
    pub(super) deadline: Deadline,
}

impl ExistingCluster {
    /// Waits until the cluster of this name is usable, as its creation would; `None` if there is none, or none any more.
    pub(super) async fn wait_until_usable(&self, client: &mut Client) -> Result<Option<Cluster>, Failure> {
        let Self { namespace, name, no_wait, deadline } = self;
        let mut shown = String::new();
        loop {
            let among = AmongFlags::default();
            let Some(cluster) = find_optional(client, namespace, name, &among).await? else {
                return Ok(None);
            };
            let state = cluster.state.as_str();
            let action =
                if is_incomplete(state) { latest_open_action(client, &cluster.id).await? } else { None };
            match decide(state, action.is_some(), *no_wait) {
                Decision::Use => {
                    message!("cluster '{name}' exists already and was not changed");
                    return Ok(Some(cluster));
                }
                Decision::Fail => return Err(unusable(&cluster)),
                Decision::Wait => {}
            }
            if shown != state {
                message!("cluster '{name}' exists already and is {state}: waiting");
                state.clone_into(&mut shown);
            }
            match action {
                Some(action) => {
                    AwaitedAction::new(&cluster, action.id).wait_until_reached(client, *deadline).await?;
                }
                None => pause(&cluster, *deadline).await?,
            }
        }
    }
}

/// Waits for the next poll.
async fn pause(cluster: &Cluster, deadline: Deadline) -> Result<(), Failure> {
    let Cluster { name, state, .. } = cluster;
    tokio::select! {
        () = sleep(POLL_INTERVAL) => Ok(()),
        () = deadline.wait() => {
            let what = format!("'{name}' is not usable after {}: it is {state}", deadline.limit_text());
            Err(Failure::new(Exit::TimedOut, what))
        }
        _ = tokio::signal::ctrl_c() => {
            Err(Failure::new(Exit::Interrupted, format!("stopped waiting; cluster '{name}' is {state}")))
        }
    }
}

/// Returns the failure for a cluster that does not become usable by itself.
fn unusable(cluster: &Cluster) -> Failure {
    let Cluster { name, namespace, state, status_reason, .. } = cluster;
    let why = if status_reason.is_empty() { String::new() } else { format!(": {status_reason}") };
    let hint = format!(
        "see `muster events {name} -n {namespace}`; delete it with `muster delete {name} -n {namespace}` to create it again"
    );
    Failure::new(Exit::Failed, format!("cluster '{name}' exists already and is {state}{why}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ACTIVE", false, false, Decision::Use)]
    #[case("RESIZING", true, false, Decision::Use)]
    #[case("SUSPENDED", false, false, Decision::Use)]
    #[case("CREATING", true, false, Decision::Wait)]
    #[case("CREATING", false, false, Decision::Wait)]
    #[case("CREATING", true, true, Decision::Use)]
    #[case("RECOVERING", true, false, Decision::Wait)]
    #[case("ERROR", false, false, Decision::Fail)]
    #[case("ERROR", false, true, Decision::Fail)]
    #[case("CRITICAL", false, false, Decision::Fail)]
    #[case("ERROR", true, false, Decision::Wait)]
    #[case("DELETING", true, false, Decision::Wait)]
    #[case("DELETING", true, true, Decision::Wait)]
    fn a_cluster_is_used_when_it_is_usable(
        #[case] state: &str,
        #[case] is_changing: bool,
        #[case] no_wait: bool,
        #[case] expected: Decision,
    ) {
        assert_eq!(decide(state, is_changing, no_wait), expected);
    }
}
