//! Apps: workloads that use clusters.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::{AppId, ClusterId, InstanceId};
use crate::principal::Owner;
use crate::string_enum::{Stored as _, string_enum};
use crate::time::{TimeSpan, Timestamp};
use crate::unknown_fields::UnknownFields;

string_enum! {
    /// The kind of an app.
    stored AppKind, "kind of app" {
        /// A Deployment of Kubernetes, with all its replica sets.
        Deployment = "Deployment",
        /// A ReplicaSet of Kubernetes: one rollout of a Deployment, or one without a Deployment.
        ReplicaSet = "ReplicaSet",
        /// A StatefulSet of Kubernetes.
        StatefulSet = "StatefulSet",
        /// A Job of Kubernetes.
        Job = "Job",
        /// A Pod of Kubernetes without a controller.
        Pod = "Pod",
        /// A command that `muster run` runs.
        Command = "Command",
    }
}

impl AppKind {
    /// The kind that users may write before a name, as `kubectl` understands it: `deploy/bob`, `ReplicaSet/bob-1`.
    pub fn parse_prefix(given: &str) -> Option<Self> {
        Some(match given.to_ascii_lowercase().as_str() {
            "deployment" | "deployments" | "deploy" | "deployment.apps" | "deployments.apps" => {
                Self::Deployment
            }
            "replicaset" | "replicasets" | "rs" | "replicaset.apps" | "replicasets.apps" => Self::ReplicaSet,
            "statefulset" | "statefulsets" | "sts" | "statefulset.apps" | "statefulsets.apps" => {
                Self::StatefulSet
            }
            "job" | "jobs" | "job.batch" | "jobs.batch" => Self::Job,
            "pod" | "pods" | "po" => Self::Pod,
            "command" => Self::Command,
            _ => return None,
        })
    }
}

/// The reference to an app in a request: a bare name, or a kind and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenApp {
    /// The kind, if it was given.
    pub kind: Option<AppKind>,
    /// The name.
    pub name: String,
}

/// A string that does not name an app.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' does not name an app: give a name, or kind/name with Deployment, ReplicaSet, StatefulSet, Job, Pod or Command"
)]
pub struct InvalidApp(String);

impl std::str::FromStr for GivenApp {
    type Err = InvalidApp;

    fn from_str(given: &str) -> Result<Self, InvalidApp> {
        let invalid = || InvalidApp(given.chars().take(80).collect());
        let (kind, name) = match given.split_once('/') {
            Some((kind, name)) => (Some(AppKind::parse_prefix(kind).ok_or_else(invalid)?), name),
            None => (None, given),
        };
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_plain) {
            return Err(invalid());
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

/// The longest name of an app: that of an object of Kubernetes.
const LONGEST_NAME: usize = 253;

string_enum! {
    /// The last observation of an app.
    stored AppState, "state of an app" {
        /// It exists, is not scaled to 0 and has not finished.
        Running = "running",
        /// It is gone, was scaled to 0, or has finished.
        Gone = "gone",
        /// It could not be observed.
        Unobserved = "unknown",
    }
}

/// A process of a host. The start time and the boot id identify it, because a process id is reused after a reboot or
/// when the process has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The time when it was started, in clock ticks after the boot.
    pub start_time: u64,
    /// The id of the host's boot.
    pub boot_id: String,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A workload that uses clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// Its id.
    pub id: AppId,
    /// The provider instance.
    pub instance: InstanceId,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: AppKind,
    /// The UID of its object; a command's is its id.
    pub uid: String,
    /// The tenant.
    pub project: String,
    /// The user who registered it.
    pub owner: Owner,
    /// The process of a command that runs on the host of the server.
    pub process: Option<Process>,
    /// The time when the lease of a command on another host expires.
    pub lease_until: Option<Timestamp>,
    /// The name of the cluster that its drivers use, recorded before that cluster is created.
    pub cluster_name: String,
    /// The id of that cluster, once it was created.
    pub cluster_id: Option<ClusterId>,
    /// The last observation.
    pub state: AppState,
    /// The time when it was registered.
    pub created_at: Timestamp,
    /// The time when it was observed to be gone.
    pub ended_at: Option<Timestamp>,
}

/// The identity of an app. An app that is recreated under the same name has another UID.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AppIdentity {
    /// Its namespace.
    pub namespace: String,
    /// Its kind.
    pub kind: AppKind,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl fmt::Display for AppIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl App {
    /// The identity.
    pub fn identity(&self) -> AppIdentity {
        AppIdentity {
            namespace: self.namespace.clone(),
            kind: self.kind,
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// The mark of clusters that are deleted with this app.
    pub fn mark(&self) -> EphemeralMark {
        EphemeralMark {
            app: self.name.clone(),
            kind: Some(self.kind),
            uid: self.uid.clone(),
            unknown: UnknownFields::default(),
        }
    }
}

/// The use of a cluster by an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppUse {
    /// The app.
    pub app: AppId,
    /// The cluster.
    pub cluster: ClusterId,
    /// The cluster's name.
    pub cluster_name: String,
    /// True if the cluster is ephemeral: it is deleted with the app.
    pub ephemeral: bool,
    /// The time when the app began to use the cluster.
    pub since: Timestamp,
}

/// The mark of an ephemeral cluster: the app with which the cluster is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EphemeralMark {
    /// The name of the app.
    pub app: String,
    /// Its kind; absent if another program wrote the mark.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "stored_kind")]
    pub kind: Option<AppKind>,
    /// Its UID; empty if another program wrote the mark.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub uid: String,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

fn stored_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<AppKind>, D::Error> {
    let word: Option<String> = Option::deserialize(deserializer)?;
    Ok(word.map(|word| AppKind::from_stored(&word)))
}

impl EphemeralMark {
    /// Returns true if this mark names the app: by its UID, or by its name if another program wrote the mark.
    pub fn is_of(&self, app: &AppIdentity) -> bool {
        if self.uid.is_empty() { self.app == app.name } else { self.uid == app.uid }
    }

    /// Returns true if a request names the marked app.
    pub fn is_named(&self, given: &GivenApp) -> bool {
        let same_kind = given.kind.is_none_or(|kind| self.kind.is_none_or(|own| own == kind));
        self.app == given.name && same_kind
    }

    /// The identity of the marked app; none if another program wrote the mark, because its UID is then unknown.
    pub fn identity(&self, namespace: &str) -> Option<AppIdentity> {
        let kind = self.kind.filter(|_| !self.uid.is_empty())?;
        Some(AppIdentity {
            namespace: namespace.to_owned(),
            kind,
            name: self.app.clone(),
            uid: self.uid.clone(),
        })
    }
}

impl fmt::Display for EphemeralMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.app)
    }
}

/// The grace period of apps that are gone, and the lease of a command on another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppTimes {
    /// The time after the end of an app until its clusters are deleted.
    pub grace: TimeSpan,
    /// The duration of a lease.
    pub lease: TimeSpan,
}

impl Default for AppTimes {
    fn default() -> Self {
        Self { grace: TimeSpan::from_secs(30), lease: TimeSpan::from_secs(15) }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("bob-1", None, "bob-1")]
    #[case("deploy/bob", Some(AppKind::Deployment), "bob")]
    #[case("ReplicaSet/bob-1", Some(AppKind::ReplicaSet), "bob-1")]
    #[case("jobs.batch/bob", Some(AppKind::Job), "bob")]
    #[case("po/bob.1", Some(AppKind::Pod), "bob.1")]
    fn an_app_is_named_alone_or_with_its_kind(
        #[case] given: &str,
        #[case] kind: Option<AppKind>,
        #[case] name: &str,
    ) {
        assert_eq!(given.parse(), Ok(GivenApp { kind, name: name.to_owned() }));
    }

    #[rstest]
    #[case("")]
    #[case("deploy/")]
    #[case("cronjob/bob")]
    #[case("deploy/bob/1")]
    #[case("Bob")]
    fn what_names_no_app_is_refused(#[case] given: &str) {
        let refused = given.parse::<GivenApp>().unwrap_err();
        assert!(refused.to_string().starts_with(&format!("'{given}' does not name an app")), "{refused}");
    }

    #[test]
    fn apps_have_30_seconds_of_grace_and_leases_of_15() {
        let AppTimes { grace, lease } = AppTimes::default();
        assert_eq!((grace, lease), (TimeSpan::from_secs(30), TimeSpan::from_secs(15)));
    }
}
