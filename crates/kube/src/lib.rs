//! The provider `kubernetes`: clusters as custom resources of the operators that are installed, and nodes as single
//! pods.
//!
//! It implements the ports of the engine: it watches objects, keeps the parts of them that are used in memory,
//! translates them into observations, and writes what actions ask for. It does not decide what to change and when
//! (the engine does), and does not know how a framework's objects look (`muster_frameworks::kubernetes` does).
//!
//! Two rules hold everywhere:
//!
//! * An observation is answered from memory. It reads from the API server only where rows of another replica are newer
//!   than the watches, the content of a root has changed, or a pod has lost its label. It writes nothing, with one
//!   exception: it removes the ownership of an app that the label of a root no longer names.
//! * A write of an action carries its fence, and is refused if another engine has overtaken that action or if the
//!   object has changed since it was observed.
//!
//! Begin reading with `provider` ([`Kubernetes`]), which wires the parts: `operator_clusters` (clusters with an
//! operator), `pods` (nodes that are pods), `apps`, `templates`, `stored_configs`, `images` and `jobs`. Below them
//! are `watches` (the loop that follows objects), `cluster_cache` (the state that the watches maintain), `observation`
//! (turns that state into the engine's observations; pure) and `writer` (fenced writes).

mod apps;
mod cluster_cache;
mod cluster_identity;
mod connect;
mod containers;
mod content;
mod discovered_cluster;
mod errors;
mod event_cache;
mod fences;
mod images;
mod installed_flavors;
mod jobs;
mod labels;
mod logs;
mod namespaces;
mod observation;
mod operator_clusters;
mod ownership;
mod pod_details;
mod pod_metrics;
mod pods;
mod projection;
mod provider;
#[cfg(test)]
mod sample;
mod stale_watches;
mod stored_configs;
mod templates;
mod tokens;
mod tombstones;
mod untyped_object;
mod watches;
mod writer;

pub use cluster_identity::RememberedIdentity;
pub use connect::{CannotConnect, KubernetesOptions, client};
pub use images::ImageOptions;
pub use kube::Client;
pub use provider::Kubernetes;
pub use tokens::TokenReviews;
