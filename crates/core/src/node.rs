//! Nodes: members of clusters, and orphans.

mod observation;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{ClusterId, InstanceId, NodeId, ProfileId};
use crate::string_enum::string_enum;
use crate::time::{TimeSpan, Timestamp};

string_enum! {
    /// The status of a node.
    stored NodeStatus, "node status" {
        /// Stored; its creation has not begun.
        Init = "INIT",
        /// Being created.
        Creating = "CREATING",
        /// Working.
        Active = "ACTIVE",
        /// Being changed.
        Updating = "UPDATING",
        /// Being deleted.
        Deleting = "DELETING",
        /// Being recovered.
        Recovering = "RECOVERING",
        /// An operation runs on it.
        Operating = "OPERATING",
        /// Working with a fault.
        Warning = "WARNING",
        /// Not working.
        Error = "ERROR",
    }
}

string_enum! {
    /// The role of a node in its cluster.
    stored NodeRole, "node role" {
        /// The scheduler, master or head; not counted in the size.
        Head = "head",
        /// One of the workers.
        Worker = "worker",
    }
}

/// The index of a node that is in no cluster.
pub const ORPHAN_INDEX: i64 = -1;

/// The index of the head.
pub const HEAD_INDEX: i64 = 0;

/// One member of a cluster, or an orphan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// The cluster it is a member of.
    pub cluster_id: Option<ClusterId>,
    /// The provider instance.
    pub instance: InstanceId,
    /// The group it is in; the head and orphans are in none.
    pub group: Option<String>,
    /// Its role.
    pub role: NodeRole,
    /// A user-defined role.
    pub user_role: String,
    /// The index of the node; indexes are not reused within a cluster.
    pub index: i64,
    /// Its name.
    pub name: String,
    /// The id of its pod or process.
    pub physical_id: Option<String>,
    /// Its profile.
    pub profile_id: ProfileId,
    /// The tenant.
    pub project: String,
    /// The user that requested it.
    pub user: String,
    /// Its status.
    pub status: NodeStatus,
    /// The reason of the status.
    pub status_reason: String,
    /// True if the node is removed before others.
    pub tainted: bool,
    /// Data of policies.
    pub data: Map<String, Value>,
    /// User data.
    pub metadata: Map<String, Value>,
    /// References from other objects.
    pub dependents: Map<String, Value>,
    /// The incarnation of the head that the node belongs to.
    pub incarnation: i64,
    /// The times of the recent starts, within [`START_WINDOW`].
    pub starts: Vec<Timestamp>,
    /// The time when the row was created.
    pub init_at: Timestamp,
    /// The time when it first worked.
    pub created_at: Option<Timestamp>,
    /// The time of the last change.
    pub updated_at: Option<Timestamp>,
}

/// The number of times that a node may be started within [`START_WINDOW`], whichever actions start it.
pub const START_BUDGET: usize = 3;

/// The key in a node's data that marks a loss whose recovery has not begun.
const HEALING_DUE: &str = "healing_due";

/// The key in a node's data that marks an older recipe than that of the cluster.
const OUTDATED: &str = "outdated";

/// The key in a node's data that has the identity of the member that an operator created.
pub const MEMBER: &str = "member";

/// The key in a node's data that has the creation time of its pod or process.
const STARTED_AT: &str = "started_at";

/// The key in a node's data that has the numbers of its GPU devices.
const GPU_DEVICES: &str = "gpu_devices";

/// The window in which starts count against [`START_BUDGET`].
pub const START_WINDOW: TimeSpan = TimeSpan::from_secs(600);

impl Node {
    /// A new orphan with defaults, without an owner.
    pub fn new(
        id: NodeId,
        project: impl Into<String>,
        instance: InstanceId,
        profile: ProfileId,
        init_at: Timestamp,
    ) -> Self {
        Self {
            id,
            cluster_id: None,
            instance,
            group: None,
            role: NodeRole::Worker,
            user_role: String::new(),
            index: ORPHAN_INDEX,
            name: String::new(),
            physical_id: None,
            profile_id: profile,
            project: project.into(),
            user: String::new(),
            status: NodeStatus::Init,
            status_reason: String::new(),
            tainted: false,
            data: Map::new(),
            metadata: Map::new(),
            dependents: Map::new(),
            incarnation: 0,
            starts: Vec::new(),
            init_at,
            created_at: None,
            updated_at: None,
        }
    }

    /// Returns true if the node is lost and its recovery has not begun.
    pub fn is_healing_due(&self) -> bool {
        self.data.contains_key(HEALING_DUE)
    }

    /// Records if the recovery of the lost node is still due.
    pub fn set_healing_due(&mut self, due: bool) {
        if due {
            self.data.insert(HEALING_DUE.to_owned(), Value::Bool(true));
        } else {
            self.data.remove(HEALING_DUE);
        }
    }

    /// Returns true if the node runs with an older recipe than that of its cluster until it is restarted.
    pub fn is_outdated(&self) -> bool {
        self.data.contains_key(OUTDATED)
    }

    /// Records if the node runs with an older recipe than that of its cluster.
    pub fn set_outdated(&mut self, outdated: bool) {
        if outdated {
            self.data.insert(OUTDATED.to_owned(), Value::Bool(true));
        } else {
            self.data.remove(OUTDATED);
        }
    }

    /// The UID of the pod or process; one that replaces it has another UID.
    pub fn member_uid(&self) -> Option<String> {
        let uid = self.data.get(MEMBER).and_then(|member| member.get("uid")?.as_str());
        uid.map(str::to_owned).or_else(|| self.physical_id.clone())
    }

    /// The time when the pod or process was created, if it is known.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.data.get(STARTED_AT).and_then(Value::as_i64).map(Timestamp::from_micros)
    }

    /// Records the time when the pod or process was created.
    pub fn set_started_at(&mut self, at: Timestamp) {
        self.data.insert(STARTED_AT.to_owned(), at.micros().into());
    }

    /// Returns the numbers of the GPU devices that only this node uses; empty if it has none, or if its provider does not
    /// assign devices.
    pub fn gpu_devices(&self) -> Vec<u32> {
        let devices = self.data.get(GPU_DEVICES).and_then(Value::as_array).into_iter().flatten();
        devices.filter_map(|device| device.as_u64()?.try_into().ok()).collect()
    }

    /// Records the numbers of the GPU devices that only this node uses.
    pub fn set_gpu_devices(&mut self, devices: &[u32]) {
        if devices.is_empty() {
            self.data.remove(GPU_DEVICES);
        } else {
            self.data.insert(GPU_DEVICES.to_owned(), devices.into());
        }
    }

    /// Returns true if the budget of starts allows another start now.
    pub fn may_start(&self, now: Timestamp) -> bool {
        self.starts.iter().filter(|start| now.since(**start) < START_WINDOW).count() < START_BUDGET
    }

    /// The earliest time of the next start: now, or when enough starts are out of [`START_WINDOW`].
    pub fn next_start(&self, now: Timestamp) -> Timestamp {
        let counted = self.starts.iter().filter(|start| now.since(**start) < START_WINDOW);
        let mut counted: Vec<Timestamp> = counted.copied().collect();
        counted.sort_unstable();
        let last_in_the_way = counted.len().checked_sub(START_BUDGET).and_then(|place| counted.get(place));
        last_in_the_way.map_or(now, |start| start.after(START_WINDOW))
    }

    /// Records a start with the present recipe of the cluster, and drops starts outside [`START_WINDOW`]. The start
    /// assigns new devices.
    pub fn record_start(&mut self, now: Timestamp) {
        self.set_outdated(false);
        self.set_gpu_devices(&[]);
        self.starts.retain(|start| now.since(*start) < START_WINDOW);
        self.starts.push(now);
        self.set_started_at(now);
    }

    /// The same node without its membership.
    #[must_use]
    pub fn orphaned(self) -> Self {
        Self { cluster_id: None, group: None, index: ORPHAN_INDEX, incarnation: 0, ..self }
    }

    /// Returns true if the node was requested as a member and has no index in its cluster yet.
    pub const fn is_candidate(&self) -> bool {
        self.cluster_id.is_some() && self.index == ORPHAN_INDEX
    }

    /// Returns true if the node is in ERROR or WARNING, or tainted, so that it is removed before others.
    pub fn is_unhealthy(&self) -> bool {
        self.tainted || matches!(self.status, NodeStatus::Error | NodeStatus::Warning)
    }
}

/// The observed state of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observation {
    /// The node works.
    Running {
        /// Its physical id.
        physical_id: String,
    },
    /// The node exists, and does not work yet.
    Starting {
        /// Its physical id, if known.
        physical_id: Option<String>,
    },
    /// The process or pod of the node has exited.
    Exited {
        /// The description of the exit.
        reason: String,
    },
    /// The node ended because its machine was restarted. It is recovered only on request.
    HostRestarted,
    /// The node certainly does not exist.
    Absent,
    /// The state is unknown, which changes nothing.
    Unknown {
        /// The reason why the state is unknown.
        reason: String,
    },
}
