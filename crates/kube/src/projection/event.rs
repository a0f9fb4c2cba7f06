//! Events that Kubernetes publishes.

use k8s_openapi::api::core::v1::Event;
use kube::Resource;
use kube::api::ObjectMeta;
use muster_core::time::Timestamp;
use muster_engine::ports::provider::ExternalEvent;
use serde::Deserialize;

/// An event; fields that are not used are skipped when it is read.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = Event)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeanEvent {
    metadata: ObjectMeta,
    #[serde(default)]
    involved_object: InvolvedObject,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default, rename = "type")]
    level: String,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    #[serde(default)]
    series: EventSeries,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct InvolvedObject {
    kind: String,
    name: String,
    uid: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventSeries {
    last_observed_time: Option<String>,
}

impl LeanEvent {
    /// Returns the UID of the object that the event is about.
    pub(crate) fn about(&self) -> &str {
        &self.involved_object.uid
    }

    /// Returns the UID of the event itself.
    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the event for the engine; `None` if it has no usable time or UID.
    pub(crate) fn into_external_event(self) -> Option<ExternalEvent> {
        let created = self.metadata.creation_timestamp.as_ref().map(|created| created.0.to_string());
        let times = [self.series.last_observed_time, self.last_timestamp, self.event_time, created];
        let at = times.into_iter().flatten().find_map(|time| time.parse::<jiff::Timestamp>().ok())?;
        Some(ExternalEvent {
            id: self.metadata.uid?.parse().ok()?,
            version: self.metadata.resource_version?.parse().unwrap_or(0),
            kind: self.involved_object.kind,
            object: self.involved_object.name,
            reason: self.reason,
            message: self.message,
            is_warning: self.level == "Warning",
            at: Timestamp::from_micros(at.as_microsecond()),
        })
    }
}
