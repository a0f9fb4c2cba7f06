//! The webhook's certificate: issued, shared and renewed without a failed review.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::PostParams;
use muster_machines::keys;
use muster_machines::run::CertificateLives;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{OURS, PATIENCE, Site, spec};

const RENEWALS: usize = 3;

#[tokio::test]
async fn a_certificate_that_soon_expires_is_renewed_while_reviews_continue() {
    let Some(site) = Site::open().await else { return };
    let short = |lives: &mut CertificateLives| lives.certificate = Duration::from_secs(5);
    let _replica = site.replica_with("one", |settings| short(&mut settings.lives)).await;
    site.create_machine("general", &spec("medium", &["node-0"], 2)).await.unwrap();
    site.counts("general", "medium", [2, 2, 0, 0]).await;
    let guest = json!({
        "metadata": {"generateName": "dry-", "labels": {keys::MACHINE_GROUP: "general",
            keys::MACHINE_TYPE: "medium", keys::POD_ROLE: keys::GUEST}},
        "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]},
    });
    let guest: Pod = serde_json::from_value(guest).unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let pods = site.pods();
    let secrets = Api::<Secret>::namespaced(site.client.clone(), OURS);
    let (mut seen, deadline) = (BTreeSet::new(), Instant::now() + PATIENCE);
    while seen.len() <= RENEWALS {
        assert!(Instant::now() < deadline, "{} certificates were seen", seen.len());
        let reviews = (0..20).map(|_| pods.create(&dry, &guest));
        for review in stream::iter(reviews).buffer_unordered(4).collect::<Vec<_>>().await {
            review.expect("the webhook answers");
        }
        let secret = secrets.get("muster-webhook-tls").await.unwrap();
        seen.insert(secret.data.unwrap_or_default().remove("tls.crt").map(|bytes| bytes.0));
    }
}
