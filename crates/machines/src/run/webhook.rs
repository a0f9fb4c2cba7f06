//! The webhook: reviews of guests and Machines, answered from the caches by every replica.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};

use super::live;
use super::metrics::{MachineMetrics, ReviewKind};
use super::settings::WallClock;
use super::world::ObservedWorld;
use crate::decide::group::machine_of;
use crate::decide::inject::{GuestRequest, InjectRefusal, Injected, TypeLoad, guest_request, inject};
use crate::decide::ledger::type_load;
use crate::decide::registration::{INJECT_PATH, MACHINE_PATH, UPDATE_PATH};
use crate::decide::slot_pod::counted_guests;
use crate::decide::update::{GateChange, UpdateRefusal, check_update};
use crate::decide::validate::{MachineRefusal, ValidationWorld, validate_machine};
use crate::keys;
use crate::types::{Machine, Overflow};

/// The largest accepted review: two objects of the largest size that an API server stores.
const LARGEST: usize = 8 << 20;

/// The state of the webhook.
#[derive(Clone)]
pub(crate) struct Reviewer {
    pub(crate) world: ObservedWorld,
    pub(crate) clock: Arc<dyn WallClock>,
    /// Reads what the caches may not have yet, before a review is refused by them.
    pub(crate) client: Client,
    pub(crate) metrics: MachineMetrics,
}

/// The request of an API server.
#[derive(Debug, Deserialize)]
struct AdmissionReview {
    request: ReviewRequest,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewRequest {
    uid: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

/// The outcome of a review.
#[derive(Debug)]
enum ReviewVerdict {
    Allowed,
    Changed { patch: json_patch::Patch, warnings: Vec<String> },
    Refused(String),
}

pub(crate) fn routes(reviewer: Reviewer) -> Router {
    Router::new()
        .route(INJECT_PATH, post(injected))
        .route(UPDATE_PATH, post(updated))
        .route(MACHINE_PATH, post(machine))
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(reviewer)
}

async fn injected(
    State(reviewer): State<Reviewer>,
    Json(AdmissionReview { request }): Json<AdmissionReview>,
) -> Response {
    reviewer.answer(ReviewKind::Inject, &request, async { Box::pin(reviewer.inject(&request)).await }).await
}

async fn updated(
    State(reviewer): State<Reviewer>,
    Json(AdmissionReview { request }): Json<AdmissionReview>,
) -> Response {
    reviewer.answer(ReviewKind::Update, &request, async { Box::pin(reviewer.update(&request)).await }).await
}

async fn machine(
    State(reviewer): State<Reviewer>,
    Json(AdmissionReview { request }): Json<AdmissionReview>,
) -> Response {
    reviewer
        .answer(ReviewKind::Machine, &request, async { Box::pin(reviewer.validate(&request)).await })
        .await
}

impl Reviewer {
    async fn answer(
        &self,
        kind: ReviewKind,
        request: &ReviewRequest,
        review: impl Future<Output = ReviewVerdict>,
    ) -> Response {
        let started = Instant::now();
        // A verdict from an incomplete cache could be wrong; the API server refuses the request meanwhile.
        if !self.world.is_complete() {
            let body = json!({"message": "Muster has not read all Machines and pods yet"});
            return (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
        }
        let verdict = review.await;
        let mut response = json!({"uid": request.uid, "allowed": true});
        match verdict {
            ReviewVerdict::Allowed => {}
            ReviewVerdict::Changed { patch, warnings } => {
                if !patch.0.is_empty() {
                    response["patchType"] = "JSONPatch".into();
                    response["patch"] = STANDARD.encode(json!(patch).to_string()).into();
                }
                if !warnings.is_empty() {
                    response["warnings"] = json!(warnings);
                }
            }
            ReviewVerdict::Refused(message) => {
                response["allowed"] = false.into();
                response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
            }
        }
        self.metrics.reviewed(kind, response["allowed"] == true, started.elapsed());
        Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
            .into_response()
    }

    async fn inject(&self, request: &ReviewRequest) -> ReviewVerdict {
        let Some(guest) = guest_request(&request.object) else { return ReviewVerdict::Allowed };
        let (by_cache, may_be_stale) = {
            let machines = self.world.machines.read();
            let machine = machine_of(machines.values(), &guest.group);
            let has_slots = machine.is_some_and(|machine| machine.maximum(&guest.machine_type) > 0);
            (self.inject_by(machine, request, &guest), !has_slots)
        };
        // A Machine that was created or changed just now may be missing in the cache.
        let decided = match by_cache {
            Err(refusal) if may_be_stale => match live::machines_of(&self.client, &guest.group).await {
                Ok(machines) => self.inject_by(machine_of(&machines, &guest.group), request, &guest),
                Err(error) => {
                    tracing::warn!("a guest is refused by the cache: Machines cannot be read: {error}");
                    Err(refusal)
                }
            },
            by_cache => by_cache,
        };
        match decided {
            Ok(injected) => ReviewVerdict::Changed { patch: injected.patch, warnings: injected.warnings },
            Err(refusal) => ReviewVerdict::Refused(refusal.to_string()),
        }
    }

    fn inject_by(
        &self,
        machine: Option<&Machine>,
        request: &ReviewRequest,
        guest: &GuestRequest,
    ) -> Result<Injected, InjectRefusal> {
        // The count visits all pods, and only Machines that refuse guests beyond their slots need it.
        let refuses = machine.filter(|machine| machine.spec.overflow == Overflow::Deny);
        let load = refuses.map(|machine| self.load(machine, guest)).unwrap_or_default();
        let (priority, now) = (self.world.guest_priority(), self.clock.now());
        inject(&request.object, &request.namespace, guest, machine, load, &priority, now)
    }

    /// The numbers of guests that hold and that wait for a slot of the type.
    fn load(&self, machine: &Machine, guest: &GuestRequest) -> TypeLoad {
        let pods = self.world.pods.read();
        let slots = pods.values().filter_map(|pod| pod.slot.as_deref());
        let ledger = machine.bookings();
        let booked: BTreeSet<&str> = ledger.iter().map(|booking| booking.uid.as_str()).collect();
        let namespaces = self.world.enabled_namespaces();
        let guests = counted_guests(slots, &guest.group, &namespaces, |uid| booked.contains(uid));
        type_load(ledger, &guests, &guest.machine_type)
    }

    async fn update(&self, request: &ReviewRequest) -> ReviewVerdict {
        let read = |object: &Value| Pod::deserialize(object);
        match (read(&request.old_object), read(&request.object)) {
            (Ok(before), Ok(after)) => match check_update(&before, &after) {
                Ok(GateChange::Unchanged) => ReviewVerdict::Allowed,
                Ok(GateChange::Removed) => self.gate_removal(&before).await,
                Err(refusal) => ReviewVerdict::Refused(refusal.to_string()),
            },
            (Err(error), _) | (_, Err(error)) => {
                ReviewVerdict::Refused(format!("the pod cannot be read: {error}"))
            }
        }
    }

    /// Accepts the removal of the gate of a guest that is in the ledger.
    async fn gate_removal(&self, guest: &Pod) -> ReviewVerdict {
        let (group, uid) = (guest.labels().get(keys::MACHINE_GROUP), guest.uid());
        let (Some(group), Some(uid)) = (group, uid) else {
            return ReviewVerdict::Refused(UpdateRefusal::Gate.to_string());
        };
        let is_booked = |machine: &Machine| machine.bookings().iter().any(|booking| booking.uid == uid);
        let is_known = machine_of(self.world.machines.read().values(), group).is_some_and(is_booked);
        if is_known {
            return ReviewVerdict::Allowed;
        }
        // The leader removes a gate right after it wrote the ledger: the booking may be missing in the cache.
        match live::machines_of(&self.client, group).await {
            Ok(machines) if machine_of(&machines, group).is_some_and(is_booked) => ReviewVerdict::Allowed,
            Ok(_) => ReviewVerdict::Refused(UpdateRefusal::Gate.to_string()),
            Err(error) => ReviewVerdict::Refused(format!("the ledger cannot be read: {error}")),
        }
    }

    async fn validate(&self, request: &ReviewRequest) -> ReviewVerdict {
        let machine = match Machine::deserialize(&request.object) {
            Ok(machine) => machine,
            Err(error) => return ReviewVerdict::Refused(format!("the Machine cannot be read: {error}")),
        };
        let before = Machine::deserialize(&request.old_object).ok();
        match self.validate_by_cache(&machine, before.as_ref()) {
            Err(refusal) if refusal.rests_on_others() => {
                refused(self.validate_live(&machine, before.as_ref(), refusal).await)
            }
            decided => refused(decided),
        }
    }

    fn validate_by_cache(&self, machine: &Machine, before: Option<&Machine>) -> Result<(), MachineRefusal> {
        let (machines, nodes) = (self.world.machines.read(), self.world.nodes.read());
        let world = ValidationWorld {
            machines: machines.values().collect(),
            nodes: nodes.keys().map(|(_, name)| name.as_str()).collect(),
        };
        validate_machine(machine, before, &world)
    }

    /// Validates a Machine that the caches refuse: a node may have joined, or another Machine may be gone, just now.
    async fn validate_live(
        &self,
        machine: &Machine,
        before: Option<&Machine>,
        by_cache: MachineRefusal,
    ) -> Result<(), MachineRefusal> {
        let known = |name: &str| self.world.nodes.get("", name).is_some();
        let listed: BTreeSet<&str> = machine.spec.node_pool.iter().map(|entry| entry.name.as_str()).collect();
        let (known, unknown): (Vec<_>, Vec<_>) = listed.into_iter().partition(|name| known(name));
        let unknown = unknown.into_iter().map(str::to_owned).collect();
        match live::machines_and_nodes(&self.client, unknown).await {
            Ok((machines, found)) => {
                let nodes = known.into_iter().chain(found.iter().map(String::as_str)).collect();
                validate_machine(
                    machine,
                    before,
                    &ValidationWorld { machines: machines.iter().collect(), nodes },
                )
            }
            Err(error) => {
                tracing::warn!(
                    "a Machine is refused by the cache: nodes and Machines cannot be read: {error}"
                );
                Err(by_cache)
            }
        }
    }
}

fn refused<E: std::fmt::Display>(checked: Result<(), E>) -> ReviewVerdict {
    match checked {
        Ok(()) => ReviewVerdict::Allowed,
        Err(refusal) => ReviewVerdict::Refused(refusal.to_string()),
    }
}

#[cfg(test)]
mod tests;
