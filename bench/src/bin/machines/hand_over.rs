//! Guests that get a slot, compared with pods that the scheduler places by preemption on equally many, equally full nodes.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::TryStreamExt as _;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use muster_bench::bed::run_each;
use muster_bench::figures::{at_most, median, milliseconds, ratio, report};
use muster_machines::keys;
use serde_json::{Value, json};

use crate::site::{MachinesSite, delete, guest_labels, until};

/// The number of slots, and of guests in a burst.
const SLOTS: u32 = 50;

/// The number of nodes with these slots.
const NODES: u32 = 2;

/// The resources of one slot; the slots fill the nodes.
const CPU: &str = "1280m";
const MEMORY: &str = "1Gi";

/// The number of placements of one pod, and of bursts, on each side.
const SINGLES: u32 = 20;
const BURSTS: u32 = 5;

/// The namespaces of guests, and of pods without a Machine.
pub(crate) const GUESTS: &str = "guests";
const BARE: &str = "bare";

/// The names of the Machine and its type.
pub(crate) const GROUP: &str = "general";
pub(crate) const TYPE: &str = "small";

/// The longest time for a burst.
const PATIENCE: Duration = Duration::from_mins(2);

/// Creates both sides, each with nodes that are full of pods of the default priority.
pub(crate) async fn prepare(site: &MachinesSite) -> Result<()> {
    let client = site.bed.client();
    let labels = json!({keys::NAMESPACE_LABELS[0]: keys::ENABLED});
    let guests: Namespace = serde_json::from_value(json!({"metadata": {"name": GUESTS, "labels": labels}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &guests).await?;
    site.bed.add_namespace(BARE).await?;
    let nodes = site.add_nodes("ours", NODES, &json!({})).await?;
    let entry = |name: &String| json!({"name": name, "mode": "ready", "taint": true, "machineType": [{"name": TYPE}]});
    let spec = json!({
        "nodePool": nodes.iter().map(entry).collect::<Vec<_>>(),
        "machineTypes": [{"name": TYPE, "spec": {"cpu": CPU, "memory": MEMORY}, "available": SLOTS}],
    });
    site.create_machine(GROUP, &spec).await?;

    let selector = json!({"bench": BARE});
    site.add_nodes(BARE, NODES, &selector).await?;
    let class: PriorityClass = serde_json::from_value(json!({"metadata": {"name": BARE}, "value": 1}))?;
    Api::all(client.clone()).create(&PostParams::default(), &class).await?;
    let labels = json!({"app": BARE});
    let filler: StatefulSet = serde_json::from_value(json!({
        "metadata": {"name": BARE},
        "spec": {
            "replicas": SLOTS, "podManagementPolicy": "Parallel", "serviceName": BARE,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": bare_pod(None)},
        },
    }))?;
    Api::namespaced(client, BARE).create(&PostParams::default(), &filler).await?;
    full(site).await
}

fn bare_pod(class: Option<&str>) -> Value {
    let amounts = json!({"cpu": CPU, "memory": MEMORY});
    let resources = json!({"requests": amounts, "limits": amounts});
    json!({
        "containers": [{"name": "main", "image": "example.test/main:1", "resources": resources}],
        "nodeSelector": {"bench": BARE},
        "priorityClassName": class,
        "terminationGracePeriodSeconds": 1,
    })
}

/// Returns once all slots of both sides are reserved.
async fn full(site: &MachinesSite) -> Result<()> {
    let sets = Api::<StatefulSet>::namespaced(site.bed.client(), BARE);
    let wanted = i32::try_from(SLOTS)?;
    until("all slots are reserved", async || {
        let filled = sets.get(BARE).await?.status.and_then(|status| status.ready_replicas);
        let ours = site.slots(GROUP).await?.get(TYPE).copied();
        Ok(filled == Some(wanted) && ours == Some((wanted, 0)))
    })
    .await
}

pub(crate) async fn measure(site: &MachinesSite) -> Result<()> {
    for (what, count, rounds, limit) in
        [("one guest", 1, SINGLES, 3.0), ("50 guests at once", SLOTS, BURSTS, 1.25)]
    {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let labels = guest_labels(GROUP, TYPE);
            let guest = json!({"containers": [{"name": "main", "image": "example.test/main:1"}]});
            ours.push(placed(site, GUESTS, count, &labels, &guest).await?);
            bare.push(placed(site, BARE, count, &json!({}), &bare_pod(Some(BARE))).await?);
            full(site).await?;
        }
        let (ours, bare) = (median(ours), median(bare));
        println!("{what}, from creation until all have a node, {rounds} times; stock client limits");
        report("preemption alone", milliseconds(bare));
        report("through Muster", milliseconds(ours));
        at_most("  ratio", ratio(ours, bare), limit, |ratio| format!("{ratio:.2}"));
    }
    Ok(())
}

/// Creates pods, returns the time until all of them have a node, and deletes them.
async fn placed(
    site: &MachinesSite,
    namespace: &str,
    count: u32,
    labels: &Value,
    spec: &Value,
) -> Result<Duration> {
    let pods = Api::<Pod>::namespaced(site.bed.client(), namespace);
    let version = pods.list(&ListParams::default()).await?.metadata.resource_version;
    let version = version.context("a list without a version")?;
    let seen = pods.watch(&WatchParams::default(), &version).await?;
    let started = Instant::now();
    let created = run_each(count, |number| {
        let pods = pods.clone();
        async move {
            let name = format!("placed-{number}");
            let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
            pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
            Ok(name)
        }
    });
    let bound = async {
        let (mut bound, mut seen) = (BTreeSet::new(), pin!(seen));
        while let Some(event) = seen.try_next().await? {
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event
                && pod.name_any().starts_with("placed-")
                && pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
            {
                bound.insert(pod.name_any());
            }
            if bound.len() == usize::try_from(count)? {
                return Ok(started.elapsed());
            }
        }
        bail!("the watch ended after {} of {count} pods", bound.len())
    };
    let (created, took) =
        tokio::time::timeout(PATIENCE, async { tokio::try_join!(created, bound) }).await??;
    delete(&pods, &created).await?;
    Ok(took)
}
