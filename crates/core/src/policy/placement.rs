//! Placement policies: spread nodes over regions and zones, if the provider supports placement.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Policy;
use super::kinds::{InvalidPolicy, PolicyKind, PolicyRules, PolicyVersion, Since, Support};
use crate::placement::{Axis, Share};
use crate::spec::{Property, Schema};

const SINCE: &[PolicyVersion] = &[PolicyVersion {
    number: "1.0",
    support: &[Since(Support::Experimental, "2016.04"), Since(Support::Supported, "2016.10")],
}];

/// The policy type that spreads nodes over regions.
pub const REGION: PolicyKind = PolicyKind {
    name: "senlin.policy.region_placement",
    versions: SINCE,
    priority: 200,
    singleton: true,
    profile_types: None,
    schema: Schema(&[("regions", Property::list("The regions to choose from.", &A_REGION))]),
    check: Some(check_regions),
};

/// The policy type that spreads nodes over zones.
pub const ZONE: PolicyKind = PolicyKind {
    name: "senlin.policy.zone_placement",
    versions: SINCE,
    priority: 300,
    singleton: true,
    profile_types: None,
    schema: Schema(&[("zones", Property::list("The zones to choose from.", &A_ZONE))]),
    check: Some(check_zones),
};

const NAME: (&str, Property) = ("name", Property::string("The name."));
const WEIGHT: (&str, Property) = (
    "weight",
    Property::integer("The weight: the share of nodes relative to the other weights; the default is 100.")
        .default_int(100),
);

const A_REGION: Property = Property::map(
    "A region.",
    Schema(&[
        NAME,
        WEIGHT,
        (
            "cap",
            Property::integer("The maximum number of nodes in the region; -1 means unlimited.")
                .default_int(-1),
        ),
    ]),
);
const A_ZONE: Property = Property::map("A zone.", Schema(&[NAME, WEIGHT]));

/// A region or zone as a policy names it.
#[derive(Debug, Deserialize)]
struct NamedPlace {
    name: Option<String>,
    weight: i64,
    cap: Option<i64>,
}

/// The regions or zones of a policy, with their weights.
pub fn shares(axis: Axis, policy: &Policy) -> Result<Vec<Share>, String> {
    let properties =
        policy.properties().ok_or_else(|| format!("its spec is not valid for type '{}'", policy.kind))?;
    read(axis, &properties)
}

fn check_regions(properties: &Map<String, Value>, _: PolicyRules) -> Result<(), InvalidPolicy> {
    read(Axis::Region, properties).map(drop).map_err(InvalidPolicy::Invalid)
}

fn check_zones(properties: &Map<String, Value>, _: PolicyRules) -> Result<(), InvalidPolicy> {
    read(Axis::Zone, properties).map(drop).map_err(InvalidPolicy::Invalid)
}

fn read(axis: Axis, properties: &Map<String, Value>) -> Result<Vec<Share>, String> {
    let (all, one) = (axis.plural(), axis.singular());
    let listed = properties.get(all).cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    let listed: Vec<NamedPlace> = serde_json::from_value(listed).map_err(|error| error.to_string())?;
    let shares = listed.into_iter().map(|named| share(one, named)).collect::<Result<Vec<_>, _>>()?;
    let mut names = HashSet::new();
    if let Some(twice) = shares.iter().find(|share| !names.insert(share.name.as_str())) {
        return Err(format!("the {one} '{}' is in '{all}' more than once", twice.name));
    }
    if shares.iter().all(|share| share.weight == 0) {
        return Err(format!("'{all}' must have a {one} whose 'weight' is > 0"));
    }
    Ok(shares)
}

fn share(one: &str, NamedPlace { name, weight, cap }: NamedPlace) -> Result<Share, String> {
    let name =
        name.filter(|name| !name.is_empty()).ok_or_else(|| format!("each {one} must have a 'name'"))?;
    let weight = u32::try_from(weight)
        .map_err(|_| format!("the 'weight' of {one} '{name}' must be from 0 to {}", u32::MAX))?;
    let cap = match cap {
        None | Some(-1) => None,
        Some(cap) => Some(
            u32::try_from(cap)
                .map_err(|_| format!("the 'cap' of {one} '{name}' must be >= 0, or -1 for unlimited"))?,
        ),
    };
    Ok(Share { name, weight, cap })
}
