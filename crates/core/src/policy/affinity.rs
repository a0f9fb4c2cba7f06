//! Affinity: which nodes share a host. Hard rules act where a scheduler places nodes.

use super::kinds::{PolicyKind, Since, Support, Version};
use crate::spec::{Property, Schema};

/// The type.
pub const KIND: PolicyKind = PolicyKind {
    name: "senlin.policy.affinity",
    versions: &[Version { number: "1.0", support: &[Since(Support::Supported, "2016.10")] }],
    priority: 300,
    singleton: true,
    profile_types: Some(super::placement::PLACED),
    schema: SCHEMA,
    check: None,
};

const SCHEMA: Schema = Schema(&[
    ("servergroup", Property::map("The group of nodes that the rule is about.", SERVERGROUP)),
    ("availability_zone", Property::string("The zone in which the nodes are placed.")),
    (
        "enable_drs_extension",
        Property::boolean("Whether a scheduler of distributed resources is used.").default_flag(false),
    ),
]);

const SERVERGROUP: Schema = Schema(&[
    ("name", Property::string("The group's name.")),
    (
        "policies",
        Property::string("Whether the nodes share a host, and how strictly.")
            .allowed(&["affinity", "soft-affinity", "anti-affinity", "soft-anti-affinity"])
            .default_text("anti-affinity"),
    ),
]);
