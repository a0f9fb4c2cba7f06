//! Whether an app wants its cluster.

use muster_core::app::{AppIdentity, AppKind};
use muster_core::ephemeral::{AppStanding, JobProgress};
use muster_engine::ports::provider::{AppObservation, ProviderError};
use muster_frameworks::kubernetes::POD;
use serde_json::Value;

use super::{Apps, REPLICA_SET, controller, is_leaving};
use crate::follow::{self, api_of};

/// The finalizer of an object whose dependents stay when it is deleted.
const ORPHAN: &str = "orphan";

/// The label of replica sets and pods that a Deployment made.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// What an object alone says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Gone(&'static str),
    Wanted(u32),
    /// It wants nothing now, for this reason.
    Nothing(&'static str),
    Job(JobProgress),
}

impl Apps {
    pub(super) async fn look_at(&self, app: &AppIdentity) -> Result<AppObservation, ProviderError> {
        let object = self.object(app.kind, &app.namespace, &app.name).await?;
        let said = match &object {
            None if app.kind == AppKind::Deployment && self.has_orphans(app).await? => Said::Wanted(1),
            None => Said::Gone("it does not exist"),
            Some(object) if object["metadata"]["uid"] != *app.uid => {
                Said::Gone("another one has its name now")
            }
            Some(object) => match (said(app.kind, object), controller(object)) {
                (Said::Wanted(replicas), Some((AppKind::Deployment, name, uid))) => {
                    self.with_owner(&app.namespace, &name, &uid, replicas).await?
                }
                (said, _) => said,
            },
        };
        let (standing, reason) = match said {
            Said::Job(progress) => (AppStanding::Job(progress), ""),
            Said::Wanted(replicas) => (AppStanding::Wanted(Some(replicas)), ""),
            Said::Nothing(reason) => (AppStanding::Wanted(Some(0)), reason),
            Said::Gone(reason) => (AppStanding::Gone, reason),
        };
        let has_pods = !reason.is_empty() && self.has_pods(app).await?;
        Ok(AppObservation { standing, reason: reason.to_owned(), has_pods })
    }

    /// A replica set wants no more than its Deployment, which is read at the same time: it changes first.
    async fn with_owner(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        replicas: u32,
    ) -> Result<Said, ProviderError> {
        let deployment = self.object(AppKind::Deployment, namespace, name).await?;
        Ok(match deployment.filter(|object| object["metadata"]["uid"] == *uid) {
            None => Said::Gone("its Deployment does not exist"),
            Some(object) => match said(AppKind::Deployment, &object) {
                Said::Gone(_) => Said::Gone("its Deployment is being deleted"),
                Said::Wanted(wanted) => Said::Wanted(wanted.min(replicas)),
                _ => Said::Nothing("its Deployment was scaled to 0"),
            },
        })
    }

    /// Whether a Deployment that is gone has left a replica set that runs: it was deleted without what it had made.
    async fn has_orphans(&self, deployment: &AppIdentity) -> Result<bool, ProviderError> {
        let mut found = false;
        let api = api_of(self.client.clone(), &REPLICA_SET, Some(&deployment.namespace));
        follow::list(&api, TEMPLATE_HASH, |set| {
            let named = set.body["metadata"]["name"].as_str() == Some(&name_of_set(deployment, &set.body));
            found |=
                named && controller(&set.body).is_none() && !is_leaving(&set.body) && replicas(&set.body) > 0;
        })
        .await?;
        Ok(found)
    }

    /// Whether pods of an app have not ended.
    async fn has_pods(&self, app: &AppIdentity) -> Result<bool, ProviderError> {
        let mut found = false;
        let api = api_of(self.client.clone(), &POD, Some(&app.namespace));
        follow::list(&api, "", |pod| {
            let has_ended = ["Succeeded", "Failed"].iter().any(|phase| pod.body["status"]["phase"] == *phase);
            found |= !has_ended && belongs(&pod.body, app);
        })
        .await?;
        Ok(found)
    }
}

/// Whether a pod belongs to an app.
fn belongs(pod: &Value, app: &AppIdentity) -> bool {
    match controller(pod) {
        None if app.kind == AppKind::Pod => pod["metadata"]["uid"] == *app.uid,
        None => was_made_by(pod, app),
        // The ReplicaSet in between may be gone: its name tells whose it was.
        Some((AppKind::ReplicaSet, name, _)) if app.kind == AppKind::Deployment => {
            name == name_of_set(app, pod)
        }
        Some((_, _, uid)) => uid == app.uid,
    }
}

/// Whether a pod without an owner was made by an app. Pods that outlive what made them, because it was deleted without
/// them, keep the name that it gave them.
fn was_made_by(pod: &Value, app: &AppIdentity) -> bool {
    let maker = if app.kind == AppKind::Deployment { name_of_set(app, pod) } else { app.name.clone() };
    let numbered = || {
        let name = pod["metadata"]["name"].as_str()?;
        let number = name.strip_prefix(&maker)?.strip_prefix('-')?;
        Some(!number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
    };
    match app.kind {
        AppKind::StatefulSet => numbered().unwrap_or(false),
        _ => pod["metadata"]["generateName"] == format!("{maker}-"),
    }
}

/// The name of the replica set of a Deployment that an object belongs to, or is.
fn name_of_set(deployment: &AppIdentity, object: &Value) -> String {
    let hash = object["metadata"]["labels"][TEMPLATE_HASH].as_str().unwrap_or_default();
    format!("{}-{hash}", deployment.name)
}

fn replicas(object: &Value) -> u32 {
    number(&object["spec"]["replicas"]).unwrap_or(1)
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn said(kind: AppKind, object: &Value) -> Said {
    let finalizers = object["metadata"]["finalizers"].as_array();
    let orphans = finalizers.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == ORPHAN));
    // A Deployment that leaves its ReplicaSets behind goes on in them.
    if is_leaving(object) && !(kind == AppKind::Deployment && orphans) {
        return Said::Gone("it is being deleted");
    }
    match kind {
        AppKind::Job => said_of_job(object),
        AppKind::Pod => match object["status"]["phase"].as_str() {
            Some("Succeeded" | "Failed") => Said::Gone("it has ended"),
            _ => Said::Wanted(1),
        },
        _ => match replicas(object) {
            0 => Said::Nothing("it was scaled to 0"),
            replicas => Said::Wanted(replicas),
        },
    }
}

fn said_of_job(job: &Value) -> Said {
    let has = |kind: &str| {
        let conditions = job["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    if has("Complete") || has("SuccessCriteriaMet") {
        return Said::Nothing("it is complete");
    }
    if has("Failed") || has("FailureTarget") {
        return Said::Nothing("it has failed");
    }
    if job["spec"]["suspend"] == true {
        return Said::Nothing("it is suspended");
    }
    let completions = number(&job["spec"]["completions"]);
    let succeeded = number(&job["status"]["succeeded"]).unwrap_or(0);
    Said::Job(JobProgress { completions, succeeded })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::set(AppKind::ReplicaSet, json!({"spec": {"replicas": 2}}), Said::Wanted(2))]
    #[case::zero(AppKind::StatefulSet, json!({"spec": {"replicas": 0}}), Said::Nothing("it was scaled to 0"))]
    #[case::absent_is_one(AppKind::Deployment, json!({"spec": {}}), Said::Wanted(1))]
    #[case::leaving(AppKind::ReplicaSet, json!({"metadata": {"deletionTimestamp": "t"}, "spec": {"replicas": 1}}), Said::Gone("it is being deleted"))]
    #[case::orphaning(
        AppKind::Deployment,
        json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["orphan"]}, "spec": {"replicas": 1}}),
        Said::Wanted(1)
    )]
    #[case::pod(AppKind::Pod, json!({"status": {"phase": "Running"}}), Said::Wanted(1))]
    #[case::ended_pod(AppKind::Pod, json!({"status": {"phase": "Succeeded"}}), Said::Gone("it has ended"))]
    #[case::job(
        AppKind::Job,
        json!({"spec": {"completions": 3}, "status": {"succeeded": 1}}),
        Said::Job(JobProgress { completions: Some(3), succeeded: 1 })
    )]
    #[case::complete(
        AppKind::Job,
        json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
        Said::Nothing("it is complete")
    )]
    #[case::failed(
        AppKind::Job,
        json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}),
        Said::Nothing("it has failed")
    )]
    #[case::suspended(AppKind::Job, json!({"spec": {"suspend": true}}), Said::Nothing("it is suspended"))]
    fn an_object_says_what_it_wants(#[case] kind: AppKind, #[case] object: Value, #[case] expected: Said) {
        assert_eq!(said(kind, &object), expected);
    }

    #[test]
    fn pods_belong_to_the_app_that_controls_them() {
        let app = |kind, name: &str, uid: &str| AppIdentity {
            namespace: "n".to_owned(),
            kind,
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        let owner = json!([{"controller": true, "kind": "ReplicaSet", "name": "bob-7f", "uid": "rs"}]);
        let pod =
            json!({"metadata": {"labels": {TEMPLATE_HASH: "7f"}, "uid": "p", "ownerReferences": owner}});
        assert!(belongs(&pod, &app(AppKind::ReplicaSet, "bob-7f", "rs")));
        assert!(!belongs(&pod, &app(AppKind::ReplicaSet, "bob-7f", "another")));
        assert!(belongs(&pod, &app(AppKind::Deployment, "bob", "d")));
        assert!(!belongs(&pod, &app(AppKind::Deployment, "bo", "d")));
        assert!(!belongs(&pod, &app(AppKind::Pod, "p", "p")));
    }

    #[rstest]
    #[case::of_a_set(json!({"generateName": "bob-7f-"}), AppKind::ReplicaSet, "bob-7f", true)]
    #[case::of_another_set(json!({"generateName": "bob-7f-x-"}), AppKind::ReplicaSet, "bob-7f", false)]
    #[case::of_a_deployment(json!({"generateName": "bob-7f-", "labels": {TEMPLATE_HASH: "7f"}}), AppKind::Deployment, "bob", true)]
    #[case::of_a_job(json!({"generateName": "bob-"}), AppKind::Job, "bob", true)]
    #[case::numbered(json!({"name": "bob-0"}), AppKind::StatefulSet, "bob", true)]
    #[case::named_alike(json!({"name": "bob-zero"}), AppKind::StatefulSet, "bob", false)]
    #[case::without_a_number(json!({"name": "bob-"}), AppKind::StatefulSet, "bob", false)]
    #[case::made_by_hand(json!({"name": "bob-1"}), AppKind::ReplicaSet, "bob", false)]
    fn pods_that_lost_their_owner_belong_to_what_made_them(
        #[case] metadata: Value,
        #[case] kind: AppKind,
        #[case] name: &str,
        #[case] expected: bool,
    ) {
        let app = AppIdentity { namespace: "n".to_owned(), kind, name: name.to_owned(), uid: "u".to_owned() };
        assert_eq!(belongs(&json!({"metadata": metadata}), &app), expected);
    }
}
