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
use super::metrics::{MachineMetrics, ReviewKind};
use super::settings::WallClock;
use super::world::ObservedWorld;
use crate::decide::group::machine_of;
use crate::decide::inject::{GuestRequest, TypeLoad, guest_request, inject};
use crate::decide::ledger::type_load;
use crate::decide::registration::{INJECT_PATH, MACHINE_PATH, UPDATE_PATH};
use crate::decide::slot_pod::counted_guests;
use crate::decide::update::{GateChange, UpdateRefusal, check_update};
use crate::decide::validate::{ValidationWorld, validate_machine};
use crate::keys;
use crate::types::{Machine, Overflow};

/// The largest accepted review: two objects of the largest size that an API server stores.
const LARGEST: usize = 8 << 20;

/// The time-out for reads of the ledger, a little shorter than that of the review.
const LEDGER_READ: Duration = Duration::from_secs(3);

/// The state of the webhook.
#[derive(Clone)]
pub(crate) struct Reviewer {
    pub(crate) world: ObservedWorld,
    pub(crate) clock: Arc<dyn WallClock>,
    /// Reads the ledger where the caches may be stale.
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
    reviewer.answer(ReviewKind::Inject, &request, async { reviewer.inject(&request) }).await
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
    reviewer.answer(ReviewKind::Machine, &request, async { reviewer.validate(&request) }).await
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

    fn inject(&self, request: &ReviewRequest) -> ReviewVerdict {
        let Some(guest) = guest_request(&request.object) else { return ReviewVerdict::Allowed };
        let machines = self.world.machines.read();
        let machine = machine_of(machines.values(), &guest.group);
        // The count visits all pods, and only Machines that refuse guests beyond their slots need it.
        let refuses = machine.filter(|machine| machine.spec.overflow == Overflow::Deny);
        let load = refuses.map(|machine| self.load(machine, &guest)).unwrap_or_default();
        match inject(&request.object, &request.namespace, &guest, machine, load, self.clock.now()) {
            Ok(injected) => ReviewVerdict::Changed { patch: injected.patch, warnings: injected.warnings },
            Err(refusal) => ReviewVerdict::Refused(refusal.to_string()),
        }
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
        let machines = Api::<Machine>::all(self.client.clone());
        let of_group = ListParams::default().labels(&format!("{}={group}", keys::MACHINE_GROUP));
        match timeout(LEDGER_READ, machines.list(&of_group)).await {
            Ok(Ok(listed)) if machine_of(&listed, group).is_some_and(is_booked) => ReviewVerdict::Allowed,
            Ok(Ok(_)) => ReviewVerdict::Refused(UpdateRefusal::Gate.to_string()),
            Ok(Err(error)) => {
                ReviewVerdict::Refused(format!("the ledger cannot be read: {}", message(&error)))
            }
            Err(_) => {
                ReviewVerdict::Refused(format!("the ledger was not read within {} s", LEDGER_READ.as_secs()))
            }
        }
    }

    fn validate(&self, request: &ReviewRequest) -> ReviewVerdict {
        let machine = match Machine::deserialize(&request.object) {
            Ok(machine) => machine,
            Err(error) => return ReviewVerdict::Refused(format!("the Machine cannot be read: {error}")),
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

fn refused<E: std::fmt::Display>(checked: Result<(), E>) -> ReviewVerdict {
    match checked {
        Ok(()) => ReviewVerdict::Allowed,
        Err(refusal) => ReviewVerdict::Refused(refusal.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use kube::runtime::watcher::Event;
    use muster_core::time::Timestamp;
    use prometheus_client::registry::Registry;

    use super::*;

    struct NoClock;

    impl WallClock for NoClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(1_700_000_000_000_000)
        }
    }

    /// A Machine of the group `g` with one slot of a type.
    fn machine(name: &str, minute: u32, machine_type: &str) -> Machine {
        let spec = json!({"cpu": "1", "memory": "1Gi"});
        let machine = json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
                "labels": {keys::MACHINE_GROUP: "g"}},
            "spec": {
                "nodePool": [{"name": "n1", "mode": "ready", "machineType": [{"name": machine_type}]}],
                "machineTypes": [{"name": machine_type, "available": 1, "spec": spec}],
            },
        });
        serde_json::from_value(machine).unwrap()
    }

    #[tokio::test]
    async fn a_guest_gets_the_types_of_the_oldest_machine_of_its_group() {
        let world = ObservedWorld::new();
        let rivals = (1..60).map(|minute| machine(&format!("rival-{minute}"), minute, "other"));
        let machines: Vec<Machine> = rivals.chain([machine("oldest", 0, "medium")]).collect();
        let listed = machines.into_iter().map(Event::InitApply);
        let events = [Event::Init].into_iter().chain(listed).chain([Event::InitDone]);
        world.machines.clone().follow(stream::iter(events.map(Ok)), |machine| machine, |_| {}).await;
        let reviewer = Reviewer {
            world,
            clock: Arc::new(NoClock),
            client: crate::run::unreachable_client(),
            metrics: MachineMetrics::register(&mut Registry::default()),
        };
        let guest = |machine_type: &str| {
            let labels = json!({keys::MACHINE_GROUP: "g", keys::MACHINE_TYPE: machine_type, keys::POD_ROLE: keys::GUEST});
            let object = json!({"metadata": {"name": "guest", "labels": labels}, "spec": {"containers": [{"name": "main"}]}});
            ReviewRequest { uid: String::new(), namespace: "n".to_owned(), object, old_object: Value::Null }
        };
        let verdict = reviewer.inject(&guest("medium"));
        assert!(matches!(verdict, ReviewVerdict::Changed { .. }), "{verdict:?}");
        let verdict = reviewer.inject(&guest("other"));
        assert!(matches!(verdict, ReviewVerdict::Refused(_)), "{verdict:?}");
    }
}
