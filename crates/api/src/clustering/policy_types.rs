//! Policy types: lists and schemas.

use muster_core::policy::{KINDS, PolicyKind, PolicyVersion, find};
use serde_json::{Map, Value, json};

use super::call::ClusteringCall;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::version::MicroVersion;

/// The version that added the support status of types.
const SUPPORT_STATUS: MicroVersion = MicroVersion(5);

fn versions() -> impl Iterator<Item = (&'static PolicyKind, &'static PolicyVersion)> {
    KINDS.iter().flat_map(|kind| kind.versions.iter().map(|version| (*kind, version)))
}

fn support_status(version: &PolicyVersion) -> Value {
    Value::Object(Map::from_iter([(version.number.to_owned(), version.support_status())]))
}

pub(super) fn list(call: &ClusteringCall) -> Reply {
    let shown: Vec<Value> = versions()
        .map(|(kind, version)| {
            if call.version < SUPPORT_STATUS {
                return json!({"name": format!("{}-{}", kind.name, version.number)});
            }
            json!({"name": kind.name, "version": version.number, "support_status": support_status(version)})
        })
        .collect();
    Reply::of("policy_types", shown)
}

pub(super) fn show(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let given = call.path(0);
    let (kind, version) = find(given).ok_or_else(|| SenlinError::missing("policy_type", given))?;
    let mut shown = json!({"name": given, "schema": kind.schema.to_json()});
    if call.version >= SUPPORT_STATUS {
        shown["support_status"] = support_status(version);
    }
    Ok(Reply::of("policy_type", shown))
}
