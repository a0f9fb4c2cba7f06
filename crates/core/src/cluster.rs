//! Clusters: the intent, and the summary of what was observed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::action::{ActionKind, Fence};
use crate::ids::{ClusterId, InstanceId, ProfileId};
use crate::limits::{Limits, Watched};
use crate::principal::Owner;
use crate::profile::{Profile, ProfileType};
use crate::shape::Shape;
use crate::string_enum::string_enum;
use crate::time::{Span, Timestamp};
use crate::unknown_fields::UnknownFields;

string_enum! {
    /// The program that a cluster runs.
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
    /// How a cluster is, in one word.
    stored ClusterStatus, "cluster status" {
        /// Stored, nothing done yet.
        Init = "INIT",
        /// As it should be.
        Active = "ACTIVE",
        /// Being made.
        Creating = "CREATING",
        /// Being changed.
        Updating = "UPDATING",
        /// Being resized.
        Resizing = "RESIZING",
        /// Being removed.
        Deleting = "DELETING",
        /// Being looked at.
        Checking = "CHECKING",
        /// Something lost is being brought back.
        Recovering = "RECOVERING",
        /// An operation runs on its nodes.
        Operating = "OPERATING",
        /// It works, with less or more than it should have.
        Warning = "WARNING",
        /// Fewer nodes than it can do with.
        Error = "ERROR",
        /// The head is lost and not coming back by itself.
        Critical = "CRITICAL",
        /// Stopped, to be resumed.
        Suspended = "SUSPENDED",
        /// Gone; only history.
        Deleted = "DELETED",
    }
}

impl ClusterStatus {
    /// What a cluster shows while an action of this kind has it, if that differs from before.
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
            _ => return None,
        })
    }

    /// What is said of it at the beginning of that, where what was said before is of no interest any more.
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
    /// Whether it says that something is under way.
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

/// Like workers of one shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerGroup {
    /// Its name, unique in the cluster.
    pub name: String,
    /// How many there should be.
    pub desired: u32,
    /// Fewer are an error.
    pub min: u32,
    /// More are refused; absent means no bound.
    pub max: Option<u32>,
    /// What each is given.
    pub shape: Shape,
    /// What a door keeps for it: image, environment, start parameters.
    pub spec: Map<String, Value>,
}

/// The name of the only group of a cluster whose door has no groups.
pub const DEFAULT_GROUP: &str = "default";

/// How long actions of a cluster may run if nothing else is said.
pub const DEFAULT_TIMEOUT: Span = Span::from_secs(3600);

/// A cluster as it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its id, whatever door it came through.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// Its DNS-safe name where objects are made.
    pub object_name: String,
    /// Where on Kubernetes, or a label locally.
    pub namespace: String,
    /// The tenant.
    pub project: String,
    /// Where its nodes run.
    pub instance: InstanceId,
    /// Whom it belongs to.
    pub owner: Owner,
    /// The user that a door recorded; decides nothing.
    pub user: String,
    /// The recipe of its nodes.
    pub profile_id: ProfileId,
    /// The type of that recipe.
    pub profile_type: ProfileType,
    /// What it runs, if its type runs a framework.
    pub framework: Option<Framework>,
    /// Which objects stand for it on Kubernetes.
    pub flavor: Option<String>,
    /// Whether there is a head beside the workers.
    pub has_head: bool,
    /// Its workers.
    pub groups: Vec<WorkerGroup>,
    /// Its status.
    pub status: ClusterStatus,
    /// Why.
    pub status_reason: String,
    /// How long its actions may run.
    pub timeout: Span,
    /// How long it may be there.
    pub limits: Limits,
    /// What was noted of it because of its limits; only their watch writes it.
    pub watched: Watched,
    /// What users keep with it.
    pub metadata: Map<String, Value>,
    /// Settings with meaning to the engine, such as `node.name.format`.
    pub config: Map<String, Value>,
    /// What policies keep with it.
    pub data: Map<String, Value>,
    /// Who else refers to it.
    pub dependents: Map<String, Value>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// What a door keeps for it: version, environment, head, endpoints' types.
    pub spec: Map<String, Value>,
    /// Rises with every change of intent.
    pub generation: i64,
    /// Rises with every new head.
    pub incarnation: i64,
    /// The index of the next worker; indexes are not used twice.
    pub next_index: u32,
    /// What was last seen of it.
    pub observed: ObservedSummary,
    /// When it was stored.
    pub init_at: Timestamp,
    /// When its creation ended well.
    pub created_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
    /// When it was gone.
    pub deleted_at: Option<Timestamp>,
}

impl Cluster {
    /// A cluster that is about to be stored: of nobody yet, without workers, and plain in all else.
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
            watched: Watched::default(),
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

    /// Whether others made it: then its id is that of its object. Only users' requests change it.
    pub fn is_found(&self) -> bool {
        self.observed.object.as_ref().is_some_and(|object| *object == self.id.to_string())
    }

    /// Whether its members are made from the same as those of `other`, another state of it.
    pub fn is_made_like(&self, other: &Self) -> bool {
        let same = |group: &WorkerGroup| {
            let other = other.group(&group.name);
            other.is_some_and(|other| other.shape == group.shape && other.spec == group.spec)
        };
        self.spec == other.spec && self.groups.iter().all(same)
    }

    /// How many workers there should be.
    pub fn desired(&self) -> u32 {
        self.groups.iter().fold(0, |sum, group| sum.saturating_add(group.desired))
    }

    /// Fewer workers are an error.
    pub fn min_size(&self) -> u32 {
        self.groups.iter().fold(0, |sum, group| sum.saturating_add(group.min))
    }

    /// More workers are refused; no bound if any group has none.
    pub fn max_size(&self) -> Option<u32> {
        self.groups.iter().try_fold(0_u32, |sum, group| Some(sum.saturating_add(group.max?)))
    }

    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<&WorkerGroup> {
        self.groups.iter().find(|group| group.name == name)
    }
}

/// What nodes are made from, as a spec of record says it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Made {
    /// The image.
    pub image: String,
    /// What each is given.
    pub shape: Shape,
    /// What a newer version keeps with it.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// What was last seen of a cluster; absent means never seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ObservedSummary {
    /// Workers that were seen working.
    pub ready_workers: Option<u32>,
    /// Whether the head was seen working.
    pub head_ready: Option<bool>,
    /// Addresses to connect to, by purpose.
    pub endpoints: BTreeMap<String, String>,
    /// Which object is its spec of record, once that was seen; only where an operator drives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The fence of Muster's last write that was seen on that object.
    pub fence: Fence,
    /// Groups whose size somebody's autoscaler decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub autoscaled: Vec<String>,
    /// What the workers of its groups are made from, as that object last said.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub made: BTreeMap<String, Made>,
    /// The last of what others told of its objects that has an event here.
    #[serde(skip_serializing_if = "is_none_yet")]
    pub heard: u64,
    /// When it was seen.
    pub at: Option<Timestamp>,
    /// What a newer version keeps with it.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_none_yet(heard: &u64) -> bool {
    *heard == 0
}
