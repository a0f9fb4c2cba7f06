//! A Machine with many nodes and types: its first pass compared with the same writes by a plain client, and passes without
//! a change.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use http::Request;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use muster_bench::bed::{Bed, run_each};
use muster_bench::figures::{at_most, ratio, report};
use muster_bench::process::Meter;
use muster_machines::types::MachineNodePool;
use serde_json::json;

use crate::site::{MachinesSite, delete, until};

const GROUP: &str = "large";

/// The namespace of the plain client.
const BARE: &str = "bare";

/// The time without changes: longer than the period of passes.
const IDLE: Duration = Duration::from_secs(70);

/// The longest time until the first reservations are placed and counted.
const QUIET: Duration = Duration::from_secs(3);

pub(crate) async fn measure(muster: &Path, nodes: u32, types: u32) -> Result<()> {
    let site = MachinesSite::start(muster).await?;
    site.bed.add_namespace(BARE).await?;
    let bare_nodes = site.add_nodes(BARE, nodes, &json!({})).await?;
    let started = Instant::now();
    write(&site.bed, &bare_nodes, types).await?;
    let bare = started.elapsed();
    // Deleted before Muster is measured: twice as many nodes would slow down the scheduler.
    delete(&Api::<Node>::all(site.bed.client()), &bare_nodes).await?;

    let names = site.add_nodes("ours", nodes, &json!({})).await?;
    let kind = |number: u32| format!("type-{number}");
    let entry = |(number, name): (u32, &String)| json!({"name": name, "mode": "ready", "taint": true, "machineType": [{"name": kind(number % types)}]});
    let spec = json!({
        "nodePool": (0..).zip(&names).map(entry).collect::<Vec<_>>(),
        "machineTypes": (0..types)
            .map(|number| json!({"name": kind(number), "spec": {"cpu": "8", "memory": "64Gi"}, "available": 1}))
            .collect::<Vec<_>>(),
    });
    let started = Instant::now();
    site.create_machine(GROUP, &spec).await?;
    let pools = Api::<MachineNodePool>::all(site.bed.client());
    let pool = format!("{GROUP}-node-pool");
    let marked = async || {
        let status = pools.get_opt(&pool).await?.and_then(|pool| pool.status);
        Ok(status.is_some_and(|status| status.node_pool.len() == names.len()))
    };
    until("all nodes are marked", marked).await?;
    let first = started.elapsed();
    println!("a Machine with {nodes} nodes and {types} types, its first pass");
    report("the same writes by a plain client", seconds(bare));
    report("until all nodes are marked", seconds(first));
    at_most("  ratio", ratio(first, bare), 1.5, |ratio| format!("{ratio:.2}"));

    let reserved = async || {
        let slots = site.slots(GROUP).await?;
        Ok(!slots.is_empty() && slots.values().all(|(reserved, _)| *reserved == 1))
    };
    until("all slots are reserved", reserved).await?;
    // kwok does not renew this many nodes in time, so that they would alternate between ready and not ready. It also reports
    // the state of each node much more often than a kubelet.
    site.bed.freeze_controllers().await;
    let meter = Meter::start(site.server.pid())?;
    meter.used_until_quiet(QUIET, IDLE).await?;

    let (passes, took) = passed(&site).await?;
    let (written, meter) = (writes(&site.bed).await?, Meter::start(site.server.pid())?);
    tokio::time::sleep(IDLE).await;
    let used = meter.used()?;
    let (later, later_took) = passed(&site).await?;
    println!("{} s in which nothing changes", IDLE.as_secs());
    let count = later - passes;
    at_most("a pass", (later_took - took) / count.max(1.0), 5.0, |took| format!("{took:.2} s"));
    report("passes", count);
    at_most("writes", writes(&site.bed).await? - written, 0.0, |count| count.to_string());
    let share = used.as_secs_f64() / IDLE.as_secs_f64();
    at_most("the processor", share, 0.01, |share| format!("{:.2} %", share * 1e2));
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// Writes what a first pass writes, by a plain client with equally many concurrent requests.
async fn write(bed: &Bed, nodes: &[String], types: u32) -> Result<()> {
    let ours = PatchParams::apply(BARE).force();
    run_each(types, |number| {
        let (sets, services) = (Api::namespaced(bed.client(), BARE), Api::namespaced(bed.client(), BARE));
        async move {
            let (name, labels) = (format!("type-{number}"), json!({"type": format!("type-{number}")}));
            let service: Service = serde_json::from_value(json!({
                "metadata": {"name": name}, "spec": {"selector": labels, "ports": [{"port": 80}]},
            }))?;
            services.create(&PostParams::default(), &service).await?;
            let container = json!({"name": "main", "image": "example.test/main:1",
                "resources": {"requests": {"cpu": "8", "memory": "64Gi"}}});
            let set: StatefulSet = serde_json::from_value(json!({
                "metadata": {"name": name},
                "spec": {
                    "replicas": 1, "serviceName": name, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                },
            }))?;
            sets.create(&PostParams::default(), &set).await?;
            Ok(())
        }
    })
    .await?;
    let all = Api::<Node>::all(bed.client());
    run_each(u32::try_from(nodes.len())?, |number| {
        let (all, ours) = (all.clone(), &ours);
        async move {
            let name = &nodes[usize::try_from(number)?];
            let metadata = json!({"labels": {"bench/type": "x", "bench/group": "y", "bench/pool": "ready"},
                "annotations": {"bench/group": "y"}});
            let marks = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
            all.patch(name, ours, &Patch::Apply(&marks)).await?;
            let taint = json!({"key": "bench", "value": "y", "effect": "NoSchedule"});
            let taints = json!({"spec": {"taints": [taint]}});
            all.patch(name, &PatchParams::default(), &Patch::Merge(&taints)).await?;
            Ok(())
        }
    })
    .await?;
    Ok(())
}

/// The number of passes so far, and their total duration in seconds.
async fn passed(site: &MachinesSite) -> Result<(f64, f64)> {
    let text = site.server.connect().await?.get("/metrics").await?;
    let text = std::str::from_utf8(&text)?;
    let value = |name: &str| sum(text, |line| line.starts_with(name)).context(format!("no {name}"));
    Ok((value("muster_machine_pass_seconds_count ")?, value("muster_machine_pass_seconds_sum ")?))
}

/// The number of write requests so far to objects that only Muster writes in this benchmark.
async fn writes(bed: &Bed) -> Result<f64> {
    let text = bed.client().request_text(Request::get("/metrics").body(Vec::new())?).await?;
    let is_ours = |line: &str| {
        line.starts_with("apiserver_request_total{")
            && ["machines", "machinenodepools", "nodes", "services", "statefulsets"]
                .iter()
                .any(|resource| line.contains(&format!("resource=\"{resource}\"")))
            && ["APPLY", "DELETE", "PATCH", "POST", "PUT"]
                .iter()
                .any(|verb| line.contains(&format!("verb=\"{verb}\"")))
            // kwok and the controllers of Kubernetes write the status of nodes and sets.
            && (line.contains("resource=\"machine") || line.contains("subresource=\"\""))
    };
    Ok(sum(&text, is_ours).unwrap_or_default())
}

/// The sum of the metrics in the lines that `wanted` accepts; `None` if there is no such line.
fn sum(text: &str, wanted: impl Fn(&str) -> bool) -> Option<f64> {
    let values =
        text.lines().filter(|line| wanted(line)).filter_map(|line| line.rsplit(' ').next()?.parse().ok());
    values.fold(None, |sum, value: f64| Some(sum.unwrap_or_default() + value))
}
