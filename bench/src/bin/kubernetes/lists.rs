//! Lists of clusters from Muster, compared with the lists of objects from the API server.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hyper::Request;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::PostParams;
use muster_bench::bed::{self, Bed};
use muster_bench::client::Client;
use muster_bench::figures::{median, milliseconds, ratio, report};
use muster_bench::server::{self, Server};
use muster_testkit::Operator;
use serde_json::Value;

use crate::objects;

const NAMESPACE: &str = "listed";

/// The number of workers of each cluster.
const PODS: u32 = 2;
const EVENTS: u32 = 2;

/// The number of lists of each kind, in turn, after a few for warm-up.
const ROUNDS: usize = 31;
const WARM_UP: usize = 3;

pub(crate) async fn measure(muster: &Path, clusters: u32) -> Result<()> {
    let bed = Bed::start(false, Operator::KubeRay).await?;
    bed.add_namespace(NAMESPACE).await?;
    bed::run_each(clusters, |number| make(&bed, number)).await?;
    let folder = server::folder()?;
    let server = Server::start_over(muster, folder.path(), bed.kubeconfig(), NAMESPACE).await?;
    bed::wait_for_rows(folder.path(), clusters, clusters * PODS).await?;

    let mut client = server.connect().await?;
    let (mut raw, mut page, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let floor = from_api_server(&bed.client(), clusters).await?;
        let first = from_muster(&mut client, 100, clusters.min(100)).await?;
        let whole = from_muster(&mut client, clusters, clusters).await?;
        if round >= WARM_UP {
            raw.push(floor);
            page.push(first);
            all.push(whole);
        }
    }
    println!("{clusters} clusters with {PODS} pods and {EVENTS} events each, {ROUNDS} rounds in turn");
    let (raw, page, all) = (median(raw), median(page), median(all));
    report("one LIST each of RayClusters, pods, events", milliseconds(raw));
    report("the first 100 from Muster", milliseconds(page));
    report("  ratio", format!("{:.3}", ratio(page, raw)));
    report("all from Muster", milliseconds(all));
    report("  ratio", format!("{:.3}", ratio(all, raw)));
    Ok(())
}

async fn make(bed: &Bed, number: u32) -> Result<()> {
    let (name, create) = (format!("c-{number}"), PostParams::default());
    let made = objects::make(&objects::ray_clusters(bed.client(), NAMESPACE), &name, PODS - 1).await?;
    let uid = made.metadata.uid.context("an object without a UID")?;
    let (pods, events) =
        (Api::<Pod>::namespaced(bed.client(), NAMESPACE), Api::<Event>::namespaced(bed.client(), NAMESPACE));
    for index in 0..PODS {
        pods.create(&create, &serde_json::from_value(objects::pod(&name, index, 0))?).await?;
    }
    for number in 0..EVENTS {
        let event = objects::event(NAMESPACE, &name, &uid, number);
        events.create(&create, &serde_json::from_value(event)?).await?;
    }
    Ok(())
}

/// Reads all three lists, without parsing them.
async fn from_api_server(client: &kube::Client, clusters: u32) -> Result<Duration> {
    let core = format!("/api/v1/namespaces/{NAMESPACE}");
    let lists = [
        (format!("/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters"), clusters),
        (format!("{core}/pods"), clusters * PODS),
        (format!("{core}/events"), clusters * EVENTS),
    ];
    let mut took = Duration::ZERO;
    for (path, count) in lists {
        let started = Instant::now();
        let text = client.request_text(Request::get(&path).body(Vec::new())?).await?;
        took += started.elapsed();
        let found = text.matches("\"resourceVersion\"").count();
        // The list itself has a resourceVersion, too.
        ensure!(found > usize::try_from(count)?, "{found} objects are on {path}");
    }
    Ok(took)
}

/// Reads one page of the list.
async fn from_muster(client: &mut Client, size: u32, expected: u32) -> Result<Duration> {
    let path = format!("/apis/v1alpha2/namespaces/{NAMESPACE}/clusters?page_size={size}");
    let started = Instant::now();
    let body = client.get(&path).await?;
    let took = started.elapsed();
    let list: Value = serde_json::from_slice(&body)?;
    let found = list["clusters"].as_array().map_or(0, Vec::len);
    ensure!(found == usize::try_from(expected)?, "{found} clusters are on {path}");
    Ok(took)
}
