//! One look at a cluster, in all the ways that its policy says.

use futures::StreamExt as _;
use futures::stream;
use muster_core::action::Fence;
use muster_core::ids::ClusterId;
use muster_core::node::{Node, NodeStatus};
use muster_core::policy::health::{ModeType, PollUrl, Settings};
use muster_core::time::Span;
use muster_store::StoreError;

use super::decide::{Found, by_provider, by_url, is_settled, needs_recovery};
use super::{Cared, Polled, recover};
use crate::engine::Inner;
use crate::provider::{Call, Observed, Provider};

/// Nodes that are asked at the same time.
const ASKED_AT_ONCE: usize = 16;

/// Looks, and asks for recoveries; whether something stood in the way.
pub(super) async fn at(
    inner: &Inner,
    provider: &dyn Provider,
    id: ClusterId,
    cared: &mut Cared,
) -> Result<bool, StoreError> {
    let Cared { settings, asked, .. } = cared;
    let settings = &*settings;
    let Some(cluster) = inner.store.cluster(id).await?.filter(|cluster| cluster.deleted_at.is_none()) else {
        return Ok(false);
    };
    // Whoever works on it sees the same world; afterwards it is looked at again.
    if cluster.status.is_transitional() {
        return Ok(true);
    }
    let Some(profile) = inner.store.profile(cluster.profile_id).await? else { return Ok(false) };
    let nodes = inner.store.members(id).await?;
    let call = Call { cluster: &cluster, profile: &profile, fence: Fence(0) };
    // Nobody can tell how it is: the last word stays.
    let Ok(observed) = provider.observe(call, &nodes).await else { return Ok(false) };
    let settled: Vec<&Node> = nodes.iter().filter(|node| is_settled(node)).collect();
    let looks: Vec<_> = settled.iter().map(|node| found(inner, node, &observed, settings)).collect();
    let found: Vec<Vec<Found>> = stream::iter(looks).buffered(ASKED_AT_ONCE).collect().await;
    let now = inner.clock.now();
    let unwell =
        settled.into_iter().zip(found).filter(|(node, found)| needs_recovery(settings, node, found, now));
    // One that cannot be recovered is not tried again at once, though its failure is heard of.
    asked.retain(|_, at| now.since(*at) < settings.interval());
    let mut in_the_way = false;
    for (node, _) in unwell {
        if asked.contains_key(&node.id) {
            continue;
        }
        if recover::ask(inner, &cluster, node, settings).await? {
            asked.insert(node.id, now);
        } else {
            in_the_way = true;
        }
    }
    Ok(in_the_way)
}

/// What all ways to look found of a node.
async fn found(inner: &Inner, node: &Node, observed: &Observed, settings: &Settings) -> Vec<Found> {
    let mut all = Vec::new();
    for mode in &settings.detection.detection_modes {
        all.push(match mode.kind {
            ModeType::LifecycleEvents | ModeType::NodeStatusPolling => {
                by_provider(node, &observed.of(node.id))
            }
            ModeType::NodeStatusPollUrl if node.status == NodeStatus::Active => {
                by_url(poll(inner, node, &mode.options).await, &mode.options)
            }
            // Refused at the attachment where it cannot be asked.
            ModeType::NodeStatusPollUrl | ModeType::HypervisorStatusPolling => Found::Well,
        });
    }
    all
}

/// Asks a node as often as it may fail.
async fn poll(inner: &Inner, node: &Node, options: &PollUrl) -> Polled {
    let Some(probe) = inner.policies.probe() else { return Polled::Well };
    let url = options.poll_url.replace("{nodename}", &node.name);
    let mut polled = Polled::Well;
    for attempt in 0..options.poll_url_retry_limit.max(1) {
        if attempt > 0 {
            let pause = Span::from_micros(options.poll_url_retry_interval.saturating_mul(1_000_000));
            inner.clock.sleep_until(inner.clock.now().after(pause)).await;
        }
        polled = probe.poll(&url, options).await;
        if polled == Polled::Well {
            return polled;
        }
    }
    polled
}
