//! The time from a change of a pod to its appearance in Muster's API, compared with a plain watch of the pod.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use muster_bench::bed::Bed;
use muster_bench::client::Lines;
use muster_bench::figures::{at_most, milliseconds, report};
use muster_bench::server::Server;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::objects::pod_name;
use crate::watched::NAMESPACE;

/// The number of changes before those that count.
const WARM_UP: u32 = 10;

/// The longest time for a change to be observed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The capacity of channels; at most one change is pending.
const ON_THE_WAY: usize = 16;

/// Observed values, with their times.
type Sightings<T> = mpsc::Receiver<(T, Instant)>;

pub(crate) async fn measure(bed: &Bed, server: &Server, cluster: &str, count: u32) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(bed.client(), NAMESPACE);
    let pod = pod_name(cluster, 1);
    // The watches are aborted when this is dropped.
    let mut watches = JoinSet::new();
    let mut plain = plain_watch(&mut watches, &pods, &pod).await?;
    let mut muster = muster_watch(&mut watches, server, cluster).await?;

    let (mut ours, mut raw, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..WARM_UP + count {
        let ready = number % 2 == 0;
        let sent = Instant::now();
        let changed = pods.patch_status(&pod, &PatchParams::default(), &Patch::Merge(status(ready))).await?;
        let answered = Instant::now();
        let version = changed.metadata.resource_version.context("a pod without a version")?;
        let at_plain = seen(&mut plain, &version, "a plain watch").await?;
        let at_muster = seen(&mut muster, &u64::from(ready), "Muster's watch").await?;
        if number >= WARM_UP {
            // An observation before the response to the write took no time.
            raw.push(at_plain.saturating_duration_since(answered));
            ours.push(at_muster.saturating_duration_since(answered));
            writes.push(answered - sent);
        }
    }
    println!("{count} changes of one pod among them, from the answer to the write until they are seen");
    report("the write itself, median", milliseconds(percentile(&mut writes, 50)));
    report("a plain watch, median", milliseconds(percentile(&mut raw, 50)));
    report("a plain watch, 99 of 100", milliseconds(percentile(&mut raw, 99)));
    report("Muster's watch, median", milliseconds(percentile(&mut ours, 50)));
    let slowest = percentile(&mut ours, 99);
    at_most("Muster's watch, 99 of 100", slowest, Duration::from_millis(100), milliseconds);
    Ok(())
}

fn status(ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
}

/// Waits until a value is observed, and returns the time.
async fn seen<T: PartialEq>(sightings: &mut Sightings<T>, what: &T, by: &str) -> Result<Instant> {
    let sighting = async {
        while let Some((seen, at)) = sightings.recv().await {
            if seen == *what {
                return Some(at);
            }
        }
        None
    };
    let in_time = tokio::time::timeout(PATIENCE, sighting).await;
    let seconds = PATIENCE.as_secs();
    in_time
        .with_context(|| format!("{by} showed no change for {seconds} s"))?
        .with_context(|| format!("{by} ended"))
}

/// Versions of a pod, as the API server reports them.
async fn plain_watch(
    watches: &mut JoinSet<Result<()>>,
    pods: &Api<Pod>,
    pod: &str,
) -> Result<Sightings<String>> {
    let (send, sightings) = mpsc::channel(ON_THE_WAY);
    let version = pods.get(pod).await?.metadata.resource_version.context("a pod without a version")?;
    let parameters = WatchParams::default().fields(&format!("metadata.name={pod}"));
    let events = pods.watch(&parameters, &version).await?.boxed();
    watches.spawn(async move {
        let mut events = events;
        while let Some(event) = events.try_next().await? {
            let at = Instant::now();
            if let WatchEvent::Modified(pod) = event {
                send.send((pod.metadata.resource_version.unwrap_or_default(), at)).await?;
            }
        }
        Ok(())
    });
    Ok(sightings)
}

/// The numbers of ready workers of a cluster, as Muster reports them.
async fn muster_watch(
    watches: &mut JoinSet<Result<()>>,
    server: &Server,
    cluster: &str,
) -> Result<Sightings<u64>> {
    let (send, sightings) = mpsc::channel(ON_THE_WAY);
    let path = format!("/apis/v1alpha2/namespaces/{NAMESPACE}/clusters:watch");
    let mut lines = server.connect().await?.follow(&path).await?;
    let cluster = cluster.to_owned();
    until_complete(&mut lines).await?;
    watches.spawn(async move {
        loop {
            let line = lines.next().await?;
            let at = Instant::now();
            if line["cluster"]["name"] == cluster.as_str() {
                send.send((line["cluster"]["readyWorkers"].as_u64().unwrap_or_default(), at)).await?;
            }
        }
    });
    Ok(sightings)
}

/// Skips the current objects, which come before any change.
async fn until_complete(lines: &mut Lines) -> Result<()> {
    let complete = async {
        loop {
            let line = lines.next().await?;
            if line["resumeToken"].as_str().is_some_and(|token| !token.is_empty()) {
                return anyhow::Ok(());
            }
        }
    };
    tokio::time::timeout(PATIENCE, complete).await.context("Muster's watch did not begin")?
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(place).copied().unwrap_or_default()
}
