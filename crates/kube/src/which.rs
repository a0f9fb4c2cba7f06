//! Which Kubernetes this is: found out at the start; while it is away, the one of the last start, until it answers.

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
use crate::refusal;

/// The namespace whose UID tells one Kubernetes from another.
const SYSTEM: &str = "kube-system";

/// How long one that is known may take to answer at the start: others wait for the server.
const AT_MOST: Duration = Duration::from_secs(5);

/// Between two questions whether Kubernetes is reachable again.
const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(200), longest: TimeSpan::from_secs(2) };

/// What is kept of a Kubernetes from one start to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The address of its API server.
    pub server: String,
    /// What tells it from others.
    pub id: String,
}

/// Whether it is certain which Kubernetes this is. Until then nothing of it is believed, and nothing is written to it.
#[derive(Clone)]
pub(crate) struct Certain(watch::Receiver<Result<(), String>>);

impl Certain {
    /// It is.
    pub(crate) fn yes() -> Self {
        Self(watch::channel(Ok(())).1)
    }

    /// Refuses what needs it; the sentence says why it is not.
    pub(crate) fn check(&self) -> Result<(), ProviderError> {
        self.0.borrow().clone().map_err(|why| ProviderError::transient("Unreachable", why))
    }

    /// Does something once it is, unless it is told to stop before.
    pub(crate) async fn then(mut self, what: impl Future<Output = ()>, stop: CancellationToken) {
        // If it is another one, that never comes.
        let certain = async { self.0.wait_for(Result::is_ok).await.is_ok() };
        if stop.run_until_cancelled(certain).await == Some(true) {
            what.await;
        }
    }
}

/// Which one it is, and whether that is certain. One that is away may be the one of the last start.
pub(crate) async fn find_out(
    client: &Client,
    server: String,
    remembered: Option<&Remembered>,
    stop: &CancellationToken,
) -> Result<(Remembered, Certain), CannotConnect> {
    let known = remembered.filter(|known| known.server == server);
    let asked = uid_of_system(client);
    let answer = match known {
        Some(_) => tokio::time::timeout(AT_MOST, asked).await.unwrap_or_else(|_| {
            let late = refusal::late("read namespace kube-system").message;
            Err(CannotConnect::Unreachable(late))
        }),
        None => asked.await,
    };
    match (answer, known) {
        (Ok(id), _) => Ok((Remembered { server, id }, Certain::yes())),
        (Err(CannotConnect::Unreachable(why)), Some(known)) => {
            tracing::warn!(why, "Kubernetes is away: the server starts without it, and waits for it");
            let (tell, certain) = watch::channel(Err(why));
            let wait = wait_for(client.clone(), known.id.clone(), tell);
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(wait).await });
            Ok((known.clone(), Certain(certain)))
        }
        (Err(why), _) => Err(why),
    }
}

async fn wait_for(client: Client, id: String, tell: watch::Sender<Result<(), String>>) {
    for failures in 1_u32.. {
        tokio::time::sleep(BACKOFF.delay(failures, fastrand::f64()).into()).await;
        match uid_of_system(&client).await {
            Ok(found) if found == id => {
                tracing::info!("Kubernetes is back");
                drop(tell.send_replace(Ok(())));
                return;
            }
            Ok(found) => {
                let why = format!(
                    "this Kubernetes ({found}) is not the one of the last start ({id}): start the server anew"
                );
                tracing::error!(why, "Kubernetes is back");
                drop(tell.send_replace(Err(why)));
                return;
            }
            Err(why) => drop(tell.send_replace(Err(why.to_string()))),
        }
    }
}

async fn uid_of_system(client: &Client) -> Result<String, CannotConnect> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = namespaces.get(SYSTEM).await.map_err(|error| {
        let forbidden = refusal::is(&error, 403);
        let words = refusal::of("read namespace kube-system", error).message;
        if forbidden { CannotConnect::Unknown(words) } else { CannotConnect::Unreachable(words) }
    })?;
    system.metadata.uid.ok_or_else(|| CannotConnect::Unknown("namespace kube-system has no UID".to_owned()))
}
