//! A provider of pods for tests, whose API server is a test's HTTP server.

use std::sync::Arc;

use muster_core::sample;
use muster_testkit::outside::Outside;
use tokio::sync::broadcast;

use super::PodProvider;
use super::pod_cache::PodCache;
use crate::cluster_identity::IdentityGate;
use crate::fences::Fences;
use crate::namespaces::Namespaces;
use crate::writer::ObjectWriter;

/// A provider whose watches are in sync and have listed nothing. It serves these namespaces; all if there are none.
pub(super) fn provider(api_server: &Outside, served: &[&str]) -> PodProvider {
    let client = crate::sample::client(api_server);
    let changes = broadcast::channel(16).0;
    PodProvider {
        instance: sample::instance(),
        namespaces: Arc::new(Namespaces::new(
            client.clone(),
            served.iter().map(|name| (*name).to_owned()).collect(),
        )),
        writer: ObjectWriter::new(client.clone(), Fences::new("ours")),
        client,
        identity_gate: IdentityGate::open(),
        cache: Arc::new(PodCache::synced(changes.clone())),
        creations: Arc::default(),
        changes,
    }
}
