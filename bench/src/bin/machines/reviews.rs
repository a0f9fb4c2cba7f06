//! Reviews of guests by the injector, sent as an API server sends them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use http::uri::Authority;
use http::{Request, Uri};
use http_body_util::BodyExt as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::ListParams;
use kube::{Api, Client, Config};
use muster_bench::figures::{at_most, median, milliseconds, report};
use serde_json::{Value, json};

use crate::hand_over::{GROUP, GUESTS, TYPE};
use crate::site::{MachinesSite, guest_labels};

/// The rate of reviews, and the duration.
const RATE: u32 = 200;
const SECONDS: u32 = 10;

/// The limit for the 99th percentile.
const LIMIT: Duration = Duration::from_millis(5);

pub(crate) async fn measure(site: &MachinesSite) -> Result<()> {
    let registered = Api::<MutatingWebhookConfiguration>::all(site.bed.client());
    let listed = registered.list(&ListParams::default()).await?;
    let webhooks = listed.items.into_iter().flat_map(|found| found.webhooks.unwrap_or_default());
    let mut urls = webhooks.filter_map(|webhook| webhook.client_config.url);
    let url = urls.next().context("the injector is not registered")?;
    let url: Uri = url.parse()?;
    let path = url.path().to_owned();
    let mut config =
        Config::new(Uri::builder().scheme("https").authority(authority(&url)?).path_and_query("/").build()?);
    // The certificate is tested elsewhere.
    config.accept_invalid_certs = true;
    let client = Client::try_from(config)?;
    let review = serde_json::to_vec(&review())?;
    let call = async |at: Instant| -> Result<Duration> {
        tokio::time::sleep_until(at.into()).await;
        let request = Request::post(&path).header("content-type", "application/json");
        let answer = client.send(request.body(review.clone().into())?).await?;
        let body: Value = serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?;
        let took = at.elapsed();
        ensure!(body["response"]["patch"].is_string(), "{body}");
        Ok(took)
    };
    let started = Instant::now() + Duration::from_millis(100);
    let calls = (0..RATE * SECONDS).map(|number| call(started + Duration::from_secs(1) / RATE * number));
    let mut times = try_join_all(calls).await?;
    times.sort_unstable();
    let late = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
    println!("{} reviews of guests, {RATE} a second, from when each was due", times.len());
    report("half of them at most", milliseconds(median(times)));
    at_most("99 of 100 at most", late, LIMIT, milliseconds);
    Ok(())
}

fn authority(url: &Uri) -> Result<&str> {
    url.authority().map(Authority::as_str).context("the injector has no address")
}

fn review() -> Value {
    let labels = guest_labels(GROUP, TYPE);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "reviewed", "namespace": GUESTS, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]},
    });
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "CREATE", "namespace": GUESTS, "name": "reviewed",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "userInfo": {"username": "ann"}, "object": pod,
        },
    })
}
