//! One look at a cluster, in all the ways that its policy says.

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

/// Nodes that are asked at the same time.
const ASKED_AT_ONCE: usize = 16;

/// The most tries of one look, and seconds between two: whatever a policy says, nobody is asked without an end.
const TRIES: i64 = 100;
const LONGEST_PAUSE: i64 = 3600;

/// Nodes whose recovery was asked for, and when.
pub(crate) type Asked = HashMap<NodeId, Timestamp>;

/// What came of a look.
pub(crate) struct Looked {
    pub(crate) id: ClusterId,
    /// Whether something stood in the way.
    pub(crate) in_the_way: Result<bool, StoreError>,
    pub(crate) asked: Asked,
}

/// Looks, and asks for recoveries.
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
    // Whoever works on it sees the same world; afterwards it is looked at again.
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
    // One that cannot be recovered is not tried again at once, though its failure is heard of.
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

/// What the provider says of members, each by the recipe that it was made from; nothing if it cannot tell.
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
        // Nobody can tell how it is: the last word stays.
        let Ok(seen) = provider.check(target, &its).await else { return Ok(None) };
        observed.nodes.extend(seen.nodes);
        observed.machines.extend(seen.machines);
        observed.members.extend(seen.members);
    }
    Ok(Some(observed))
}

/// What was seen of a node.
#[derive(Default)]
struct Sight {
    /// What each way to look found.
    found: Vec<Found>,
    /// What it said of itself that is not well, or what is wrong with its machine; what else the provider sees is told
    /// elsewhere.
    why: Option<String>,
}

/// Looks in all ways.
async fn sight(context: &Context, node: &Node, observed: &Observed, settings: &Settings) -> Sight {
    let machine = observed.machines.get(&node.id);
    let mut sight = Sight { why: machine.cloned(), ..Sight::default() };
    for mode in &settings.detection.detection_modes {
        sight.found.push(match mode.kind {
            ModeType::LifecycleEvents | ModeType::NodeStatusPolling => {
                by_provider(node, &observed.of(node.id))
            }
            // Who is known not to work need not be asked.
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

/// Asks a node as often as it may fail.
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
