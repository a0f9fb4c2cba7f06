//! Observations of apps: how many replicas an app wants, or that it has ended.

use muster_core::app::{AppIdentity, AppKind};
use muster_core::ephemeral::{AppStanding, JobProgress};
use muster_engine::ports::provider::{AppObservation, ProviderError};
use muster_frameworks::kubernetes::POD;
use serde_json::Value;

use super::{Apps, REPLICA_SET, controller, is_leaving};
use crate::projection::parse_timestamp;
use crate::watches::{self, untyped_api};

/// The finalizer of an object whose dependents stay when it is deleted.
const ORPHAN: &str = "orphan";

/// The label of replica sets and pods that a Deployment created.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The state of an app as its own object shows it, without its Deployment or pods.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AppState {
    Gone(&'static str),
    Wanted(u32),
    /// The app exists, and wants no replicas now for this reason.
    Unwanted(&'static str),
    Job(JobProgress),
}

impl Apps {
    pub(super) async fn observe_app(&self, app: &AppIdentity) -> Result<AppObservation, ProviderError> {
        let object = self.read_object(app.kind, &app.namespace, &app.name).await?;
        let state = match &object {
            None if app.kind == AppKind::Deployment && self.has_orphans(app).await? => AppState::Wanted(1),
            None => AppState::Gone("it does not exist"),
            Some(object) if object["metadata"]["uid"] != *app.uid => {
                AppState::Gone("another one has its name now")
            }
            Some(object) => match (app_state(app.kind, object), controller(object)) {
                (AppState::Wanted(replicas), Some((AppKind::Deployment, name, uid))) => {
                    self.limit_by_deployment(&app.namespace, &name, &uid, replicas).await?
                }
                (state, _) => state,
            },
        };
        let (standing, reason) = match state {
            AppState::Job(progress) => (AppStanding::Job(progress), ""),
            AppState::Wanted(replicas) => (AppStanding::Wanted(Some(replicas)), ""),
            AppState::Unwanted(reason) => (AppStanding::Wanted(Some(0)), reason),
            AppState::Gone(reason) => (AppStanding::Gone, reason),
        };
        let successor = object.as_ref().filter(|object| object["metadata"]["uid"] != *app.uid);
        let has_pods = !reason.is_empty() && self.has_pods(app, successor).await?;
        Ok(AppObservation { standing, reason: reason.to_owned(), has_pods })
    }

    /// Returns the state of a replica set, which wants no more replicas than its Deployment: the Deployment changes
    /// first.
    async fn limit_by_deployment(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        replicas: u32,
    ) -> Result<AppState, ProviderError> {
        let deployment = self.read_object(AppKind::Deployment, namespace, name).await?;
        Ok(match deployment.filter(|object| object["metadata"]["uid"] == *uid) {
            None => AppState::Gone("its Deployment does not exist"),
            Some(object) => match app_state(AppKind::Deployment, &object) {
                AppState::Gone(_) => AppState::Gone("its Deployment is being deleted"),
                AppState::Wanted(wanted) => AppState::Wanted(wanted.min(replicas)),
                _ => AppState::Unwanted("its Deployment was scaled to 0"),
            },
        })
    }

    /// Returns true if a Deployment was deleted without its dependents, so that a replica set of it still runs.
    async fn has_orphans(&self, deployment: &AppIdentity) -> Result<bool, ProviderError> {
        let mut found = false;
        let api = untyped_api(self.client.clone(), &REPLICA_SET, Some(&deployment.namespace));
        watches::list_all(&api, TEMPLATE_HASH, |set| {
            let named =
                set.body["metadata"]["name"].as_str() == Some(&replica_set_name(deployment, &set.body));
            found |=
                named && controller(&set.body).is_none() && !is_leaving(&set.body) && replicas(&set.body) > 0;
        })
        .await?;
        Ok(found)
    }

    /// Returns true if an app has pods that have not ended. `successor` is another object that has the app's name now.
    async fn has_pods(&self, app: &AppIdentity, successor: Option<&Value>) -> Result<bool, ProviderError> {
        Ok(self.count_pods(app, successor).await? > 0)
    }

    /// Returns the number of an app's pods that have not ended.
    pub(super) async fn count_pods(
        &self,
        app: &AppIdentity,
        successor: Option<&Value>,
    ) -> Result<u32, ProviderError> {
        let mut count = 0;
        let api = untyped_api(self.client.clone(), &POD, Some(&app.namespace));
        watches::list_all(&api, "", |pod| {
            let has_ended = ["Succeeded", "Failed"].iter().any(|phase| pod.body["status"]["phase"] == *phase);
            count += u32::from(!has_ended && belongs(&pod.body, app, successor));
        })
        .await?;
        Ok(count)
    }
}

/// Returns true if a pod belongs to an app.
fn belongs(pod: &Value, app: &AppIdentity, successor: Option<&Value>) -> bool {
    match controller(pod) {
        None if app.kind == AppKind::Pod => pod["metadata"]["uid"] == *app.uid,
        None => was_created_by(pod, app),
        // The ReplicaSet in between may be gone, but its name begins with that of the Deployment.
        Some((AppKind::ReplicaSet, name, _)) if app.kind == AppKind::Deployment => {
            name == replica_set_name(app, pod) && is_older(pod, successor)
        }
        Some((_, _, uid)) if uid == app.uid => true,
        Some((kind, name, _)) => kind == app.kind && name == app.name && is_older(pod, successor),
    }
}

/// Returns true if a pod is older than the object that has its app's name now, which then has adopted the pod: the app
/// was deleted without its pods. Times have whole seconds, and an object has its first pods in the second of its own
/// creation, so that a pod of the same second is the successor's. Without a known successor the pod is the app's: the
/// successor was created after the app was read.
fn is_older(pod: &Value, successor: Option<&Value>) -> bool {
    let Some(successor) = successor else { return true };
    let created = |object: &Value| parse_timestamp(object["metadata"]["creationTimestamp"].as_str()?);
    matches!((created(pod), created(successor)), (Some(pod), Some(successor)) if pod < successor)
}

/// Returns true if a pod without an owner was created by an app: it keeps its generated name if the app is deleted
/// without its dependents.
fn was_created_by(pod: &Value, app: &AppIdentity) -> bool {
    let creator = if app.kind == AppKind::Deployment { replica_set_name(app, pod) } else { app.name.clone() };
    let numbered = || {
        let name = pod["metadata"]["name"].as_str()?;
        let number = name.strip_prefix(&creator)?.strip_prefix('-')?;
        Some(!number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
    };
    match app.kind {
        AppKind::StatefulSet => numbered().unwrap_or(false),
        _ => pod["metadata"]["generateName"] == format!("{creator}-"),
    }
}

/// Returns the name of the replica set of a Deployment that an object belongs to, or is.
fn replica_set_name(deployment: &AppIdentity, object: &Value) -> String {
    let hash = object["metadata"]["labels"][TEMPLATE_HASH].as_str().unwrap_or_default();
    format!("{}-{hash}", deployment.name)
}

fn replicas(object: &Value) -> u32 {
    number(&object["spec"]["replicas"]).unwrap_or(1)
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn app_state(kind: AppKind, object: &Value) -> AppState {
    let finalizers = object["metadata"]["finalizers"].as_array();
    let orphans = finalizers.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == ORPHAN));
    // A Deployment that is deleted without its ReplicaSets still wants their replicas.
    if is_leaving(object) && !(kind == AppKind::Deployment && orphans) {
        return AppState::Gone("it is being deleted");
    }
    match kind {
        AppKind::Job => job_state(object),
        AppKind::Pod => match object["status"]["phase"].as_str() {
            Some("Succeeded" | "Failed") => AppState::Gone("it has ended"),
            _ => AppState::Wanted(1),
        },
        _ => match replicas(object) {
            0 => AppState::Unwanted("it was scaled to 0"),
            replicas => AppState::Wanted(replicas),
        },
    }
}

fn job_state(job: &Value) -> AppState {
    let has = |kind: &str| {
        let conditions = job["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    if has("Complete") || has("SuccessCriteriaMet") {
        return AppState::Unwanted("it is complete");
    }
    if has("Failed") || has("FailureTarget") {
        return AppState::Unwanted("it has failed");
    }
    if job["spec"]["suspend"] == true {
        return AppState::Unwanted("it is suspended");
    }
    let completions = number(&job["spec"]["completions"]);
    let succeeded = number(&job["status"]["succeeded"]).unwrap_or(0);
    let active = number(&job["status"]["active"]).unwrap_or(0);
    AppState::Job(JobProgress { completions, succeeded, active })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::set(AppKind::ReplicaSet, json!({"spec": {"replicas": 2}}), AppState::Wanted(2))]
    #[case::zero(AppKind::StatefulSet, json!({"spec": {"replicas": 0}}), AppState::Unwanted("it was scaled to 0"))]
    #[case::absent_is_one(AppKind::Deployment, json!({"spec": {}}), AppState::Wanted(1))]
    #[case::leaving(AppKind::ReplicaSet, json!({"metadata": {"deletionTimestamp": "t"}, "spec": {"replicas": 1}}), AppState::Gone("it is being deleted"))]
    #[case::orphaning(
        AppKind::Deployment,
        json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["orphan"]}, "spec": {"replicas": 1}}),
        AppState::Wanted(1)
    )]
    #[case::pod(AppKind::Pod, json!({"status": {"phase": "Running"}}), AppState::Wanted(1))]
    #[case::ended_pod(AppKind::Pod, json!({"status": {"phase": "Succeeded"}}), AppState::Gone("it has ended"))]
    #[case::job(
        AppKind::Job,
        json!({"spec": {"completions": 3}, "status": {"succeeded": 1, "active": 2}}),
        AppState::Job(JobProgress { completions: Some(3), succeeded: 1, active: 2 })
    )]
    #[case::complete(
        AppKind::Job,
        json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
        AppState::Unwanted("it is complete")
    )]
    #[case::failed(
        AppKind::Job,
        json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}),
        AppState::Unwanted("it has failed")
    )]
    #[case::suspended(AppKind::Job, json!({"spec": {"suspend": true}}), AppState::Unwanted("it is suspended"))]
    fn an_object_determines_what_its_app_wants(
        #[case] kind: AppKind,
        #[case] object: Value,
        #[case] expected: AppState,
    ) {
        assert_eq!(app_state(kind, &object), expected);
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
        assert!(belongs(&pod, &app(AppKind::ReplicaSet, "bob-7f", "rs"), None));
        let another = json!({"metadata": {"uid": "another"}});
        assert!(!belongs(&pod, &app(AppKind::ReplicaSet, "bob-7f", "another"), Some(&another)));
        assert!(belongs(&pod, &app(AppKind::Deployment, "bob", "d"), None));
        assert!(!belongs(&pod, &app(AppKind::Deployment, "bo", "d"), None));
        assert!(!belongs(&pod, &app(AppKind::Pod, "p", "p"), None));
    }

    #[rstest]
    #[case::stateful_set(AppKind::StatefulSet, "bob", "StatefulSet", "bob")]
    #[case::replica_set(AppKind::ReplicaSet, "bob-7f", "ReplicaSet", "bob-7f")]
    #[case::job(AppKind::Job, "bob", "Job", "bob")]
    #[case::deployment(AppKind::Deployment, "bob", "ReplicaSet", "bob-7f")]
    fn adopted_pods_belong_to_the_app_before_and_new_ones_to_its_successor(
        #[case] kind: AppKind,
        #[case] name: &str,
        #[case] owner_kind: &str,
        #[case] owner: &str,
    ) {
        let app =
            AppIdentity { namespace: "n".to_owned(), kind, name: name.to_owned(), uid: "old".to_owned() };
        let pod = |created: &str, owner: &str| {
            let owner = json!([{"controller": true, "kind": owner_kind, "name": owner, "uid": "new"}]);
            json!({"metadata": {
                "creationTimestamp": created, "labels": {TEMPLATE_HASH: "7f"}, "ownerReferences": owner,
            }})
        };
        let successor = json!({"metadata": {"uid": "new", "creationTimestamp": "2026-11-18T21:14:30Z"}});
        let (older, newer) = ("2026-11-18T21:14:29Z", "2026-11-18T21:14:31Z");
        assert!(belongs(&pod(older, owner), &app, Some(&successor)), "it was adopted");
        assert!(!belongs(&pod("2026-11-18T21:14:30Z", owner), &app, Some(&successor)), "one of the first");
        assert!(!belongs(&pod(newer, owner), &app, Some(&successor)), "it came later");
        assert!(!belongs(&pod("", owner), &app, Some(&successor)), "without a time it counts as newer");
        assert!(!belongs(&pod(older, "ann"), &app, Some(&successor)), "of another app");
        assert!(belongs(&pod(newer, owner), &app, None), "the successor is not known yet");
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
    fn pods_that_lost_their_owner_belong_to_the_app_that_created_them(
        #[case] metadata: Value,
        #[case] kind: AppKind,
        #[case] name: &str,
        #[case] expected: bool,
    ) {
        let app = AppIdentity { namespace: "n".to_owned(), kind, name: name.to_owned(), uid: "u".to_owned() };
        assert_eq!(belongs(&json!({"metadata": metadata}), &app, None), expected);
    }
}
