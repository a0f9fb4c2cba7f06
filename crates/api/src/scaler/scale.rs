//! Scales clusters: sets the number of workers, and the hardware tiers of workers and head, in one change.

use axum::response::Response;
use http::StatusCode;
use muster_core::change::NodeChange;
use muster_core::cluster::Cluster;
use muster_core::tier::HardwareTier;
use muster_service::ErrorKind;
use muster_service::owned::OwnerChange;
use serde_json::{Map, Number, Value};

use super::call::ScalerCall;
use super::object::{Objects, is_of_domino, max_replicas};
use super::scaler_error::{ScalerError, answer};
use super::tiers::TierName;
use super::{head_tier, stamp, tiers};

/// The error message for an invalid number of workers.
const REPLICAS: &str = "replicas must be a non-negative integer";

/// Scales a cluster to a number of workers, at most its maximum.
pub(super) async fn scale(call: &ScalerCall) -> Result<Response, ScalerError> {
    let body = call.body(REPLICAS)?;
    let requested = replicas(body)?;
    let (worker, head) = (tiers::of_workers(body)?, tiers::strict(body, tiers::HEAD)?);
    let cluster = call.cluster().await?;
    let mut before = Objects::read(call, std::slice::from_ref(&cluster)).await?;
    let object = before.stored(&cluster);
    let max = maximum(&cluster, object.as_ref(), call.api.settings.max_replicas)?;
    if head.is_some() {
        head_tier::check_supported(call.kind, object.as_ref())?;
    }
    let has_workers = object.is_none_or(|object| object["spec"]["worker"].is_object());
    let effective = u32::try_from(requested.min(max)).unwrap_or(u32::MAX);
    let is_alias = matches!(worker, Some(TierName::Aliases(_)));
    let (worker, mut ignored) = call.worker_tier(&cluster, worker).await?;
    let mut worker = worker.filter(|tier| {
        if !has_workers {
            ignored = Some(tiers::ignored(&tier.name.as_str().into(), "the cluster has no spec.worker"));
        }
        has_workers
    });
    let head = match head {
        Some(name) => Some(call.tier(&cluster, &name).await?),
        None => None,
    };
    let change = OwnerChange {
        // An object without `worker` stores the size as its minimum, which has to be at least one.
        size: Some(if has_workers { effective } else { effective.max(1) }),
        worker: worker.as_ref().map(|tier| change_of(&cluster, tier)).transpose()?,
        head: head.as_ref().map(|tier| change_of(&cluster, tier)).transpose()?,
    };
    let started = call.service().now();
    let changed = match (make(call, &cluster, change.clone()).await, worker.clone()) {
        (Err(error), Some(tier)) if is_alias && is_about_tier(&error) => {
            // A tier that is given by an alias must not fail the request, so repeat the change without it.
            ignored = Some(tiers::ignored(&tier.name.as_str().into(), &error.message));
            worker = None;
            make(call, &cluster, OwnerChange { worker: None, ..change }).await
        }
        (changed, _) => changed,
    };
    let cluster = changed?;
    before = Objects::read(call, std::slice::from_ref(&cluster)).await?;
    let mut answered = Map::from_iter([
        ("kind".to_owned(), call.kind.plural().into()),
        ("name".to_owned(), call.name.clone().into()),
        ("requested_replicas".to_owned(), requested.into()),
        ("effective_replicas".to_owned(), effective.into()),
        ("maxReplicas".to_owned(), max.into()),
        ("capped".to_owned(), (requested > u64::from(effective)).into()),
        ("restarted_ts".to_owned(), stamp::show(stamp::whole_seconds(started)).into()),
        ("object".to_owned(), before.value(call, &cluster)),
    ]);
    answered.extend(worker.map(|tier| ("worker_hw_tier_id".to_owned(), tier.shown)));
    answered.extend(head.map(|tier| (tiers::HEAD.to_owned(), tier.name.into())));
    answered.extend(ignored.map(|ignored| ("ignored_hw_tier".to_owned(), ignored)));
    Ok(answer(StatusCode::OK, &Value::Object(answered)))
}

/// Applies a change; if a tier of the change is invalid, the error is about the tier.
pub(super) async fn make(
    call: &ScalerCall,
    cluster: &Cluster,
    change: OwnerChange,
) -> Result<Cluster, ScalerError> {
    let has_tier = change.worker.is_some() || change.head.is_some();
    match call.service().change_owned(&call.mutation(), cluster, change).await {
        Ok((cluster, _)) => Ok(cluster),
        // An error with an obstacle comes from the provider and has its own code.
        Err(error) if has_tier && error.kind == ErrorKind::Invalid && error.obstacle.is_none() => {
            Err(ScalerError::bad("invalid_hw_tier", error.message))
        }
        Err(error) => Err(call.refusal(error)),
    }
}

/// Returns true if a tier may be the reason of an error.
fn is_about_tier(error: &ScalerError) -> bool {
    matches!(error.error, "invalid_hw_tier" | "rejected_by_operator")
}

/// Returns the change of nodes to a tier. Only Domino's pods have the label of a tier.
pub(super) fn change_of(cluster: &Cluster, tier: &HardwareTier) -> Result<NodeChange, ScalerError> {
    let change = tier.change().map_err(|why| ScalerError::bad("invalid_hw_tier", why))?;
    let labels = change.labels.filter(|_| is_of_domino(cluster));
    Ok(NodeChange { labels, ..change })
}

/// Reads the number of workers in a body.
fn replicas(body: &Map<String, Value>) -> Result<u64, ScalerError> {
    let whole = match body.get("replicas") {
        Some(Value::Number(number)) => whole(number),
        Some(Value::String(text)) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    whole.filter(|whole| *whole <= i64::MAX.unsigned_abs()).ok_or_else(|| ScalerError::bad_request(REPLICAS))
}

fn whole(number: &Number) -> Option<u64> {
    /// 2^63, the first number that does not fit into an `i64`.
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    number.as_u64().or_else(|| {
        let float =
            number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..TOO_LARGE).contains(float))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
        Some(float as u64)
    })
}

/// Returns the largest number of workers of a cluster; the error contains why it cannot be scaled.
fn maximum(cluster: &Cluster, object: Option<&Value>, ceiling: u32) -> Result<u64, ScalerError> {
    let not_scalable =
        |why: &str| Err(ScalerError::conflict("not_scalable", format!("Cannot scale this cluster: {why}")));
    let Some(object) = object else {
        return match cluster.groups.as_slice() {
            [group] if cluster.observed.autoscaled.contains(&group.name) => {
                not_scalable("its own autoscaler decides on the number of workers")
            }
            [_] => Ok(max_replicas(cluster, ceiling).into()),
            [] => not_scalable("it has no group of workers"),
            _ => not_scalable("it has several groups of workers"),
        };
    };
    let autoscaling = &object["spec"]["autoscaling"];
    if !autoscaling.is_object() {
        return not_scalable("autoscaling not enabled");
    }
    let max = autoscaling["maxReplicas"].as_number().and_then(whole).filter(|max| *max > 0);
    max.ok_or_else(|| {
        ScalerError::conflict("invalid_autoscaling", "autoscaling.maxReplicas is missing or invalid")
    })
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!(3), Some(3))]
    #[case(json!(0), Some(0))]
    #[case(json!(3.0), Some(3))]
    #[case(json!("3"), Some(3))]
    #[case(json!(i64::MAX), Some(9_223_372_036_854_775_807))]
    #[case(json!(9_223_372_036_854_775_808_u64), None)]
    #[case(json!(1e30), None)]
    #[case(json!(-1), None)]
    #[case(json!(2.5), None)]
    #[case(json!("-1"), None)]
    #[case(json!("three"), None)]
    #[case(json!(""), None)]
    #[case(json!(true), None)]
    #[case(json!(null), None)]
    #[case(json!([3]), None)]
    fn only_whole_numbers_from_zero_on_are_numbers_of_workers(
        #[case] given: Value,
        #[case] number: Option<u64>,
    ) {
        let body = Map::from_iter([("replicas".to_owned(), given)]);
        assert_eq!(replicas(&body).ok(), number);
    }

    #[rstest]
    #[case(0, Some("Cannot scale this cluster: it has no group of workers"))]
    #[case(1, None)]
    #[case(2, Some("Cannot scale this cluster: it has several groups of workers"))]
    fn a_cluster_is_scaled_by_its_only_group(#[case] groups: usize, #[case] refusal: Option<&str>) {
        let mut cluster = sample::cluster(1, 0, Some(5));
        cluster.groups = vec![cluster.groups[0].clone(); groups];
        let refused = maximum(&cluster, None, 100).err().map(|error| error.message);
        assert_eq!(refused.as_deref(), refusal);
    }

    #[rstest]
    #[case(json!(5), Some(5))]
    #[case(json!(5.0), Some(5))]
    #[case(json!(5_000_000_000_u64), Some(5_000_000_000))]
    #[case(json!(u64::MAX), Some(u64::MAX))]
    #[case(json!(0), None)]
    #[case(json!(-1), None)]
    #[case(json!("5"), None)]
    #[case(json!(null), None)]
    fn a_cluster_of_domino_has_its_own_maximum(#[case] max: Value, #[case] expected: Option<u64>) {
        let object = json!({"spec": {"autoscaling": {"maxReplicas": max}}});
        let cluster = sample::cluster(1, 0, None);
        let maximum = maximum(&cluster, Some(&object), 100);
        assert_eq!(maximum.map_err(|error| error.error), expected.ok_or("invalid_autoscaling"));
    }

    #[test]
    fn a_missing_number_is_refused() {
        assert_eq!(replicas(&Map::new()).map_err(|error| error.message), Err(REPLICAS.to_owned()));
    }
}
