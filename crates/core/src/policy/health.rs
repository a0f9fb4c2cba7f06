//! Health policies: detect unhealthy nodes and recover them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::kinds::{InvalidPolicy, PolicyKind, PolicyRules, PolicyVersion, Since, Support, settings};
use crate::spec::{Property, Schema};
use crate::string_enum::string_enum;
use crate::time::{TimeSpan, Timestamp};

/// The health policy type.
pub const KIND: PolicyKind = PolicyKind {
    name: "senlin.policy.health",
    versions: &[
        PolicyVersion {
            number: "1.0",
            support: &[Since(Support::Experimental, "2017.02"), Since(Support::Supported, "2018.06")],
        },
        PolicyVersion { number: "1.1", support: &[Since(Support::Supported, "2018.09")] },
        PolicyVersion { number: "1.2", support: &[Since(Support::Supported, "2020.09")] },
    ],
    priority: 600,
    singleton: true,
    profile_types: None,
    schema: SCHEMA,
    check: Some(check),
};

const SCHEMA: Schema = Schema(&[
    ("detection", Property::map("Detection of unhealthy nodes.", DETECTION).required()),
    ("recovery", Property::map("Recovery of unhealthy nodes.", RECOVERY).required()),
]);

const DETECTION: Schema = Schema(&[
    ("interval", Property::integer("Seconds between two health checks.").default_int(60)),
    (
        "node_update_timeout",
        Property::integer("Seconds after a node's last change during which it counts as healthy.")
            .default_int(300),
    ),
    (
        "recovery_conditional",
        Property::string("Whether one failed mode or all failed modes make a node unhealthy.")
            .allowed(&["ALL_FAILED", "ANY_FAILED"])
            .default_text("ANY_FAILED"),
    ),
    ("detection_modes", Property::list("Detection modes.", &MODE).required()),
]);

const MODE: Property = Property::map(
    "A detection mode.",
    Schema(&[
        (
            "type",
            Property::string("The type of the detection mode.").required().allowed(&[
                "LIFECYCLE_EVENTS",
                "NODE_STATUS_POLLING",
                "NODE_STATUS_POLL_URL",
                "HYPERVISOR_STATUS_POLLING",
            ]),
        ),
        ("options", Property::map("The options of the detection mode.", OPTIONS).filled()),
    ]),
);

const OPTIONS: Schema = Schema(&[
    (
        "poll_url",
        Property::string("The URL to poll; {nodename} is replaced by the node's name.").default_text(""),
    ),
    ("poll_url_ssl_verify", Property::boolean("Whether TLS certificates are verified.").default_flag(true)),
    (
        "poll_url_conn_error_as_unhealthy",
        Property::boolean("Whether a connection error makes the node unhealthy.").default_flag(true),
    ),
    (
        "poll_url_healthy_response",
        Property::string("The regular expression that a healthy response matches.").default_text(""),
    ),
    ("poll_url_retry_limit", Property::integer("The number of attempts per check.").default_int(3)),
    ("poll_url_retry_interval", Property::integer("Seconds between two attempts.").default_int(3)),
]);

const RECOVERY: Schema = Schema(&[
    ("actions", Property::list("The recovery actions, at most one.", &ACTION).default_empty()),
    ("fencing", Property::list("Resources to fence before the recovery.", &FENCED).default_empty()),
    (
        "node_delete_timeout",
        Property::integer("Seconds to wait for the deletion of the old node before it is recreated.")
            .default_int(20),
    ),
    (
        "node_force_recreate",
        Property::boolean("Whether a node is recreated even if the old one could not be deleted.")
            .default_flag(false),
    ),
]);

const ACTION: Property = Property::map(
    "A recovery action.",
    Schema(&[
        (
            "name",
            Property::string("The recovery operation.")
                .required()
                .allowed(&["REBOOT", "REBUILD", "RECREATE"]),
        ),
        ("params", Property::free_map("The parameters of the operation.")),
    ]),
);

const FENCED: Property = Property::string("A resource to fence.").allowed(&["COMPUTE"]);

string_enum! {
    /// The way in which the health of a node is checked.
    ModeType, "detection mode" {
        /// Events of the provider.
        LifecycleEvents = "LIFECYCLE_EVENTS",
        /// Polling the provider.
        NodeStatusPolling = "NODE_STATUS_POLLING",
        /// Polling the URL of the node.
        NodeStatusPollUrl = "NODE_STATUS_POLL_URL",
        /// Polling the machine that the node runs on.
        HypervisorStatusPolling = "HYPERVISOR_STATUS_POLLING",
    }
}

string_enum! {
    /// The number of detection modes that must fail.
    Conditional, "recovery conditional" {
        /// All modes must fail.
        AllFailed = "ALL_FAILED",
        /// One failed mode is enough.
        AnyFailed = "ANY_FAILED",
    }
}

string_enum! {
    /// The operation that recovers a node.
    Operation, "recovery operation" {
        /// Restart the node without changing it.
        Reboot = "REBOOT",
        /// Rebuild the node in place.
        Rebuild = "REBUILD",
        /// Delete the node and create a new one.
        Recreate = "RECREATE",
    }
}

/// The settings of a health policy.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HealthPolicySettings {
    /// The detection of unhealthy nodes.
    pub detection: Detection,
    /// The recovery of unhealthy nodes.
    pub recovery: RecoverySettings,
}

/// The detection of unhealthy nodes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Detection {
    /// Seconds between two checks.
    pub interval: i64,
    /// Seconds after a node's last change during which it counts as healthy.
    pub node_update_timeout: i64,
    /// The number of detection modes that must fail.
    pub recovery_conditional: Conditional,
    /// The detection modes.
    pub detection_modes: Vec<DetectionMode>,
}

/// A detection mode.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct DetectionMode {
    /// The detection mode.
    #[serde(rename = "type")]
    pub kind: ModeType,
    /// The options of the mode, which only polling a URL uses.
    pub options: PollUrl,
}

/// The settings of polling a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PollUrl {
    /// The URL; `{nodename}` stands for the node's name.
    pub poll_url: String,
    /// True if certificates are verified.
    pub poll_url_ssl_verify: bool,
    /// True if a node that cannot be connected to counts as unhealthy.
    pub poll_url_conn_error_as_unhealthy: bool,
    /// A regular expression that matches the response of a healthy node.
    pub poll_url_healthy_response: String,
    /// The number of attempts of a check.
    pub poll_url_retry_limit: i64,
    /// Seconds between two attempts.
    pub poll_url_retry_interval: i64,
}

impl PollUrl {
    /// The URL of a node of this name.
    pub fn url_of(&self, node: &str) -> String {
        self.poll_url.replace("{nodename}", node)
    }
}

/// The recovery of unhealthy nodes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecoverySettings {
    /// The recovery actions, at most one.
    pub actions: Vec<RecoveryAction>,
    /// The resources that are fenced before the recovery.
    pub fencing: Vec<String>,
    /// The longest time for the deletion of the old node, in seconds.
    pub node_delete_timeout: i64,
    /// True if a node is recreated although the old one could not be deleted.
    pub node_force_recreate: bool,
}

/// A recovery action.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecoveryAction {
    /// The operation.
    pub name: Operation,
    /// Its parameters.
    #[serde(default)]
    pub params: Map<String, Value>,
}

impl HealthPolicySettings {
    /// The operation that recovers a node; recreation is the default.
    pub fn operation(&self) -> Operation {
        self.recovery.actions.first().map_or(Operation::Recreate, |action| action.name)
    }

    /// Returns true if events of the provider trigger checks.
    pub fn follows_events(&self) -> bool {
        self.detection.detection_modes.iter().any(|mode| mode.kind == ModeType::LifecycleEvents)
    }

    /// The interval between two checks, which is limited to an hour.
    pub fn interval(&self) -> TimeSpan {
        let seconds = self.detection.interval.clamp(1, 3600);
        TimeSpan::from_micros(seconds.saturating_mul(1_000_000))
    }

    /// The grace period: the time after its last change in which a node counts as healthy.
    pub fn grace(&self) -> TimeSpan {
        TimeSpan::from_micros(self.detection.node_update_timeout.saturating_mul(1_000_000))
    }

    /// Returns true if a node that changed at this time is still in the grace period.
    pub fn is_settling(&self, changed: Timestamp, now: Timestamp) -> bool {
        now.since(changed) < self.grace()
    }

    /// Returns true if a node is healthy according to the results of all modes.
    pub fn is_healthy(&self, results: impl IntoIterator<Item = bool>) -> bool {
        let results: Vec<bool> = results.into_iter().collect();
        match self.detection.recovery_conditional {
            Conditional::AnyFailed => results.iter().all(|healthy| *healthy),
            Conditional::AllFailed => results.is_empty() || results.iter().any(|healthy| *healthy),
        }
    }
}

fn check(properties: &Map<String, Value>, rules: PolicyRules) -> Result<(), InvalidPolicy> {
    let HealthPolicySettings { detection, recovery } = settings(properties)?;
    if recovery.actions.len() > 1 {
        return Err(InvalidPolicy::Schema("Only one 'actions' is supported for now.".to_owned()));
    }
    let (interval, least) = (detection.interval, rules.health_check_interval_min);
    if interval < i64::from(least) {
        return Err(InvalidPolicy::Invalid(format!(
            "Specified interval of {interval} seconds has to be larger than health_check_interval_min of {least} \
             seconds set in configuration."
        )));
    }
    let modes = &detection.detection_modes;
    let names = || modes.iter().map(|mode| mode.kind.as_str()).collect::<Vec<_>>().join(", ");
    let lifecycle_modes = modes.iter().filter(|mode| mode.kind == ModeType::LifecycleEvents).count();
    if lifecycle_modes > 0 && modes.len() > 1 {
        return Err(InvalidPolicy::Invalid(format!("Invalid detection modes in health policy: {}", names())));
    }
    if modes.iter().collect::<HashSet<_>>().len() < modes.len() {
        let names = names();
        return Err(InvalidPolicy::Invalid(format!(
            "Duplicate detection modes are not allowed in health policy: {names}"
        )));
    }
    Ok(())
}
