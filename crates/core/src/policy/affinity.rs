//! Affinity policies: the nodes of a cluster share a host, or do not. Hard rules apply if the provider supports
//! placement.

use serde::Deserialize;

use super::kinds::{PolicyKind, PolicyVersion, Since, Support};
use crate::placement::Affinity;
use crate::spec::{Property, Schema};

/// The affinity policy type.
pub const KIND: PolicyKind = PolicyKind {
    name: "senlin.policy.affinity",
    versions: &[PolicyVersion { number: "1.0", support: &[Since(Support::Supported, "2016.10")] }],
    priority: 300,
    singleton: true,
    profile_types: None,
    schema: SCHEMA,
    check: None,
};

const SCHEMA: Schema = Schema(&[
    ("servergroup", Property::map("The server group of the nodes.", SERVERGROUP)),
    ("availability_zone", Property::string("The availability zone of the nodes.")),
    (
        "enable_drs_extension",
        Property::boolean("Whether VMware's Distributed Resource Scheduler (DRS) places the nodes.")
            .default_flag(false),
    ),
]);

const SERVERGROUP: Schema = Schema(&[
    ("name", Property::string("The name of the server group.")),
    (
        "policies",
        Property::string("The affinity rule: whether nodes share a host; soft rules are best effort.")
            .allowed(&["affinity", "soft-affinity", "anti-affinity", "soft-anti-affinity"])
            .default_text("anti-affinity"),
    ),
]);

/// The settings of an affinity policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AffinityPolicySettings {
    servergroup: Option<Group>,
    /// The zone of all nodes of the cluster.
    pub availability_zone: Option<String>,
    /// True if a scheduler of distributed resources is used.
    pub enable_drs_extension: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Group {
    policies: String,
}

impl AffinityPolicySettings {
    /// The name of the rule as the API has it.
    pub fn word(&self) -> &str {
        self.servergroup.as_ref().map_or(Affinity::Apart.as_str(), |group| &group.policies)
    }

    /// The hard rule; none if the rule is soft.
    pub fn rule(&self) -> Option<Affinity> {
        self.word().parse().ok()
    }
}
