//! Changes the hardware tier of a head.

use axum::response::Response;
use http::StatusCode;
use muster_service::owned::OwnerChange;
use serde_json::{Value, json};

use super::call::ScalerCall;
use super::kind::ScalerKind;
use super::object::Objects;
use super::scale::{change_of, make};
use super::scaler_error::{ScalerError, answer};
use super::tiers;

/// Changes the tier of the head. The operator replaces the pod of the head.
pub(super) async fn change(call: &ScalerCall) -> Result<Response, ScalerError> {
    let missing = || ScalerError::bad_request("head_hw_tier_name is required");
    let body = call.body("head_hw_tier_name is required")?;
    let name = tiers::strict(body, tiers::HEAD)?.ok_or_else(missing)?;
    let cluster = call.cluster().await?;
    let before = Objects::read(call, std::slice::from_ref(&cluster)).await?;
    check_supported(call.kind, before.stored(&cluster).as_ref())?;
    let tier = call.tier(&cluster, &name).await?;
    let change = OwnerChange { head: Some(change_of(&cluster, &tier)?), ..OwnerChange::default() };
    let cluster = make(call, &cluster, change).await?;
    let mut after = Objects::read(call, std::slice::from_ref(&cluster)).await?;
    let body = json!({
        "kind": call.kind.plural(),
        "name": call.name,
        "head_hw_tier_name": name,
        "object": after.value(call, &cluster),
    });
    Ok(answer(StatusCode::OK, &body))
}

/// Refuses clusters of Domino whose object does not describe a head.
pub(super) fn check_supported(kind: ScalerKind, object: Option<&Value>) -> Result<(), ScalerError> {
    if object.is_none_or(|object| object["spec"].get(kind.head()).is_some()) {
        return Ok(());
    }
    let message = format!("The {} has no spec.{}", kind.object_kind(), kind.head());
    Err(ScalerError::conflict("not_supported", message))
}
