//! Policies and their bindings to clusters.

use http::StatusCode;
use muster_core::policy::{Binding, InvalidPolicy, Policy};
use muster_service::Removed;
use muster_service::lists::{BindingQuery, PolicyQuery, PolicySort};
use serde_json::{Map, Value, json};

use super::call::ClusteringCall;
use super::field_reader::FieldReader;
use super::query::keys;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::show::{formatted, optional_time, time};

const SORTS: [(&str, PolicySort); 4] = [
    ("type", PolicySort::Type),
    ("name", PolicySort::Name),
    ("created_at", PolicySort::CreatedAt),
    ("updated_at", PolicySort::UpdatedAt),
];

fn shown(policy: &Policy) -> Value {
    json!({
        "id": policy.id.to_string(),
        "name": policy.name,
        "type": policy.kind,
        "user": policy.user,
        "project": policy.project,
        "domain": null,
        "spec": policy.spec,
        "data": policy.data,
        "created_at": time(policy.created_at),
        "updated_at": optional_time(policy.updated_at),
    })
}

fn refused(refused: InvalidPolicy) -> SenlinError {
    match refused {
        InvalidPolicy::UnknownType { kind } => SenlinError::missing("policy_type", &kind),
        other => SenlinError::spec(other.to_string()),
    }
}

/// Builds a policy from a specification, without storing it.
fn new(call: &ClusteringCall, name: &str, spec: &Map<String, Value>) -> Result<Policy, SenlinError> {
    call.service().build_policy(call.principal()?, name, spec).map_err(refused)
}

pub(super) async fn list(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let query = &call.query;
    query.only(&keys(&["name", "type"]), false)?;
    let wanted = PolicyQuery {
        limit: Some(query.limit()?),
        marker: query.marker()?.and_then(|marker| marker.parse().ok()),
        sort: query.sort(&SORTS, PolicySort::CreatedAt)?,
        project: None,
        names: query.texts("name"),
        types: query.texts("type"),
    };
    let policies = call.list(wanted).await?;
    Ok(Reply::of("policies", policies.iter().map(shown).collect::<Vec<_>>()))
}

pub(super) async fn show(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    Ok(Reply::of("policy", shown(&call.policy(call.path(0)).await?)))
}

pub(super) async fn create(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.new_object("policy")?);
    let name = form.name("name")?.unwrap_or_default();
    let spec = form.map("spec")?;
    form.require("name").require("spec").done()?;
    let policy = new(call, name, &spec.unwrap_or_default())?;
    call.service().create_policy(&call.writer()?, policy.clone()).await?;
    Ok(Reply::of("policy", shown(&policy)).status(StatusCode::CREATED))
}

pub(super) fn validate(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.new_object("policy")?);
    let spec = form.map("spec")?;
    form.require("spec").done()?;
    let mut validated = shown(&new(call, "validated_policy", &spec.unwrap_or_default())?);
    validated["id"] = Value::Null;
    Ok(Reply::of("policy", validated))
}

pub(super) async fn update(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.changed_object("policy")?);
    let name = form.name("name")?;
    form.require("name").done()?;
    let policy = call.policy(call.path(0)).await?;
    let name = name.filter(|name| *name != policy.name);
    let name = name.ok_or_else(|| SenlinError::bad("No property needs an update"))?.to_owned();
    let renamed = call.service().rename_policy(&call.writer()?, policy, name).await?;
    let renamed = renamed.ok_or_else(|| SenlinError::missing("policy", call.path(0)))?;
    Ok(Reply::of("policy", shown(&renamed)))
}

pub(super) async fn delete(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let given = call.path(0);
    let policy = call.policy(given).await?;
    match call.service().delete_policy(&call.writer()?, &policy).await? {
        Removed::Done => Ok(Reply::empty(StatusCode::NO_CONTENT)),
        Removed::Missing => Err(SenlinError::missing("policy", given)),
        Removed::InUse => Err(SenlinError::conflict(
            "ResourceInUse",
            format!("The policy '{given}' cannot be deleted: still attached to some clusters."),
        )),
    }
}

/// Returns a binding in the wire format.
fn bound(binding: &Binding, cluster_name: &str) -> Value {
    json!({
        "id": binding.id.to_string(),
        "cluster_id": binding.cluster_id.to_string(),
        "cluster_name": cluster_name,
        "policy_id": binding.policy.id.to_string(),
        "policy_name": binding.policy.name,
        "policy_type": binding.policy.kind,
        "enabled": binding.enabled,
        "priority": binding.priority,
        "data": binding.data,
        "last_op": binding.last_op.map(|at| formatted(at, "%Y-%m-%dT%H:%M:%S.%6f")),
    })
}

/// Lists the policies that are bound to a cluster.
pub(super) async fn of_cluster(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let query = &call.query;
    query.only(&["enabled", "policy_name", "policy_type", "sort"], false)?;
    let wanted = BindingQuery {
        enabled: query.boolean("enabled")?,
        policy_names: query.texts("policy_name"),
        policy_types: query.texts("policy_type"),
        by_enabled: query.given_sort(&[("enabled", ())])?.first().map(|((), direction)| *direction),
    };
    let cluster = call.cluster(call.path(0)).await?;
    let bindings = call.service().list_bindings(&cluster, &wanted).await?;
    let shown = bindings.iter().map(|binding| bound(binding, &cluster.name));
    Ok(Reply::of("cluster_policies", shown.collect::<Vec<_>>()))
}

/// Shows one policy that is bound to a cluster.
pub(super) async fn one_of_cluster(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let (cluster, policy) = (call.path(0), call.path(1));
    let found = call.cluster(cluster).await?;
    let found_policy = call.policy(policy).await?;
    let binding = call.service().binding(&found, &found_policy).await?;
    let binding = binding.ok_or_else(|| SenlinError::not_attached(policy, cluster))?;
    Ok(Reply::of("cluster_policy", bound(&binding, &found.name)))
}
