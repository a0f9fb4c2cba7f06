//! Which namespaces there are, asked as rarely as can be: clusters are made by the hundred in one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use muster_engine::ports::provider::{NO_NAMESPACE, ProviderError};
use parking_lot::Mutex;

/// The reason of refusals of a namespace that is not served.
pub(crate) const NOT_SERVED: &str = "NamespaceNotServed";

/// How long an answer holds. A namespace that goes within it is missed by the write itself.
const HOLDS: Duration = Duration::from_secs(10);

/// How long a request waits for the answer.
const AT_MOST: Duration = Duration::from_secs(2);

/// The namespaces that are served, and which of them were there lately.
pub(crate) struct Namespaces {
    client: Client,
    served: Vec<String>,
    asked: Mutex<HashMap<String, Instant>>,
}

impl Namespaces {
    /// Those that are served; all if none is named.
    pub(crate) fn new(client: Client, served: Vec<String>) -> Self {
        Self { client, served, asked: Mutex::default() }
    }

    /// Refuses one that is not served, where only some are.
    pub(crate) fn check_served(&self, namespace: &str) -> Result<(), ProviderError> {
        if self.served.is_empty() || self.served.iter().any(|known| known == namespace) {
            return Ok(());
        }
        let message = format!(
            "namespace '{namespace}' is not served here: choose {}, or add it to `namespace` of the server",
            self.served.join(" or ")
        );
        Err(ProviderError::permanent(NOT_SERVED, message))
    }

    /// Refuses one that is not served, or certainly not there.
    pub(crate) async fn check(&self, namespace: &str) -> Result<(), ProviderError> {
        self.check_served(namespace)?;
        if self.was_asked(namespace) {
            return Ok(());
        }
        let all: Api<Namespace> = Api::all(self.client.clone());
        match tokio::time::timeout(AT_MOST, all.get_metadata_opt(namespace)).await {
            Ok(Ok(None)) => {
                let message = format!(
                    "there is no namespace '{namespace}' on this Kubernetes: create it, or choose another"
                );
                Err(ProviderError::permanent(NO_NAMESPACE, message))
            }
            // Whoever may not ask, or is not answered, hears of it by the write.
            _ => {
                self.note(namespace);
                Ok(())
            }
        }
    }

    fn was_asked(&self, namespace: &str) -> bool {
        let asked = self.asked.lock();
        asked.get(namespace).is_some_and(|at| at.elapsed() < HOLDS)
    }

    fn note(&self, namespace: &str) {
        let mut asked = self.asked.lock();
        asked.retain(|_, at| at.elapsed() < HOLDS);
        asked.insert(namespace.to_owned(), Instant::now());
    }
}
