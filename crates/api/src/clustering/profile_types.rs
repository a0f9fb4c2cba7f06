//! The profile types that the providers of this server support.

use muster_core::profile::ProfileType;
use muster_core::profile_types::TypeInfo;
use serde_json::{Map, Value, json};

use super::call::ClusteringCall;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::version::MicroVersion;

/// The version that added the support status of types.
const SUPPORT_STATUS: MicroVersion = MicroVersion(5);

impl ClusteringCall {
    fn named_type(&self) -> Result<&'static TypeInfo, SenlinError> {
        let given = self.path(0);
        let found = self.service().profile_types().find(|known| known.to_string() == given);
        found.ok_or_else(|| SenlinError::missing("profile_type", given))
    }
}

fn support_status(info: &TypeInfo) -> Value {
    let known = json!([{"status": "SUPPORTED", "since": "2026.11"}]);
    Value::Object(Map::from_iter([(info.version.to_owned(), known)]))
}

pub(super) fn list(call: &ClusteringCall) -> Reply {
    let shown: Vec<Value> = call
        .service()
        .profile_types()
        .map(|info| {
            if call.version < SUPPORT_STATUS {
                return json!({"name": info.to_string()});
            }
            json!({"name": info.name, "version": info.version, "support_status": support_status(info)})
        })
        .collect();
    Reply::of("profile_types", shown)
}

pub(super) fn show(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let info = call.named_type()?;
    let mut shown = json!({"name": info.to_string(), "schema": info.schema.to_json()});
    if call.version >= SUPPORT_STATUS {
        shown["support_status"] = support_status(info);
    }
    Ok(Reply::of("profile_type", shown))
}

pub(super) fn operations(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let info = call.named_type().map_err(|error| SenlinError::bad(error.message))?;
    let kind = ProfileType::new(info.name, info.version);
    let instance = call.service().instance_for("", &kind)?;
    let shown = call.operations(&instance, &kind).into_iter().map(|operation| {
        let parameters = operation.parameters.to_parameters_json();
        (operation.name.to_owned(), json!({"description": operation.description, "parameters": parameters}))
    });
    Ok(Reply::of("operations", Value::Object(shown.collect())))
}
