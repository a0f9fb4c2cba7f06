//! Finds hardware tiers by name: those of Domino if configured, else compute templates of the cluster's namespace.

use std::sync::Arc;

use http::StatusCode;
use muster_core::cluster::Cluster;
use muster_core::tier::HardwareTier;
use muster_service::ports::domino::{DominoCredentials, DominoTiers};
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use super::call::ScalerCall;
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
    let mut given: Vec<Value> = given.cloned().collect();
    given.dedup();
    Ok((!given.is_empty()).then_some(TierName::Aliases(given)))
}

/// Describes a tier that was ignored, for the response.
pub(super) fn ignored(name: &Value, reason: &str) -> Value {
    json!({"name": name, "reason": reason})
}

/// The hardware tiers that Domino shows to the caller of one request. Domino is asked once, even if it does not respond,
/// so that a request that names several tiers does not wait several times.
pub(super) struct DominoTierList {
    domino: Arc<dyn DominoTiers>,
    credentials: Option<DominoCredentials>,
    response: OnceCell<Result<Arc<[HardwareTier]>, ScalerError>>,
}

impl DominoTierList {
    pub(super) const fn new(domino: Arc<dyn DominoTiers>, credentials: Option<DominoCredentials>) -> Self {
        Self { domino, credentials, response: OnceCell::const_new() }
    }

    /// Returns the tier of this name, else of this id.
    async fn find(&self, name: &str) -> Result<Option<HardwareTier>, ScalerError> {
        let tiers = self.response.get_or_init(|| self.request()).await.as_ref().map_err(Clone::clone)?;
        let by_name = tiers.iter().find(|tier| tier.name == name);
        Ok(by_name.or_else(|| tiers.iter().find(|tier| tier.id == name)).cloned())
    }

    async fn request(&self) -> Result<Arc<[HardwareTier]>, ScalerError> {
        let unavailable = |why: String| ScalerError::new(StatusCode::BAD_GATEWAY, "tiers_unavailable", why);
        let Some(credentials) = &self.credentials else {
            return Err(unavailable("Hardware tiers are Domino's: send its API key or token".to_owned()));
        };
        self.domino.tiers(credentials).await.map_err(|error| unavailable(error.to_string()))
    }
}

impl ScalerCall {
    /// Finds the tier of this name or id; refuses a tier that clusters of this kind may not use.
    pub(super) async fn tier(&self, cluster: &Cluster, name: &str) -> Result<HardwareTier, ScalerError> {
        let found = match &self.domino_tiers {
            Some(domino) => domino.find(name).await?,
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use muster_service::ports::domino::DominoUnavailable;
    use rstest::rstest;

    use super::*;

    /// A Domino that is down for the first request, and counts the requests.
    #[derive(Default)]
    struct DownOnce(AtomicUsize);

    #[async_trait]
    impl DominoTiers for DownOnce {
        async fn tiers(&self, _: &DominoCredentials) -> Result<Arc<[HardwareTier]>, DominoUnavailable> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Err(DominoUnavailable("Domino is unavailable".to_owned())),
                _ => Ok(Arc::new([])),
            }
        }
    }

    #[tokio::test]
    async fn an_unavailable_domino_is_asked_once_for_all_tiers_of_a_request() {
        let domino = Arc::new(DownOnce::default());
        let tiers = || DominoTierList::new(domino.clone(), Some(DominoCredentials::ApiKey("key".to_owned())));
        let of_first_request = tiers();
        for name in ["Small", "small-k8s", "Small"] {
            let found = of_first_request.find(name).await.map_err(|error| error.error);
            assert_eq!(found, Err("tiers_unavailable"), "{name}");
        }
        assert_eq!(domino.0.load(Ordering::Relaxed), 1);
        assert_eq!(tiers().find("Small").await, Ok(None), "the next request asks again");
    }

    fn named(body: &Value) -> Result<Option<TierName>, &'static str> {
        of_workers(body.as_object().expect("a map")).map_err(|error| error.error)
    }

    #[rstest]
    #[case::none(json!({}), Ok(None))]
    #[case::null(json!({"worker_hw_tier_name": null}), Ok(None))]
    #[case::named(json!({"worker_hw_tier_name": "A", "worker_hw_tier": "B"}), Ok(Some(TierName::Strict("A".to_owned()))))]
    #[case::alias(json!({"worker_hw_tier": "B", "worker_hw_tier_id": "C"}), Ok(Some(TierName::Aliases(vec![json!("B"), json!("C")]))))]
    #[case::second_alias(json!({"worker_hw_tier": null, "worker_hw_tier_id": "C"}), Ok(Some(TierName::Aliases(vec![json!("C")]))))]
    #[case::equal_aliases(json!({"worker_hw_tier": "B", "worker_hw_tier_id": "B"}), Ok(Some(TierName::Aliases(vec![json!("B")]))))]
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
