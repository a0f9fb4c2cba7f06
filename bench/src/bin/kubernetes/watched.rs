//! The cost of watching many large pods.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use muster_bench::bed::{self, Bed};
use muster_bench::figures::{at_most, megabytes, report};
use muster_bench::process::{Meter, peak};
use muster_bench::server::{self, Server};
use muster_testkit::Operator;

use crate::{changes, objects};

pub(crate) const NAMESPACE: &str = "watched";

/// The number of pods of a cluster: a head and its workers.
const OF_ONE: u32 = 20;

/// The size of the annotation that makes each pod about 20 KB large.
const FILLER: usize = 18_500;

const MEGABYTE: u64 = 1_000_000;

/// The time without changes before the server counts as idle, and the time of the measurement.
const REST: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(30);

pub(crate) async fn measure(muster: &Path, pods: u32, changes: u32) -> Result<()> {
    let bed = Bed::start(false, Operator::KubeRay).await?;
    bed.add_namespace(NAMESPACE).await?;
    let clusters = pods.div_ceil(OF_ONE);
    let sizes = bed::run_each(clusters, |number| make(&bed, number)).await?;
    let (nodes, size) = (clusters * OF_ONE, sizes.into_iter().max().unwrap_or_default());

    let folder = server::folder()?;
    let server = Server::start_over(muster, folder.path(), bed.kubeconfig(), NAMESPACE).await?;
    let took = bed::wait_for_rows(folder.path(), clusters, nodes).await?;
    tokio::time::sleep(REST).await;
    println!("{nodes} pods of {size} bytes in {clusters} clusters, watched");
    report("from ready until all have rows", format!("{:.1} s", took.as_secs_f64()));
    at_most("resident", server.resident()?, 150 * MEGABYTE, megabytes);
    report("at its peak", megabytes(peak(server.pid())?));
    let meter = Meter::start(server.pid())?;
    tokio::time::sleep(IDLE).await;
    let share = 100.0 * meter.used()?.as_secs_f64() / IDLE.as_secs_f64();
    at_most("processor time, idle", share, 1.0, |share| format!("{share:.2} %"));
    changes::measure(&bed, &server, &name(clusters / 2), changes).await
}

fn name(number: u32) -> String {
    format!("c-{number}")
}

/// Creates a cluster with its pods, and returns the size of one pod on the wire.
async fn make(bed: &Bed, number: u32) -> Result<usize> {
    let (name, create) = (name(number), PostParams::default());
    objects::make(&objects::ray_clusters(bed.client(), NAMESPACE), &name, OF_ONE - 1).await?;
    let pods: Api<Pod> = Api::namespaced(bed.client(), NAMESPACE);
    let mut size = 0;
    for index in 0..OF_ONE {
        let pod = serde_json::from_value(objects::pod(&name, index, FILLER))?;
        size = serde_json::to_vec(&pods.create(&create, &pod).await?)?.len();
    }
    Ok(size)
}
