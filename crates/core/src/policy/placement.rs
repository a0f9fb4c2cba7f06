//! Placement: how nodes are spread over regions and zones. It acts where a scheduler places nodes.

use super::kinds::{PolicyKind, Since, Support, Version};
use crate::spec::{Property, Schema};

/// Profile types whose nodes a scheduler places.
pub(super) const PLACED: &[&str] = &["kubernetes.pod"];

const SINCE: &[Version] = &[Version {
    number: "1.0",
    support: &[Since(Support::Experimental, "2016.04"), Since(Support::Supported, "2016.10")],
}];

/// Over regions.
pub const REGION: PolicyKind = PolicyKind {
    name: "senlin.policy.region_placement",
    versions: SINCE,
    priority: 200,
    singleton: true,
    profile_types: Some(PLACED),
    schema: Schema(&[("regions", Property::list("The regions to choose from.", &A_REGION))]),
    check: None,
};

/// Over zones.
pub const ZONE: PolicyKind = PolicyKind {
    name: "senlin.policy.zone_placement",
    versions: SINCE,
    priority: 300,
    singleton: true,
    profile_types: Some(PLACED),
    schema: Schema(&[("zones", Property::list("The zones to choose from.", &A_ZONE))]),
    check: None,
};

const NAME: (&str, Property) = ("name", Property::string("Its name."));
const WEIGHT: (&str, Property) =
    ("weight", Property::integer("Its weight; the default is 100.").default_int(100));

const A_REGION: Property = Property::map(
    "A region.",
    Schema(&[
        NAME,
        WEIGHT,
        ("cap", Property::integer("The most nodes there; -1 is no bound.").default_int(-1)),
    ]),
);
const A_ZONE: Property = Property::map("A zone.", Schema(&[NAME, WEIGHT]));
