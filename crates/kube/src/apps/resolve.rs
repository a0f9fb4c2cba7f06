//! Which app a name means.

use muster_core::app::{AppIdentity, AppKind, GivenApp};
use muster_core::ids::ClusterId;
use muster_engine::ports::provider::{ProviderError, ResolvedApp};
use serde_json::Value;

use super::{ALL_USES, Apps, KINDS, REPLICA_SET, USES, controller, text};
use crate::follow::{self, api_of};

/// The annotation of a Deployment and of its replica sets with the number of the rollout.
const REVISION: &str = "deployment.kubernetes.io/revision";

impl Apps {
    /// The apps that a name may mean, at most one of each kind.
    pub(super) async fn find(
        &self,
        namespace: &str,
        given: &GivenApp,
    ) -> Result<Vec<ResolvedApp>, ProviderError> {
        let mut found = Vec::new();
        for kind in KINDS.into_iter().filter(|kind| given.kind.is_none_or(|given| given == *kind)) {
            let Some(object) = self.object(kind, namespace, &given.name).await? else { continue };
            let resolved = match kind {
                AppKind::Deployment => self.of_deployment(namespace, &object).await?,
                AppKind::Pod => self.of_pod(namespace, &object).await?,
                kind => Self::of_object(namespace, kind, &object),
            };
            // A pod of an app, or its ReplicaSet, may have the name of the app.
            if !found.iter().any(|known: &ResolvedApp| known.app == resolved.app) {
                found.push(resolved);
            }
        }
        Ok(found)
    }

    fn of_object(namespace: &str, kind: AppKind, object: &Value) -> ResolvedApp {
        let deployment = controller(object).filter(|(owner, ..)| *owner == AppKind::Deployment);
        ResolvedApp {
            app: identity(namespace, kind, object),
            deployment: deployment.map(|(kind, name, uid)| AppIdentity {
                namespace: namespace.to_owned(),
                kind,
                name,
                uid,
            }),
            siblings: Vec::new(),
            cluster: recorded(object),
        }
    }

    /// A Deployment means its current replica set.
    async fn of_deployment(&self, namespace: &str, object: &Value) -> Result<ResolvedApp, ProviderError> {
        let deployment = identity(namespace, AppKind::Deployment, object);
        let mut sets = self.replica_sets(&deployment).await?;
        // The revision of the Deployment itself is written a moment after that of a new replica set.
        let revision = |set: &Value| set["metadata"]["annotations"][REVISION].as_str()?.parse::<u64>().ok();
        let current = (0..sets.len()).max_by_key(|at| revision(&sets[*at]));
        let Some(current) = current.map(|at| sets.remove(at)) else {
            let message = format!("{deployment} has no ReplicaSet yet: try again");
            return Err(ProviderError::transient("NoReplicaSet", message));
        };
        let siblings = sets.iter().map(|set| identity(namespace, AppKind::ReplicaSet, set)).collect();
        Ok(ResolvedApp {
            app: identity(namespace, AppKind::ReplicaSet, &current),
            cluster: recorded(&current).or_else(|| recorded(object)),
            deployment: Some(deployment),
            siblings,
        })
    }

    /// The replica sets of a Deployment.
    async fn replica_sets(&self, deployment: &AppIdentity) -> Result<Vec<Value>, ProviderError> {
        let mut sets = Vec::new();
        let api = api_of(self.client.clone(), &REPLICA_SET, Some(&deployment.namespace));
        follow::list(&api, "pod-template-hash", |set| {
            if controller(&set.body).is_some_and(|(_, _, uid)| uid == deployment.uid) {
                sets.push(set.body);
            }
        })
        .await?;
        Ok(sets)
    }

    /// A pod means its controller, also if that is gone already; one without stands for itself.
    async fn of_pod(&self, namespace: &str, pod: &Value) -> Result<ResolvedApp, ProviderError> {
        let Some((kind, name, uid)) = controller(pod) else {
            return Ok(Self::of_object(namespace, AppKind::Pod, pod));
        };
        let object = self.object(kind, namespace, &name).await?;
        match object.filter(|object| object["metadata"]["uid"] == *uid) {
            Some(object) => {
                let resolved = Self::of_object(namespace, kind, &object);
                Ok(self.with_cluster_of_deployment(resolved).await?)
            }
            None => Ok(ResolvedApp {
                app: AppIdentity { namespace: namespace.to_owned(), kind, name, uid },
                deployment: None,
                siblings: Vec::new(),
                cluster: None,
            }),
        }
    }

    /// A driver of a Deployment whose cluster outlives rollouts finds that cluster.
    async fn with_cluster_of_deployment(&self, resolved: ResolvedApp) -> Result<ResolvedApp, ProviderError> {
        let (None, Some(deployment)) = (&resolved.cluster, &resolved.deployment) else {
            return Ok(resolved);
        };
        let object = self.object(AppKind::Deployment, &deployment.namespace, &deployment.name).await?;
        Ok(ResolvedApp { cluster: object.as_ref().and_then(recorded), ..resolved })
    }
}

fn identity(namespace: &str, kind: AppKind, object: &Value) -> AppIdentity {
    let metadata = &object["metadata"];
    AppIdentity {
        namespace: namespace.to_owned(),
        kind,
        name: text(&metadata["name"]),
        uid: text(&metadata["uid"]),
    }
}

/// The cluster that an app's object names for its drivers, with its id if Muster wrote that.
fn recorded(object: &Value) -> Option<(String, Option<ClusterId>)> {
    let metadata = &object["metadata"];
    let name = metadata["labels"][USES].as_str()?;
    let uses: Vec<Value> = metadata["annotations"][ALL_USES]
        .as_str()
        .and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default();
    let id = uses.iter().find(|used| used["name"] == name).and_then(|used| used["id"].as_str()?.parse().ok());
    Some((name.to_owned(), id))
}
