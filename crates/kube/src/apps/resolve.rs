//! The apps that a name refers to.

use muster_core::app::{AppIdentity, AppKind, GivenApp};
use muster_core::ids::ClusterId;
use muster_engine::ports::provider::{ProviderError, ResolvedApp};
use serde_json::Value;

use super::{ALL_USES, Apps, KINDS, REPLICA_SET, USES, controller, text};
use crate::watches::{self, untyped_api};

/// The annotation of a Deployment and of its replica sets with the number of the rollout.
const REVISION: &str = "deployment.kubernetes.io/revision";

impl Apps {
    /// Finds the apps that a name may refer to, at most one of each kind.
    pub(super) async fn find_apps(
        &self,
        namespace: &str,
        given: &GivenApp,
    ) -> Result<Vec<ResolvedApp>, ProviderError> {
        let mut found = Vec::new();
        for kind in KINDS.into_iter().filter(|kind| given.kind.is_none_or(|given| given == *kind)) {
            let Some(object) = self.read_object(kind, namespace, &given.name).await? else { continue };
            let resolved = match kind {
                AppKind::Deployment => self.resolve_deployment(namespace, &object).await?,
                AppKind::Pod => self.resolve_pod(namespace, &object).await?,
                kind => Self::resolve_object(namespace, kind, &object),
            };
            // A pod of an app, or its ReplicaSet, may have the same name as the app.
            if !found.iter().any(|known: &ResolvedApp| known.app == resolved.app) {
                found.push(resolved);
            }
        }
        Ok(found)
    }

    fn resolve_object(namespace: &str, kind: AppKind, object: &Value) -> ResolvedApp {
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
            cluster: recorded_cluster(object),
        }
    }

    /// Resolves a Deployment to its current replica set, which is the app.
    async fn resolve_deployment(
        &self,
        namespace: &str,
        object: &Value,
    ) -> Result<ResolvedApp, ProviderError> {
        let deployment = identity(namespace, AppKind::Deployment, object);
        let mut sets = self.list_replica_sets(&deployment).await?;
        // The revision of the Deployment itself is not used: Kubernetes writes it later than that of a new replica set.
        let revision = |set: &Value| set["metadata"]["annotations"][REVISION].as_str()?.parse::<u64>().ok();
        let current = (0..sets.len()).max_by_key(|at| revision(&sets[*at]));
        let Some(current) = current.map(|at| sets.remove(at)) else {
            let message = format!("{deployment} has no ReplicaSet yet: try again");
            return Err(ProviderError::transient("NoReplicaSet", message));
        };
        let siblings = sets.iter().map(|set| identity(namespace, AppKind::ReplicaSet, set)).collect();
        Ok(ResolvedApp {
            app: identity(namespace, AppKind::ReplicaSet, &current),
            cluster: recorded_cluster(&current).or_else(|| recorded_cluster(object)),
            deployment: Some(deployment),
            siblings,
        })
    }

    async fn list_replica_sets(&self, deployment: &AppIdentity) -> Result<Vec<Value>, ProviderError> {
        let mut sets = Vec::new();
        let api = untyped_api(self.client.clone(), &REPLICA_SET, Some(&deployment.namespace));
        watches::list_all(&api, "pod-template-hash", |set| {
            if controller(&set.body).is_some_and(|(_, _, uid)| uid == deployment.uid) {
                sets.push(set.body);
            }
        })
        .await?;
        Ok(sets)
    }

    /// Resolves a pod to its controller, even if the controller is already deleted. A pod without one is an app itself.
    async fn resolve_pod(&self, namespace: &str, pod: &Value) -> Result<ResolvedApp, ProviderError> {
        let Some((kind, name, uid)) = controller(pod) else {
            return Ok(Self::resolve_object(namespace, AppKind::Pod, pod));
        };
        let object = self.read_object(kind, namespace, &name).await?;
        match object.filter(|object| object["metadata"]["uid"] == *uid) {
            Some(object) => {
                let resolved = Self::resolve_object(namespace, kind, &object);
                Ok(self.add_cluster_of_deployment(resolved).await?)
            }
            None => Ok(ResolvedApp {
                app: AppIdentity { namespace: namespace.to_owned(), kind, name, uid },
                deployment: None,
                siblings: Vec::new(),
                cluster: None,
            }),
        }
    }

    /// Adds the cluster of the Deployment, which outlives rollouts, where the replica set names none.
    async fn add_cluster_of_deployment(&self, resolved: ResolvedApp) -> Result<ResolvedApp, ProviderError> {
        let (None, Some(deployment)) = (&resolved.cluster, &resolved.deployment) else {
            return Ok(resolved);
        };
        let object = self.read_object(AppKind::Deployment, &deployment.namespace, &deployment.name).await?;
        Ok(ResolvedApp { cluster: object.as_ref().and_then(recorded_cluster), ..resolved })
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

/// Returns the cluster that the object of an app names for its drivers, with its id if Muster wrote it.
pub(super) fn recorded_cluster(object: &Value) -> Option<(String, Option<ClusterId>)> {
    let metadata = &object["metadata"];
    let name = metadata["labels"][USES].as_str().filter(|name| !name.is_empty())?;
    let uses: Vec<Value> = metadata["annotations"][ALL_USES]
        .as_str()
        .and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default();
    let id = uses.iter().find(|used| used["name"] == name).and_then(|used| used["id"].as_str()?.parse().ok());
    Some((name.to_owned(), id))
}
