//! What is kept of an event.

use k8s_openapi::api::core::v1::Event;
use kube::Resource;
use kube::api::ObjectMeta;
use muster_core::time::Timestamp;
use muster_engine::ports::provider::ExternalEvent;
use serde::Deserialize;

/// An event as it is read.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = Event)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeanEvent {
    metadata: ObjectMeta,
    #[serde(default)]
    involved_object: Involved,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default, rename = "type")]
    level: String,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    #[serde(default)]
    series: Series,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Involved {
    kind: String,
    name: String,
    uid: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    last_observed_time: Option<String>,
}

impl LeanEvent {
    /// The object that it is about.
    pub(crate) fn about(&self) -> &str {
        &self.involved_object.uid
    }

    /// Which event it is.
    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// What it says.
    pub(crate) fn heard(self) -> Option<ExternalEvent> {
        let made = self.metadata.creation_timestamp.as_ref().map(|made| made.0.to_string());
        let times = [self.series.last_observed_time, self.last_timestamp, self.event_time, made];
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
