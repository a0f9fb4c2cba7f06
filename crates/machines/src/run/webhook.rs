//! The webhook: reviews of guests and Machines, answered from the caches by every replica.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::apply::message;
use super::metrics::{MachineMetrics, Review as Reviewed};
use super::settings::WallClock;
use super::world::World;
use crate::decide::inject::{GuestRequest, TypeLoad, guest_request, inject};
use crate::decide::ledger::type_load;
use crate::decide::registration::{INJECT_PATH, MACHINE_PATH, UPDATE_PATH};
use crate::decide::slot_pod::counted_guests;
use crate::decide::update::{GateChange, UpdateRefusal, check_update};
use crate::decide::validate::{ValidationWorld, validate_machine};
use crate::keys;
use crate::types::{Machine, Overflow};

/// The largest review: two objects, each as large as an API server stores one.
const LARGEST: usize = 8 << 20;

/// The time-out for reads of the ledger, a little shorter than that of the review.
const LEDGER_READ: Duration = Duration::from_secs(3);

/// The state of the webhook.
#[derive(Clone)]
pub(crate) struct Reviewer {
    pub(crate) world: World,
    pub(crate) clock: Arc<dyn WallClock>,
    /// Reads the ledger where the caches may be stale.
    pub(crate) client: Client,
    pub(crate) metrics: MachineMetrics,
}

/// The request of an API server.
#[derive(Debug, Deserialize)]
struct Review {
    request: Request,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
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
enum Verdict {
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

async fn injected(State(reviewer): State<Reviewer>, Json(Review { request }): Json<Review>) -> Response {
    reviewer.answer(Reviewed::Inject, &request, async { reviewer.inject(&request) }).await
}

async fn updated(State(reviewer): State<Reviewer>, Json(Review { request }): Json<Review>) -> Response {
    reviewer.answer(Reviewed::Update, &request, async { Box::pin(reviewer.update(&request)).await }).await
}

async fn machine(State(reviewer): State<Reviewer>, Json(Review { request }): Json<Review>) -> Response {
    reviewer.answer(Reviewed::Machine, &request, async { reviewer.validate(&request) }).await
}

impl Reviewer {
    async fn answer(
        &self,
        kind: Reviewed,
        request: &Request,
        review: impl Future<Output = Verdict>,
    ) -> Response {
        let started = Instant::now();
        // An answer from half a cache could be wrong; the API server refuses the request meanwhile.
        if !self.world.is_complete() {
            let body = json!({"message": "Muster has not read all Machines and pods yet"});
            return (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
        }
        let verdict = review.await;
        let mut response = json!({"uid": request.uid, "allowed": true});
        match verdict {
            Verdict::Allowed => {}
            Verdict::Changed { patch, warnings } => {
                if !patch.0.is_empty() {
                    response["patchType"] = "JSONPatch".into();
                    response["patch"] = STANDARD.encode(json!(patch).to_string()).into();
                }
                if !warnings.is_empty() {
                    response["warnings"] = json!(warnings);
                }
            }
            Verdict::Refused(message) => {
                response["allowed"] = false.into();
                response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
            }
        }
        self.metrics.reviewed(kind, response["allowed"] == true, started.elapsed());
        Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
            .into_response()
    }

    fn inject(&self, request: &Request) -> Verdict {
        let Some(guest) = guest_request(&request.object) else { return Verdict::Allowed };
        let machines = self.world.machines.read();
        let machine = machines.values().find(|machine| machine.group() == Some(&guest.group));
        // It is counted over all pods, and only those that refuse guests beyond their slots ask for it.
        let refuses = machine.filter(|machine| machine.spec.overflow == Overflow::Deny);
        let load = refuses.map(|machine| self.load(machine, &guest)).unwrap_or_default();
        match inject(&request.object, &request.namespace, &guest, machine, load, self.clock.now()) {
            Ok(injected) => Verdict::Changed { patch: injected.patch, warnings: injected.warnings },
            Err(refusal) => Verdict::Refused(refusal.to_string()),
        }
    }

    /// The use of a type.
    fn load(&self, machine: &Machine, guest: &GuestRequest) -> TypeLoad {
        let pods = self.world.pods.read();
        let slots = pods.values().filter_map(|pod| pod.slot.as_deref());
        let ledger = machine.bookings();
        let booked: BTreeSet<&str> = ledger.iter().map(|booking| booking.uid.as_str()).collect();
        let namespaces = self.world.enabled_namespaces();
        let guests = counted_guests(slots, &guest.group, &namespaces, |uid| booked.contains(uid));
        type_load(ledger, &guests, &guest.machine_type)
    }

    async fn update(&self, request: &Request) -> Verdict {
        let read = |object: &Value| Pod::deserialize(object);
        match (read(&request.old_object), read(&request.object)) {
            (Ok(before), Ok(after)) => match check_update(&before, &after) {
                Ok(GateChange::Unchanged) => Verdict::Allowed,
                Ok(GateChange::Removed) => self.gate_removal(&before).await,
                Err(refusal) => Verdict::Refused(refusal.to_string()),
            },
            (Err(error), _) | (_, Err(error)) => Verdict::Refused(format!("the pod cannot be read: {error}")),
        }
    }

    /// Accepts the removal of the gate of a guest that is in the ledger.
    async fn gate_removal(&self, guest: &Pod) -> Verdict {
        let (group, uid) = (guest.labels().get(keys::MACHINE_GROUP), guest.uid());
        let (Some(group), Some(uid)) = (group, uid) else {
            return Verdict::Refused(UpdateRefusal::Gate.to_string());
        };
        let is_booked = |machine: &Machine| {
            machine.group() == Some(group) && machine.bookings().iter().any(|booking| booking.uid == uid)
        };
        let is_known = self.world.machines.read().values().any(is_booked);
        if is_known {
            return Verdict::Allowed;
        }
        // The leader removes a gate right after it has written the ledger: the cache may not have the booking yet.
        let machines = Api::<Machine>::all(self.client.clone());
        let of_group = ListParams::default().labels(&format!("{}={group}", keys::MACHINE_GROUP));
        match timeout(LEDGER_READ, machines.list(&of_group)).await {
            Ok(Ok(listed)) if listed.iter().any(is_booked) => Verdict::Allowed,
            Ok(Ok(_)) => Verdict::Refused(UpdateRefusal::Gate.to_string()),
            Ok(Err(error)) => Verdict::Refused(format!("the ledger cannot be read: {}", message(&error))),
            Err(_) => Verdict::Refused(format!("the ledger was not read within {} s", LEDGER_READ.as_secs())),
        }
    }

    fn validate(&self, request: &Request) -> Verdict {
        let machine = match Machine::deserialize(&request.object) {
            Ok(machine) => machine,
            Err(error) => return Verdict::Refused(format!("the Machine cannot be read: {error}")),
        };
        let before = Machine::deserialize(&request.old_object).ok();
        let (machines, nodes) = (self.world.machines.read(), self.world.nodes.read());
        let world = ValidationWorld {
            machines: machines.values().collect(),
            nodes: nodes.keys().map(|(_, name)| name.as_str()).collect(),
        };
        refused(validate_machine(&machine, before.as_ref(), &world))
    }
}

fn refused<E: std::fmt::Display>(checked: Result<(), E>) -> Verdict {
    match checked {
        Ok(()) => Verdict::Allowed,
        Err(refusal) => Verdict::Refused(refusal.to_string()),
    }
}
