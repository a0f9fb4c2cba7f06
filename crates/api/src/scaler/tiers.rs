//! Finds hardware tiers by name: those of Domino if configured, else compute templates of the cluster's namespace.

use http::StatusCode;
use muster_core::cluster::Cluster;
use muster_core::tier::HardwareTier;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::scaler_error::ScalerError;

/// The keys under which older clients name a tier for workers; an invalid tier there never fails a request.
const ALIASES: [&str; 2] = ["worker_hw_tier", "worker_hw_tier_id"];

/// The key that names a tier for workers.
const WORKER: &str = "worker_hw_tier_name";

/// The key that names a tier for the head.
pub(super) const HEAD: &str = "head_hw_tier_name";

/// The tier that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TierName {
    /// An unknown tier is an error.
    Strict(String),
    /// The first valid tier of these is used; if none is valid, the first is reported as ignored.
    Aliases(Vec<Value>),
}

/// Reads the name under a key: null counts as absent; an empty text and other types are refused.
pub(super) fn strict(body: &Map<String, Value>, key: &str) -> Result<Option<String>, ScalerError> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if !name.trim().is_empty() => Ok(Some(name.clone())),
        Some(_) => Err(ScalerError::bad_request(format!("{key} must be the name of a hardware tier"))),
    }
}

/// Reads the tier for workers that a body names.
pub(super) fn of_workers(body: &Map<String, Value>) -> Result<Option<TierName>, ScalerError> {
    if let Some(name) = strict(body, WORKER)? {
        return Ok(Some(TierName::Strict(name)));
    }
    let given = ALIASES.iter().filter_map(|key| body.get(*key)).filter(|value| !value.is_null());
    let given: Vec<Value> = given.cloned().collect();
    Ok((!given.is_empty()).then_some(TierName::Aliases(given)))
}

/// Describes a tier that was ignored, for the response.
pub(super) fn ignored(name: &Value, reason: &str) -> Value {
    json!({"name": name, "reason": reason})
}

impl Call {
    /// Finds the tier of this name or id; refuses a tier that clusters of this kind may not use.
    pub(super) async fn tier(&self, cluster: &Cluster, name: &str) -> Result<HardwareTier, ScalerError> {
        let found = match &self.api.tiers {
            Some(domino) => {
                let unavailable =
                    |why: String| ScalerError::new(StatusCode::BAD_GATEWAY, "tiers_unavailable", why);
                let credentials = self.credentials.as_ref().ok_or_else(|| {
                    unavailable("Hardware tiers are Domino's: send its API key or token".to_owned())
                })?;
                let tiers = domino.tiers(credentials).await;
                let tiers = tiers.map_err(|error| unavailable(error.to_string()))?;
                let by_name = tiers.iter().find(|tier| tier.name == name);
                by_name.or_else(|| tiers.iter().find(|tier| tier.id == name)).cloned()
            }
            None => self.service().template_tier(&cluster.namespace, name).await?,
        };
        let invalid = |message: String| ScalerError::bad("invalid_hw_tier", message);
        let tier = found.ok_or_else(|| invalid(format!("Hardware tier not found: {name}")))?;
        if !tier.allows(self.kind.plural()) {
            let kinds: Vec<String> = tier.restricted_to.iter().map(|kind| format!("'{kind}'")).collect();
            let kinds = kinds.join(", ");
            return Err(invalid(format!("Hardware tier '{name}' is restricted to [{kinds}]")));
        }
        match &tier.shape {
            Ok(_) => Ok(tier),
            Err(why) => Err(invalid(format!("Hardware tier '{name}' cannot be used: {why}"))),
        }
    }

    /// Returns the tier for workers that a request names, or why it is ignored.
    pub(super) async fn worker_tier(
        &self,
        cluster: &Cluster,
        named: Option<TierName>,
    ) -> Result<(Option<HardwareTier>, Option<Value>), ScalerError> {
        match named {
            None => Ok((None, None)),
            Some(TierName::Strict(name)) => Ok((Some(self.tier(cluster, &name).await?), None)),
            Some(TierName::Aliases(names)) => {
                let mut first = None;
                for name in names {
                    let refused = match &name {
                        Value::String(text) => match self.tier(cluster, text).await {
                            Ok(tier) => return Ok((Some(tier), None)),
                            Err(error) => error.message,
                        },
                        _ => "it is not the name of a hardware tier".to_owned(),
                    };
                    first.get_or_insert(ignored(&name, &refused));
                }
                Ok((None, first))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn named(body: &Value) -> Result<Option<TierName>, &'static str> {
        of_workers(body.as_object().expect("a map")).map_err(|error| error.error)
    }

    #[rstest]
    #[case::none(json!({}), Ok(None))]
    #[case::null(json!({"worker_hw_tier_name": null}), Ok(None))]
    #[case::named(json!({"worker_hw_tier_name": "A", "worker_hw_tier": "B"}), Ok(Some(TierName::Strict("A".to_owned()))))]
    #[case::alias(json!({"worker_hw_tier": "B", "worker_hw_tier_id": "C"}), Ok(Some(TierName::Aliases(vec![json!("B"), json!("C")]))))]
    #[case::second_alias(json!({"worker_hw_tier": null, "worker_hw_tier_id": "C"}), Ok(Some(TierName::Aliases(vec![json!("C")]))))]
    #[case::odd_alias(json!({"worker_hw_tier": 7}), Ok(Some(TierName::Aliases(vec![json!(7)]))))]
    #[case::empty(json!({"worker_hw_tier_name": ""}), Err("bad_request"))]
    #[case::number(json!({"worker_hw_tier_name": 3}), Err("bad_request"))]
    fn a_tier_is_named_by_one_of_three_keys(
        #[case] body: Value,
        #[case] expected: Result<Option<TierName>, &'static str>,
    ) {
        assert_eq!(named(&body), expected);
    }
}
