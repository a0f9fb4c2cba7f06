//! Restarts heads.

use axum::response::Response;
use http::StatusCode;
use muster_core::cluster::Cluster;
use muster_core::node::NodeRole;
use muster_core::restart::{HEAD_GRACE, ReplacedHead};
use muster_core::time::Timestamp;
use muster_service::owned::OwnerChange;
use serde_json::{Value, json};

use super::call::ScalerCall;
use super::head_tier::check_supported;
use super::object::{Objects, namespace};
use super::scale::{change_of, make};
use super::scaler_error::{ScalerError, answer};
use super::{stamp, tiers};

/// Restarts the head, with another tier if the body names one.
pub(super) async fn restart(call: &ScalerCall) -> Result<Response, ScalerError> {
    let tier = tiers::strict(&call.body_or_nothing()?, tiers::HEAD)?;
    let cluster = call.cluster().await?;
    let started = call.service().now();
    let replaced = match tier {
        Some(name) if Box::pin(change_tier(call, &cluster, &name)).await? => None,
        _ => {
            let restarted = call.service().restart_owned(&call.mutation(), &cluster).await;
            let (_, action) = restarted.map_err(|error| call.refusal(error))?;
            ReplacedHead::of(&action)
        }
    };
    let replaced = match replaced {
        Some(replaced) => replaced,
        None => present_head(call, &cluster, started).await?,
    };
    let ReplacedHead { name, uid, at } = replaced;
    let body = json!({
        "ok": true,
        "namespace": namespace(&cluster),
        "pod": name,
        "grace_period_seconds": HEAD_GRACE,
        "started_at": stamp::show(stamp::whole_seconds(at)),
        "k8s_response": {"kind": "Status", "status": "Success", "details": {"name": name, "uid": uid}},
    });
    Ok(answer(StatusCode::ACCEPTED, &body))
}

/// Changes the tier of the head; returns true if that replaces the head, so that no restart is needed.
async fn change_tier(call: &ScalerCall, cluster: &Cluster, name: &str) -> Result<bool, ScalerError> {
    let before = Objects::read(call, std::slice::from_ref(cluster)).await?;
    check_supported(call.kind, before.stored(cluster).as_ref())?;
    let tier = call.tier(cluster, name).await?;
    let change = OwnerChange { head: Some(change_of(cluster, &tier)?), ..OwnerChange::default() };
    let changed = make(call, cluster, change).await?;
    let after = Objects::read(call, std::slice::from_ref(&changed)).await?;
    let head = |object: Option<Value>| object.map(|object| object["spec"][call.kind.head()].clone());
    let is_other = match (head(before.stored(cluster)), head(after.stored(&changed))) {
        (Some(before), Some(after)) => before != after,
        _ => !changed.has_same_recipe(cluster),
    };
    Ok(is_other && call.service().replaces_changed_nodes(&changed))
}

/// Returns the present head, for a restart that has not recorded the replaced head.
async fn present_head(
    call: &ScalerCall,
    cluster: &Cluster,
    at: Timestamp,
) -> Result<ReplacedHead, ScalerError> {
    let nodes = call.service().members(cluster).await?;
    let head = nodes.into_iter().find(|node| node.role == NodeRole::Head);
    let (name, uid) = match head {
        Some(head) => {
            let uid = head.member_uid().unwrap_or_default();
            (head.name, uid)
        }
        None => (call.kind.head_pod(&cluster.name), String::new()),
    };
    Ok(ReplacedHead { name, uid, at })
}
