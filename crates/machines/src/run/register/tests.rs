use std::sync::Arc;

use muster_core::time::Timestamp;
use serde_json::Value;

use super::*;
use crate::run::fake::FakeKubernetes;
use crate::run::settings::WallClock;

const SECRET: &str = "/api/v1/namespaces/ours/secrets/muster-webhook-tls";
const CLASS: &str = "/apis/scheduling.k8s.io/v1/priorityclasses/muster-guest";
const REGISTRATIONS: [&str; 4] = [
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/muster-machines",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/muster-machines",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/muster-machines",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/muster-machines",
];

struct NoClock;

impl WallClock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000)
    }
}

/// A registrar of a leader that is called at this address.
async fn registrar(kubernetes: &FakeKubernetes, address: &str) -> Registrar {
    kubernetes.store("/api/v1/namespaces/ours", json!({"metadata": {"name": "ours"}}));
    let target = WebhookTarget::Url(address.to_owned());
    let mut settings = MachinesSettings::new("ours".to_owned(), "one".to_owned(), target, Arc::new(NoClock));
    settings.lives.certificate = Duration::from_secs(1);
    let (_, leads) = watch::channel(true);
    Registrar { client: kubernetes.client().await, settings, leads }
}

fn certificate(kubernetes: &FakeKubernetes) -> Value {
    kubernetes.object(SECRET).expect("the Secret")["data"]["tls.crt"].clone()
}

#[tokio::test]
async fn everything_is_created_once() {
    let kubernetes = FakeKubernetes::default();
    let registrar = registrar(&kubernetes, "https://10.0.0.7:9443").await;
    assert_eq!(registrar.reconcile().await, [""; 0]);
    for path in REGISTRATIONS.into_iter().chain([SECRET, CLASS]) {
        assert!(kubernetes.object(path).is_some(), "{path}");
    }
    kubernetes.take_requests();
    assert_eq!(registrar.reconcile().await, [""; 0]);
    let requests = kubernetes.take_requests();
    assert!(requests.iter().all(|request| request.starts_with("GET ")), "{requests:?}");
}

#[tokio::test]
async fn a_class_that_cannot_be_created_does_not_prevent_the_registration() {
    let kubernetes = FakeKubernetes::default();
    kubernetes.forbid("/priorityclasses");
    let failures = registrar(&kubernetes, "https://10.0.0.7:9443").await.reconcile().await;
    let expected = "PriorityClass muster-guest cannot be created: \
                    /apis/scheduling.k8s.io/v1/priorityclasses is forbidden";
    assert_eq!(failures, [expected]);
    for path in REGISTRATIONS.into_iter().chain([SECRET]) {
        assert!(kubernetes.object(path).is_some(), "{path}");
    }
}

#[tokio::test]
async fn a_class_that_exists_is_not_changed() {
    let kubernetes = FakeKubernetes::default();
    kubernetes.store(CLASS, json!({"metadata": {"name": "muster-guest"}, "value": 1000}));
    let before = kubernetes.object(CLASS);
    assert_eq!(registrar(&kubernetes, "https://10.0.0.7:9443").await.reconcile().await, [""; 0]);
    assert_eq!(kubernetes.object(CLASS), before);
}

#[tokio::test]
async fn another_address_gets_another_certificate() {
    let kubernetes = FakeKubernetes::default();
    let first = registrar(&kubernetes, "https://10.0.0.7:9443").await;
    assert_eq!(first.reconcile().await, [""; 0]);
    let before = certificate(&kubernetes);
    // The host is the same: only the port differs.
    assert_eq!(registrar(&kubernetes, "https://10.0.0.7:9444").await.reconcile().await, [""; 0]);
    assert_eq!(certificate(&kubernetes), before);
    assert_eq!(registrar(&kubernetes, "https://muster.test:9443").await.reconcile().await, [""; 0]);
    assert_ne!(certificate(&kubernetes), before);
    let webhooks = kubernetes.object(REGISTRATIONS[3]).expect("the registration");
    let url = webhooks["webhooks"][0]["clientConfig"]["url"].as_str().expect("an address");
    assert!(url.starts_with("https://muster.test:9443/"), "{url}");
}
