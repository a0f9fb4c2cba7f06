//! Actions: durable, recorded executions of changes on clusters and nodes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::ids::{ActionId, ClusterId, EngineId, InstanceId, NodeId};
use crate::principal::{Door, Principal};
use crate::string_enum::{UnknownValue, string_enum};
use crate::time::{TimeSpan, Timestamp};

string_enum! {
    /// The kind of an action.
    stored ActionKind, "action" {
        /// Creates a cluster and its nodes.
        ClusterCreate = "CLUSTER_CREATE",
        /// Deletes a cluster and its nodes.
        ClusterDelete = "CLUSTER_DELETE",
        /// Changes properties, sizes or the profile.
        ClusterUpdate = "CLUSTER_UPDATE",
        /// Adds orphans as members.
        ClusterAddNodes = "CLUSTER_ADD_NODES",
        /// Removes members: they become orphans or are deleted.
        ClusterDelNodes = "CLUSTER_DEL_NODES",
        /// Replaces members by orphans.
        ClusterReplaceNodes = "CLUSTER_REPLACE_NODES",
        /// Changes the size, the bounds, or both.
        ClusterResize = "CLUSTER_RESIZE",
        /// Grows by a count.
        ClusterScaleOut = "CLUSTER_SCALE_OUT",
        /// Shrinks by a count.
        ClusterScaleIn = "CLUSTER_SCALE_IN",
        /// Checks every node.
        ClusterCheck = "CLUSTER_CHECK",
        /// Recovers lost nodes.
        ClusterRecover = "CLUSTER_RECOVER",
        /// Runs an operation of the profile type on nodes.
        ClusterOperation = "CLUSTER_OPERATION",
        /// Binds a policy.
        ClusterAttachPolicy = "CLUSTER_ATTACH_POLICY",
        /// Unbinds a policy.
        ClusterDetachPolicy = "CLUSTER_DETACH_POLICY",
        /// Enables or disables a bound policy.
        ClusterUpdatePolicy = "CLUSTER_UPDATE_POLICY",
        /// Creates a node.
        NodeCreate = "NODE_CREATE",
        /// Deletes a node.
        NodeDelete = "NODE_DELETE",
        /// Changes a node.
        NodeUpdate = "NODE_UPDATE",
        /// Makes an orphan a member.
        NodeJoin = "NODE_JOIN",
        /// Makes a member an orphan.
        NodeLeave = "NODE_LEAVE",
        /// Checks a node.
        NodeCheck = "NODE_CHECK",
        /// Recovers a node; restarts it if it is a head.
        NodeRecover = "NODE_RECOVER",
        /// Runs an operation of the profile type on a node.
        NodeOperation = "NODE_OPERATION",
    }
}

impl ActionKind {
    /// Returns true if an action of this kind on a node locks the whole cluster, because it changes the membership or
    /// may affect other nodes.
    pub const fn locks_cluster(self) -> bool {
        matches!(
            self,
            Self::NodeCreate | Self::NodeDelete | Self::NodeJoin | Self::NodeLeave | Self::NodeRecover
        )
    }

    /// The priority among actions that wait for the same target.
    pub const fn priority(self, cause: Cause) -> i64 {
        match (self, cause) {
            (_, Cause::Healing) => -10,
            (Self::ClusterDelete | Self::NodeDelete, _) => 10,
            _ => 0,
        }
    }
}

string_enum! {
    /// The state of an action.
    stored ActionStatus, "action status" {
        /// Stored, but not to be run yet.
        Init = "INIT",
        /// Waits for other actions. Clients of the clustering API know this status, but no action of this version has
        /// it.
        Waiting = "WAITING",
        /// May be claimed by an engine.
        Ready = "READY",
        /// An engine runs it.
        Running = "RUNNING",
        /// Suspended by a user until it is resumed; it keeps its locks.
        Suspended = "SUSPENDED",
        /// Waits for the confirmation of a lifecycle hook.
        WaitingLifecycleCompletion = "WAITING_LIFECYCLE_COMPLETION",
        /// Ended after it reached its goal.
        Succeeded = "SUCCEEDED",
        /// Ended without reaching its goal.
        Failed = "FAILED",
        /// Ended by a user's signal.
        Cancelled = "CANCELLED",
    }
}

impl ActionStatus {
    /// Returns true if the action has ended.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

string_enum! {
    /// The progress of an action that a caller can wait for.
    Milestone, "milestone" {
        /// The action is stored.
        Accepted = "accepted",
        /// The changed intent is committed, or the provider acknowledged the write.
        Applied = "applied",
        /// The requested state was observed.
        Reached = "reached",
    }
}

string_enum! {
    /// The cause of an action.
    stored Cause, "cause" {
        /// A user requested it.
        Request = "RPC Request",
        /// Another action needs it.
        Derived = "Derived Action",
        /// Another action needs it, and a lifecycle hook has to confirm it first.
        DerivedWithHook = "Derived Action with Lifecycle Hook",
        /// Muster detected a loss.
        Healing = "Healing",
    }
}

string_enum! {
    /// A signal to a running action.
    stored Control, "control signal" {
        /// End at the next step.
        Cancel = "CANCEL",
        /// Stop at the next step, until it is resumed.
        Suspend = "SUSPEND",
        /// End once the change is applied, because a later change waits. Only for changes that an operator completes.
        Yield = "YIELD",
    }
}

string_enum! {
    /// The conflict rule while another action holds the target.
    OnConflict, "conflict rule" {
        /// Refuse while a user's action holds the target.
        Reject = "reject",
        /// Wait until the action that holds the target has ended, and then run.
        Queue = "queue",
        /// Cancel the action that holds the target at its next step, and then run.
        Preempt = "preempt",
    }
}

/// The target of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A cluster.
    Cluster(ClusterId),
    /// A node.
    Node(NodeId),
    /// A kind of target of a newer version. Only engines of that version run actions on it.
    #[serde(skip)]
    Unknown(UnknownTarget),
}

/// A target of a kind that this version does not know, as it is stored in the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UnknownTarget {
    kind: UnknownValue,
    id: Uuid,
}

impl Target {
    /// The kinds that this version knows, as they are stored in rows.
    pub const KINDS: [&'static str; 2] = ["cluster", "node"];

    /// The target that a row names.
    pub fn from_stored(kind: &str, id: Uuid) -> Self {
        match kind {
            "cluster" => Self::Cluster(ClusterId::from_uuid(id)),
            "node" => Self::Node(NodeId::from_uuid(id)),
            kind => Self::Unknown(UnknownTarget { kind: UnknownValue::intern(kind), id }),
        }
    }

    /// The kind as it is stored in rows.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Cluster(_) => Self::KINDS[0],
            Self::Node(_) => Self::KINDS[1],
            Self::Unknown(unknown) => unknown.kind.as_str(),
        }
    }

    /// The id of the cluster, the node or the unknown target.
    pub const fn id(&self) -> Uuid {
        match self {
            Self::Cluster(id) => *id.as_uuid(),
            Self::Node(id) => *id.as_uuid(),
            Self::Unknown(unknown) => unknown.id,
        }
    }
}

/// A number that increases with every claim and take-over of an action. A target refuses a lower number than it has
/// seen, so that an engine that lost the action cannot write any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

/// A durable, recorded execution of a change on a cluster or node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Its id.
    pub id: ActionId,
    /// The kind of the action.
    pub kind: ActionKind,
    /// The version of the format of its inputs; an engine claims only actions whose version it knows.
    pub version: u32,
    /// Its target.
    pub target: Target,
    /// The cluster that it belongs to, if any.
    pub cluster_id: Option<ClusterId>,
    /// The provider instance that has to execute it.
    pub instance: InstanceId,
    /// The parent action.
    pub parent: Option<ActionId>,
    /// The cause of the action.
    pub cause: Cause,
    /// The API through which the change was requested.
    pub door: Door,
    /// The reason; empty where the cause is enough.
    pub reason: String,
    /// The requesting principal.
    pub principal: Principal,
    /// The inputs of the change.
    pub inputs: Value,
    /// The outputs.
    pub outputs: Value,
    /// Data that policies and steps exchange.
    pub data: Value,
    /// Its status.
    pub status: ActionStatus,
    /// The reason of its status.
    pub status_reason: String,
    /// A pending signal.
    pub control: Option<Control>,
    /// The engine that runs it.
    pub owner: Option<EngineId>,
    /// The fence of that engine's claim.
    pub fence: Fence,
    /// The number of times that the action was requeued after a failure.
    pub tries: u32,
    /// The earliest time of the next claim.
    pub not_before: Option<Timestamp>,
    /// The longest time that it may run, suspensions not counted.
    pub timeout: TimeSpan,
    /// The total time of its suspensions.
    pub suspended_for: TimeSpan,
    /// The time of acceptance.
    pub created_at: Timestamp,
    /// The time when an engine first claimed it.
    pub started_at: Option<Timestamp>,
    /// The time when its intent was committed.
    pub applied_at: Option<Timestamp>,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
    /// The time of the last change.
    pub updated_at: Timestamp,
}

/// The prefix of the reason of actions that a webhook triggered; the id of the receiver follows.
pub const WEBHOOK_REASON: &str = "receiver ";

/// The key in the outputs of a failed action for the stable reason for which its provider refused the change.
pub const REFUSAL_OUTPUT: &str = "refusal";

/// The output of an action that ended, once its change was applied, because a later change waited for its cluster.
pub const SUPERSEDED_OUTPUT: &str = "superseded";

impl Action {
    /// The time limit of an action that belongs to no cluster.
    pub const DEFAULT_TIMEOUT: TimeSpan = TimeSpan::from_secs(3600);

    /// A new action that a caller requests now, without inputs. If its target is a cluster, the action belongs to
    /// that cluster.
    pub fn new(
        id: ActionId,
        kind: ActionKind,
        target: Target,
        instance: InstanceId,
        principal: Principal,
        door: Door,
        now: Timestamp,
    ) -> Self {
        let cluster_id = match target {
            Target::Cluster(id) => Some(id),
            Target::Node(_) | Target::Unknown(_) => None,
        };
        let empty = || Value::Object(Map::new());
        Self {
            id,
            kind,
            version: 1,
            target,
            cluster_id,
            instance,
            parent: None,
            cause: Cause::Request,
            door,
            reason: String::new(),
            principal,
            inputs: empty(),
            outputs: empty(),
            data: empty(),
            status: ActionStatus::Ready,
            status_reason: String::new(),
            control: None,
            owner: None,
            fence: Fence(0),
            tries: 0,
            not_before: None,
            timeout: Self::DEFAULT_TIMEOUT,
            suspended_for: TimeSpan::default(),
            created_at: now,
            started_at: None,
            applied_at: None,
            ended_at: None,
            updated_at: now,
        }
    }

    /// Returns true if this is a garbage collection: the engine submitted it to delete what is left of a cluster
    /// whose row is history. Nothing else deletes a cluster for healing.
    pub fn collects_garbage(&self) -> bool {
        self.kind == ActionKind::ClusterDelete && self.cause == Cause::Healing
    }

    /// The name that existing clients know: the kind and the first eight characters of the target's id, or `webhook_`
    /// and those of the receiver's id.
    pub fn name(&self) -> String {
        if self.door == Door::Webhook
            && let Some(receiver) = self.reason.strip_prefix(WEBHOOK_REASON)
        {
            return format!("webhook_{}", receiver.chars().take(8).collect::<String>());
        }
        let target = ActionId::from_uuid(self.target.id()).short();
        let verb = match self.kind {
            ActionKind::ClusterAttachPolicy => "attach_policy".to_owned(),
            ActionKind::ClusterDetachPolicy => "detach_policy".to_owned(),
            ActionKind::ClusterUpdatePolicy => "update_policy".to_owned(),
            ActionKind::ClusterOperation => format!("cluster_{}", self.operation()),
            ActionKind::NodeOperation => format!("node_{}", self.operation()),
            kind => kind.as_str().to_lowercase(),
        };
        format!("{verb}_{target}")
    }

    fn operation(&self) -> &str {
        self.inputs.get("operation").and_then(Value::as_str).unwrap_or("operation")
    }

    /// Returns true if the action has reached a milestone.
    pub fn has_reached(&self, milestone: Milestone) -> bool {
        match milestone {
            Milestone::Accepted => true,
            Milestone::Applied => self.applied_at.is_some() || self.status == ActionStatus::Succeeded,
            Milestone::Reached => self.status == ActionStatus::Succeeded,
        }
    }
}
