//! Clusters: the intent, and the summary of what was observed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::action::{ActionKind, Fence};
use crate::app::EphemeralMark;
use crate::ids::{ClusterId, InstanceId, ProfileId};
use crate::limits::{ExpiryState, Limits};
use crate::principal::Owner;
use crate::profile::{Profile, ProfileType};
use crate::recipe::{GivenRecipe, NodeRecipe};
use crate::shape::Shape;
use crate::software::SoftwareVersions;
use crate::string_enum::string_enum;
use crate::time::{TimeSpan, Timestamp};
use crate::unknown_fields::UnknownFields;

string_enum! {
    /// The framework that a cluster runs.
    stored Framework, "framework" {
        /// Ray.
        Ray = "ray",
        /// Dask.
        Dask = "dask",
        /// Spark.
        Spark = "spark",
    }
}

string_enum! {
    /// The status of a cluster.
    stored ClusterStatus, "cluster status" {
        /// Stored; its creation has not begun.
        Init = "INIT",
        /// In its desired state.
        Active = "ACTIVE",
        /// Being created.
        Creating = "CREATING",
        /// Being changed.
        Updating = "UPDATING",
        /// Being resized.
        Resizing = "RESIZING",
        /// Being deleted.
        Deleting = "DELETING",
        /// Being checked.
        Checking = "CHECKING",
        /// Lost nodes are being recovered.
        Recovering = "RECOVERING",
        /// An operation runs on its nodes.
        Operating = "OPERATING",
        /// Working, with fewer workers than desired or more than its maximum.
        Warning = "WARNING",
        /// Working workers are fewer than the minimum.
        Error = "ERROR",
        /// The head is lost, and is not recovered automatically.
        Critical = "CRITICAL",
        /// Stopped until it is resumed.
        Suspended = "SUSPENDED",
        /// Deleted; only its history is kept.
        Deleted = "DELETED",
    }
}

impl ClusterStatus {
    /// The status of a cluster while an action of this kind holds it; none if it stays unchanged.
    pub const fn during(kind: ActionKind) -> Option<Self> {
        Some(match kind {
            ActionKind::ClusterCreate => Self::Creating,
            ActionKind::ClusterDelete => Self::Deleting,
            ActionKind::ClusterUpdate => Self::Updating,
            ActionKind::ClusterResize
            | ActionKind::ClusterScaleOut
            | ActionKind::ClusterScaleIn
            | ActionKind::ClusterAddNodes
            | ActionKind::ClusterDelNodes
            | ActionKind::ClusterReplaceNodes => Self::Resizing,
            ActionKind::ClusterCheck => Self::Checking,
            ActionKind::ClusterRecover | ActionKind::NodeRecover => Self::Recovering,
            ActionKind::ClusterOperation => Self::Operating,
            ActionKind::ClusterAttachPolicy
            | ActionKind::ClusterDetachPolicy
            | ActionKind::ClusterUpdatePolicy
            | ActionKind::NodeCreate
            | ActionKind::NodeDelete
            | ActionKind::NodeUpdate
            | ActionKind::NodeJoin
            | ActionKind::NodeLeave
            | ActionKind::NodeCheck
            | ActionKind::NodeOperation
            | ActionKind::Unknown(_) => return None,
        })
    }

    /// The status reason at the beginning of an action of this kind; none keeps the previous reason.
    pub const fn reason_during(kind: ActionKind) -> Option<&'static str> {
        match Self::during(kind) {
            Some(Self::Deleting) => Some("Deletion in progress"),
            Some(Self::Updating) => Some("Update in progress"),
            Some(Self::Resizing) => Some("Resize in progress"),
            Some(Self::Recovering) => Some("Recovery in progress"),
            _ => None,
        }
    }
}

impl ClusterStatus {
    /// Returns true if the status means that an action is in progress.
    pub const fn is_transitional(self) -> bool {
        matches!(
            self,
            Self::Init
                | Self::Creating
                | Self::Updating
                | Self::Resizing
                | Self::Deleting
                | Self::Checking
                | Self::Recovering
                | Self::Operating
        )
    }
}

/// A group of identical workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerGroup {
    /// Its name, unique in the cluster.
    pub name: String,
    /// The desired number.
    pub desired: u32,
    /// The lower bound; a cluster with fewer workers is in ERROR.
    pub min: u32,
    /// The upper bound; larger sizes are refused. Absent means no bound.
    pub max: Option<u32>,
    /// The shape of each worker.
    pub shape: Shape,
    /// The recipe of the workers, and data of the API that created the group.
    pub spec: Map<String, Value>,
}

/// The name of the only group of a cluster whose API has no groups.
pub const DEFAULT_GROUP: &str = "default";

/// The default timeout of a cluster's actions.
pub const DEFAULT_TIMEOUT: TimeSpan = TimeSpan::from_secs(3600);

/// The longest time that actions of a cluster may take; a longer one is more likely a mistake.
pub const LONGEST_TIMEOUT: TimeSpan = TimeSpan::from_secs(30 * 86_400);

/// A cluster: its intent, status and observed summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its id, whichever API created it.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// The DNS-safe name of the objects that are created for the cluster.
    pub object_name: String,
    /// The namespace on Kubernetes, or a label for local clusters.
    pub namespace: String,
    /// The tenant.
    pub project: String,
    /// The provider instance of its nodes.
    pub instance: InstanceId,
    /// Its owner.
    pub owner: Owner,
    /// The user that an API recorded for display; no decision depends on it.
    pub user: String,
    /// The profile that its nodes are created from.
    pub profile_id: ProfileId,
    /// The type of that profile.
    pub profile_type: ProfileType,
    /// The framework, if the profile type has one.
    pub framework: Option<Framework>,
    /// The flavor of its objects on Kubernetes.
    pub flavor: Option<String>,
    /// True if the cluster has a head beside its workers.
    pub has_head: bool,
    /// Its workers.
    pub groups: Vec<WorkerGroup>,
    /// Its status.
    pub status: ClusterStatus,
    /// The reason of the status.
    pub status_reason: String,
    /// The longest time that its actions may run.
    pub timeout: TimeSpan,
    /// Its idle timeout and lifetime.
    pub limits: Limits,
    /// State of its limits; only the expiry watcher writes it.
    pub expiry_state: ExpiryState,
    /// The app with which the cluster is deleted; none if the cluster is not ephemeral.
    pub ephemeral: Option<Box<EphemeralMark>>,
    /// User data.
    pub metadata: Map<String, Value>,
    /// Settings with meaning to the engine, such as `node.name.format`.
    pub config: Map<String, Value>,
    /// Data of policies.
    pub data: Map<String, Value>,
    /// References from other objects.
    pub dependents: Map<String, Value>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Data of the API that created the cluster: version, environment, head and types of endpoints.
    pub spec: Map<String, Value>,
    /// Increases with every change of intent.
    pub generation: i64,
    /// Increases with every new head.
    pub incarnation: i64,
    /// The index of the next worker; indexes are not reused.
    pub next_index: u32,
    /// The summary of the last observation.
    pub observed: ObservedSummary,
    /// The time when the row was created.
    pub init_at: Timestamp,
    /// The time when its creation succeeded.
    pub created_at: Option<Timestamp>,
    /// The time of the last change.
    pub updated_at: Option<Timestamp>,
    /// The time when it was deleted.
    pub deleted_at: Option<Timestamp>,
}

impl Cluster {
    /// A new cluster with defaults: without owner and without workers.
    pub fn new(
        id: ClusterId,
        name: impl Into<String>,
        project: impl Into<String>,
        instance: InstanceId,
        profile: &Profile,
        init_at: Timestamp,
    ) -> Self {
        let (name, project) = (name.into(), project.into());
        Self {
            id,
            object_name: name.clone(),
            name,
            namespace: project.clone(),
            project,
            instance,
            owner: Owner::default(),
            user: String::new(),
            profile_id: profile.id,
            profile_type: profile.kind.clone(),
            framework: None,
            flavor: None,
            has_head: false,
            groups: Vec::new(),
            status: ClusterStatus::Init,
            status_reason: "Initializing".to_owned(),
            timeout: DEFAULT_TIMEOUT,
            limits: Limits::default(),
            expiry_state: ExpiryState::default(),
            ephemeral: None,
            metadata: Map::new(),
            config: Map::new(),
            data: Map::new(),
            dependents: Map::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            spec: Map::new(),
            generation: 1,
            incarnation: 1,
            next_index: 1,
            observed: ObservedSummary::default(),
            init_at,
            created_at: None,
            updated_at: None,
            deleted_at: None,
        }
    }

    /// Returns true if the cluster is external: its id is then the UID of its object. Muster changes it only on
    /// request.
    pub fn is_external(&self) -> bool {
        self.observed.object.as_ref().is_some_and(|object| *object == self.id.to_string())
    }

    /// Returns true if the members have the same recipe as those of `other`, another state of this cluster with the
    /// same profile.
    pub fn has_same_recipe(&self, other: &Self) -> bool {
        let same = |group: &WorkerGroup| {
            let other = other.group(&group.name);
            other.is_some_and(|other| NodeRecipe::of_group(other) == NodeRecipe::of_group(group))
        };
        GivenRecipe::stored_in(&self.spec) == GivenRecipe::stored_in(&other.spec)
            && self.groups.iter().all(same)
    }

    /// The desired number of workers of all groups.
    pub fn desired(&self) -> u32 {
        self.groups.iter().fold(0, |sum, group| sum.saturating_add(group.desired))
    }

    /// The sum of the lower bounds of all groups.
    pub fn min_size(&self) -> u32 {
        self.groups.iter().fold(0, |sum, group| sum.saturating_add(group.min))
    }

    /// The sum of the upper bounds of all groups; none if any group has no upper bound.
    pub fn max_size(&self) -> Option<u32> {
        self.groups.iter().try_fold(0_u32, |sum, group| Some(sum.saturating_add(group.max?)))
    }

    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<&WorkerGroup> {
        self.groups.iter().find(|group| group.name == name)
    }
}

/// The template of a group's workers in the spec of record, as the provider observed it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkerTemplate {
    /// The image.
    pub image: String,
    /// The shape of each worker.
    pub shape: Shape,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The summary of the last observation; absent values were never observed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ObservedSummary {
    /// The number of working workers.
    pub ready_workers: Option<u32>,
    /// True if the head works.
    pub head_ready: Option<bool>,
    /// Addresses to connect to, by purpose.
    pub endpoints: BTreeMap<String, String>,
    /// The identity of the spec of record, once it was observed; only for delegated clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The fence of Muster's last write, as observed on that object.
    pub fence: Fence,
    /// The last observed generation of that object, which increases whenever anyone changes what the object
    /// specifies.
    #[serde(skip_serializing_if = "is_zero")]
    pub object_generation: u64,
    /// The digest of that object's content when it was last stored.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object_content: String,
    /// The state that the operator reports: empty if it has not reported any yet, and none if it reports no states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported_state: Option<String>,
    /// The ports of the head by purpose, as the operator reports them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, String>,
    /// Groups whose size an autoscaler decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub autoscaled: Vec<String>,
    /// The last observed templates of the workers on that object, by group.
    #[serde(rename = "made", skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, WorkerTemplate>,
    /// The names of the nodes that run with an older recipe than that of the cluster until they are restarted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outdated: Vec<String>,
    /// The version of the last external event that was imported.
    #[serde(rename = "heard", skip_serializing_if = "is_zero")]
    pub last_external_event: u64,
    /// The versions of Python and of the framework that the head runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<Box<SoftwareVersions>>,
    /// The time of the observation.
    pub at: Option<Timestamp>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
