//! Checks of namespaces. Answers are cached, since clusters are created by the hundred in one namespace.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use muster_engine::ports::provider::{NO_NAMESPACE, ProviderError};
use parking_lot::Mutex;

/// The reason of the refusal of a namespace that is not served.
pub(crate) const NOT_SERVED: &str = "NamespaceNotServed";

/// The time for which an answer is cached. If the namespace is deleted meanwhile, the write itself fails.
const CACHED_FOR: Duration = Duration::from_secs(10);

/// The time-out of a check: a request waits for the answer.
const CHECK_DEADLINE: Duration = Duration::from_secs(2);

/// The namespaces that are served, and those that were checked lately.
pub(crate) struct Namespaces {
    client: Client,
    served: Vec<String>,
    checked: Mutex<HashMap<String, Instant>>,
}

impl Namespaces {
    /// Serves these namespaces, or all if the list is empty.
    pub(crate) fn new(client: Client, served: Vec<String>) -> Self {
        Self { client, served, checked: Mutex::default() }
    }

    /// Refuses a namespace that is not served.
    pub(crate) fn check_served(&self, namespace: &str) -> Result<(), ProviderError> {
        if self.served.is_empty() || self.served.iter().any(|known| known == namespace) {
            return Ok(());
        }
        let message = format!(
            "namespace '{namespace}' is not served by this server: choose {}, or add it to its setting `namespace`",
            self.served.join(" or ")
        );
        Err(ProviderError::permanent(NOT_SERVED, message))
    }

    /// Refuses a namespace that is not served, or that certainly does not exist.
    pub(crate) async fn check(&self, namespace: &str) -> Result<(), ProviderError> {
        self.check_served(namespace)?;
        if self.was_checked_lately(namespace) {
            return Ok(());
        }
        let all: Api<Namespace> = Api::all(self.client.clone());
        match tokio::time::timeout(CHECK_DEADLINE, all.get_metadata_opt(namespace)).await {
            Ok(Ok(None)) => {
                let message = format!(
                    "namespace '{namespace}' does not exist on this Kubernetes: create it, or choose another"
                );
                Err(ProviderError::permanent(NO_NAMESPACE, message))
            }
            // Without an answer, or the right to read namespaces, the later write fails if the namespace is missing.
            _ => {
                self.record_check(namespace);
                Ok(())
            }
        }
    }

    fn was_checked_lately(&self, namespace: &str) -> bool {
        let checked = self.checked.lock();
        checked.get(namespace).is_some_and(|at| at.elapsed() < CACHED_FOR)
    }

    fn record_check(&self, namespace: &str) {
        let mut checked = self.checked.lock();
        checked.retain(|_, at| at.elapsed() < CACHED_FOR);
        checked.insert(namespace.to_owned(), Instant::now());
    }
}
