//! The identity of a Kubernetes, which is the UID of its namespace kube-system.
//!
//! It is read at the start. While the API server is unreachable, the server assumes the identity of its last start, and
//! believes and writes nothing until the API server has confirmed it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use muster_core::backoff::Backoff;
use muster_core::time::TimeSpan;
use muster_engine::ports::provider::ProviderError;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::connect::CannotConnect;
use crate::errors;
use crate::writer::REQUEST_DEADLINE;

/// The namespace whose UID distinguishes one Kubernetes from another.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// The time that the start waits for an API server whose identity is remembered: meanwhile the server serves no other
/// provider either.
const START_DEADLINE: Duration = Duration::from_secs(5);

/// The pause between two attempts to reach the API server.
const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(200), longest: TimeSpan::from_secs(2) };

/// The identity of a Kubernetes, stored for the next start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedIdentity {
    /// The address of its API server.
    pub server: String,
    /// The UID of its namespace kube-system.
    pub id: String,
}

/// Closed until the identity of the Kubernetes is confirmed. While it is closed nothing is observed or written.
#[derive(Clone)]
pub(crate) struct IdentityGate(watch::Receiver<Result<(), String>>);

impl IdentityGate {
    /// Returns a gate of a confirmed identity.
    pub(crate) fn open() -> Self {
        Self(watch::channel(Ok(())).1)
    }

    /// Returns a gate of an identity that is never confirmed, for this reason.
    #[cfg(test)]
    pub(crate) fn closed(why: &str) -> Self {
        Self(watch::channel(Err(why.to_owned())).1)
    }

    /// Returns an error with the reason while the identity is not confirmed.
    pub(crate) fn check(&self) -> Result<(), ProviderError> {
        self.0.borrow().clone().map_err(|why| ProviderError::transient("Unreachable", why))
    }

    /// Runs a task once the identity is confirmed, unless `stop` is cancelled before.
    pub(crate) async fn run_once_confirmed(
        mut self,
        task: impl Future<Output = ()>,
        stop: CancellationToken,
    ) {
        // The sender is dropped without a confirmation if the API server turns out to be that of another Kubernetes.
        let confirmed = async { self.0.wait_for(Result::is_ok).await.is_ok() };
        if stop.run_until_cancelled(confirmed).await == Some(true) {
            task.await;
        }
    }
}

/// Reads the identity. If the API server is unreachable and was known before, its remembered identity is assumed,
/// with a gate that opens when the API server confirms it.
pub(crate) async fn identify(
    client: &Client,
    server: String,
    remembered: Option<&RememberedIdentity>,
    stop: &CancellationToken,
) -> Result<(RememberedIdentity, IdentityGate), CannotConnect> {
    let known = remembered.filter(|known| known.server == server);
    let deadline = if known.is_some() { START_DEADLINE } else { REQUEST_DEADLINE };
    match (read_identity(client, deadline).await, known) {
        (Ok(id), _) => Ok((RememberedIdentity { server, id }, IdentityGate::open())),
        (Err(CannotConnect::Unreachable(why)), Some(known)) => {
            tracing::warn!(why, "Kubernetes API unreachable: the server starts without it and retries");
            let (sender, gate) = watch::channel(Err(why));
            let confirmation = wait_for_identity(client.clone(), known.id.clone(), sender);
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(confirmation).await });
            Ok((known.clone(), IdentityGate(gate)))
        }
        (Err(why), _) => Err(why),
    }
}

async fn wait_for_identity(client: Client, id: String, gate: watch::Sender<Result<(), String>>) {
    for failures in 1_u32.. {
        tokio::time::sleep(BACKOFF.delay(failures, fastrand::f64()).into()).await;
        match read_identity(&client, REQUEST_DEADLINE).await {
            Ok(found) if found == id => {
                tracing::info!("Kubernetes API reachable");
                drop(gate.send_replace(Ok(())));
                return;
            }
            Ok(found) => {
                let why = format!(
                    "this Kubernetes ({found}) is not the one of the last start ({id}): restart the server"
                );
                tracing::error!(why, "Kubernetes API reachable, with another identity");
                drop(gate.send_replace(Err(why)));
                return;
            }
            Err(why) => drop(gate.send_replace(Err(why.to_string()))),
        }
    }
}

/// Reads the identity. The deadline bounds the time on a connection that hangs: the client has no read time-out.
async fn read_identity(client: &Client, deadline: Duration) -> Result<String, CannotConnect> {
    const DOING: &str = "read namespace kube-system";
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let answer = tokio::time::timeout(deadline, namespaces.get(SYSTEM_NAMESPACE))
        .await
        .map_err(|_| CannotConnect::Unreachable(errors::timeout_error(DOING).message))?;
    let system = answer.map_err(|error| {
        let forbidden = errors::has_status(&error, 403);
        let message = errors::request_error(DOING, error).message;
        if forbidden { CannotConnect::Unknown(message) } else { CannotConnect::Unreachable(message) }
    })?;
    system.metadata.uid.ok_or_else(|| CannotConnect::Unknown("namespace kube-system has no UID".to_owned()))
}

#[cfg(test)]
mod tests {
    use muster_testkit::outside::{Outside, Reply};

    use super::*;

    #[tokio::test]
    async fn an_api_server_that_does_not_answer_is_unreachable_at_the_deadline() {
        let silent = |_: &_| Reply::Late(Duration::from_hours(1), 200, String::new());
        let api_server = Outside::answering(silent).await;
        let client = crate::sample::client(&api_server);
        let read = tokio::time::timeout(Duration::from_secs(30), read_identity(&client, Duration::ZERO));
        let read = read.await.expect("it ends at the deadline");
        assert!(matches!(read, Err(CannotConnect::Unreachable(_))), "{read:?}");
    }
}
