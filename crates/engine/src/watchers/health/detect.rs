//! One health check of a cluster, in all detection modes of its policy.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, NodeId, ProfileId};
use muster_core::node::{Node, NodeStatus};
use muster_core::policy::health::{HealthPolicySettings, ModeType, PollUrl};
use muster_core::time::{TimeSpan, Timestamp};
use muster_store::StoreError;

use crate::context::Context;
use crate::ports::clock::wait_until;
use crate::ports::probe::PollResult;
use crate::ports::provider::{ClusterTarget, Observed, Provider};
use crate::watchers::health::decide::{Health, by_machine, by_provider, by_url, is_settled, needs_recovery};
use crate::watchers::health::recover;

/// The maximum of nodes that are checked concurrently.
const MAX_CONCURRENT: usize = 16;

/// Upper bounds for the attempts of one check and the seconds between two, whatever a policy says.
const MAX_ATTEMPTS: i64 = 100;
const LONGEST_PAUSE: i64 = 3600;

/// Nodes whose recovery was requested, and when.
pub(crate) type RequestedRecoveries = HashMap<NodeId, Timestamp>;

/// The outcome of a check.
pub(crate) struct HealthCheckOutcome {
    pub(crate) id: ClusterId,
    /// True if another action blocked a recovery; an error if the check failed.
    pub(crate) blocked: Result<bool, StoreError>,
    pub(crate) requested: RequestedRecoveries,
}

/// Checks a cluster, and submits recoveries.
pub(crate) async fn check(
    context: Arc<Context>,
    provider: Arc<dyn Provider>,
    id: ClusterId,
    settings: HealthPolicySettings,
    mut requested: RequestedRecoveries,
) -> HealthCheckOutcome {
    let blocked = check_cluster(&context, provider.as_ref(), id, &settings, &mut requested).await;
    HealthCheckOutcome { id, blocked, requested }
}

async fn check_cluster(
    context: &Context,
    provider: &dyn Provider,
    id: ClusterId,
    settings: &HealthPolicySettings,
    requested: &mut RequestedRecoveries,
) -> Result<bool, StoreError> {
    let Some(cluster) = context.store.cluster(id).await?.filter(|cluster| cluster.deleted_at.is_none())
    else {
        return Ok(false);
    };
    // The action that holds the cluster observes the nodes itself; the cluster is checked again afterwards.
    if cluster.status.is_transitional() {
        return Ok(true);
    }
    let nodes = context.store.members(id).await?;
    let Some(observed) = check_nodes(context, provider, &cluster, &nodes).await? else { return Ok(false) };
    let settled: Vec<&Node> = nodes.iter().filter(|node| is_settled(node)).collect();
    let checks: Vec<_> = settled.iter().map(|node| check_node(context, node, &observed, settings)).collect();
    let results: Vec<NodeCheckResults> = stream::iter(checks).buffered(MAX_CONCURRENT).collect().await;
    let now = context.clock.now();
    let unhealthy = settled.into_iter().zip(results);
    let unhealthy = unhealthy.filter(|(node, health)| needs_recovery(settings, node, &health.found, now));
    // A node that cannot be recovered is not retried at once, though its failure causes a notification.
    requested.retain(|_, at| now.since(*at) < settings.interval());
    let mut blocked = false;
    for (node, health) in unhealthy {
        if requested.contains_key(&node.id) {
            continue;
        }
        if recover::submit(context, &cluster, node, settings, health.why).await? {
            requested.insert(node.id, now);
        } else {
            blocked = true;
        }
    }
    Ok(blocked)
}

/// Checks members with the provider, each with its own profile; returns none if the provider fails.
async fn check_nodes(
    context: &Context,
    provider: &dyn Provider,
    cluster: &Cluster,
    nodes: &[Node],
) -> Result<Option<Observed>, StoreError> {
    let capabilities = provider.capabilities(&cluster.profile_type, cluster.flavor.as_deref());
    let has_own_profiles = capabilities.is_some_and(|capabilities| capabilities.orphans);
    let profile_of = |node: &Node| if has_own_profiles { node.profile_id } else { cluster.profile_id };
    let mut ids: Vec<ProfileId> = nodes.iter().map(profile_of).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut observed = Observed::default();
    for profile in context.store.profiles_of(&ids).await? {
        let its_nodes: Vec<Node> =
            nodes.iter().filter(|node| profile_of(node) == profile.id).cloned().collect();
        let target = ClusterTarget { cluster, profile: &profile };
        // Unknown changes nothing: the last known state stays.
        let Ok(checked) = provider.check(target, &its_nodes).await else { return Ok(None) };
        observed.merge(checked);
    }
    Ok(Some(observed))
}

/// The results of checking a node.
#[derive(Default)]
struct NodeCheckResults {
    /// The result of each detection mode.
    found: Vec<Health>,
    /// The failure that the node's URL or machine reported; losses that the provider observes have events of their own.
    why: Option<String>,
}

/// Checks a node in all detection modes.
async fn check_node(
    context: &Context,
    node: &Node,
    observed: &Observed,
    settings: &HealthPolicySettings,
) -> NodeCheckResults {
    let machine = observed.machines.get(&node.id);
    let mut health = NodeCheckResults { why: machine.cloned(), ..NodeCheckResults::default() };
    for mode in &settings.detection.detection_modes {
        health.found.push(match mode.kind {
            ModeType::LifecycleEvents | ModeType::NodeStatusPolling => {
                by_provider(node, &observed.of(node.id))
            }
            // A node in ERROR need not be polled.
            ModeType::NodeStatusPollUrl if node.status == NodeStatus::Error => Health::Unhealthy,
            ModeType::NodeStatusPollUrl => {
                let polled = poll(context, node, &mode.options).await;
                let found = by_url(&polled, &mode.options);
                if let PollResult::Unhealthy(why) | PollResult::Unreachable(why) = polled {
                    health.why = Some(why);
                }
                found
            }
            ModeType::HypervisorStatusPolling => by_machine(machine.is_some()),
        });
    }
    health
}

/// Polls a node, with the policy's retries.
async fn poll(context: &Context, node: &Node, options: &PollUrl) -> PollResult {
    let Some(probe) = context.policies.probe() else { return PollResult::NotAllowed };
    let url = options.url_of(&node.name);
    let pause = options.poll_url_retry_interval.clamp(0, LONGEST_PAUSE);
    let mut polled = PollResult::Healthy;
    for attempt in 0..options.poll_url_retry_limit.clamp(1, MAX_ATTEMPTS) {
        if attempt > 0 {
            let pause = TimeSpan::from_micros(pause.saturating_mul(1_000_000));
            wait_until(context.clock.as_ref(), context.clock.now().after(pause)).await;
        }
        polled = probe.poll(&url, options).await;
        if matches!(polled, PollResult::Healthy | PollResult::NotAllowed) {
            return polled;
        }
    }
    polled
}
