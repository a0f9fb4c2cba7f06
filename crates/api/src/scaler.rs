//! The scaler API, for existing clients of Domino's cluster scaler: changes the number of workers and the hardware
//! tiers of Ray, Dask and Spark clusters, and restarts heads. Only the owner of a cluster and admins see and change it.

mod call;
mod clusters;
mod head_tier;
mod kind;
mod object;
mod restart;
mod restart_status;
mod routes;
mod scale;
mod scaler_error;
mod stamp;
mod tiers;

use std::sync::Arc;

use axum::extract::Request;
use muster_service::Service;
use muster_service::ports::domino::DominoTiers;

use self::scaler_error::ScalerError;
use crate::error::ErrorRenderer;

pub use routes::CASES;

/// The path of the API.
pub(crate) const ROOT: &str = "/ddl_cluster_scaler";

/// The settings of the API.
#[derive(Debug, Clone)]
pub struct ScalerSettings {
    /// The namespace of Domino's clusters.
    pub compute_namespace: String,
    /// The largest number of workers of a cluster without its own maximum.
    pub max_replicas: u32,
}

/// The state of the scaler API. Handles are cheap to clone.
#[derive(Clone)]
pub struct Scaler {
    service: Service,
    settings: Arc<ScalerSettings>,
    /// The hardware tiers of Domino; without Domino, compute templates are the tiers.
    tiers: Option<Arc<dyn DominoTiers>>,
}

impl Scaler {
    /// Creates the API. Without `tiers`, compute templates are the hardware tiers.
    pub fn new(service: Service, settings: ScalerSettings, tiers: Option<Arc<dyn DominoTiers>>) -> Self {
        Self { service, settings: Arc::new(settings), tiers }
    }
}

/// Marks requests of this API with its error renderer.
pub(crate) fn mark(request: &mut Request) {
    let path = request.uri().path();
    if path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        request.extensions_mut().insert(ErrorRenderer(|error| ScalerError::from(error).response()));
    }
}
