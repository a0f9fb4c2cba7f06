//! One health check of a cluster, in all detection modes of its policy.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, NodeId, ProfileId};
use muster_core::node::{Node, NodeStatus};
use muster_core::policy::health::{ModeType, PollUrl, Settings};
use muster_core::time::{Span, Timestamp};
use muster_store::StoreError;

use crate::context::Context;
use crate::ports::probe::Polled;
use crate::ports::provider::{ClusterTarget, Observed, Provider};
use crate::watchers::health::decide::{Found, by_machine, by_provider, by_url, is_settled, needs_recovery};
use crate::watchers::health::recover;

/// Nodes that are checked concurrently.
const ASKED_AT_ONCE: usize = 16;

/// Upper bounds for the attempts of one check and the seconds between two, whatever a policy says.
const TRIES: i64 = 100;
const LONGEST_PAUSE: i64 = 3600;

/// Nodes whose recovery was requested, and when.
pub(crate) type Asked = HashMap<NodeId, Timestamp>;

/// The outcome of a check.
pub(crate) struct Looked {
    pub(crate) id: ClusterId,
    /// Whether another action blocked a recovery.
    pub(crate) in_the_way: Result<bool, StoreError>,
    pub(crate) asked: Asked,
}

/// Checks a cluster, and submits recoveries.
pub(crate) async fn at(
    context: Arc<Context>,
    provider: Arc<dyn Provider>,
    id: ClusterId,
    settings: Settings,
    mut asked: Asked,
) -> Looked {
    let in_the_way = look(&context, provider.as_ref(), id, &settings, &mut asked).await;
    Looked { id, in_the_way, asked }
}

async fn look(
    context: &Context,
    provider: &dyn Provider,
    id: ClusterId,
    settings: &Settings,
    asked: &mut Asked,
) -> Result<bool, StoreError> {
    let Some(cluster) = context.store.cluster(id).await?.filter(|cluster| cluster.deleted_at.is_none())
    else {
        return Ok(false);
    };
    // The action that holds the cluster observes it itself; it is checked again afterwards.
    if cluster.status.is_transitional() {
        return Ok(true);
    }
    let nodes = context.store.members(id).await?;
    let Some(observed) = check(context, provider, &cluster, &nodes).await? else { return Ok(false) };
    let settled: Vec<&Node> = nodes.iter().filter(|node| is_settled(node)).collect();
    let looks: Vec<_> = settled.iter().map(|node| sight(context, node, &observed, settings)).collect();
    let sights: Vec<Sight> = stream::iter(looks).buffered(ASKED_AT_ONCE).collect().await;
    let now = context.clock.now();
    let unwell = settled.into_iter().zip(sights);
    let unwell = unwell.filter(|(node, sight)| needs_recovery(settings, node, &sight.found, now));
    // A node that cannot be recovered is not retried at once, though its failure causes a notification.
    asked.retain(|_, at| now.since(*at) < settings.interval());
    let mut in_the_way = false;
    for (node, sight) in unwell {
        if asked.contains_key(&node.id) {
            continue;
        }
        if recover::ask(context, &cluster, node, settings, sight.why).await? {
            asked.insert(node.id, now);
        } else {
            in_the_way = true;
        }
    }
    Ok(in_the_way)
}

/// Checks members with the provider, each with its own profile; none if the provider cannot answer.
async fn check(
    context: &Context,
    provider: &dyn Provider,
    cluster: &Cluster,
    nodes: &[Node],
) -> Result<Option<Observed>, StoreError> {
    let capabilities = provider.capabilities(&cluster.profile_type, cluster.flavor.as_deref());
    let own = capabilities.is_some_and(|capabilities| capabilities.orphans);
    let recipe_of = |node: &Node| if own { node.profile_id } else { cluster.profile_id };
    let mut ids: Vec<ProfileId> = nodes.iter().map(recipe_of).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut observed = Observed::default();
    for profile in context.store.profiles_of(&ids).await? {
        let its: Vec<Node> = nodes.iter().filter(|node| recipe_of(node) == profile.id).cloned().collect();
        let target = ClusterTarget { cluster, profile: &profile };
        // Unknown changes nothing: the last known state stays.
        let Ok(seen) = provider.check(target, &its).await else { return Ok(None) };
        observed.nodes.extend(seen.nodes);
        observed.machines.extend(seen.machines);
        observed.members.extend(seen.members);
    }
    Ok(Some(observed))
}

/// The results of checking a node.
#[derive(Default)]
struct Sight {
    /// The result of each detection mode.
    found: Vec<Found>,
    /// What its URL or its machine reported; losses that the provider observes have events of their own.
    why: Option<String>,
}

/// Checks a node in all detection modes.
async fn sight(context: &Context, node: &Node, observed: &Observed, settings: &Settings) -> Sight {
    let machine = observed.machines.get(&node.id);
    let mut sight = Sight { why: machine.cloned(), ..Sight::default() };
    for mode in &settings.detection.detection_modes {
        sight.found.push(match mode.kind {
            ModeType::LifecycleEvents | ModeType::NodeStatusPolling => {
                by_provider(node, &observed.of(node.id))
            }
            // A node in ERROR need not be polled.
            ModeType::NodeStatusPollUrl if node.status == NodeStatus::Error => Found::Unwell,
            ModeType::NodeStatusPollUrl => {
                let polled = poll(context, node, &mode.options).await;
                let found = by_url(&polled, &mode.options);
                if let Polled::Unwell(why) | Polled::Unreachable(why) = polled {
                    sight.why = Some(why);
                }
                found
            }
            ModeType::HypervisorStatusPolling => by_machine(machine.is_some()),
        });
    }
    sight
}

/// Polls a node, with the policy's retries.
async fn poll(context: &Context, node: &Node, options: &PollUrl) -> Polled {
    let Some(probe) = context.policies.probe() else { return Polled::NotAsked };
    let url = options.url_of(&node.name);
    let pause = options.poll_url_retry_interval.clamp(0, LONGEST_PAUSE);
    let mut polled = Polled::Well;
    for attempt in 0..options.poll_url_retry_limit.clamp(1, TRIES) {
        if attempt > 0 {
            let pause = Span::from_micros(pause.saturating_mul(1_000_000));
            context.clock.sleep_until(context.clock.now().after(pause)).await;
        }
        polled = probe.poll(&url, options).await;
        if matches!(polled, Polled::Well | Polled::NotAsked) {
            return polled;
        }
    }
    polled
}
